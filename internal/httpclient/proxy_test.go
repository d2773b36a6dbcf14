package httpclient

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"testing"
)

// TestInCluster pins which hosts are connected to directly.
func TestInCluster(t *testing.T) {
	for host, in := range map[string]bool{
		"mydb":                      true,
		"MyDB":                      true,
		"mydb.ns.svc":               true,
		"mydb.ns.svc.":              true,
		"mydb.ns.SVC.cluster.local": true,
		"mydb.ns.svc.k8s.example":   true,
		"printer.local":             true,
		"localhost":                 true,
		"10.96.0.1":                 true,
		"172.31.255.1":              true,
		"192.168.0.1":               true,
		"127.0.0.2":                 true,
		"169.254.20.10":             true,
		"::1":                       true,
		"fd00::1":                   true,
		"fe80::1%eth0":              true,
		"::ffff:10.0.0.1":           true,
		"mydb.ns":                   false, // it may be a name of the internet
		"example.com":               false,
		"svc.example.com":           false,
		"mysvc":                     true,
		"api.mysvc":                 false,
		"local.example.com":         false,
		"172.32.0.1":                false,
		"203.0.113.1":               false,
		"2001:db8::1":               false,
	} {
		if inCluster(host) != in {
			t.Errorf("%s: %t, want %t", host, !in, in)
		}
	}
}

// TestProxied pins who is connected to: the proxy of the environment for what is
// outside the cluster, except for NO_PROXY; an explicit proxy always. net/http reads
// that environment once in a process, so that the test is one of its own.
func TestProxied(t *testing.T) {
	const marker = "INITBOX_TEST_PROXY"
	if address := os.Getenv(marker); address != "" {
		testProxied(t, address)
		return
	}
	proxy := httptest.NewServer(http.NotFoundHandler())
	defer proxy.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxied$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), marker+"="+proxy.URL, "HTTP_PROXY="+proxy.URL, "NO_PROXY=inside.test",
		"http_proxy=", "no_proxy=", "REQUEST_METHOD=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func testProxied(t *testing.T, address string) {
	proxy, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		target  string
		o       Options
		proxied bool
	}{
		{"http://example.test/", Options{}, true},
		{"http://203.0.113.1/", Options{}, true},
		{"http://inside.test/", Options{}, false},
		{"http://example.test/", Options{NoProxy: true}, false},
		{"http://mydb/", Options{}, false},
		{"http://mydb.ns.svc:8080/", Options{}, false},
		{"http://10.96.0.10/", Options{}, false},
		{"http://mydb/", Options{Proxy: proxy}, true},
		{"http://10.96.0.10/", Options{Proxy: proxy}, true},
		{"http://inside.test/", Options{Proxy: proxy}, true},
	} {
		var connected string
		tt.o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) { // over loopback only
			connected = addr
			if addr != proxy.Host {
				return nil, errors.New("not connected")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := Do(req, tt.o); err == nil {
			resp.Body.Close()
		}
		if proxied := connected == proxy.Host; proxied != tt.proxied {
			t.Errorf("%s with NoProxy %t, Proxy %v: connected to %s, want the proxy: %t", tt.target, tt.o.NoProxy, tt.o.Proxy, connected, tt.proxied)
		}
	}
}
