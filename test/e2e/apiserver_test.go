package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The load that a wait puts on the API server, and its reaction to one that dies or hangs.

// Two hundred objects cost one list and one watch.
func TestTwoHundredObjects(t *testing.T) {
	n := newNamespace(t)
	var lists, watches atomic.Int32
	upstream, err := url.Parse(proxy)
	if err != nil {
		n.Fatal(err)
	}
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(upstream)
		r.Out.Host = "" // kubectl proxy only accepts its own name
		switch query := r.In.URL.Query(); {
		case !strings.HasSuffix(r.In.URL.Path, "/configmaps"):
		case query.Get("watch") != "":
			watches.Add(1)
		default:
			lists.Add(1)
		}
	}}
	counting := httptest.NewServer(http.Handler(forward))
	defer counting.Close()
	defer counting.CloseClientConnections()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "`+counting.URL+`"}}], "users": [{"name": "c", "user": {}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}`), 0o600); err != nil {
		n.Fatal(err)
	}

	const objects = 200
	targets, manifests := []string{}, []string{}
	for i := range objects {
		targets = append(targets, fmt.Sprintf("k8s:configmap/c-%d#key=k", i))
		manifests = append(manifests, fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-%d"}, "data": {"k": "v"}}`, i))
	}
	began := time.Now()
	wait := n.await(append(targets, "--kubeconfig", kubeconfig)...)
	wait.until(`configmap/c-`)
	n.applyText(`{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(manifests, ",") + `]}`)
	if status, _ := wait.exit(); status != 0 {
		t.Fatalf("exit status %d:\n%s", status, wait)
	}
	took := time.Since(began)
	t.Logf("%d objects in %v: %d lists, %d watches", objects, took.Round(time.Millisecond), lists.Load(), watches.Load())
	if most := 1 + int32(took/(15*time.Second)); lists.Load() != 1 || watches.Load() > most { // each watch ends after about 20 s, and is followed by another
		t.Errorf("%d lists and %d watches, want 1 and at most %d", lists.Load(), watches.Load(), most)
	}
}

// A wait survives the API server: it reports that the server is not reachable, and continues when it is back.
func TestAPIServerKilled(t *testing.T) {
	n := newNamespace(t)
	if ours == "" {
		t.Skip("only test/cluster lets a test kill the API server")
	}
	wait := n.await("k8s:configmap/settings")
	wait.until(`k8s:configmap/settings: `)
	n.script("signal.sh", "KILL", "kube-apiserver")
	said := wait.until(`refused|reset|closed|EOF`)
	t.Logf("the wait says: %s", said.text)
	n.untilServed()
	n.kubectl("create", "configmap", "settings")
	if status, _ := wait.exit(); status != 0 {
		n.Errorf("exit status %d", status)
	}
	t.Logf("it said\n%s", wait)
}

// A wait notices an API server that hangs, as behind a dead load balancer.
func TestAPIServerHangs(t *testing.T) {
	n := newNamespace(t)
	if ours == "" {
		t.Skip("only test/cluster lets a test stop the API server")
	}
	wait := n.await("k8s:configmap/settings")
	wait.until(`k8s:configmap/settings: `)
	hung := time.Now()
	n.script("signal.sh", "STOP", "kube-apiserver")
	resume := func() { n.script("signal.sh", "CONT", "kube-apiserver") }
	defer resume()
	said := wait.until(`k8s:configmap/settings: API server: .*no answer`)
	t.Logf("noticed after %v: %s", said.at.Sub(hung).Round(time.Millisecond), said.text)
	if took := said.at.Sub(hung); took > 60*time.Second { // twice the promised time, on a busy machine
		n.Errorf("noticed only after %v", took)
	}
	resume()
	n.untilServed()
	n.kubectl("create", "configmap", "settings")
	if status, _ := wait.exit(); status != 0 {
		n.Errorf("exit status %d:\n%s", status, wait)
	}
}

// untilServed waits until the API server answers, and the node is ready.
func (n namespace) untilServed() {
	n.Helper()
	n.eventually("wait", "--for=condition=Ready", "node", "--all", "--timeout=5s", "--request-timeout=10s")
}
