// Package nats waits for NATS: nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT][,HOST…].
//
// A server is ready when it answers PING after the login; without credentials, one that requires a login is ready too.
// The settings token-file, creds-file and nkey-file are the ways to log in besides a password, jetstream waits until
// JetStream answers, and stream until it has a stream.
package nats

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the scheme nats.
var Kind = target.Kind{
	Schemes: []string{"nats"},
	Usage:   "nats://HOST[:PORT][,HOST…]",
	Ready:   "answers PING; of several hosts, one is enough",
	Settings: slices.Concat(wire.ServerSettings, []target.Setting{
		{Name: "token-file", Value: "FILE", Usage: "file with the token", Excludes: []string{"password-file", "creds-file", "nkey-file"}},
		{Name: "creds-file", Value: "FILE", Usage: "file with the user's JWT and seed", Excludes: []string{"password-file", "nkey-file"}},
		{Name: "nkey-file", Value: "FILE", Usage: "file with the user's seed", Excludes: []string{"password-file"}},
		{Name: "tls-first", Usage: "start with TLS (handshake_first)"},
		{Name: "jetstream", Usage: "JetStream answers"},
		{Name: "stream", Value: "NAME", Usage: "JetStream has the stream"},
	}),
	Protocol: "NATS",
	Hosts:    true,
	Port:     "4222",
	Without:  "path",
	Parse:    parse,
}

// check sends PING to any of several servers, and a request to JetStream if a setting asks for that.
//
// https://docs.nats.io/reference/reference-protocols/nats-protocol
type check struct {
	wire.Server
	wantTLS   bool // after the server's first line
	jetstream bool
	stream    string // "" for none
}

func parse(t *target.Target) (target.Check, error) {
	s, err := wire.NewServer(t)
	if err != nil {
		return nil, err
	}
	c := check{Server: s, wantTLS: s.Encrypted || t.TLSOwn != "", jetstream: t.Settings.On("jetstream"), stream: t.Settings.Get("stream")}
	c.Encrypted = t.Settings.On("tls-first")
	if strings.ContainsFunc(c.stream, func(r rune) bool { return r <= ' ' || strings.ContainsRune(".*>/\\\x7f", r) }) {
		return nil, errors.New("stream: a stream's name cannot contain spaces, dots, slashes, * or >")
	}
	return c, nil
}

func (c check) Plaintext() bool { return false } // the server may ask for TLS

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server, c.ask) }

func (c check) ask(ctx context.Context, addr string) error {
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	n := session{Conversation: conn, target: c.Target, secrets: c.URL.Secrets()}
	info, err := n.greeting()
	if err != nil {
		return err
	}
	offered := info.TLSRequired || info.TLSAvailable
	switch {
	case c.Encrypted:
	case c.wantTLS && !offered:
		return failure.New(failure.TLS, "TLS: the server does not offer it").
			WithHint("remove #tls, or configure TLS in the server; a server with handshake_first needs #tls-first")
	case c.wantTLS || info.TLSRequired:
		if err := conn.Encrypt(c.TLS); err != nil {
			return err
		}
	}
	hello, err := c.login(info.Nonce)
	if err != nil {
		return err
	}
	n.secrets = hello.secrets
	if info.AuthRequired && !hello.login && !c.jetstream && c.stream == "" {
		return n.open() // the server is up and requires a login, which the target does not have
	}
	hello.TLSRequired = c.Encrypted || c.wantTLS || info.TLSRequired
	text, err := json.Marshal(hello)
	if err != nil {
		return err
	}
	if err := n.ping(string(text)); err != nil {
		return err
	}
	if c.jetstream || c.stream != "" {
		return n.jetstream(c.stream)
	}
	return nil
}

// A session is a conversation in NATS's protocol.
type session struct {
	*wire.Conversation
	target  *target.Target
	secrets []string // that the server may repeat
}

// info is the relevant part of a server's first line.
type info struct {
	TLSRequired  bool   `json:"tls_required"`
	TLSAvailable bool   `json:"tls_available"`
	AuthRequired bool   `json:"auth_required"`
	LameDuck     bool   `json:"ldm"`
	Nonce        string `json:"nonce"` // signed by a client with a key
}

// greeting reads the server's first line.
func (n session) greeting() (info info, err error) {
	poll.Doing(n.Ctx, "waiting for the server's first line")
	line, err := n.Line()
	if err != nil {
		return info, err
	}
	verb, rest, _ := strings.Cut(line, " ")
	switch {
	case verb == "-ERR":
		return info, n.refused(rest)
	case verb != "INFO" || json.Unmarshal([]byte(rest), &info) != nil:
		return info, n.target.Kind.OtherProtocol()
	case info.LameDuck:
		return info, failure.New(failure.Unexpected, "the server is in lame duck mode").WithHint("it is about to stop, and its clients move to other servers")
	}
	return info, nil
}

// open is ready if the server does not close the connection at once. After its first line, it reports that it has too
// many clients, or rejects the client's certificate.
func (n session) open() error {
	poll.Doing(n.Ctx, "holding the connection")
	n.Conn.SetReadDeadline(time.Now().Add(wire.DefaultHold))
	line, err := n.Line()
	switch rest, refused := strings.CutPrefix(line, "-ERR "); {
	case errors.Is(err, os.ErrDeadlineExceeded) && n.Ctx.Err() == nil:
		return nil
	case refused:
		return n.refused(rest)
	}
	return err
}

// lines is the maximum number of lines that a server may send before an answer.
const lines = 64

// ping sends CONNECT with the given JSON, and waits for the answer to PING.
func (n session) ping(connect string) error {
	poll.Doing(n.Ctx, "waiting for the answer to PING")
	_, sent := n.Write([]byte("CONNECT " + connect + "\r\nPING\r\n"))
	line, err := n.next()
	switch {
	case err != nil && sent != nil && failure.Of(err).Class == failure.Reset:
		return sent
	case err != nil:
		return err
	case line != "PONG":
		return n.target.Kind.OtherProtocol()
	}
	return nil
}

// next returns the next line, without those that a server may send at any time. A line -ERR is returned as an error.
func (n session) next() (string, error) {
	for range lines {
		line, err := n.Line()
		if err != nil {
			return "", err
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "+OK", "INFO":
		case "PING":
			if _, err := n.Write([]byte("PONG\r\n")); err != nil {
				return "", err
			}
		case "-ERR":
			return "", n.refused(rest)
		default:
			return line, nil
		}
	}
	return "", n.target.Kind.OtherProtocol()
}

// refused converts a line -ERR 'reason'.
func (n session) refused(text string) error {
	f := failure.New(failure.Unexpected, "%s", cmp.Or(secret.Quote(strings.Trim(text, "' "), n.secrets...), wire.Wordless))
	lower := strings.ToLower(text)
	switch {
	case strings.Contains(lower, "authorization violation"):
		f.Class = failure.Authentication
		f.Hint = "is the password, token or key current, and does the user exist in the server?"
		if !slices.ContainsFunc(n.secrets, func(s string) bool { return s != "" }) {
			f.Hint = "the server requires a login, and the target has no credentials: set nats://USER:PASSWORD@HOST, nats://TOKEN@HOST or --creds-file"
		}
	case strings.Contains(lower, "permissions violation"):
		f.Class = failure.Authentication
		f.Hint = "the user needs permission to publish to $JS.API.INFO or $JS.API.STREAM.INFO.NAME, and to subscribe to _INBOX.>"
	case strings.Contains(lower, "auth"): // timeout, expired, revoked
		f.Class = failure.Authentication
	case strings.Contains(lower, "maximum"):
		f.Hint = "too many clients are connected: look for one that leaks connections, or raise max_connections"
	case strings.Contains(lower, "tls required"):
		f.Hint = "add #tls to the target"
	}
	return f
}

// jetstream asks JetStream about the account, or about a stream.
//
// https://docs.nats.io/reference/reference-protocols/nats_api_reference
func (n session) jetstream(stream string) error {
	poll.Doing(n.Ctx, "asking JetStream")
	subject, inbox := "$JS.API.INFO", "_INBOX."+rand.Text()
	if stream != "" {
		subject = "$JS.API.STREAM.INFO." + stream
	}
	if _, err := fmt.Fprintf(n, "SUB %s 1\r\nPUB %s %s 0\r\n\r\n", inbox, subject, inbox); err != nil {
		return err
	}
	line, err := n.next()
	if err != nil {
		return err
	}
	// MSG SUBJECT SID SIZE, or with a header HMSG SUBJECT SID HEADER-SIZE SIZE
	words := strings.Fields(line)
	if len(words) < 4 || words[0] != "MSG" && words[0] != "HMSG" {
		return n.target.Kind.OtherProtocol()
	}
	size, err := strconv.ParseUint(words[len(words)-1], 10, 63)
	if err != nil {
		return n.target.Kind.OtherProtocol()
	}
	text, err := n.Next(size)
	if err != nil {
		return err
	}
	if words[0] == "HMSG" && strings.HasPrefix(string(text), "NATS/1.0 503") {
		return failure.New(failure.Unexpected, "JetStream does not answer: no responders").
			WithHint("is JetStream enabled for this account, and has the cluster elected a leader?")
	}
	return n.judge(text, stream)
}

func (n session) judge(text []byte, stream string) error {
	var answer struct {
		Type  string
		Error *struct{ Description string }
	}
	if json.Unmarshal(text, &answer) != nil || !strings.HasPrefix(answer.Type, "io.nats.jetstream.api.") {
		return n.target.Kind.OtherProtocol()
	}
	if answer.Error == nil {
		return nil
	}
	f := failure.New(failure.Unexpected, "JetStream: %s", secret.Quote(answer.Error.Description, n.secrets...))
	if stream != "" {
		f.Text = "stream " + secret.Quote(stream) + ": " + strings.TrimPrefix(f.Text, "JetStream: ")
		f.Hint = "what should create the stream, and in this account?"
	}
	return f
}
