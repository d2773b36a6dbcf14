package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"initbox/internal/failure"
)

// server is an API server with pages of Pods, and nothing else. It counts its requests.
type server struct {
	mu       sync.Mutex
	requests []string
	pods     int  // of shop, of which every hundredth is stuck
	dies     int  // after so many requests, if that is not 0
	expired  bool // the second page is gone
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	n := len(s.requests)
	s.mu.Unlock()
	if s.dies > 0 && n > s.dies {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/log"):
		w.Header().Set("Content-Type", "text/plain")
		for range 1 << 20 { // of a server without a limit
			if _, err := fmt.Fprintln(w, strings.Repeat("x", 100)); err != nil {
				return
			}
		}
	case strings.HasSuffix(r.URL.Path, "/pods"):
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		if limit == 0 {
			limit = s.pods
		}
		if s.expired && from > 0 {
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}`)
			return
		}
		meta, items := map[string]any{}, []any{}
		for i := from; i < min(from+limit, s.pods); i++ {
			items = append(items, onePod(i))
		}
		if from+limit < s.pods {
			meta["continue"] = strconv.Itoa(from + limit)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items})
	default:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"}`)
	}
}

func onePod(i int) any {
	status := map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	if i%100 == 0 {
		status = map[string]any{"phase": "Pending", "startTime": "2026-11-23T11:00:00Z", "initContainerStatuses": []any{map[string]any{"name": "wait", "state": map[string]any{"running": map[string]any{}}}}}
	}
	return map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("web-%04d", i), "namespace": fmt.Sprintf("shop-%d", i%7)},
		"spec": map[string]any{"nodeName": "a", "initContainers": []any{map[string]any{"name": "wait", "image": "initbox:1", "args": []any{"wait-for-service", "tcp://db:5432"}}}, "containers": []any{map[string]any{"name": "main"}}}, "status": status}
}

func (s *server) client(t *testing.T) *Client {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	c, err := NewClient(&rest.Config{Host: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPages pins that all Pods of a large cluster are read in pages, and that lists are read once, not once per Pod.
func TestPages(t *testing.T) {
	s := &server{pods: 5000}
	r, err := Diagnose(context.Background(), s.client(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Checked != 5000 || r.Stuck != 50 || len(r.Pods) != 50 {
		t.Errorf("checked %d, stuck %d, %d entries", r.Checked, r.Stuck, len(r.Pods))
	}
	logs, others := 0, map[string]int{}
	for _, request := range s.requests {
		if strings.HasSuffix(request, "/log") {
			logs++
		} else {
			others[request]++
		}
	}
	if logs != 50 || others["GET /api/v1/pods"] != 10 || len(s.requests) > 50+10+7*6 {
		t.Errorf("%d requests: %d for logs, %v", len(s.requests), logs, others)
	}
	for request, n := range others {
		if n > 1 && request != "GET /api/v1/pods" {
			t.Errorf("%s was sent %d times", request, n)
		}
	}
	if got := strings.Join(r.Pods[0].Log, ""); len(got) > 3*messageLimit {
		t.Errorf("a log of %d bytes", len(got))
	}
}

// TestExpired pins that a list whose pages have expired is read again, in one page.
func TestExpired(t *testing.T) {
	s := &server{pods: 1200, expired: true}
	r, err := Diagnose(context.Background(), s.client(t), Options{Namespace: "shop"})
	if err != nil || r.Checked != 1200 || s.requests[2] != "GET /api/v1/namespaces/shop/pods" {
		t.Errorf("got %v, %+v after %q", err, r, s.requests)
	}
}

// TestNoServer pins what is said if the API server is not there, and that one that dies meanwhile does not hold up the
// rest.
func TestNoServer(t *testing.T) {
	if testing.Short() {
		t.Skip("the client tries again for ten seconds")
	}
	web := httptest.NewServer(http.NotFoundHandler())
	web.Close()
	c, err := NewClient(&rest.Config{Host: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Diagnose(context.Background(), c, Options{Namespace: "shop"})
	if err == nil || !strings.Contains(err.Error(), "list pods in shop: ") || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(failure.Hint(err), "/readyz") {
		t.Errorf("got %v; %s", err, failure.Hint(err))
	}
	s := &server{pods: 300, dies: 1}
	r, err := Diagnose(context.Background(), s.client(t), Options{Namespace: "shop"})
	if err != nil || r.Stuck != 3 || !strings.Contains(strings.Join(r.NotRead, "\n"), "services in shop-0 (") {
		t.Errorf("got %v, %+v", err, r)
	}
	if len(s.requests) > 1+patience*15 {
		t.Errorf("%d requests to a dead server", len(s.requests))
	}
}

// TestForbiddenPods pins the hint for a user who may not list Pods.
func TestForbiddenPods(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`)
	}))
	defer web.Close()
	c, err := NewClient(&rest.Config{Host: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Diagnose(context.Background(), c, Options{})
	if err == nil || err.Error() != "list pods in all namespaces: forbidden" || !strings.Contains(failure.Hint(err), "-n NAMESPACE") {
		t.Errorf("got %v; %s", err, failure.Hint(err))
	}
}
