package nats

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/redis"
	"initbox/waitfor/target"
)

// kinds has the package's kind, and others that are tried on its servers.
var kinds = target.Kinds{&Kind, &redis.Kind}

// saysNATS sends info, and then the answers to the client's verbs.
func saysNATS(info string, answers map[string]string) func(net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, info)
		in := bufio.NewScanner(c)
		for in.Scan() {
			verb, _, _ := strings.Cut(in.Text(), " ")
			io.WriteString(c, answers[verb])
		}
	}
}

// TestWords pins the failures of answers, quoted from the server's source, that a real server does not give in a test.
func TestWords(t *testing.T) {
	t.Parallel()
	const info, pong = "INFO {}\r\n", "PONG\r\n"
	const crowded = "-ERR 'maximum connections exceeded'\r\n"
	for name, test := range map[string]struct {
		settings string
		handle   func(net.Conn)
		class    failure.Class
		want     string
	}{
		"ready":                  {"", saysNATS(info, map[string]string{"PING": "PING\r\n+OK\r\nINFO {}\r\nPONG\r\n"}), "", ""},
		"crowded":                {"", saysNATS(info+crowded, nil), failure.Unexpected, "maximum connections exceeded"},
		"crowded, without INFO":  {"", saysNATS(crowded, nil), failure.Unexpected, "maximum connections exceeded"},
		"crowded, with a login":  {"", saysNATS("INFO {\"auth_required\":true}\r\n"+crowded, nil), failure.Unexpected, "maximum connections exceeded"},
		"closes, with a login":   {"", func(c net.Conn) { io.WriteString(c, "INFO {\"auth_required\":true}\r\n") }, failure.Reset, "connection "},
		"lame duck":              {"", saysNATS("INFO {\"ldm\":true}\r\n", nil), failure.Unexpected, "the server is in lame duck mode"},
		"old, and wants TLS":     {"", saysNATS(info, map[string]string{"CONNECT": "-ERR 'Secure Connection - TLS Required'\r\n"}), failure.Unexpected, "Secure Connection"},
		"expired":                {"", saysNATS(info, map[string]string{"CONNECT": "-ERR 'User Authentication Expired'\r\n"}), failure.Authentication, "User Authentication Expired"},
		"JSON of something else": {"", saysNATS("INFO []\r\n", nil), failure.Unexpected, "the answer is not NATS"},
		"text before TLS":        {"", saysNATS("INFO {\"tls_required\":true}\r\nPONG\r\n", nil), failure.Unexpected, "the server sent data between"},
		"endless pings":          {"", saysNATS(info+strings.Repeat("PING\r\n", 1000), nil), failure.Unexpected, "the answer is not NATS"},
		"another answer":         {"", saysNATS(info, map[string]string{"PING": "MSG a 1 0\r\n\r\n"}), failure.Unexpected, "the answer is not NATS"},
		"2 GB":                   {"#jetstream", saysNATS(info, map[string]string{"PING": pong, "PUB": "MSG a 1 2147483648\r\n"}), failure.Unexpected, "the server announces a message "},
		"no size":                {"#jetstream", saysNATS(info, map[string]string{"PING": pong, "PUB": "MSG a 1 x\r\n"}), failure.Unexpected, "the answer is not NATS"},
		"too few words":          {"#jetstream", saysNATS(info, map[string]string{"PING": pong, "PUB": "MSG 2\r\n"}), failure.Unexpected, "the answer is not NATS"},
		"no JSON":                {"#jetstream", saysNATS(info, map[string]string{"PING": pong, "PUB": "MSG a 1 2\r\n{]\r\n"}), failure.Unexpected, "the answer is not NATS"},
		"no JetStream":           {"#jetstream", saysNATS(info, map[string]string{"PING": pong, "PUB": jetStreamSays(`{"type":"io.nats.jetstream.api.v1.account_info_response","error":{"code":503,"err_code":10039,"description":"JetStream not enabled for account"}}`)}), failure.Unexpected, "JetStream: JetStream not enabled for account"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := kindtest.Attempt(t, kinds, "nats://"+servers.Serve(t, test.handle)+test.settings)
			switch {
			case f == nil && test.want == "":
			case f == nil || f.Class != test.class || !strings.HasPrefix(f.Error(), test.want):
				t.Errorf("%+v, want %s: %s", f, test.class, test.want)
			}
		})
	}
}

func jetStreamSays(text string) string {
	return "MSG a 1 " + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n"
}

// TestNATSTLSFirst pins TLS before the first line, which servers support since 2.10.
func TestTLSFirst(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	pair := ca.Server(t, "127.0.0.1")
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	says := saysNATS(`INFO {"tls_required":true}`+"\r\n", map[string]string{"PING": "PONG\r\n"})
	addr := servers.Serve(t, func(c net.Conn) { says(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}})) })
	kindtest.Ready(t, kinds, "nats://"+addr+"#tls-first&ca-file="+ca.File)
}

func TestParseNATS(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nats://a,b:1":                        "a:4222 b:1",
		"nats://a:1,nats://b:2":               "a:1 b:2",
		"nats://app:pw@a:1,nats://app:pw@b:2": "a:1 b:2",
		"nats://a#stream=x.y":                 "stream: a stream's name",
		"nats://a#stream=a%0D%0APUB":          "stream: a stream's name",
		"nats://a#token-file=/a&nkey-file=/b": "are mutually exclusive",
		"nats://a/x":                          "has a path",
		"nats://a#token=hUnter2":              "setting 1 after # is unknown",
	} {
		parsed, err := kinds.Parse(text, target.Options{})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = strings.Join(parsed.(check).Addrs, " ")
		}
		if !strings.Contains(got, want) || strings.Contains(got, "hUnter2") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// FuzzNATS checks that no answer makes the reader panic.
func Fuzz(f *testing.F) {
	for _, said := range []string{
		`INFO {"server_id":"N","version":"2.9.10","proto":1,"headers":true,"auth_required":true,"nonce":"abc","max_payload":1048576,"jetstream":true}` + " \r\nPONG\r\n" + jetStreamSays(`{"type":"io.nats.jetstream.api.v1.account_info_response","memory":0}`),
		"INFO {}\r\nPING\r\nPONG\r\nHMSG _INBOX.a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
		"INFO {}\r\n-ERR 'Authorization Violation'\r\n", "-ERR 'maximum connections exceeded'\r\n", "INFO {\"ldm\":true}\r\n",
		"INFO {}\r\nPONG\r\nMSG a 1 2147483648\r\n", "INFO {}\r\nPONG\r\nHMSG a 1 16 1\r\n",
	} {
		f.Add([]byte(said))
	}
	target := kindtest.Target(f, kinds, "nats://127.0.0.1")
	f.Fuzz(func(t *testing.T, said []byte) {
		n := session{Conversation: kindtest.Replayed(t.Context(), said), target: target, secrets: []string{"hUnter2"}}
		if _, err := n.greeting(); err == nil && n.ping("{}") == nil {
			n.jetstream("")
		}
		n = session{Conversation: kindtest.Replayed(t.Context(), said), target: target}
		n.open()
	})
}

// FuzzNATSSeed checks that an accepted seed is the seed of the key made from it.
func FuzzSeed(f *testing.F) {
	f.Add(newNKey(f, 'U').seed)
	f.Add(newNKey(f, 'A').seed)
	f.Add("SU" + strings.Repeat("A", 56))
	f.Fuzz(func(t *testing.T, seed string) {
		key, public, err := keyOf(seed)
		if err != nil {
			return
		}
		lines := strings.NewReplacer("\r", "", "\n", "").Replace(seed)
		if again := nkeyText([]byte{18<<3 | 20>>2, 0}, key.Seed()); !strings.HasPrefix(public, "U") || again[4:54] != lines[4:54] {
			t.Errorf("the public key is %s", public)
		}
	})
}
