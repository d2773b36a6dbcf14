package inpod

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"initbox/internal/mounts"
	"initbox/internal/resolver"
	"initbox/test/fakeapi"
)

// text returns the report of the items and problems that look finds.
func text(look func(*section)) string {
	var s section
	look(&s)
	r := Report{Groups: []Group{{"group", s.items}}, Problems: s.problems}
	return r.Text()
}

func requireLines(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(text) {
			t.Errorf("no match of %s in\n%s", pattern, text)
		}
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProcess(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/proc/self/status", "Name:\tinitbox\nUid:\t65532\t65532\t65532\t65532\nGid:\t65532\t65532\t65532\t65532\nGroups:\t2000 3000 \n"+
		"CapEff:\t0000000000000401\nCapBnd:\t000001fffffffffe\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n")
	write(t, root+"/proc/self/attr/current", "cri-containerd.apparmor.d (enforce)\n")
	got := text(func(s *section) { process(t.Context(), &Options{Root: root}, s) })
	requireLines(t, got, `^  user +65532$`, `^  groups +65532; supplementary: 2000, 3000$`, `^  capabilities +CHOWN, NET_BIND_SERVICE$`,
		`^  bounding set +all but CHOWN$`, `^  ambient set +none$`, `^  no_new_privs +yes$`, `^  seccomp +filter$`, `^  security module +cri-containerd\.apparmor\.d \(enforce\)$`)

	write(t, root+"/proc/self/status", "\x1b[2J\nUid:\nCapEff:\tnothing\n")
	requireLines(t, text(func(s *section) { process(t.Context(), &Options{Root: root}, s) }), `^  capabilities +unknown$`)
}

func TestLimits(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"GOMEMLIMIT": "100MiB"}[name] }
	for _, test := range []struct {
		files map[string]string
		want  []string
	}{
		{map[string]string{"memory.max": "134217728", "memory.current": "5000000", "memory.events": "low 0\noom 3\noom_kill 2\n", "cpu.max": "50000 100000",
			"cpu.stat": "usage_usec 1\nnr_periods 40\nnr_throttled 7\n", "pids.current": "9", "pids.max": "9"}, []string{
			`^! memory +5\.0 MB of 134\.2 MB in use$`, `^problem: memory: processes that the kernel has killed for lack of memory: 2$`,
			`^  CPU +0\.5 cores, reached in 7 of 40 periods$`, `^! threads +9 of 9$`, `^  GOMEMLIMIT +100MiB$`,
		}},
		{map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "1000", "cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000",
			"pids/pids.current": "3", "pids/pids.max": "max"}, []string{
			`^  memory +1\.0 kB of any size in use$`, `^  CPU +no limit$`, `^  threads +3 of any number$`, `^no problem found$`,
		}},
	} {
		root := t.TempDir()
		for name, content := range test.files {
			write(t, root+"/sys/fs/cgroup/"+name, content+"\n")
		}
		write(t, root+"/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1048576              1048576              files\n")
		got := text(func(s *section) { limits(t.Context(), &Options{Root: root, Getenv: getenv}, s) })
		requireLines(t, got, append(test.want, `^  open files +at most 1048576$`)...)
	}
}

func TestProxyHost(t *testing.T) {
	for value, want := range map[string]string{
		"http://proxy:3128": "proxy:3128", "proxy:3128": "proxy:3128", "http://u:p@proxy:3128/x?y": "proxy:3128", "u:p@[fd00::1]:3128": "[fd00::1]:3128",
		"http://u:p%40ss@proxy": "proxy", "u:p@ss word": "set, and not a URL", "secret%zz": "set, and not a URL", "": "set, and not a URL",
	} {
		if got := proxyHost(value); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// TestReplies reports name servers of which one is slow, one refuses, and one has a search domain that it cannot ask.
func TestReplies(t *testing.T) {
	server := func(n byte) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, n}), 53) }
	domains := []string{"shop.svc.cluster.local.", "cluster.local.", "corp.example.", "."}
	gone := reply{kind: resolver.NoSuchName, text: "no such name", took: 2 * time.Millisecond}
	found := reply{records: 1, took: time.Millisecond}
	broken := reply{kind: resolver.ServerFailure, text: "server failure (SERVFAIL)", took: time.Second}
	refused := reply{kind: resolver.Refused, text: "refused (connection refused)"}
	got := text(func(s *section) {
		servers := []netip.AddrPort{server(9), server(10)}
		replies := [][]reply{{refused, refused, refused, refused}, {gone, found, broken, broken}}
		reportServers(servers, replies, s)
		reportDomains(domains, replies, true, s)
	})
	requireLines(t, got, `^! 10\.96\.0\.9:53 +refused \(connection refused\)$`, `^  10\.96\.0\.10:53 +answers in 1ms$`,
		`^  kubernetes\.default\.svc\.shop\.svc\.cluster\.local +no such name in 2ms$`, `^  kubernetes\.default\.svc\.cluster\.local +1 address record in 1ms$`,
		`^! kubernetes\.default\.svc\.corp\.example +server failure \(SERVFAIL\) in 1s$`, `^  kubernetes\.default\.svc +server failure`,
		`^problem: kubernetes\.default\.svc\.corp\.example: server failure \(SERVFAIL\): each lookup of a short name waits`)
	if strings.Count(got, "problem: ") != 2 {
		t.Errorf("want 2 problems:\n%s", got)
	}
	got = text(func(s *section) {
		reportServers([]netip.AddrPort{server(9)}, [][]reply{{gone, gone, gone, gone}}, s)
		reportDomains(domains, [][]reply{{gone, gone, gone, gone}}, true, s)
	})
	requireLines(t, got, `the name server does not know kubernetes\.default\.svc$`)
}

// TestVolumeThatDoesNotExist is about a mount that lies below another one, say.
func TestVolumeThatDoesNotExist(t *testing.T) {
	got := text(func(s *section) {
		volume(mounts.Point{Path: t.TempDir() + "/x", Root: "/var/lib/kubelet/pods/1-2/volumes/kubernetes.io~empty-dir/data", Type: "ext4"}, s)
	})
	requireLines(t, got, `/x +emptyDir data \(ext4\); unknown: `)
}

// server starts an API server with TLS, and returns a Getenv with a kubeconfig for it.
func server(t *testing.T, handler http.Handler, ca, token string) func(string) string {
	t.Helper()
	api := httptest.NewUnstartedServer(handler)
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	if ca == "" {
		ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}))
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, fmt.Sprintf(`{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
		"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}], "users": [{"name": "u", "user": {"token": %q}}]}`,
		api.URL, base64.StdEncoding.EncodeToString([]byte(ca)), token))
	return func(name string) string { return map[string]string{"KUBECONFIG": file}[name] }
}

// jwt returns a token without a signature, with the claims given.
func jwt(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part([]byte(claims)) + ".signature"
}

func TestAPIServer(t *testing.T) {
	api := fakeapi.New()
	if err := api.Grant(`[{"verbs":["get"],"resources":["pods","configmaps"]},{"verbs":["create"],"resources":["selfsubjectaccessreviews"]}]`); err != nil {
		t.Fatal(err)
	}
	in := func(d time.Duration) string {
		return jwt(fmt.Sprintf(`{"sub":"system:serviceaccount:shop:web","exp":%d}`, time.Now().Add(d).Unix()))
	}
	shifted := func(d time.Duration) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(d).UTC().Format(http.TimeFormat))
			api.ServeHTTP(w, r)
		})
	}
	denied := fakeapi.New()
	denied.Deny("create", "selfsubjectreviews", true)
	denied.Deny("create", "selfsubjectrulesreviews", true)
	for _, test := range []struct {
		name   string
		getenv func(string) string
		want   []string
	}{
		{"well", server(t, api, "", in(time.Hour)), []string{
			`^  address +127\.0\.0\.1:\d+$`, `^  answer +TCP in .*, TLS in .*, v1\.99\.0 in `, `^  clock +as ours$`,
			`^  token +of system:serviceaccount:shop:web, expires in (1h0m0s|59m5\ds)$`, `^  account +system:serviceaccount:default:myapp$`,
			`^  rights in shop +get pods configmaps$`, `^no problem found$`,
		}},
		{"old token", server(t, api, "", in(-time.Hour)), []string{`^! token .*expired 1h0m\d+s ago$`, `^problem: token: the token has expired\n  fix: `}},
		{"clock", server(t, shifted(time.Hour), "", in(time.Hour)), []string{`^! clock +ours is (1h0m0s|59m5\ds) behind$`, `^problem: clock: the clocks differ`}},
		{"clock ahead", server(t, shifted(-time.Hour), "", "opaque"), []string{`^! clock +ours is (59m5\d|1h0m\d)s ahead$`}},
		{"no reviews", server(t, denied, "", "opaque"), []string{`^  account +unknown: status 403 Forbidden$`, `^  rights in shop +unknown: status 403 Forbidden$`}},
		{"no API", server(t, http.NotFoundHandler(), "", "opaque"), []string{`^  answer .*404 Not Found in `, `^  account +unknown: `}},
		{"hostile", server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"gitVersion": "v1\nproblem: x\u001b[2J", "metadata": {"name": "\n"}, "status": {"userInfo": {"username": "a\nb"}, "resourceRules": [3, {"verbs": {}, "resources": ["\n!"]}, null]}}`)
		}), "", jwt("nonsense")), []string{`v1\\nproblem: x\\x1b\[2J in `, `^  account +a\\nb$`, `^  rights in shop +none$`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := text(func(s *section) { apiServer(t.Context(), &Options{Getenv: test.getenv}, s) })
			requireLines(t, got, test.want...)
			if strings.Contains(got, "signature") || strings.Contains(got, "opaque") || strings.Contains(got, "\nproblem: x") {
				t.Errorf("what is from outside is shown as it is:\n%s", got)
			}
		})
	}
}

// TestNoToken looks at the API server of a Pod without a service account's token: only whether it can be reached.
func TestNoToken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	getenv := func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}[name]
	}
	look := func() string { return text(func(s *section) { apiServer(t.Context(), &Options{Getenv: getenv}, s) }) }
	requireLines(t, look(), `^  account +this Pod has no service account token$`, `^  answer +TCP in `, `^no problem found$`)
	l.Close()
	requireLines(t, look(), `^  answer +connection refused$`, `^no problem found$`)
}

// TestLookEnds pins that an API server without an answer holds up no report.
func TestLookEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := Look(ctx, Options{Getenv: func(string) string { return "" }, Root: t.TempDir()})
	if len(r.Groups) != len(groups) {
		t.Errorf("%d groups, want %d", len(r.Groups), len(groups))
	}
}
