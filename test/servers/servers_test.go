package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// These tests check the servers themselves: the other tests rely on their documented behavior.

func TestNGINX(t *testing.T) {
	t.Parallel()
	ca := NewCA(t)
	n := StartNGINX(t, NGINXOptions{CA: ca})
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(ca.File)
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatal("no CA:", err)
	}
	secure := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	socket := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", n.Socket)
	}
	post := func(r *http.Request) { r.Method = "POST" }
	basic := func(r *http.Request) { r.SetBasicAuth(NGINXUser, NGINXPassword) }
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+NGINXToken) }
	header := func(r *http.Request) { r.Header.Set("X-Probe", "initbox") }
	plain := new(http.Transport)

	for _, c := range []struct {
		transport *http.Transport
		url       string
		with      func(*http.Request)
		status    int
	}{
		{plain, "http://" + n.HTTP + "/ready", nil, 503},
		{plain, "http://" + n.HTTP + "/basic", nil, 401},
		{plain, "http://" + n.HTTP + "/basic", basic, 200},
		{plain, "http://" + n.HTTP + "/bearer", nil, 401},
		{plain, "http://" + n.HTTP + "/bearer", bearer, 200},
		{plain, "http://" + n.HTTP + "/post", nil, 405},
		{plain, "http://" + n.HTTP + "/post", post, 200},
		{plain, "http://" + n.HTTP + "/header", nil, 400},
		{plain, "http://" + n.HTTP + "/header", header, 200},
		{plain, "http://" + n.HTTP + "/moved", nil, 302},
		{plain, "http://" + n.HTTP + "/loop", nil, 302},
		{&http.Transport{Protocols: &h2c}, "http://" + n.H2C + "/health.json", nil, 200},
		{&http.Transport{DialContext: socket}, "http://socket/health.json", nil, 200},
		{secure, "https://" + n.HTTPS + "/health.json", nil, 200},
		{secure, "https://" + n.HTTPS + "/client-cert", nil, 403},
	} {
		req, err := http.NewRequest("GET", c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.with != nil {
			c.with(req)
		}
		resp, err := c.transport.RoundTrip(req)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: %s, want %d", c.url, resp.Status, c.status)
		}
	}

	n.SetReady(t)
	resp, err := http.Get("http://" + n.HTTP + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != "ready\n" {
		t.Errorf("ready: %s %q", resp.Status, body)
	}
}

func TestHAProxyClosesWithoutBackend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		retries int
		after   time.Duration // at the earliest
	}{{0, 0}, {1, 900 * time.Millisecond}} {
		proxy := StartHAProxy(t, FreeAddr(t), c.retries)
		start := time.Now()
		conn, err := net.Dial("tcp", proxy)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetReadDeadline(time.Now().Add(Patience))
		_, err = conn.Read(make([]byte, 1))
		if took := time.Since(start); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || took < c.after {
			t.Errorf("with %d retries: read: %v after %v, want closed, not before %v", c.retries, err, took, c.after)
		}
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	n := StartNamed(t, Zone{"example.test.", time.Hour, []string{"db A 192.0.2.1"}})
	wantRcode(t, n.Addr, "db.example.test.", dns.RcodeSuccess)
	wantRcode(t, n.Addr, "late.example.test.", dns.RcodeNameError)
	wantRcode(t, n.Addr, "db."+ZoneRefused, dns.RcodeRefused)
	wantRcode(t, n.Addr, "db."+ZoneServfail, dns.RcodeServerFailure)
	wantRcode(t, n.Addr, "elsewhere.", dns.RcodeRefused)
	n.SetRecords(t, "late A 192.0.2.2")
	wantRcode(t, n.Addr, "late.example.test.", dns.RcodeSuccess)
	wantRcode(t, n.Addr, "db.example.test.", dns.RcodeNameError)
}

// The two caches differ in the minimum time for which they keep a denial: unbound has none, CoreDNS five seconds.
func TestCachesRepeatDenials(t *testing.T) {
	t.Parallel()
	t.Run("unbound", func(t *testing.T) {
		t.Parallel()
		authority := StartNamed(t, Zone{"example.test.", 2 * time.Second, nil})
		u := StartUnbound(t, authority)
		repeats(t, u.Addr, func() { authority.SetRecords(t, "late A 192.0.2.2") }, u.Queries)
		wantRcode(t, u.Addr, "elsewhere.", dns.RcodeNameError)
	})
	t.Run("coredns", func(t *testing.T) {
		t.Parallel()
		c := StartCoreDNS(t, Zone{"example.test.", 5 * time.Second, nil})
		repeats(t, c.Addr, func() { c.SetRecords(t, "late A 192.0.2.2") }, c.Queries)
		wantRcode(t, c.Addr, "elsewhere.", dns.RcodeNameError)
	})
}

func repeats(t *testing.T, addr string, appear func(), queries func(string) int) {
	t.Helper()
	const name = "late.example.test."
	start := time.Now()
	denial := wantRcode(t, addr, name, dns.RcodeNameError)
	if len(denial.Ns) != 1 || denial.Ns[0].Header().Rrtype != dns.TypeSOA {
		t.Fatalf("no SOA with the denial: %v", denial)
	}
	ttl := time.Duration(denial.Ns[0].Header().Ttl) * time.Second
	appear()
	asked := 1
	for {
		asked++
		rcode := ask(t, addr, name).Rcode
		took := time.Since(start)
		if rcode == dns.RcodeSuccess {
			if took < ttl-time.Second { // TTLs are whole seconds
				t.Errorf("the denial was forgotten after %v, its TTL is %v", took, ttl)
			}
			break
		}
		if took > ttl+Patience {
			t.Fatalf("%s after %v, though the denial's TTL is %v", dns.RcodeToString[rcode], took, ttl)
		}
		time.Sleep(100 * time.Millisecond)
	}
	for giveUp := time.Now().Add(Patience); queries(name) != asked; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(giveUp) {
			t.Fatalf("%d queries counted, want %d", queries(name), asked)
		}
	}
}

func wantRcode(t *testing.T, addr, name string, want int) *dns.Msg {
	t.Helper()
	reply := ask(t, addr, name)
	if reply.Rcode != want {
		t.Errorf("%s: %s, want %s", name, dns.RcodeToString[reply.Rcode], dns.RcodeToString[want])
	}
	return reply
}

func ask(t *testing.T, addr, name string) *dns.Msg {
	t.Helper()
	client := dns.Client{Timeout: requestWithin}
	reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), addr)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return reply
}

func TestGRPCHealthListens(t *testing.T) {
	t.Parallel()
	ca := NewCA(t)
	h := StartGRPCHealth(t, GRPCHealthOptions{Cert: ca.Server(t, "127.0.0.1")})
	conn, err := tls.Dial("tcp", h.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if p := conn.ConnectionState().NegotiatedProtocol; p != "h2" {
		t.Errorf("protocol %q, want h2", p)
	}
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	const put, get = `{"key": "L2E=", "value": "MQ=="}`, `{"key": "L2E="}`
	for name, o := range map[string]EtcdOptions{"open": {}, "auth": {Auth: true}, "tls": {CA: NewCA(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := StartEtcd(t, o)
			has := func(want bool) {
				t.Helper()
				if status, answer := e.Call(t, "kv/range", get); status != 200 || strings.Contains(answer, "L2E=") != want {
					t.Errorf("the key is there: want %t, got status %d: %s", want, status, answer)
				}
			}
			if status, answer := e.Call(t, "kv/put", put); status != 200 {
				t.Errorf("put: status %d: %s", status, answer)
			}
			e.Kill(t)
			e.Start(t)
			has(true)
			e.Reset(t)
			has(false)
			if status, answer := e.post(t, "", "kv/range", get); (status == 200) == o.Auth {
				t.Errorf("without a token: status %d: %s", status, answer)
			}
		})
	}
}

func TestConsul(t *testing.T) {
	t.Parallel()
	c := StartConsul(t, ConsulOptions{ACL: true})
	if status, answer := c.Call(t, "PUT", "/v1/agent/service/register", `{"Name": "web"}`); status != 200 {
		t.Errorf("register: status %d: %s", status, answer)
	}
	if status, _ := c.Call(t, "GET", "/v1/agent/service/web", ""); status != 200 {
		t.Errorf("registered: status %d, want 200", status)
	}
	c.Reset(t)
	if status, _ := c.Call(t, "GET", "/v1/agent/service/web", ""); status != 404 {
		t.Errorf("after a restart: status %d, want 404", status)
	}
	c.Token = ""
	if status, _ := c.Call(t, "PUT", "/v1/agent/service/register", `{"Name": "web"}`); status != 403 {
		t.Errorf("without a token: status %d, want 403", status)
	}
}

func TestNeed(t *testing.T) {
	const program = "initbox-no-such-program"
	debian[program] = "no-such-package"
	defer delete(debian, program)
	for _, c := range []struct{ ci, want string }{
		{"", "skipped: initbox-no-such-program is not installed"},
		{"true", "failed: initbox-no-such-program is not installed"},
	} {
		t.Setenv("CI", c.ci)
		r := &recorder{TB: t}
		r.watch(func() { Need(r, program) })
		if !strings.HasPrefix(r.ended, c.want) || !strings.HasSuffix(r.ended, "apt-get install no-such-package") {
			t.Errorf("with CI=%q: %q", c.ci, r.ended)
		}
	}
}

// A recorder is a test that records how it ends.
type recorder struct {
	testing.TB
	ended string
}

// watch calls f in a goroutine that f may end, as Fatalf and Skipf do.
func (r *recorder) watch(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (r *recorder) Fatalf(format string, args ...any) { r.end("failed: "+format, args...) }
func (r *recorder) Skipf(format string, args ...any)  { r.end("skipped: "+format, args...) }

func (r *recorder) end(format string, args ...any) {
	r.ended = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
