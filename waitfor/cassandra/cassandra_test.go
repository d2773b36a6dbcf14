package cassandra

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
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

// node is a server that follows the specification of the native protocol
// (https://github.com/apache/cassandra/blob/trunk/doc/native_protocol_v4.spec): Cassandra itself is not available to
// the tests.
type node struct {
	version  byte   // the highest that it supports
	password string // of user app, if it requires a login
	keyspace string // the only one
	refuses  []byte // the body of an ERROR that answers STARTUP, if there is one
}

// cqlMessage returns the frame of an answer.
func cqlMessage(version, opcode byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0x80 | version, 0, 0, 0, opcode}, uint32(len(body))), body...)
}

// cqlErrorBody returns the body of an ERROR.
func cqlErrorBody(code uint32, text string) string {
	return string(binary.BigEndian.AppendUint32(nil, code)) + string(cqlString(text))
}

func (n node) serve(c net.Conn) {
	known := n.password == ""
	for {
		header := make([]byte, 9)
		if _, err := io.ReadFull(c, header); err != nil {
			return
		}
		body := make([]byte, min(binary.BigEndian.Uint32(header[5:]), 1000))
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		say := func(opcode byte, body string) { c.Write(cqlMessage(header[0], opcode, body)) }
		switch opcode := header[4]; {
		case header[0] > n.version:
			c.Write(cqlMessage(n.version, cqlError, cqlErrorBody(0x000A, "Invalid or unsupported protocol version (4); highest supported is 3")))
			return
		case opcode == cqlOptions:
			say(cqlSupported, "\x00\x01\x00\x0bCQL_VERSION\x00\x01\x00\x053.4.5")
		case opcode == cqlStartup && n.refuses != nil:
			say(cqlError, string(n.refuses))
			return
		case opcode == cqlStartup && string(body) != "\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0":
			say(cqlError, cqlErrorBody(0x000A, "STARTUP without CQL_VERSION"))
		case opcode == cqlStartup && known:
			say(cqlReady, "")
		case opcode == cqlStartup:
			say(cqlAuthenticate, string(cqlString("org.apache.cassandra.auth.PasswordAuthenticator")))
		case opcode == cqlAuthResponse && string(body[4:]) == "\x00app\x00"+n.password:
			known = true
			say(cqlAuthSuccess, "\xff\xff\xff\xff")
		case opcode == cqlAuthResponse:
			say(cqlError, cqlErrorBody(0x0100, "Provided username app and/or password "+string(body[9:])+" are incorrect"))
		case opcode == cqlQuery && known && string(body) == string(wire.Long(`USE "`+n.keyspace+`"`))+"\x00\x01\x00":
			say(cqlResult, "\x00\x00\x00\x03"+string(cqlString(n.keyspace)))
		case opcode == cqlQuery && known:
			say(cqlError, cqlErrorBody(0x2200, "Keyspace 'late' does not exist"))
		default:
			say(cqlError, cqlErrorBody(0x000A, "Unexpected message"))
		}
	}
}

// TestCassandra pins the result of each answer of a node.
func TestCassandra(t *testing.T) {
	t.Parallel()
	open := servers.Serve(t, node{version: 5, keyspace: "shop"}.serve)
	closed := servers.Serve(t, node{version: 5, keyspace: "shop", password: "hUnter2"}.serve)
	old := servers.Serve(t, node{version: 3, keyspace: "shop"}.serve)
	older := servers.Serve(t, node{version: 2}.serve)
	refusing := func(code uint32, text string) string {
		return servers.Serve(t, node{version: 5, refuses: []byte(cqlErrorBody(code, text))}.serve)
	}
	for _, test := range []struct {
		target string
		class  failure.Class
		text   string // "" for ready
	}{
		{"cassandra://" + open, "", ""},
		{"scylla://app:hUnter2@" + open + "/shop", "", ""},
		{"cassandra://" + open + "/late", failure.Unexpected, "the node reports Keyspace 'late' does not exist"},
		{"cassandra://" + open + "#keyspace=shop", "", ""},
		{"cassandra://" + kindtest.RefusedAddr(t) + "," + open, "", ""},
		{"cassandra://" + closed, "", ""},
		{"cassandra://app:wrong@" + closed, "", ""}, // no login takes place
		{"cassandra://" + closed + "/shop", failure.Authentication, "the cluster requires a login to check the keyspace"},
		{"cassandra://app:hUnter2@" + closed + "/shop", "", ""},
		{"cassandra://" + closed + "/shop?user=app&password=hUnter2", "", ""},
		{"cassandra://app:hUnter21@" + closed + "/shop", failure.Authentication, "Provided username app and/or password […] are incorrect"},
		{"cassandra://app:hUnter2@" + closed + "/late", failure.Unexpected, "Keyspace 'late' does not exist"},
		{"cassandra://" + old + "/shop", "", ""},
		{"cassandra://" + older, failure.Unexpected, "no later version of the native protocol than 2"},
		{"cassandra://" + refusing(0x1001, "Server is overloaded."), failure.Unexpected, "the node reports Server is overloaded"},
		{"cassandra://" + refusing(0x1002, "Cannot begin yet: bootstrapping"), failure.Unexpected, "Cannot begin yet: bootstrapping"},
	} {
		check, err := kinds.Parse(test.target, target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err = check.Check(ctx)
		cancel()
		kindtest.SaysPlainly(t, err, "Unter2")
		switch {
		case err == nil && test.text != "":
			t.Errorf("%s is ready, want %s", test.target, test.text)
		case err != nil && (failure.Of(err).Class != test.class || test.text == "" || !strings.Contains(failure.Of(err).Text, test.text)):
			t.Errorf("%s: %s: %v, want %s: %q", test.target, failure.Of(err).Class, err, test.class, test.text)
		}
	}
	if _, err := kinds.Parse("cassandra://a/b#keyspace=c", target.Options{}); err == nil {
		t.Error("two keyspaces are accepted")
	}
	if parsed, err := kinds.Parse("cassandra://a/b?ssl=true", target.Options{}); err != nil || !parsed.(check).Encrypted {
		t.Errorf("?ssl=true: %v", err)
	}
}

// Fuzz reads any answers of a node to a check of a keyspace.
func Fuzz(f *testing.F) {
	begin := slices.Concat(cqlMessage(4, cqlSupported, "\x00\x00"), cqlMessage(4, cqlAuthenticate, "\x00\x01a"), cqlMessage(4, cqlAuthSuccess, "\xff\xff\xff\xff"))
	f.Add(append(begin, cqlMessage(4, cqlResult, "\x00\x00\x00\x03\x00\x04shop")...))
	f.Add(append(begin, cqlMessage(4, cqlError, cqlErrorBody(0x2200, "Keyspace 'shop' does not exist"))...))
	f.Add(cqlMessage(3, cqlError, cqlErrorBody(0x000A, "Invalid or unsupported protocol version (4)")))
	f.Fuzz(func(t *testing.T, answer []byte) {
		parsed, err := kinds.Parse("cassandra://app:hUnter2tIger9@recorded/shop", target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := session{Server: parsed.(check).Server, version: 4, conn: kindtest.Recorded(answer)}
		kindtest.SaysPlainly(t, s.talk(t.Context()), "hUnter2tIger9")
	})
}
