package generate

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"initbox/internal/kube"
	"initbox/internal/perm"
	"initbox/test/fakeapi"
)

// generate runs a maker for OUT, and returns the log.
func generate(t *testing.T, m Maker, out string, change ...func(*Options)) (log string, err error) {
	t.Helper()
	var b syncBuffer
	o := Options{Make: m, Out: out, Mode: 0o600, Owner: perm.Owner{UID: -1, GID: -1}, Log: slog.New(slog.NewTextHandler(&b, nil))}
	for _, c := range change {
		c(&o)
	}
	err = Run(t.Context(), o)
	return b.String(), err
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestPassword pins the classes, and that each character of the alphabet is used, and no other.
func TestPassword(t *testing.T) {
	t.Parallel()
	m := must(NewPassword(4, "a-cX-Z0-1!-", 4))
	seen := map[rune]bool{}
	for range 2000 {
		files := must(m.make(nil))
		for _, c := range string(files[""]) {
			seen[c] = true
		}
		if n := classesOf(string(files[""])); n != 4 {
			t.Fatalf("%s is of %d classes, want 4", files[""], n)
		}
	}
	var got strings.Builder
	for c := range 128 {
		if seen[rune(c)] {
			got.WriteRune(rune(c))
		}
	}
	if got.String() != "!-01XYZabc" {
		t.Errorf("passwords have the characters %q, want !-01XYZabc", got.String())
	}
	for text, want := range map[string]int{"abc": 1, "aB": 2, "a-c": 2, "aB1": 3, "!?": 1, "a1!B": 4} {
		if n := classesOf(text); n != want {
			t.Errorf("%s is of %d classes, want %d", text, n, want)
		}
	}
}

// TestGroups pins that the numbers are safe primes, as those of RFC 7919 are. servers_test.go compares them with
// OpenSSL's.
func TestGroups(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ffdhe2048", "ffdhe3072"} {
		p := prime(uint(groups[name][0]), groups[name][1])
		half := new(big.Int).Rsh(p, 1)
		if int64(p.BitLen()) != groups[name][0] || !p.ProbablyPrime(1) || !half.ProbablyPrime(1) {
			t.Errorf("%s: not a safe prime of that size", name)
		}
	}
}

// TestOneOfMany has many runs make the same file at once: all find the same afterwards.
func TestOneOfMany(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "new", "password")
	var all sync.WaitGroup
	var found sync.Map
	for range 8 {
		all.Go(func() {
			if log, err := generate(t, must(NewPassword(32, DefaultAlphabet, 0)), out); err != nil {
				t.Errorf("%v\n%s", err, log)
				return
			}
			data, err := os.ReadFile(out)
			found.Store(string(data), err)
		})
	}
	all.Wait()
	n := 0
	found.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d different passwords were found by runs that had ended, want 1", n)
	}
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) != 1 {
		t.Errorf("%d files are there, want the password alone: %v", len(left), left)
	}
}

func certificate(t *testing.T, change ...func(*CertificateOptions)) *Certificate {
	t.Helper()
	o := CertificateOptions{Key: must(NewKey("ecdsa", "pkcs8", "", false)), DNS: []string{"web", "WEB.shop."}, IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, ValidFor: 90 * 24 * time.Hour}
	for _, c := range change {
		c(&o)
	}
	return must(NewCertificate(o))
}

// ca makes a CA in a directory, and returns the change of options that lets it sign.
func ca(t *testing.T) func(*CertificateOptions) {
	t.Helper()
	dir := t.TempDir()
	m := certificate(t, func(o *CertificateOptions) {
		o.IsCA, o.DNS, o.IPs, o.Subject, o.ValidFor = true, nil, nil, "CN=test CA,O=initbox", 8760*time.Hour
	})
	if log, err := generate(t, m, dir); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	return func(o *CertificateOptions) {
		o.CACertFile, o.CAKeyFile = filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
	}
}

// verify checks what is in a directory as a client would: the key fits, and ca.crt leads to the certificate.
func verify(t *testing.T, m *Certificate, dir string) *x509.Certificate {
	t.Helper()
	files := Files{certFile: []byte(read(t, dir, certFile)), keyFile: []byte(read(t, dir, keyFile)), caFile: []byte(read(t, dir, caFile))}
	p := must(m.read(files))
	if !fits(p.chain[0], p.key) {
		t.Errorf("the key in %s does not fit the certificate", dir)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(files[caFile])
	for _, name := range append(m.DNS, "10.0.0.1") {
		if _, err := p.chain[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: m.now()}); err != nil {
			t.Errorf("verify for %s: %v", name, err)
		}
	}
	return p.chain[0]
}

// TestRenewal pins when a certificate is made again: never its key, and never a certificate that is right.
func TestRenewal(t *testing.T) {
	t.Parallel()
	first := ca(t)
	day := 24 * time.Hour
	tests := map[string]struct {
		change func(*CertificateOptions)
		later  time.Duration
		want   string // in the log
	}{
		"right":   {nil, 59 * day, "nothing to change"},
		"due":     {nil, 61 * day, "less than a third of its time is left"},
		"expired": {nil, 91 * day, "it expired"},
		"name":    {func(o *CertificateOptions) { o.DNS = append(o.DNS, "new") }, 0, "it is for other names"},
		"fewer":   {func(o *CertificateOptions) { o.DNS = []string{"web"} }, 0, "it is for other names"},
		"address": {func(o *CertificateOptions) { o.IPs[0] = netip.MustParseAddr("10.0.0.2") }, 0, "it is for other names"},
		"same": {func(o *CertificateOptions) {
			o.DNS = []string{"web.shop", "web", "web"}
			o.IPs[0] = netip.MustParseAddr("::ffff:10.0.0.1")
		}, 0, "nothing to change"},
		"subject":   {func(o *CertificateOptions) { o.Subject = "CN=other" }, 0, "its subject is another"},
		"CA":        {ca(t), 0, "its CA is another"},
		"self":      {func(o *CertificateOptions) { o.CACertFile, o.CAKeyFile = "", "" }, 0, "its CA is another"},
		"algorithm": {func(o *CertificateOptions) { o.Key = must(NewKey("rsa-2048", "pkcs1", "", false)) }, 0, "nothing to change"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if log, err := generate(t, certificate(t, first), dir); err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			key, cert := read(t, dir, keyFile), read(t, dir, certFile)
			m := certificate(t, first)
			if test.change != nil {
				m = certificate(t, first, test.change)
			}
			m.now = func() time.Time { return time.Now().Add(test.later) }
			log, err := generate(t, m, dir)
			if err != nil || !strings.Contains(log, test.want) {
				t.Fatalf("%v, want a log with %q:\n%s", err, test.want, log)
			}
			if read(t, dir, keyFile) != key {
				t.Error("the key is another")
			}
			if same := read(t, dir, certFile) == cert; same != (test.want == "nothing to change") {
				t.Errorf("the certificate is the same: %v", same)
			}
			if name != "address" {
				verify(t, m, dir)
			}
		})
	}
}

// TestShortLived pins that a new certificate is not due at once, however short its time is.
func TestShortLived(t *testing.T) {
	t.Parallel()
	m, dir := certificate(t, func(o *CertificateOptions) { o.ValidFor = time.Minute }), t.TempDir()
	for _, want := range []string{"certificate made", "nothing to change"} {
		if log, err := generate(t, m, dir); err != nil || !strings.Contains(log, want) {
			t.Errorf("%v, want a log with %q:\n%s", err, want, log)
		}
	}
}

// TestHalves puts every mixture of two runs' files in place, as kills and users leave them: each heals, and keeps the
// key that is there.
func TestHalves(t *testing.T) {
	t.Parallel()
	m := certificate(t, ca(t))
	var made [2]Files
	for i := range made {
		made[i] = must(m.make(nil))
	}
	for n := range 27 {
		dir := t.TempDir()
		from := map[string]int{keyFile: n % 3, certFile: n / 3 % 3, caFile: n / 9}
		for name, i := range from {
			if i < 2 {
				if err := os.WriteFile(filepath.Join(dir, name), made[i][name], 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		log, err := generate(t, m, dir)
		if err != nil {
			t.Errorf("%v: %v\n%s", from, err, log)
			continue
		}
		verify(t, m, dir)
		if i := from[keyFile]; i < 2 && read(t, dir, keyFile) != string(made[i][keyFile]) {
			t.Errorf("%v: the key was not kept", from)
		}
		if log, err := generate(t, m, dir); err != nil || !strings.Contains(log, "nothing to change") {
			t.Errorf("%v: second run: %v\n%s", from, err, log)
		}
	}
}

// TestForeign pins that a certificate of another program is kept while it can be used, and then not overwritten
// without --force.
func TestForeign(t *testing.T) {
	t.Parallel()
	authority := ca(t)
	m := certificate(t, authority)
	dir := t.TempDir()
	a := must(m.authority())
	key := must(algorithms["ecdsa"]())
	template := must(m.sign(key, a))
	template.SubjectKeyId = []byte("another program's id")
	der := must(x509.CreateCertificate(nil, template, a.cert, key.Public(), a.key))
	foreign := string(encode([]*x509.Certificate{must(x509.ParseCertificate(der))}))
	for name, content := range map[string]string{certFile: foreign, keyFile: string(must(m.Key.private(key)))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		later     time.Duration
		log, fail string
	}{{0, "nothing to change", ""}, {61 * 24 * time.Hour, "but it is kept, since initbox did not make it", ""}, {91 * 24 * time.Hour, "", "and initbox did not make it, so it is not replaced"}} {
		m.now = func() time.Time { return time.Now().Add(test.later) }
		log, err := generate(t, m, dir)
		if !strings.Contains(log, test.log) || !strings.Contains(fmt.Sprint(err), test.fail) || (err == nil) != (test.fail == "") {
			t.Errorf("after %v: %v, want %q and a log with %q:\n%s", test.later, err, test.fail, test.log, log)
		}
		if read(t, dir, certFile) != foreign {
			t.Fatal("the certificate was replaced")
		}
	}
	m.now = time.Now
	m = certificate(t, authority, func(o *CertificateOptions) { o.DNS = []string{"other"} })
	if _, err := generate(t, m, dir); err == nil || read(t, dir, certFile) != foreign {
		t.Errorf("for another name: %v, want an error and the same certificate", err)
	}
	if log, err := generate(t, m, dir, func(o *Options) { o.Force = true }); err != nil || !isOurs(verify(t, m, dir)) {
		t.Errorf("with force: %v, want a certificate of ours\n%s", err, log)
	}
}

// TestOneFile pins that one PEM has the certificate and the key, which stays when the CA is another.
func TestOneFile(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "web.pem")
	m := certificate(t, ca(t), func(o *CertificateOptions) { o.OneFile = true })
	if log, err := generate(t, m, out); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	text := read(t, out)
	if strings.Count(text, "-----BEGIN CERTIFICATE-----") != 1 || strings.Count(text, "-----BEGIN PRIVATE KEY-----") != 1 {
		t.Errorf("want one certificate and one key:\n%s", text)
	}
	if log, err := generate(t, m, out); err != nil || read(t, out) != text {
		t.Errorf("second run: %v\n%s", err, log)
	}
	m = certificate(t, ca(t), func(o *CertificateOptions) { o.OneFile = true })
	if log, err := generate(t, m, out); err != nil || read(t, out) == text || !strings.Contains(read(t, out), text[strings.Index(text, "-----BEGIN PRIVATE"):]) {
		t.Errorf("with another CA: %v, want another certificate with the same key\n%s", err, log)
	}
}

func TestSubject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"web":                              "CN=web",
		`CN=web,O=Company\, Inc,OU=a,OU=b`: `CN=web,OU=a+OU=b,O=Company\, Inc`,
		"/C=DE/O=Company/CN=web":           "CN=web,O=Company,C=DE",
		"cn = web , o = x":                 "CN=web,O=x",
		"CN=":                              "error", "CN=a,CN=b": "error", "X=y": "error", "CN=a,": "error", "O": "CN=O",
	} {
		name, err := parseSubject(text)
		got := name.String()
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %s (%v), want %s", text, got, err, want)
		}
	}
}

// api returns a fake API server and a function that makes a Secret for it.
func api(t *testing.T, front func(http.Handler) http.Handler) (*fakeapi.Server, func(text string, m Maker) *Secret) {
	t.Helper()
	server := fakeapi.New()
	var handler http.Handler = server
	if front != nil {
		handler = front(server)
	}
	listener := httptest.NewServer(handler)
	t.Cleanup(listener.Close)
	address := must(url.Parse(listener.URL))
	return server, func(text string, m Maker) *Secret {
		s := must(ParseSecret(text, m))
		client := kube.New(&kube.Config{Server: address, Namespace: "default", NoProxy: true}, kube.Options{})
		s.Connect = func() (*kube.Client, error) { return client, nil }
		return s
	}
}

// TestOverlap has an attempt end after another has succeeded, as one that hung does when the wait is over: what the
// first one found stays.
func TestOverlap(t *testing.T) {
	t.Parallel()
	_, secret := api(t, nil)
	m := must(NewPassword(32, DefaultAlphabet, 0))
	a := &agreement{run: &run{Options: Options{Make: m, Secret: secret("k8s:secret/db#key=pw", m), Log: slog.New(slog.DiscardHandler)}}}
	if err := a.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Check(over); err != nil || len(a.files[""]) != 32 {
		t.Errorf("after an attempt that was cancelled: %d bytes, %v", len(a.files[""]), err)
	}
}

// TestSecretRace has many Pods create one Secret at once: all files have the value of the one that succeeded.
func TestSecretRace(t *testing.T) {
	t.Parallel()
	server, secret := api(t, nil)
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			m := must(NewPassword(32, DefaultAlphabet, 0))
			if log, err := generate(t, m, filepath.Join(dir, fmt.Sprint(i)), func(o *Options) { o.Secret = secret("k8s:secret/db#key=pw", m) }); err != nil {
				t.Errorf("%v\n%s", err, log)
			}
		})
	}
	all.Wait()
	for i := range 8 {
		if a, b := read(t, dir, "0"), read(t, dir, fmt.Sprint(i)); a != b {
			t.Errorf("Pod 0 has %s, and Pod %d has %s", a, i, b)
		}
	}
	creates := 0
	for _, line := range server.Requests() {
		if strings.HasPrefix(line, "update") {
			t.Errorf("the Secret was replaced: %s", line)
		}
		if strings.HasPrefix(line, "create") {
			creates++
		}
	}
	if creates == 0 {
		t.Error("no Pod created the Secret")
	}
}

// TestRenewRace has many Pods renew the certificate in a Secret at once: all have the same afterwards.
func TestRenewRace(t *testing.T) {
	t.Parallel()
	_, secret := api(t, nil)
	renew := func(m *Certificate, dir string) {
		if log, err := generate(t, m, dir, func(o *Options) { o.Secret = secret("k8s:secret/tls", m); o.Secret.Renew = true }); err != nil {
			t.Errorf("%v\n%s", err, log)
		}
	}
	authority := ca(t)
	first := t.TempDir()
	renew(certificate(t, authority), first)
	var dirs [6]string
	var all sync.WaitGroup
	for i := range dirs {
		dirs[i] = t.TempDir()
		all.Go(func() {
			m := certificate(t, authority, func(o *CertificateOptions) { o.DNS = []string{"renewed"} })
			renew(m, dirs[i])
		})
	}
	all.Wait()
	for _, dir := range dirs {
		if read(t, dir, certFile) != read(t, dirs[0], certFile) || read(t, dir, keyFile) != read(t, first, keyFile) || read(t, dir, certFile) == read(t, first, certFile) {
			t.Errorf("%s has another certificate than the other Pods, another key than before, or the old certificate", dir)
		}
	}
}

// TestForeignSecret pins that --renew replaces no Secret without our annotation, even with a certificate of ours in it:
// that is used with a warning while it can be.
func TestForeignSecret(t *testing.T) {
	t.Parallel()
	server, secret := api(t, nil)
	m := certificate(t, ca(t))
	o := kube.Object{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "tls"}}
	secret("k8s:secret/tls", m).put(o, must(m.make(nil)))
	if err := server.Apply(string(must(json.Marshal(o)))); err != nil {
		t.Fatal(err)
	}
	before := server.Object("secrets", "default", "tls")
	for _, test := range []struct {
		later     time.Duration
		log, fail string
	}{{0, "found in namespace default, and used", ""}, {61 * 24 * time.Hour, "but it is used and not replaced: initbox has not created the Secret", ""}, {91 * 24 * time.Hour, "", "and it is not replaced: initbox has not created the Secret"}} {
		m.now = func() time.Time { return time.Now().Add(test.later) }
		log, err := generate(t, m, t.TempDir(), func(o *Options) { o.Secret = secret("k8s:secret/tls", m); o.Secret.Renew = true })
		if !strings.Contains(log, test.log) || !strings.Contains(fmt.Sprint(err), test.fail) || (err == nil) != (test.fail == "") {
			t.Errorf("after %v: %v, want %q and a log with %q:\n%s", test.later, err, test.fail, test.log, log)
		}
	}
	if server.Object("secrets", "default", "tls") != before {
		t.Error("the Secret was replaced")
	}
}

// TestLostAnswer breaks the connection after the Secret was created: the next attempt finds what the first one made.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	var once sync.Once
	server, secret := api(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				once.Do(func() {
					next.ServeHTTP(httptest.NewRecorder(), r)
					panic(http.ErrAbortHandler)
				})
			}
			next.ServeHTTP(w, r)
		})
	})
	m := must(NewToken(16, "hex"))
	out := filepath.Join(t.TempDir(), "token")
	if log, err := generate(t, m, out, func(o *Options) { o.Secret = secret("k8s:secret/db#key=token", m) }); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	client := must(secret("k8s:secret/db#key=token", m).Connect())
	stored := must(client.Get(t.Context(), secrets(), "default", "db"))
	if got := string(stored.Data()["token"]); got != read(t, out) {
		t.Errorf("the file has %s, and the Secret %s", read(t, out), got)
	}
	if n := strings.Count(strings.Join(server.Requests(), "\n"), "create"); n != 1 {
		t.Errorf("%d creates, want 1", n)
	}
}

// TestChangedByWebhook has a webhook change the Secret that is created: the file has what the other Pods get, too.
func TestChangedByWebhook(t *testing.T) {
	t.Parallel()
	_, secret := api(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				var o map[string]any
				if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
					t.Error(err)
				}
				o["data"] = map[string]any{"token": "Y2hhbmdlZA=="}
				body := must(json.Marshal(o))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
			next.ServeHTTP(w, r)
		})
	})
	m := must(NewToken(16, "hex"))
	out := filepath.Join(t.TempDir(), "token")
	if log, err := generate(t, m, out, func(o *Options) { o.Secret = secret("k8s:secret/db#key=token", m) }); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	if got := read(t, out); got != "changed" {
		t.Errorf("the file has %q, and the Secret what the webhook made of it", got)
	}
}

// TestHangingRequest has the first request hang: the next attempt does without it.
func TestHangingRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the end of an attempt")
	}
	t.Parallel()
	var once sync.Once
	_, secret := api(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			once.Do(func() { <-r.Context().Done() })
			next.ServeHTTP(w, r)
		})
	})
	m := must(NewToken(16, "hex"))
	out := filepath.Join(t.TempDir(), "token")
	if log, err := generate(t, m, out, func(o *Options) { o.Secret = secret("k8s:secret/db#key=token", m) }); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
}

// TestSecretIsNotShown has a webhook repeat the Secret: the value is neither in the error nor in the log.
func TestSecretIsNotShown(t *testing.T) {
	t.Parallel()
	_, secret := api(t, nil)
	out := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(out, []byte("Tr0ub4dor&3 of the database"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := must(NewPassword(32, DefaultAlphabet, 0))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var log syncBuffer
	s := secret("k8s:secret/db#key=pw", m)
	s.Annotations = map[string]string{"refuse": "yes"}
	err := Run(ctx, Options{Make: m, Out: out, Mode: 0o600, Owner: perm.Owner{UID: -1, GID: -1}, Secret: s, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err == nil || ctx.Err() != nil {
		t.Fatalf("%v, want an error at once", err)
	}
	if text := err.Error() + log.String(); strings.Contains(text, "Tr0ub4dor") || strings.Contains(text, "VHIwdWI0") || !strings.Contains(text, "a webhook does not like") {
		t.Errorf("want the webhook's reason without the password:\n%s", text)
	}
}

// TestSecretObject pins what is created: a type that Ingress controllers accept, an owner that does not keep it from
// being removed, and our annotation.
func TestSecretObject(t *testing.T) {
	t.Parallel()
	server, secret := api(t, nil)
	if err := server.Apply(`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "11-22"}}`); err != nil {
		t.Fatal(err)
	}
	m := certificate(t)
	log, err := generate(t, m, "", func(o *Options) {
		o.Secret = secret("k8s:secret/tls", m)
		o.Secret.Owner = must(ParseOwner("deploy/web"))
		o.Secret.Labels = map[string]string{"app": "web"}
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	client := must(secret("k8s:secret/tls", m).Connect())
	o := must(client.Get(t.Context(), secrets(), "default", "tls"))
	want := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "11-22"}
	owners, _ := o.At("metadata", "ownerReferences").([]any)
	if len(owners) != 1 || !maps.Equal(owners[0].(map[string]any), want) {
		t.Errorf("ownerReferences: %v, want %v", owners, want)
	}
	if o.At("type") != "kubernetes.io/tls" || o.At("metadata", "labels", "app") != "web" || o.At("metadata", "annotations", Annotation) != "certificate" {
		t.Errorf("type, label or annotation: %v", o)
	}
	for _, key := range []string{certFile, keyFile, caFile} {
		if len(o.Data()[key]) == 0 {
			t.Errorf("the Secret has no %s", key)
		}
	}
}
