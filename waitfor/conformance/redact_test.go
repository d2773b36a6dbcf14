package conformance_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/test/kindtest"
	"initbox/test/leak"
	"initbox/test/servers"
	"initbox/waitfor"
	"initbox/waitfor/target"
)

// secretVariables is an environment with the secret, in the variable or in the file that NAME_FILE names, and a form of
// a target in INITBOX_TEST_FORM.
func secretVariables(t testing.TB, secret kindtest.Secret, files bool, form string) func(string) string {
	t.Helper()
	value := "" // in a file
	if files {
		value = filepath.Join(t.TempDir(), "variable")
		pgpass := "*:*:*:*:" + strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(secret.Text)
		for name, text := range map[string]string{value: secret.Text, value + ".pgpass": pgpass} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func(name string) string {
		passwords := name == "INITBOX_TEST_VALUE" || strings.HasSuffix(name, "PASSWORD") || strings.HasSuffix(name, "_PWD") || strings.HasSuffix(name, "_AUTH") || strings.HasSuffix(name, "TOKEN")
		switch {
		case name == "INITBOX_TEST_FORM":
			return form
		case name == "PGPASSFILE" && files:
			return value + ".pgpass"
		case strings.HasSuffix(name, "_FILE") && files:
			return value
		case passwords && (!files || name == "INITBOX_TEST_VALUE"):
			return secret.Text
		}
		return ""
	}
}

func TestNoSecretInErrorsOfParse(t *testing.T) {
	t.Parallel()
	secrets := kindtest.Secrets
	if testing.Short() {
		secrets = secrets[:3]
	}
	parsed, refused := 0, 0
	try := func(form string, secret kindtest.Secret, getenv func(string) string) {
		check, err := waitfor.Parse(form, target.Options{Getenv: getenv})
		said := ""
		if err != nil {
			refused++
			said = err.Error()
		} else {
			parsed++
			said = fmt.Sprintf("%s %v", check, check.String())
		}
		if mark := secret.In(said); mark != "" {
			t.Errorf("%q: %q reveals %q", form, said, mark)
		}
	}
	for n, secret := range secrets {
		file := filepath.Join(t.TempDir(), "target")
		for i, form := range secretForms(t, "127.0.0.1:1", secret) {
			getenv := secretVariables(t, secret, false, form)
			try(form, secret, getenv)
			if i%4 == n%4 { // of this secret; the others follow
				try("${env:INITBOX_TEST_FORM}", secret, getenv)
				try("${env:INITBOX_TEST_FORM}#tls&insecure", secret, getenv)
			}
			if i%50 == 0 {
				if err := os.WriteFile(file, []byte(form+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				try("${file:"+file+"}", secret, getenv)
			}
		}
	}
	if parsed == 0 || refused == 0 {
		t.Errorf("%d forms are targets, %d are not: the test does not test both", parsed, refused)
	}
}

// TestNoSecretInFailures waits for every form that is a target, at servers that refuse, require other credentials,
// fail, repeat the credentials in their answer, or speak another protocol.
func TestNoSecretInFailures(t *testing.T) {
	for name, handler := range telltaleServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := kindtest.RefusedAddr(t)
			if handler != nil {
				server := httptest.NewServer(handler)
				t.Cleanup(server.Close)
				addr = server.Listener.Addr().String()
			}
			secrets := kindtest.Secrets
			if handler != nil || testing.Short() {
				secrets = secrets[:1] // the other forms do not depend on the server
			}
			for i, secret := range secrets {
				every := []int{1, 3, 5, 7, 11}[min(i, 4)] // Parse is tested with all of them
				if testing.Short() {
					every = 11
				}
				testNoSecretInFailures(t, addr, secret, i%2 > 0, every)
			}
		})
	}
}

// telltaleServers repeat what they were sent, in places that an error may quote.
var telltaleServers = map[string]http.HandlerFunc{
	"refused": nil,
	"unauthorized": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic realm=hUnter2tIger9")
		w.WriteHeader(http.StatusUnauthorized)
	},
	"redirect with a token to a refused port": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://app:hUnter2tIger9@127.0.0.1:1/?token=hUnter2tIger9")
		w.WriteHeader(http.StatusFound)
	},
	"redirect to no URL": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://app:hUnter2tIger9@[::1/")
		w.WriteHeader(http.StatusFound)
	},
	"redirect to another scheme": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "ftp://app:hUnter2tIger9@host/")
		w.WriteHeader(http.StatusFound)
	},
	"malformed header":   rawAnswer("HTTP/1.1 200 OK\r\nSet-Cookie hUnter2tIger9\r\n\r\n"),
	"malformed status":   rawAnswer("HTTP/1.1 hUnter2tIger9\r\n\r\n"),
	"malformed protocol": rawAnswer("hUnter2tIger9\r\n\r\n"),
	"malformed length":   rawAnswer("HTTP/1.1 200 OK\r\nContent-Length: hUnter2tIger9\r\n\r\n"),
	"malformed encoding": rawAnswer("HTTP/1.1 200 OK\r\nTransfer-Encoding: hUnter2tIger9\r\n\r\n"),
}

func rawAnswer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Write([]byte(text))
			c.Close()
		}
	}
}

// triedCheck calls tried after each attempt.
type triedCheck struct {
	check target.Check
	tried func()
}

func (c triedCheck) String() string { return c.check.String() }

func (c triedCheck) Check(ctx context.Context) error {
	defer c.tried()
	return c.check.Check(ctx)
}

func testNoSecretInFailures(t *testing.T, addr string, secret kindtest.Secret, files bool, every int) {
	t.Helper()
	var logs servers.Output
	o := target.Options{
		Getenv:         secretVariables(t, secret, files, ""),
		AttemptTimeout: 200 * time.Millisecond,
		Log:            slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	var checks []target.Check
	var first sync.WaitGroup // attempts of each
	for i, form := range secretForms(t, addr, secret) {
		if i%every != 0 {
			continue // of this secret; another one follows
		}
		if check, err := waitfor.Parse(form, o); err == nil && !strings.HasPrefix(form, "file:") {
			first.Add(1)
			tried := sync.OnceFunc(first.Done)
			checks = append(checks, triedCheck{check, tried})
		}
	}
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	go func() { // the deadline comes when each has been tried, and the log has a line
		first.Wait()
		for !strings.Contains(logs.String(), addr) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		end(context.DeadlineExceeded)
	}()
	err := waitfor.All(ctx, o, checks...)
	var notReady *waitfor.NotReady
	if !errors.As(err, &notReady) {
		t.Fatalf("%d targets: %v, want a *NotReady", len(checks), err)
	}
	for what, said := range map[string]string{"log": logs.String(), "message": notReady.Error(), "hint": notReady.Hint()} {
		if mark := secret.In(said); mark != "" {
			i := strings.Index(strings.ToLower(said), strings.ToLower(mark))
			t.Errorf("the %s reveals %q: …%s…", what, mark, said[max(0, i-200):min(len(said), i+100)])
		}
	}
	if !strings.Contains(logs.String(), addr) {
		t.Error("nothing was logged")
	}
}

// TestNoSecretRepeated connects to servers that repeat what they were sent in an error of their protocol, after every
// request that they can refuse that way.
func TestNoSecretRepeated(t *testing.T) {
	for _, k := range servingKinds() {
		t.Run(k.Schemes[0], func(t *testing.T) {
			t.Parallel()
			d, refusals := dialects[k.Schemes[0]], refusing[k.Schemes[0]]
			if refusals == nil {
				t.Fatal("no line in refusing")
			}
			repeats := 0
			for _, text := range []string{"hUnter2tIger9", "hUnter2 /+:%tIger9", strings.Repeat("hUnter2tIger9-", 20)} {
				secret := kindtest.Secret{Text: text, Marks: "Unter2 Iger9"}
				forms := repeatedForms(t, k, secret)
				for _, refuse := range refusals {
					f := fault{serve: func(c net.Conn, d dialect) {
						r := &rememberingConn{Conn: c}
						refuse(r, func() string { return "denied " + secret.Repeated(r.sofar()) })
					}}
					s := startFaulty(t, f, d, nil)
					for _, form := range forms {
						if requireHidden(t, faultTarget(form, s.addr), secret) {
							repeats++
						}
					}
					s.close()
				}
				if len(forms) == 0 {
					return // it takes no password
				}
			}
			if repeats == 0 {
				t.Error("no message quotes the server: nothing is tested")
			}
		})
	}
}

// rememberingConn records what its server receives.
type rememberingConn struct {
	net.Conn
	mu       sync.Mutex
	received []byte
}

func (c *rememberingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received = append(c.received, p[:n]...)
	return n, err
}

func (c *rememberingConn) sofar() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.received)
}

// repeatedForms are the ways to pass a password to a kind.
func repeatedForms(t *testing.T, k *target.Kind, secret kindtest.Secret) []string {
	t.Helper()
	file := kindtest.File(t, secret.Text)
	escaped := url.QueryEscape(secret.Text)
	var forms []string
	for _, form := range []string{
		"://app:" + url.UserPassword("", secret.Text).String()[1:] + "@ADDR",
		"://app:${file:" + file + "}@ADDR/x", "://app@ADDR/?password=" + escaped, "://ADDR/?user=app&password=" + escaped,
		"://ADDR/?token=" + escaped + "&api_key=" + escaped, "://ADDR?user=app&password=${file:" + file + "}",
		"://ADDR/#user=app&password-file=" + file, "://ADDR/#token-file=" + file, "://ADDR/#api-key-file=" + file,
		"://" + escaped + "@ADDR", // a token of NATS; otherwise a user, which is not secret
	} {
		form = k.Schemes[0] + form
		if strings.HasSuffix(form, escaped+"@ADDR") && !strings.Contains(form, ":"+escaped) && k != waitfor.KindOf("nats") {
			continue
		}
		if _, err := waitfor.Parse(faultTarget(form, "127.0.0.1:1"), target.Options{}); err == nil {
			forms = append(forms, form)
			for _, s := range k.Settings {
				if slices.Contains([]string{"query", "topic", "key", "queue", "keyspace", "role", "bucket", "index", "namespace"}, s.Name) && !strings.Contains(form, "#") {
					forms = append(forms, form+"#"+sample(s, file))
				}
			}
		}
	}
	return forms
}

// requireHidden makes an attempt that must fail with a message without the secret, and reports whether the message
// quotes the server.
func requireHidden(t *testing.T, text string, secret kindtest.Secret) (quoted bool) {
	t.Helper()
	check, err := waitfor.Parse(text, target.Options{Getenv: secretVariables(t, secret, false, "")})
	if err == nil {
		err = poll.Try(t.Context(), 20*time.Second, check.Check)
	}
	if err == nil {
		return false // the attempt failed before it sent the secret
	}
	f := failure.Of(err)
	for _, said := range []string{err.Error(), f.Text, f.Note, f.Hint} {
		if mark := secret.In(said); mark != "" {
			t.Errorf("%s: %q reveals %q", text, said, mark)
		}
	}
	return strings.Contains(f.Text+f.Note, "denied")
}

// TestNoFormRepeated connects to servers that refuse with a text that has the password in one of the forms in which
// servers repeat it, once they have received it.
func TestNoFormRepeated(t *testing.T) {
	for _, k := range servingKinds() {
		t.Run(k.Schemes[0], func(t *testing.T) {
			t.Parallel()
			said, hidden, tried := 0, 0, 0
			for n, text := range leak.Secrets {
				password := kindtest.Secret{Text: text}
				targets := repeatedForms(t, k, password)
				if len(targets) == 0 {
					return // it takes no password
				}
				forms := leak.Forms(text)
				for i, refuse := range refusing[k.Schemes[0]] {
					every := 1 // of the forms; package secret tests all of them with all secrets
					if n > 0 || i > 0 {
						every = 7
					}
					if testing.Short() {
						every *= 5
					}
					var now atomic.Pointer[leak.Form]
					f := fault{serve: func(c net.Conn, d dialect) {
						r := &rememberingConn{Conn: c}
						refuse(r, func() string {
							if password.Repeated(r.sofar()) == "" {
								return "denied"
							}
							return "denied " + now.Load().Text
						})
					}}
					s := startFaulty(t, f, dialects[k.Schemes[0]], nil)
					for j := i + n; j < len(forms); j += every {
						form := forms[j]
						now.Store(&form)
						text := faultTarget(targets[tried%len(targets)], s.addr)
						tried++
						if message := messageOf(t, text); form.In(message) != "" {
							t.Errorf("%s: %s: %q reveals %q", text, form.Name, message, form.In(message))
						} else if strings.Contains(message, "denied") {
							said++
							hidden += strings.Count(message[:strings.IndexByte(message, '\n')], secret.Mark)
						}
					}
					s.close()
				}
			}
			t.Logf("%d of %d messages quote the server, %d hide a password", said, tried, hidden)
			if said == 0 {
				t.Error("no message quotes the server: nothing is tested")
			}
		})
	}
}

// messageOf makes an attempt that must fail, and returns all that may be logged of the failure.
func messageOf(t *testing.T, text string) string {
	t.Helper()
	check, err := waitfor.Parse(text, target.Options{Getenv: func(string) string { return "" }})
	if err == nil {
		err = poll.Try(t.Context(), 20*time.Second, check.Check)
	}
	if err == nil {
		return ""
	}
	f := failure.Of(err)
	return strings.Join([]string{err.Error(), f.Text, f.Note, f.Hint}, "\n")
}

// refusing are servers that answer with a text at some point, by the first scheme of their kind.
var refusing = map[string][]func(c net.Conn, text func() string){
	"memcached": {func(c net.Conn, text func() string) {
		converseWith(c, func([]byte) string { return "SERVER_ERROR " + text() + "\r\n" })
	}},
	"redis": {
		func(c net.Conn, text func() string) {
			converseWith(c, func([]byte) string {
				return "-ERR unknown command 'AUTH', with args beginning with: " + text() + "\r\n"
			})
		},
		func(c net.Conn, text func() string) {
			converseWith(c, func([]byte) string { return "-WRONGPASS " + text() + "\r\n" })
		},
		func(c net.Conn, text func() string) {
			converseWith(c, func([]byte) string { return "-LOADING " + text() + "\r\n" })
		},
	},
	"nats": {
		func(c net.Conn, text func() string) { io.WriteString(c, "-ERR '"+text()+"'\r\n") },
		func(c net.Conn, text func() string) {
			io.WriteString(c, dialects["nats"].greeting)
			converseWith(c, func([]byte) string { return "-ERR '" + text() + "'\r\n" })
		},
	},
	"postgres": {
		func(c net.Conn, text func() string) {
			converseWith(c, func(request []byte) string {
				return cmp.Or(dialects["postgres"].again(request), postgresRefusal("28P01", text()))
			})
		},
		func(c net.Conn, text func() string) {
			converseWith(c, func(request []byte) string {
				switch {
				case request[0] == 'p':
					return postgresRefusal("28000", text())
				case request[0] == 'Q':
					return postgresRefusal("42P01", text())
				}
				return cmp.Or(dialects["postgres"].again(request), "R\x00\x00\x00\x0c\x00\x00\x00\x05salt")
			})
		},
		func(c net.Conn, text func() string) {
			converseWith(c, func(request []byte) string {
				return cmp.Or(dialects["postgres"].again(request), postgresRefusal("57P03", text()))
			})
		},
	},
	"mysql": {
		func(c net.Conn, text func() string) { io.WriteString(c, mysqlRefusal(0, 1129, text())) },
		func(c net.Conn, text func() string) {
			io.WriteString(c, faultMySQLGreeting)
			converseWith(c, func(request []byte) string { return mysqlRefusal(request[3]+1, 1045, text()) })
		},
		func(c net.Conn, text func() string) {
			io.WriteString(c, faultMySQLGreeting)
			converseWith(c, func(request []byte) string { return mysqlRefusal(request[3]+1, 1105, text()) })
		},
	},
	"amqp": {
		func(c net.Conn, text func() string) { // connection.close instead of connection.start
			converseWith(c, func([]byte) string { return amqpRefusal(text()) })
		},
		func(c net.Conn, text func() string) {
			converseWith(c, func(request []byte) string {
				if strings.HasPrefix(string(request), "AMQP") {
					return amqpFrameOf("\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US")
				}
				return amqpRefusal(text())
			})
		},
	},
	"mongodb": {func(c net.Conn, text func() string) {
		converseWith(c, func(request []byte) string {
			said := text()
			fields := "\x01ok\x00" + strings.Repeat("\x00", 8) + "\x02errmsg\x00" + littleEndian(len(said)+1) + said + "\x00\x10code\x00" + littleEndian(13)
			document := littleEndian(len(fields)+5) + fields + "\x00"
			message := "\x01\x00\x00\x00" + requestPart(request, 4, 8) + "\xdd\x07\x00\x00\x00\x00\x00\x00\x00" + document
			return littleEndian(len(message)+4) + message
		})
	}},
	"kafka": {func(c net.Conn, text func() string) {
		converseWith(c, func(request []byte) string {
			answer := requestPart(request, 8, 12)
			switch requestPart(request, 4, 6) {
			case "\x00\x12": // ApiVersions: 3, 17, 18 and 36, versions 0 to 3
				keys := []string{"\x00\x03", "\x00\x11", "\x00\x12", "\x00\x24"}
				if request[7] >= 3 {
					answer += "\x00\x00\x05"
					for _, key := range keys {
						answer += key + "\x00\x00\x00\x04\x00"
					}
					answer += "\x00\x00\x00\x00\x00"
				} else {
					answer += "\x00\x00\x00\x00\x00\x04"
					for _, key := range keys {
						answer += key + "\x00\x00\x00\x04"
					}
				}
			case "\x00\x11": // SaslHandshake
				answer += "\x00\x00\x00\x00\x00\x01\x00\x05PLAIN"
			case "\x00\x24": // SaslAuthenticate: an error, and its message
				said := text()
				answer += "\x00\x3a" + string(binary.BigEndian.AppendUint16(nil, uint16(len(said)))) + said + "\x00\x00\x00\x00" + strings.Repeat("\x00", 8)
			}
			return string(binary.BigEndian.AppendUint32(nil, uint32(len(answer)))) + answer
		})
	}},
	"zookeeper": {func(c net.Conn, text func() string) {
		converseWith(c, func([]byte) string {
			return "This ZooKeeper instance is not currently serving requests: " + text() + "\n"
		})
	}},
	"cassandra": {
		func(c net.Conn, text func() string) {
			converseWith(c, func(request []byte) string { return cassandraAnswer(request, 0, "\x00\x00\x10\x02", text()) })
		},
		func(c net.Conn, text func() string) {
			converseWith(c, func(request []byte) string {
				switch request[4] {
				case 5: // OPTIONS
					return string([]byte{request[0] | 0x80, 0}) + requestPart(request, 2, 4) + "\x06\x00\x00\x00\x02\x00\x00"
				case 1: // STARTUP: AUTHENTICATE
					return string([]byte{request[0] | 0x80, 0}) + requestPart(request, 2, 4) + "\x03\x00\x00\x00\x03\x00\x01x"
				}
				return cassandraAnswer(request, 0, "\x00\x00\x01\x00", text())
			})
		},
	},
	"etcd":          refusingWeb,
	"elasticsearch": refusingWeb,
	"clickhouse":    refusingWeb,
	"influxdb":      refusingWeb,
	"temporal": {func(c net.Conn, text func() string) {
		serveOne(c, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "16")
			w.Header().Set("Grpc-Message", url.PathEscape(text()))
		})
	}},
}

// refusingWeb are the answers of servers that use HTTP, with each status and in each form.
var refusingWeb = []func(c net.Conn, text func() string){
	func(c net.Conn, text func() string) {
		refuseWeb(c, http.StatusUnauthorized, `{"error":%q,"message":%[1]q}`, text)
	},
	func(c net.Conn, text func() string) {
		refuseWeb(c, http.StatusServiceUnavailable, `{"error":{"type":%q,"reason":%[1]q},"status":503}`, text)
	},
	func(c net.Conn, text func() string) {
		refuseWeb(c, http.StatusInternalServerError, "Code: 516. DB::Exception: %s", text)
	},
	func(c net.Conn, text func() string) {
		refuseWeb(c, http.StatusOK, `{"health":"false","reason":%q,"status":%[1]q,"message":%[1]q,"error":%[1]q}`, text)
	},
	func(c net.Conn, text func() string) { refuseWeb(c, http.StatusOK, "%s", text) },
}

func refuseWeb(c net.Conn, status int, body string, text func() string) {
	serveOne(c, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-ClickHouse-Exception-Code", "516")
		w.WriteHeader(status)
		fmt.Fprintf(w, body, text())
	})
}

// serveOne serves HTTP/1 and HTTP/2 on a connection.
func serveOne(c net.Conn, h http.HandlerFunc) {
	ended := make(chan struct{})
	s := &http.Server{Handler: h, Protocols: new(http.Protocols), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(ended)
		}
	}}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	l := &oneConn{c: c}
	s.Serve(l)
	<-ended
}

// oneConn is a listener that accepts one connection.
type oneConn struct{ c net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	c := l.c
	l.c = nil
	if c == nil {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// converseWith answers each request.
func converseWith(c net.Conn, answer func(request []byte) string) {
	request := make([]byte, 64<<10)
	for {
		n, err := c.Read(request)
		if err != nil {
			return
		}
		io.WriteString(c, answer(append(request[:n:n], make([]byte, 16)...)[:max(n, 16)]))
	}
}

func postgresRefusal(state, text string) string {
	fields := "SFATAL\x00VFATAL\x00C" + state + "\x00M" + text + "\x00\x00"
	return "E" + string(binary.BigEndian.AppendUint32(nil, uint32(len(fields)+4))) + fields
}

func mysqlRefusal(sequence byte, code int, text string) string {
	payload := "\xff" + string(binary.LittleEndian.AppendUint16(nil, uint16(code))) + "#28000" + text
	return string([]byte{byte(len(payload)), byte(len(payload) >> 8), 0, sequence}) + payload
}

func amqpRefusal(text string) string {
	text = text[:min(len(text), 255)]
	return amqpFrameOf("\x00\x0a\x00\x32\x01\x93" + string([]byte{byte(len(text))}) + text + "\x00\x00\x00\x00")
}

func amqpFrameOf(payload string) string {
	return "\x01\x00\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(payload)))) + payload + "\xce"
}

func cassandraAnswer(request []byte, opcode byte, code, text string) string {
	body := code + string(binary.BigEndian.AppendUint16(nil, uint16(len(text)))) + text
	header := append([]byte{request[0] | 0x80, 0, request[2], request[3], opcode}, binary.BigEndian.AppendUint32(nil, uint32(len(body)))...)
	return string(header) + body
}

func littleEndian(n int) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }

// secretForms returns every form of every secret, for the address of a server.
func secretForms(t testing.TB, addr string, secret kindtest.Secret) []string {
	t.Helper()
	data, err := os.ReadFile("../testdata/secret-forms.txt")
	if err != nil {
		t.Fatal(err)
	}
	file := kindtest.File(t, secret.Text+"\n")
	schemes := append(waitfor.Kinds().Schemes(), "HTTP", "Postgres", "ldap", "ftp", "x-y")
	var forms []string
	for form := range strings.Lines(string(data)) {
		form = strings.TrimSuffix(form, "\n")
		if form == "" || strings.HasPrefix(form, "# ") {
			continue
		}
		form = strings.NewReplacer("ADDR", addr, "FILE", file, "SECRET", secret.Text).Replace(form)
		if !strings.Contains(form, "SCHEME") {
			forms = append(forms, form)
			continue
		}
		for _, scheme := range schemes {
			forms = append(forms, strings.ReplaceAll(form, "SCHEME", scheme))
		}
	}
	return forms
}
