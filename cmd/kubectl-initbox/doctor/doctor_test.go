package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	sigyaml "sigs.k8s.io/yaml"

	"initbox/internal/kube"
)

// now is the time of all tests.
var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// ago returns a time before now, for manifests.
func ago(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }

// state is a cluster with the objects of manifests.
type state struct {
	*Client
	mu        sync.Mutex
	objects   []kube.Object // in the order of an API server: by namespace and name
	forbidden []string      // such as "GET events"
	allowed   func(spec kube.Object) bool
	kinds     string // the answer for all kinds that are not built in
	log       string // of every container
}

func clusterOf(t *testing.T, manifests string) *state {
	t.Helper()
	s := &state{allowed: func(kube.Object) bool { return false }, kinds: "[]", log: "fake logs\n"}
	for _, document := range strings.Split(manifests, "\n---\n") {
		var o kube.Object
		if err := sigyaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		s.objects = append(s.objects, o)
	}
	slices.SortFunc(s.objects, func(a, b kube.Object) int {
		return cmp.Or(strings.Compare(a.Namespace(), b.Namespace()), strings.Compare(a.Name(), b.Name()))
	})
	var err error
	if s.Client, err = NewClient(&rest.Config{Host: "http://cluster", Transport: s}); err != nil {
		t.Fatal(err)
	}
	return s
}

// RoundTrip answers without a network, so that tests have a time of their own.
func (s *state) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code, answer := s.answer(r)
	body, err := json.Marshal(answer)
	if text, ok := answer.(string); ok {
		body = []byte(text)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, err
}

func (s *state) answer(r *http.Request) (code int, answer any) {
	resource, one := kube.Lookup(path.Base(path.Dir(r.URL.Path)))
	if list, ok := kube.Lookup(path.Base(r.URL.Path)); ok {
		resource, one = list, false
	}
	switch last := path.Base(r.URL.Path); {
	case slices.Contains(s.forbidden, r.Method+" "+last):
		return failed(403, "Forbidden")
	case last == "log":
		return 200, s.log
	case last == "api":
		return 200, `{"kind": "APIGroupDiscoveryList", "items": []}`
	case last == "apis":
		return 200, `{"kind": "APIGroupDiscoveryList", "items": ` + s.kinds + `}`
	case last == "subjectaccessreviews":
		var review struct{ Spec kube.Object }
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return failed(400, "BadRequest")
		}
		return 201, map[string]any{"status": map[string]any{"allowed": s.allowed(review.Spec)}}
	}
	items := []any{}
	for _, o := range s.objects {
		of, _ := kube.Lookup(fmt.Sprint(o["kind"]))
		switch r.URL.Path {
		case on(s.rest.Get(), of, o.Namespace()).Name(o.Name()).URL().Path:
			return 200, o
		case on(s.rest.Get(), of, o.Namespace()).URL().Path, on(s.rest.Get(), of, "").URL().Path:
			item := maps.Clone(o)
			delete(item, "kind")
			delete(item, "apiVersion")
			if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
				item = kube.Object{"metadata": o["metadata"]}
			}
			items = append(items, item)
		}
	}
	if one || resource.Name == "" {
		return failed(404, "NotFound")
	}
	return 200, map[string]any{"kind": resource.Kind + "List", "metadata": map[string]any{}, "items": items}
}

func failed(code int, reason string) (int, any) {
	return code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
}

// diagnose returns the text for the namespace shop.
func (s *state) diagnose(t *testing.T, names ...string) string {
	t.Helper()
	r, err := Diagnose(context.Background(), s.Client, Options{Namespace: "shop", Names: names, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWaiting(t *testing.T) {
	c := clusterOf(t, `
apiVersion: v1
kind: Pod
metadata: {name: web-7d-x, namespace: shop, creationTimestamp: "`+ago(3*time.Minute)+`"}
spec:
  nodeName: a
  initContainers:
  - {name: wait, image: "initbox:1.0.0", args: [wait-for-service, "postgres://pgg/shop"]}
  containers: [{name: web, image: web}]
status:
  phase: Pending
  startTime: "`+ago(133*time.Second)+`"
  initContainerStatuses:
  - name: wait
    restartCount: 2
    state: {waiting: {reason: CrashLoopBackOff, message: "back-off 2m0s restarting failed container=wait"}}
    lastState: {terminated: {exitCode: 124, startedAt: "`+ago(90*time.Second)+`", finishedAt: "`+ago(50*time.Second)+`", message: "postgres://pgg/shop: no such name\n"}}
---
apiVersion: v1
kind: Service
metadata: {name: pg, namespace: shop}
spec: {selector: {app: pg}, ports: [{port: 5432}]}
`)
	want := `Pod shop/web-7d-x: Init:0/1 for 2m13s, held by "wait" (wait-for-service), started 3 times, last status 124 (its deadline passed) after 40s
  message: postgres://pgg/shop: no such name
  postgres://pgg/shop  no Service pgg in shop; near: pg (0 ready endpoints) → pg instead of pgg in spec.initContainers[0].args[1] (in its manifest: delete the Pod and create it again)
next start in about 1m10s (CrashLoopBackOff)
`
	if got := c.diagnose(t); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
