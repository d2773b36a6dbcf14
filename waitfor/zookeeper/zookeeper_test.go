package zookeeper

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

const says = "Zookeeper version: 3.8.0-1, built on 2022-02-25 08:49 UTC\nLatency min/avg/max: 0/0.0/0\nReceived: 1\nSent: 0\nConnections: 1\nOutstanding: 0\nZxid: 0x0\nMode: "

// TestReal waits for a standalone server, and for an ensemble that reaches a quorum, with srvr allowed and forbidden.
func TestReal(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	alone := servers.NewZooKeepers(t, servers.ZooKeeperOptions{CA: ca})[0]
	alone.Start(t)
	three := servers.NewZooKeepers(t, servers.ZooKeeperOptions{Servers: 3, Commands: []string{"", "ruok"}})
	three[0].Start(t)
	attempt := func(target string) error { return kindtest.AttemptWith(t, kinds, target, "", nil) }
	until := func(target string) {
		t.Helper()
		err := attempt(target)
		for limit := time.Now().Add(servers.Patience); err != nil && time.Now().Before(limit); err = attempt(target) {
			time.Sleep(20 * time.Millisecond)
		}
		kindtest.RequireSays(t, target, err, "", "")
	}

	const notServing = "this ZooKeeper instance is not currently serving requests"
	kindtest.RequireSays(t, "one of three", attempt("zookeeper://"+three[0].Addr), failure.Unexpected, notServing)
	three[1].Start(t)
	until("zookeeper://" + three[0].Addr)
	until("zookeeper://" + three[1].Addr) // by a session
	until("zookeeper://" + three[2].Addr + "," + three[1].Addr + "/zookeeper/quota")
	kindtest.RequireSays(t, "no znode", attempt("zookeeper://"+three[0].Addr+"/app"), failure.Missing, "no such znode")
	kindtest.RequireSays(t, "gone", attempt("zookeeper://"+three[1].Addr+"/app#gone"), "", "")
	kindtest.RequireSays(t, "not gone", attempt("zookeeper://"+three[0].Addr+"/zookeeper#gone"), failure.Unexpected, "still there")
	three[0].Kill(t)
	err := attempt("zookeeper://" + three[1].Addr)
	for limit := time.Now().Add(servers.Patience); err == nil && time.Now().Before(limit); err = attempt("zookeeper://" + three[1].Addr) {
		time.Sleep(20 * time.Millisecond)
	}
	if class := failure.Of(err).Class; err == nil || class != failure.Unexpected && class != failure.Reset {
		t.Errorf("without a quorum: %v", err)
	}

	until("zookeeper://" + alone.Addr + "/zookeeper/#tls&ca-file=" + ca.File)
	kindtest.RequireSays(t, "TLS", attempt("zookeeper://"+alone.Addr+"#tls"), failure.TLS, "signed by an unknown authority")
}

// server answers each request by its content, and closes the connection.
func server(t *testing.T, answer func(request string) string) string {
	t.Helper()
	return "zookeeper://" + servers.Serve(t, func(c net.Conn) {
		p := make([]byte, 100)
		n, _ := c.Read(p)
		io.WriteString(c, answer(string(p[:n])))
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
	})
}

func response(timeout, session string) string {
	return "\x00\x00\x00\x25\x00\x00\x00\x00" + timeout + session + "\x00\x00\x00\x10" + strings.Repeat("p", 16) + "\x00"
}

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	const forbidden = "srvr is not executed because it is not in the whitelist.\n"
	for _, tt := range []struct {
		name, srvr, session string
		words               string
	}{
		{"leader", says + "leader\nNode count: 5\n", "", ""},
		{"observer", says + "observer\nNode count: 5\n", "", ""},
		{"read-only", says + "read-only\nNode count: 5\n", "", "the server's mode is read-only"},
		{"incomplete", says, "", "the answer is not ZooKeeper"},
		{"no part", "", "", "connection closed by the server"},
		{"not serving", "This ZooKeeper instance is not currently serving requests\n", "", "not currently serving requests"},
		{"mail", "220 mail.example ESMTP\r\n", "", "the answer is not ZooKeeper"},
		{"forbidden, a session", forbidden, response("\x00\x00\x0f\xa0", "12345678"), ""},
		{"forbidden, an old server's session", forbidden, "\x00\x00\x00\x24" + response("\x00\x00\x0f\xa0", "12345678")[4:40], ""},
		{"forbidden, no session", forbidden, response("\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00"), "does not grant a session"},
		{"forbidden, closed", forbidden, "", "not currently serving requests"},
		{"forbidden, a part", forbidden, response("\x00\x00\x0f\xa0", "12345678")[:20], "connection closed by the server"},
		{"forbidden, 2 GB", forbidden, "\x7f\xff\xff\xff", "announces a message that is too long"},
		{"forbidden, something else", forbidden, "\x00\x00\x00\x04\x00\x00\x00\x00", "the answer is not ZooKeeper"},
	} {
		target := server(t, func(request string) string {
			if request == "srvr" {
				return tt.srvr
			}
			if request != "\x00\x00\x00\x2d"+string(connectRequest()) || len(request) != 49 {
				return "what?"
			}
			return tt.session
		})
		class := failure.Unexpected
		if strings.Contains(tt.words, "closed") {
			class = failure.Reset
		}
		kindtest.RequireSays(t, tt.name, kindtest.AttemptWith(t, kinds, target, "", nil), class, tt.words)
	}
	if _, err := kinds.Parse("zookeeper://app:hUnter2@db", target.Options{}); err == nil || !strings.Contains(err.Error(), "has a user, which zookeeper:// does not take") {
		t.Errorf("%v", err)
	}
}

// TestZnode pins which answers to the question for a znode are which errors.
func TestZnode(t *testing.T) {
	parsed, err := kinds.Parse("zookeeper://127.0.0.1/app", target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ answer, want string }{
		{"\x00\x00\x00\x10\x00\x00\x00\x0112345678\x00\x00\x00\x00", ""},
		{"\x00\x00\x00\x10\x00\x00\x00\x0112345678\xff\xff\xff\x9b", "no such znode"},
		{"\x00\x00\x00\x10\x00\x00\x00\x0112345678\xff\xff\xff\xf8", "the server reports error -8 for the znode"},
		{"\x00\x00\x00\x10\x00\x00\x00\x0212345678\x00\x00\x00\x00", "the answer is not ZooKeeper"},
		{"\x00\x00\x00\x08\x00\x00\x00\x011234", "the answer is not ZooKeeper"},
	} {
		conn := wire.Converse(t.Context(), kindtest.ScriptedConn{Server: bytes.NewReader([]byte(test.answer)), Said: io.Discard}, "127.0.0.1:2181")
		err := parsed.(check).exists(conn, "/app")
		if (err == nil) != (test.want == "") || err != nil && failure.Of(err).Text != test.want {
			t.Errorf("%q: %v, want %q", test.answer, err, test.want)
		}
		conn.Close()
	}
}

// Fuzz reads any answers of a server, to a command and to a client.
func Fuzz(f *testing.F) {
	f.Add([]byte(says + "follower\n"))
	f.Add([]byte("This ZooKeeper instance is not currently serving requests\n"))
	f.Add([]byte(response("\x00\x00\x0f\xa0", "12345678")))
	f.Add([]byte("\x7f\xff\xff\xff"))
	parsed, err := kinds.Parse("zookeeper://127.0.0.1", target.Options{})
	if err != nil {
		f.Fatal(err)
	}
	c := parsed.(check)
	f.Fuzz(func(t *testing.T, server []byte) {
		if err := c.judge(string(server)); err != nil && failure.Of(err).Hint == "" {
			t.Errorf("%q: %v", server, err)
		}
		conn := wire.Converse(context.Background(), kindtest.ScriptedConn{Server: bytes.NewReader(server), Said: io.Discard}, "127.0.0.1:2181")
		defer conn.Close()
		if granted, err := c.granted(conn); granted && err != nil {
			t.Errorf("%q: %v", server, err)
		}
		if err := c.exists(conn, "/app"); err == nil && len(server) < 4+16 {
			t.Errorf("%q: the znode exists", server)
		}
	})
}
