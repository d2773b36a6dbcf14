package k8s_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/test/fakeapi"
	"initbox/test/servers"
	"initbox/waitfor"
	"initbox/waitfor/target"
)

// apiServer is a fake API server with waits for its objects.
type apiServer struct {
	*fakeapi.Server
	t          *testing.T
	http       *httptest.Server
	kubeconfig string
	logs       servers.Output
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{Server: fakeapi.New(), t: t}
	s.http = httptest.NewServer(s.Server)
	t.Cleanup(s.http.Close)
	t.Cleanup(s.http.CloseClientConnections) // first, so that Close does not wait for watches
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(s.kubeconfig, []byte(fakeapi.Kubeconfig(s.http.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *apiServer) apply(documents ...string) {
	s.t.Helper()
	for _, d := range documents {
		if err := s.Apply(d); err != nil {
			s.t.Fatal(err)
		}
	}
}

// begin waits for the targets in the background, for at most a minute; the function returned returns the result.
func (s *apiServer) begin(targets ...string) (end func() error) {
	s.t.Helper()
	o := target.Options{
		Settings:       target.Settings{"kubeconfig": {s.kubeconfig}},
		AttemptTimeout: 10 * time.Second,
		Log:            slog.New(slog.NewTextHandler(&s.logs, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	var checks []target.Check
	for _, target := range targets {
		check, err := waitfor.Parse(target, o)
		if err != nil {
			s.t.Fatal(err)
		}
		checks = append(checks, check)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- waitfor.All(ctx, o, checks...); cancel() }()
	return func() error { return <-ended }
}

// says waits until the log contains the text.
func (s *apiServer) says(text string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(s.logs.String(), text) })
}

func (s *apiServer) until(what string, is func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if err := poll.Until(ctx, poll.Policy{}, func(context.Context) error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	}); err != nil {
		s.t.Fatalf("no %s; the log:\n%s\nrequests:\n%s", what, s.logs.String(), strings.Join(s.Requests(), "\n"))
	}
}

const (
	jobActive   = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "uid": "u1"}, "spec": {"completions": 1}, "status": {"active": 1}}`
	jobComplete = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "uid": "u1"}, "spec": {"completions": 1}, "status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}}`
	jobFailed   = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "uid": "u1"}, "spec": {"completions": 1}, "status": {"failed": 1, "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}]}}`
	jobPod      = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "migrate-x2x4", "labels": {"batch.kubernetes.io/job-name": "migrate"}, "ownerReferences": [{"kind": "Job", "uid": "u1", "controller": true}], "creationTimestamp": "2026-01-01T00:00:02Z"}, "status": {"phase": "Failed", "containerStatuses": [{"name": "migrate", "ready": false, "state": {"terminated": {"exitCode": 3, "reason": "Error", "message": "no such table:\u001b[31m users\n"}}}]}}`
)

func TestJobStory(t *testing.T) {
	s := newAPIServer(t)
	end := s.begin("k8s:job/migrate")
	s.says("no such Job in namespace default")
	s.apply(jobActive)
	s.says("0 of 1 completion")
	s.apply(jobComplete)
	if err := end(); err != nil {
		t.Error(err)
	}
	s.says("k8s:job/migrate: ready after")
	if want := []string{"list jobs.batch in default fieldSelector=metadata.name=migrate", "watch jobs.batch in default fieldSelector=metadata.name=migrate"}; !slices.Equal(s.Requests(), want) {
		t.Errorf("requests %q, want %q", s.Requests(), want)
	}
}

func TestJobFails(t *testing.T) {
	s := newAPIServer(t)
	s.apply(jobActive, jobPod)
	end := s.begin("k8s:job/migrate", "k8s:job/other")
	s.says("0 of 1 completion")
	s.apply(jobFailed)
	err := end()
	const want = `k8s:job/migrate: Job migrate failed: BackoffLimitExceeded; its last Pod migrate-x2x4: container migrate exited with status 3: no such table:`
	if !poll.IsPermanent(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if err != nil && strings.ContainsAny(err.Error(), "\x1b") {
		t.Errorf("%q contains control characters", err)
	}
}

// TestOneWatch pins that 200 objects of a kind and namespace, under any name of the kind, cost one list and one watch.
func TestOneWatch(t *testing.T) {
	s := newAPIServer(t)
	var targets []string
	for i := range 200 {
		kind := []string{"deploy", "deployments", "Deployment.apps"}[i%3]
		targets = append(targets, fmt.Sprintf("k8s:%s/d%d", kind, i))
	}
	end := s.begin(targets...)
	s.says("k8s:deploy/d0: no such Deployment in namespace default")
	for i := range 200 {
		s.apply(fmt.Sprintf(`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d%d"}, "spec": {"replicas": 0}}`, i))
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if want := []string{"list deployments.apps in default", "watch deployments.apps in default"}; !slices.Equal(s.Requests(), want) {
		t.Errorf("requests %q, want %q", s.Requests(), want)
	}
}

func slice(name, service, ready string) string {
	return fmt.Sprintf(`{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": %q, "labels": {"kubernetes.io/service-name": %q}}, "addressType": "IPv4",
		"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": %s}}]}`, name, service, ready)
}

func service(name string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q}, "spec": {"selector": {"app": %[1]q}}}`, name)
}

// TestServices pins that Services share the watch of their EndpointSlices, and are not confused with each other.
func TestServices(t *testing.T) {
	s := newAPIServer(t)
	s.apply(service("a"), service("b"), slice("a-1", "a", "true"), slice("b-1", "b", "false"))
	end := s.begin("k8s:svc/a", "k8s:svc/b")
	s.says("k8s:svc/a: ready after")
	s.says("k8s:svc/b: no ready endpoint (1 not ready)")
	s.until("two lists and two watches", func() bool { return len(s.Requests()) >= 4 })
	s.apply(slice("b-1", "b", "true"))
	if err := end(); err != nil {
		t.Error(err)
	}
	got := slices.Sorted(slices.Values(s.Requests()))
	want := []string{
		"list endpointslices.discovery.k8s.io in default labelSelector=kubernetes.io/service-name in (a,b)", "list services in default",
		"watch endpointslices.discovery.k8s.io in default labelSelector=kubernetes.io/service-name in (a,b)", "watch services in default",
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

func TestGone(t *testing.T) {
	s := newAPIServer(t)
	s.apply(jobFailed) // not a reason to stop
	end := s.begin("k8s:job/migrate#gone", "k8s:pods?selector=app=none#gone")
	s.says("k8s:pods?selector=app=none: gone after")
	s.says("k8s:job/migrate: still there")
	if err := s.Delete("jobs.batch", "default", "migrate"); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestGoneNeedsProof pins that an object does not count as gone if the API server fails to answer.
func TestGoneNeedsProof(t *testing.T) {
	s := newAPIServer(t)
	s.Answer(500)
	end := s.begin("k8s:job/migrate#gone")
	s.says("k8s:job/migrate: API server: status 500")
	s.Answer(0)
	if err := end(); err != nil {
		t.Error(err)
	}
	refused := newAPIServer(t)
	refused.http.Close()
	refused.begin("k8s:job/migrate#gone")
	refused.says("k8s:job/migrate: API server: connection refused")
	if strings.Contains(refused.logs.String(), "gone after") {
		t.Error("gone, although the API server is down")
	}
}

func TestIfMissing(t *testing.T) {
	s := newAPIServer(t)
	if err := s.begin("k8s:job/migrate#if-missing=ok")(); err != nil {
		t.Error(err)
	}
	err := s.begin("k8s:job/migrate#if-missing=fail")()
	if !poll.IsPermanent(err) || !strings.Contains(err.Error(), "no such Job in namespace default") {
		t.Errorf("%v, want that there is no such Job", err)
	}
}

// TestForbidden pins that a service account without a Role gets the missing Role in the log, once and at once, and that
// the wait continues with the Role.
func TestForbidden(t *testing.T) {
	s := newAPIServer(t)
	s.apply(jobComplete, service("a"), slice("a-1", "a", "true"))
	for _, verb := range []string{"get", "list", "watch"} {
		s.Deny(verb, "jobs.batch", true)
	}
	end := s.begin("k8s:job/migrate", "k8s:svc/a", "k8s:job/migrate#exists")
	s.says("k8s:job/migrate: the service account default/myapp may not list jobs.batch in namespace default")
	s.says("kind: RoleBinding")
	for _, want := range []string{"resourceNames: [migrate]", "endpointslices", "{kind: ServiceAccount, name: myapp, namespace: default}"} {
		if !strings.Contains(s.logs.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, s.logs.String())
		}
	}
	for _, verb := range []string{"get", "list", "watch"} {
		s.Deny(verb, "jobs.batch", false)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(s.logs.String(), "kind: RoleBinding"); n != 1 {
		t.Errorf("the Role is logged %d times:\n%s", n, s.logs.String())
	}
}

func TestUnauthorized(t *testing.T) {
	s := newAPIServer(t)
	s.apply(jobComplete)
	s.Answer(401)
	end := s.begin("k8s:job/migrate")
	s.says("the API server does not accept the credentials (401 Unauthorized)")
	s.Answer(0)
	if err := end(); err != nil {
		t.Error(err)
	}
	s.Answer(400)
	if err := s.begin("k8s:pods?selector=a b")(); !poll.IsPermanent(err) || !strings.Contains(err.Error(), "status 400") {
		t.Errorf("%v, want that it cannot become ready", err)
	}
}

func pod(name, labels, status string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "labels": {%s}}, %s}`, name, labels, status)
}

const (
	podUp     = `"spec": {"nodeName": "n1"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}`
	podUp2    = `"spec": {"nodeName": "n2"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}`
	podDown   = `"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}`
	podFailed = `"spec": {"nodeName": "n1"}, "status": {"phase": "Failed", "reason": "Evicted"}`
)

// TestSelector pins how many matching objects must be ready. Each wait goes on until the log has the expected message.
func TestSelector(t *testing.T) {
	const app = `"app": "web"`
	for _, tt := range []struct {
		target string
		pods   []string
		want   string
	}{
		{"k8s:pods?selector=app=web", nil, "no Pod matches in namespace default"},
		{"k8s:pods?selector=app=web", []string{pod("a", app, podUp), pod("b", `"app": "db"`, podDown)}, "ready after"},
		{"k8s:pods?all", []string{pod("a", app, podUp), pod("b", `"app": "db"`, podDown)}, "1 of 2 ready; Pod b: Running"},
		{"k8s:pods?field-selector=spec.nodeName=n2", []string{pod("a", app, podUp2), pod("b", app, podDown)}, "ready after"},
		{"k8s:pods?selector=app=web#count=1", []string{pod("a", app, podUp), pod("b", app, podDown)}, "ready after"},
		{"k8s:pods?selector=app=web#count=3", []string{pod("a", app, podUp), pod("b", app, podUp)}, "2 of 3 ready; only 2 objects found"},
		{"k8s:pods?selector=app=web", []string{pod("a", app, podUp), pod("b", app, podFailed)}, "1 of 2 ready; Pod b: failed: Evicted"},
		{"k8s:pods?selector=app=web#if-failed=fail", []string{pod("a", app, podUp), pod("b", app, podFailed)}, "1 of 2 ready; Pod b: failed: Evicted"},
		{"k8s:pods?selector=app=web#if-failed=ok", []string{pod("a", app, podFailed)}, "ready after"},
		{"k8s:pods?selector=app=web#if-failed=ok", []string{pod("a", app, podFailed), pod("b", app, podDown)}, "1 of 2 ready; Pod b: Running"},
		{"k8s:pods?selector=app=web#if-failed=some", []string{pod("a", app, podFailed), pod("b", app, podUp)}, "ready after"},
		{"k8s:pods?selector=app=web#if-failed=some", []string{pod("a", app, podFailed)}, "0 of 1 ready; Pod a: failed: Evicted"},
		{"k8s:pods?selector=app=web#if-failed=some", []string{pod("a", app, podFailed), pod("b", app, podUp), pod("c", app, podDown)}, "2 of 3 ready; Pod c: Running"},
		{"k8s:pods?selector=app=web#count=1&same-node=me", []string{pod("me", "", podUp), pod("a", app, podUp2)}, "no Pod matches in namespace default"},
		{"k8s:pods?selector=app=web#count=1&same-node=default/me", []string{pod("me", "", podUp2), pod("a", app, podUp2), pod("b", app, podDown)}, "ready after"},
		{"k8s:pods?selector=app=web#same-node=me", []string{pod("a", app, podUp2)}, "same-node: no such Pod me in namespace default"},
		{"k8s:job/migrate#if-failed=ok", []string{jobFailed}, "ready after"},
		{"k8s:job/migrate#if-failed=wait", []string{jobFailed}, "Job migrate failed"},
		{"k8s:job/migrate#if-failed=some", []string{strings.Replace(jobFailed, `"failed": 1`, `"failed": 1, "succeeded": 1`, 1)}, "ready after"},
	} {
		t.Run(tt.target, func(t *testing.T) {
			s := newAPIServer(t)
			s.apply(tt.pods...)
			s.begin(tt.target)
			s.says(tt.want)
		})
	}
}

// TestFailedSome pins that a Job without any success is not ready with if-failed=some either.
func TestFailedSome(t *testing.T) {
	s := newAPIServer(t)
	s.apply(jobFailed)
	if err := s.begin("k8s:job/migrate#if-failed=some")(); !poll.IsPermanent(err) || !strings.Contains(err.Error(), "Job migrate failed") {
		t.Errorf("%v, want that it cannot become ready", err)
	}
}

// TestFailedJobs pins that the reason is requested for only one of many failed Jobs, and not for Jobs whose failure
// does not matter.
func TestFailedJobs(t *testing.T) {
	for settings, want := range map[string]int{"": 1, "#if-failed=ok": 0} {
		s := newAPIServer(t)
		for i := range 3 {
			s.apply(strings.Replace(jobFailed, "migrate", fmt.Sprintf("migrate-%d", i), 1))
		}
		err := s.begin("k8s:jobs?all" + settings)()
		if settings != "#if-failed=ok" && (err == nil || !strings.Contains(err.Error(), "0 of 3 ready; Job migrate-0: failed: BackoffLimitExceeded")) {
			t.Errorf("%q: %v, want the first Job's reason", settings, err)
		}
		asked := 0
		for _, request := range s.Requests() {
			if strings.HasPrefix(request, "list pods ") {
				asked++
			}
		}
		if asked > want {
			t.Errorf("%q: %d lists of Pods, want %d: %q", settings, asked, want, s.Requests())
		}
	}
}

// TestDaemonSetOnNode pins same-node for a DaemonSet: only its Pod on the node counts.
func TestDaemonSetOnNode(t *testing.T) {
	set := func(scheduled int) string {
		return fmt.Sprintf(`{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}},
			"status": {"desiredNumberScheduled": 2, "currentNumberScheduled": %d}}`, scheduled)
	}
	s := newAPIServer(t)
	s.apply(set(1), pod("me", "", podUp), pod("agent-2", `"app": "agent"`, podUp2))
	end := s.begin("k8s:daemonset/agent#same-node=me")
	s.says("none of its Pods is on this node yet")
	s.apply(pod("agent-1", `"app": "agent"`, podDown))
	s.says("its Pod agent-1 on this node: Running")
	s.apply(pod("agent-1", `"app": "agent"`, podUp))
	if err := end(); err != nil {
		t.Error(err)
	}
	// An old, evicted Pod exists beside the new one.
	s = newAPIServer(t)
	s.apply(set(1), pod("me", "", podUp), pod("agent-1", `"app": "agent"`, podFailed), pod("agent-2", `"app": "agent"`, podUp))
	if err := s.begin("k8s:daemonset/agent#same-node=me")(); err != nil {
		t.Error(err)
	}
	// A node that should not have a Pod.
	s = newAPIServer(t)
	s.apply(set(2), pod("me", "", podUp), pod("agent-2", `"app": "agent"`, podUp2))
	if err := s.begin("k8s:daemonset/agent#same-node=me")(); err != nil {
		t.Error(err)
	}
}

// TestUnknownKind pins that a kind may be defined during the wait.
func TestUnknownKind(t *testing.T) {
	s := newAPIServer(t)
	end := s.begin("k8s:widgets.example.com/a")
	s.says("k8s:widgets.example.com/a: the API server has no kind of that name")
	s.Define(kube.Resource{Group: "example.com", Version: "v1", Name: "widgets", Kind: "Widget", Namespaced: true})
	s.says("no such Widget in namespace default")
	s.apply(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`)
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestNamespaces pins which namespace a target means.
func TestNamespaces(t *testing.T) {
	s := newAPIServer(t)
	s.apply(strings.Replace(jobComplete, `"name"`, `"namespace": "shop", "name"`, 1), `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}, "status": {"phase": "Active"}}`)
	if err := s.begin("k8s:job/migrate?namespace=shop", "k8s:job/migrate#namespace=shop", "k8s:ns/shop?namespace=other", "k8s:job/migrate?namespace=shop#namespace=x")(); err != nil {
		t.Error(err)
	}
}

// TestServerComesBack pins that the failure of an API server is reported, and that the wait survives it.
func TestServerComesBack(t *testing.T) {
	s := newAPIServer(t)
	s.apply(jobActive)
	end := s.begin("k8s:job/migrate")
	s.says("0 of 1 completion")
	s.Answer(503)
	s.says("API server: status 503")
	s.apply(jobComplete)
	s.Answer(0)
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestAlone pins that a check works outside a wait.
func TestAlone(t *testing.T) {
	s := newAPIServer(t)
	check, err := waitfor.Parse("k8s:job/migrate#kubeconfig="+s.kubeconfig, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Check(t.Context()); err == nil || failure.Of(err).Class != failure.Missing {
		t.Errorf("%v, want that it is missing", err)
	}
	s.apply(jobComplete)
	if err := check.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNoCluster pins the errors without an API server.
func TestNoCluster(t *testing.T) {
	inPod := map[string]string{"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
	for _, tt := range []struct {
		target string
		env    map[string]string
		want   string
	}{
		{"k8s:job/a", nil, "there is no cluster here, and no kubeconfig file"},
		{"k8s:job/a", map[string]string{"HOME": t.TempDir()}, "there is no cluster here, and no kubeconfig file"},
		{"k8s:job/a", inPod, "this Pod has no service account token"},
		{"k8s:job/a#context=x", inPod, "context needs a kubeconfig file"},
	} {
		o := target.Options{Getenv: func(name string) string { return tt.env[name] }}
		check, err := waitfor.Parse(tt.target, o)
		if err != nil {
			t.Fatal(err)
		}
		err = waitfor.All(t.Context(), o, check)
		if !poll.IsPermanent(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.target, err, tt.want)
		}
	}
}
