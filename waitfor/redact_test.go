package waitfor

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"initbox/test/servers"
)

// secret is a password in some form, and what of it may not be printed.
type testSecret struct{ text, marks string }

// testSecrets have in them, unencoded, what ends one part of a URL and begins
// another. In some the parts are numbers, which can pass for a port.
var testSecrets = []testSecret{
	{"hUnter2tIger9", "Unter2 Iger9"},
	{"hUnter2/tIger9", "Unter2 Iger9"},
	{"hUnter2?tIger9", "Unter2 Iger9"},
	{"hUnter2#tIger9", "Unter2 Iger9"},
	{"hUnter2@tIger9", "Unter2 Iger9"},
	{"hUnter2:tIger9", "Unter2 Iger9"},
	{"hUnter2%40tIger9", "Unter2 Iger9"},
	{"hUnter2%2FtIger9", "Unter2 Iger9"},
	{"hUnter2%tIger9", "Unter2 Iger9"},
	{"hUnter2 tIger9", "Unter2 Iger9"},
	{"hUnter2&tIger9=", "Unter2 Iger9"},
	{"hUnter2;tIger9", "Unter2 Iger9"},
	{"hUnter2\\tIger9", "Unter2 Iger9"},
	{"hUnter2\"tIger9", "Unter2 Iger9"},
	{"hUnter2\ntIger9", "Unter2 Iger9"},
	{"hUnter2é\x01tIger9", "Unter2 Iger9"},
	{"hUnter2}${tIger9", "Unter2 Iger9"},
	{"[hUnter2]tIger9", "Unter2 Iger9"},
	{"%68Unter2%74Iger9", "Unter2 Iger9"},
	{"73191380/40287130", "73191380 40287130"},
	{"7319?40287130", "40287130"},
	{"7319#40287130", "40287130"},
	{"7319@40287130", "40287130"},
}

// in returns what of the secret is in s.
func (secret testSecret) in(s string) string {
	marks := append(strings.Fields(secret.marks), base64.StdEncoding.EncodeToString([]byte("app:"+secret.text)))
	for _, mark := range marks {
		if strings.Contains(strings.ToLower(s), strings.ToLower(mark)) {
			return mark
		}
	}
	return ""
}

// secretForms returns every form of every secret, for the address of a server.
func secretForms(t testing.TB, addr string, secret testSecret) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/secret-forms.txt")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte(secret.text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	schemes := append(Schemes(), "HTTP", "postgres", "mysql", "redis", "rediss", "amqp", "mongodb", "nats", "kafka", "ldap", "ftp", "x-y")
	var forms []string
	for form := range strings.Lines(string(data)) {
		form = strings.TrimSuffix(form, "\n")
		if form == "" || strings.HasPrefix(form, "# ") {
			continue
		}
		form = strings.NewReplacer("ADDR", addr, "FILE", file, "SECRET", secret.text).Replace(form)
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

// refusedAddr returns an address that refuses connections until the test ends: a
// socket that is bound to the port, but does not listen, keeps others from it.
func refusedAddr(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

func TestNoSecretInErrorsOfParse(t *testing.T) {
	parsed, refused := 0, 0
	for _, secret := range testSecrets {
		for _, form := range secretForms(t, "127.0.0.1:1", secret) {
			check, err := Parse(form, Options{})
			said := ""
			if err != nil {
				refused++
				said = err.Error()
			} else {
				parsed++
				said = fmt.Sprintf("%s %v", check, check.String())
			}
			if mark := secret.in(said); mark != "" {
				t.Errorf("%q: %q tells %q", form, said, mark)
			}
		}
	}
	if parsed == 0 || refused == 0 {
		t.Errorf("%d forms are targets, %d are not: the test does not test both", parsed, refused)
	}
}

// TestNoSecretInFailures waits for every form that is a target, at servers that
// refuse, demand other credentials, fail, repeat the credentials in their answer,
// or are not what they should be.
func TestNoSecretInFailures(t *testing.T) {
	for name, handler := range telltaleServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := refusedAddr(t)
			if handler != nil {
				server := httptest.NewServer(handler)
				t.Cleanup(server.Close)
				addr = server.Listener.Addr().String()
			}
			secrets := testSecrets
			if handler != nil {
				secrets = secrets[:1] // what Parse makes of the others does not depend on the server
			}
			for _, secret := range secrets {
				testNoSecretInFailures(t, addr, secret)
			}
		})
	}
}

// telltaleServers answer with what they were sent, in places where an error may
// quote it.
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

func testNoSecretInFailures(t *testing.T, addr string, secret testSecret) {
	t.Helper()
	var logs servers.Output
	o := Options{
		Getenv:         func(string) string { return secret.text },
		AttemptTimeout: 200 * time.Millisecond,
		Log:            slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	var checks []Check
	var first sync.WaitGroup // attempts of each
	for _, form := range secretForms(t, addr, secret) {
		if check, err := Parse(form, o); err == nil && !strings.HasPrefix(form, "file:") {
			first.Add(1)
			tried := sync.OnceFunc(first.Done)
			checks = append(checks, checkFunc{check.String(), func(ctx context.Context) error {
				defer tried()
				return check.Check(ctx)
			}})
		}
	}
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	go func() { // the deadline comes when each has been tried, and something was logged
		first.Wait()
		for !strings.Contains(logs.String(), addr) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		end(context.DeadlineExceeded)
	}()
	err := All(ctx, o, checks...)
	var notReady *NotReady
	if !errors.As(err, &notReady) {
		t.Fatalf("%d targets: %v, want a *NotReady", len(checks), err)
	}
	for what, said := range map[string]string{"log": logs.String(), "message": notReady.Error(), "hint": notReady.Hint()} {
		if mark := secret.in(said); mark != "" {
			i := strings.Index(strings.ToLower(said), strings.ToLower(mark))
			t.Errorf("the %s tells %q: …%s…", what, mark, said[max(0, i-200):min(len(said), i+100)])
		}
	}
	if !strings.Contains(logs.String(), addr) {
		t.Error("nothing was logged")
	}
}
