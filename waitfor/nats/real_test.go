package nats

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/wire"
)

// An nkey is a key of NATS: of an operator 'O', an account 'A' or a user 'U'.
type nkey struct {
	key          ed25519.PrivateKey
	public, seed string
}

func newNKey(t testing.TB, kind byte) nkey {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	prefix := (kind - 'A') << 3
	seedPrefix := []byte{('S'-'A')<<3 | prefix>>5, prefix << 3}
	return nkey{key, nkeyText([]byte{prefix}, public), nkeyText(seedPrefix, key.Seed())}
}

func nkeyText(prefix, key []byte) string {
	p := append(prefix, key...)
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(binary.LittleEndian.AppendUint16(p, crc16(p)))
}

// jwt returns k's claims about subject, signed.
func (k nkey) jwt(t testing.TB, kind string, subject nkey) string {
	t.Helper()
	claims := map[string]any{"jti": "x", "iat": 1, "iss": k.public, "name": kind, "sub": subject.public, "nats": map[string]any{
		"type": kind, "version": 2, "subs": -1, "data": -1, "payload": -1,
		"limits": map[string]int{"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "conn": -1, "leaf": -1},
	}}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	url := base64.RawURLEncoding
	signed := url.EncodeToString([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." + url.EncodeToString(text)
	return signed + "." + url.EncodeToString(ed25519.Sign(k.key, []byte(signed)))
}

func TestServer(t *testing.T) {
	t.Parallel()
	n := servers.StartNats(t, servers.NatsOptions{Config: `jetstream { store_dir: "{{.Dir}}/js" }`})
	at := "nats://" + n.Addr
	kindtest.Ready(t, kinds, at)
	kindtest.Ready(t, kinds, "nats://127.0.0.1:1,"+n.Addr)
	kindtest.Ready(t, kinds, "nats://any:hUnter2@"+n.Addr) // a server that asks for no login takes any
	kindtest.BecomesReady(t, kinds, at+"#jetstream")
	kindtest.NotReady(t, kinds, at+"#stream=ORDERS", failure.Unexpected, "stream ORDERS: stream not found")
	call(t, n.Addr, "$JS.API.STREAM.CREATE.ORDERS", `{"name":"ORDERS","subjects":["orders.>"]}`)
	kindtest.Ready(t, kinds, at+"#stream=ORDERS")
	kindtest.NotReady(t, kinds, at+"#tls", failure.TLS, "the server does not offer it")
	kindtest.NotReady(t, kinds, at+"#tls-first", failure.TLS, "does not speak TLS")
	kindtest.NotReady(t, kinds, at+"#insecure", failure.TLS, "the server does not offer it")
	kindtest.NotReady(t, kinds, "redis://"+n.Addr, failure.Unexpected, "not Redis")
}

// client is a client that the server has greeted.
func client(t testing.TB, addr string) session {
	t.Helper()
	target := kindtest.Target(t, kinds, "nats://"+addr)
	s, err := wire.NewServer(target)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Connect(t.Context(), s, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n := session{Conversation: conn, target: target}
	if _, err := n.greeting(); err != nil {
		t.Fatal(err)
	}
	return n
}

// call sends a request to JetStream.
func call(t testing.TB, addr, subject, request string) {
	t.Helper()
	n := client(t, addr)
	fmt.Fprintf(n, "CONNECT {}\r\nSUB _INBOX.a 1\r\nPUB %s _INBOX.a %d\r\n%s\r\n", subject, len(request), request)
	if line, err := n.next(); err != nil || !strings.HasPrefix(line, "MSG ") {
		t.Fatalf("%s: %q, %v", subject, line, err)
	}
	if line, err := n.Line(); err != nil || strings.Contains(line, `"error"`) {
		t.Fatalf("%s: %q, %v", subject, line, err)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	key := newNKey(t, 'U')
	n := servers.StartNats(t, servers.NatsOptions{Config: fmt.Sprintf(`authorization { users = [
		{user: app, password: hUnter2app}, {nkey: %s},
		{user: narrow, password: hUnter2narrow, permissions: {publish: "a", subscribe: "b"}}]}`, key.public)})
	at := "nats://" + n.Addr
	password, seed := kindtest.File(t, "hUnter2app\n"), kindtest.File(t, key.seed+"\n")
	kindtest.Ready(t, kinds, at) // the server is up and requires a login
	kindtest.Ready(t, kinds, "nats://app:hUnter2app@"+n.Addr)
	kindtest.Ready(t, kinds, at+"#user=app&password-file="+password)
	kindtest.Ready(t, kinds, at, "NATS_USER", "app", "NATS_PASSWORD_FILE", password)
	kindtest.Ready(t, kinds, at+"#nkey-file="+seed)
	kindtest.Ready(t, kinds, at, "NATS_NKEY", seed)
	kindtest.NotReady(t, kinds, "nats://app:hUnter2wrong@"+n.Addr, failure.Authentication, "Authorization Violation")
	kindtest.NotReady(t, kinds, "nats://hUnter2token@"+n.Addr, failure.Authentication, "Authorization Violation")
	kindtest.NotReady(t, kinds, at+"#nkey-file="+kindtest.File(t, newNKey(t, 'U').seed), failure.Authentication, "Authorization Violation")
	kindtest.NotReady(t, kinds, at+"#nkey-file="+kindtest.File(t, newNKey(t, 'A').seed), failure.Authentication, "its seed is not a user's")
	kindtest.NotReady(t, kinds, at+"#nkey-file="+password, failure.Authentication, "it does not contain a seed")
	kindtest.NotReady(t, kinds, at+"#jetstream", failure.Authentication, "Authorization Violation")
	kindtest.NotReady(t, kinds, "nats://app:hUnter2app@"+n.Addr+"#jetstream", failure.Unexpected, "JetStream does not answer: no responders")
	kindtest.NotReady(t, kinds, "nats://narrow:hUnter2narrow@"+n.Addr+"#jetstream", failure.Authentication, "Permissions Violation")
}

func TestToken(t *testing.T) {
	t.Parallel()
	n := servers.StartNats(t, servers.NatsOptions{Config: "authorization { token: hUnter2token }"})
	at := "nats://" + n.Addr
	file := kindtest.File(t, "hUnter2token\n")
	kindtest.Ready(t, kinds, "nats://hUnter2token@"+n.Addr)
	kindtest.Ready(t, kinds, "nats://${file:"+file+"}@"+n.Addr)
	kindtest.Ready(t, kinds, at+"#token-file="+file)
	kindtest.Ready(t, kinds, at, "NATS_TOKEN", "hUnter2token")
	kindtest.NotReady(t, kinds, "nats://hUnter2wrong@"+n.Addr, failure.Authentication, "Authorization Violation")
	kindtest.NotReady(t, kinds, at+"#token-file="+file+".absent", failure.Missing, "cannot read secret file")
}

func TestCreds(t *testing.T) {
	t.Parallel()
	operator, account, user := newNKey(t, 'O'), newNKey(t, 'A'), newNKey(t, 'U')
	n := servers.StartNats(t, servers.NatsOptions{Config: fmt.Sprintf("operator: %s\nresolver: MEMORY\nresolver_preload: { %s: %s }\n",
		operator.jwt(t, "operator", operator), account.public, operator.jwt(t, "account", account))})
	creds := func(seed nkey) string {
		return "-----BEGIN NATS USER JWT-----\n" + account.jwt(t, "user", user) + "\n------END NATS USER JWT------\n\n" +
			"************************* IMPORTANT *************************\n\n-----BEGIN USER NKEY SEED-----\n" + seed.seed + "\n------END USER NKEY SEED------\n"
	}
	kindtest.Ready(t, kinds, "nats://"+n.Addr+"#creds-file="+kindtest.File(t, creds(user)))
	kindtest.Ready(t, kinds, "nats://"+n.Addr, "NATS_CREDS", kindtest.File(t, creds(user)))
	kindtest.NotReady(t, kinds, "nats://"+n.Addr+"#creds-file="+kindtest.File(t, creds(newNKey(t, 'U'))), failure.Authentication, "Authorization Violation")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	n := servers.StartNats(t, servers.NatsOptions{CA: ca, Config: "authorization { token: hUnter2token }"})
	certificates := "ca-file=" + ca.File + "&cert-file=" + n.Client.CertFile + "&key-file=" + n.Client.KeyFile
	kindtest.Ready(t, kinds, "nats://"+n.Addr+"#"+certificates) // it says that it wants TLS
	kindtest.Ready(t, kinds, "nats://hUnter2token@"+n.Addr+"#tls&"+certificates)
	kindtest.NotReady(t, kinds, "nats://"+n.Addr, failure.TLS, "TLS:")
	kindtest.NotReady(t, kinds, "nats://"+n.Addr+"#ca-file="+ca.File, failure.TLS, "TLS: the server refused")
	kindtest.NotReady(t, kinds, "nats://hUnter2token@"+n.Addr+"#ca-file="+ca.File, failure.TLS, "TLS: the server refused")
}

// TestMaxConnections pins that a server with too many clients is not ready, with or without credentials.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	n := servers.StartNats(t, servers.NatsOptions{Config: "max_connections: 1\nauthorization { token: hUnter2token }"})
	kindtest.BecomesReady(t, kinds, "nats://hUnter2token@"+n.Addr) // it has forgotten who asked whether it listens
	for end := time.Now().Add(servers.Patience); ; {               // the server does not notice at once that a client has gone
		conn := client(t, n.Addr)
		io.WriteString(conn, "CONNECT {\"auth_token\":\"hUnter2token\"}\r\nPING\r\n")
		line, err := conn.next()
		if line == "PONG" && err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%q, %v", line, err)
		}
	}
	kindtest.NotReady(t, kinds, "nats://hUnter2token@"+n.Addr, failure.Unexpected, "maximum connections exceeded")
	kindtest.NotReady(t, kinds, "nats://"+n.Addr, failure.Unexpected, "maximum connections exceeded")
}
