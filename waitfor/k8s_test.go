package waitfor

import (
	"context"
	"encoding/json"
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
)

// apiServer is a fake API server, and waits for its objects.
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
	t.Cleanup(s.http.CloseClientConnections) // before, so that no watch is waited for
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

// begin waits for the targets in the background, for a minute at most, and
// returns a function that returns how it ended.
func (s *apiServer) begin(targets ...string) (end func() error) {
	s.t.Helper()
	o := Options{
		Settings:       Settings{"kubeconfig": {s.kubeconfig}},
		AttemptTimeout: 10 * time.Second,
		Log:            slog.New(slog.NewTextHandler(&s.logs, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	var checks []Check
	for _, target := range targets {
		check, err := Parse(target, o)
		if err != nil {
			s.t.Fatal(err)
		}
		checks = append(checks, check)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- All(ctx, o, checks...); cancel() }()
	return func() error { return <-ended }
}

// says waits until the log has the text.
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

func TestK8sJobStory(t *testing.T) {
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

func TestK8sJobFails(t *testing.T) {
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
		t.Errorf("%q has what a terminal obeys", err)
	}
}

// TestK8sParse pins how targets are shown, and what is said of those that are
// none.
func TestK8sParse(t *testing.T) {
	for text, want := range map[string]string{
		"k8s:job/migrate":                                            "k8s:job/migrate",
		"K8S:Job.batch/migrate#exists":                               "k8s:Job.batch/migrate",
		"k8s:pods?selector=app=web,tier in (a,b)":                    "k8s:pods?selector=app=web,tier in (a,b)",
		"k8s:pods?selector=app%3Dweb&namespace=shop#count=2":         "k8s:pods?selector=app=web&namespace=shop",
		"k8s:pods?all":                                               "k8s:pods?all",
		"k8s:pods?field-selector=spec.nodeName=n1":                   "k8s:pods?field-selector=spec.nodeName=n1",
		"k8s:clusterrole/system:node#exists":                         "k8s:clusterrole/system:node",
		`k8s:po/a#jsonpath={.status.x[?(@.name=="app")].ready}=true`: "k8s:po/a",
		"k8s:pods?selector=a=\x7f":                                   "is not a URL",
		"k8s:":                                                       "k8s:…: want k8s:KIND/NAME",
		"k8s://job/migrate":                                          "k8s:…: want k8s:KIND/NAME, k8s:KIND?selector=LABELS or k8s:KIND?all, without //",
		"k8s:job":                                                    "which objects?",
		"k8s:job/":                                                   "is a variable not set?",
		"k8s:job/a/b":                                                "k8s:KIND/NAME?namespace=NAMESPACE",
		"k8s:job/a?selector=x":                                       "exclude each other",
		"k8s:pods?all&selector=x":                                    "exclude each other",
		"k8s:pods?selector=":                                         "is a variable not set?",
		"k8s:pods?selector=a=b&selector=c=d":                         "given twice",
		"k8s:pods?label=x":                                           "what stands after ? is unknown",
		"k8s:pods?selectr=x":                                         "did you mean ?selector=",
		"k8s:pods?all=1":                                             "takes no value",
		"k8s:pods?all&namespace=a/b":                                 "not a name that a namespace can have",
		"k8s:job/a#endpoints=2":                                      "k8s:job/a: endpoints: is for Services",
		"k8s:widget.example.com/a#key=x":                             "key: is for Secrets and ConfigMaps",
		"k8s:svc/a#endpoints=0":                                      "endpoints: want a whole number from 1",
		"k8s:svc/a#endpoints=all":                                    "k8s:svc/a",
		"k8s:job/a#if-missing=maybe":                                 "if-missing: want one of wait, ok, fail",
		"k8s:job/a#exists&condition=Complete":                        "exists and condition exclude each other",
		"k8s:job/a#gone&exists":                                      "gone and exists exclude each other",
		"k8s:job/a#gone&if-missing=ok":                               "gone and if-missing exclude each other",
		"k8s:pod/a#count=2":                                          "count: is for a selector",
		"k8s:pod/a#same-node=b":                                      "same-node: is for Pods by a selector",
		"k8s:pods?all#same-node=$(POD_NAME)":                         "is a variable not set?",
		"k8s:pods?all#condition==":                                   "condition: want NAME or NAME=VALUE",
		"k8s:job/a#jsonpath={.a":                                     "jsonpath: want a JSONPath",
		"k8s:job/a#jsonpath={.a}{.b}":                                "jsonpath: want a JSONPath",
		"k8s:job/a#jsonpath={range .a[*]}{.b}{end}":                  "jsonpath: want a JSONPath",
		"k8s:job/a#jsonpath=.a>=x":                                   "jsonpath: >= wants a number",
		"k8s:job/a#jsonpath=.a=/(/":                                  "jsonpath: not a regular expression",
		"k8s:job/a#statu=1":                                          "setting 1 after # is unknown",
		"k8s:job/${file:/x}":                                         "are not secret",
	} {
		said := ""
		check, err := Parse(text, Options{})
		if err != nil {
			said = err.Error()
		} else {
			said = check.String()
		}
		if !strings.Contains(said, want) || err == nil && said != want {
			t.Errorf("%s: %q, want %q", text, said, want)
		}
	}
}

// TestK8sOneWatch pins that 200 objects of a kind and namespace, by whichever
// name of the kind, cost one list and one watch.
func TestK8sOneWatch(t *testing.T) {
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

// TestK8sServices pins that Services share the watch of their EndpointSlices,
// and are not taken for one another.
func TestK8sServices(t *testing.T) {
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

func TestK8sGone(t *testing.T) {
	s := newAPIServer(t)
	s.apply(jobFailed) // which is no reason to stop
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

// TestK8sGoneNeedsProof pins that an API server which does not tell proves
// nothing.
func TestK8sGoneNeedsProof(t *testing.T) {
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
		t.Error("gone, by a server that is not there")
	}
}

func TestK8sIfMissing(t *testing.T) {
	s := newAPIServer(t)
	if err := s.begin("k8s:job/migrate#if-missing=ok")(); err != nil {
		t.Error(err)
	}
	err := s.begin("k8s:job/migrate#if-missing=fail")()
	if !poll.IsPermanent(err) || !strings.Contains(err.Error(), "no such Job in namespace default") {
		t.Errorf("%v, want that there is no such Job", err)
	}
}

// TestK8sMissingForLong pins that after a while there is a word on why that may
// never end.
func TestK8sMissingForLong(t *testing.T) {
	for target, want := range map[string]string{
		"k8s:job/migrate":           "may it have finished already, and its TTL have removed it? then add #if-missing=ok",
		"k8s:pod/web":               "is it in another namespace (?namespace=)?",
		"k8s:pods?selector=app=web": "are the labels right",
	} {
		check, err := Parse(target, Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := check.(*k8sCheck)
		f := failure.Of(c.notThere(k8sSource{resource: c.resource, namespace: "default"}))
		if f.Note != "" || !strings.Contains(f.Hint, want) {
			t.Errorf("%s: at first %q, hint %q", target, f, f.Hint)
		}
		c.missing = time.Now().Add(-k8sMissingLong)
		f = failure.Of(c.notThere(k8sSource{resource: c.resource, namespace: "default"}))
		if !strings.Contains(f.Note, "may never come") || !strings.Contains(f.Note, want) {
			t.Errorf("%s: later %q", target, f)
		}
	}
}

// TestK8sForbidden pins the story of a service account without a Role: what is
// missing is said, once and at once, and with the Role the wait goes on.
func TestK8sForbidden(t *testing.T) {
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
		t.Errorf("the Role is told %d times:\n%s", n, s.logs.String())
	}
}

func TestK8sUnauthorized(t *testing.T) {
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

// TestK8sGrantOfUnknownKind pins that a Role made by a guess does not stay when
// the server has told what the kind is.
func TestK8sGrantOfUnknownKind(t *testing.T) {
	c := &k8sCheck{target: &target{}, k8sQuery: k8sQuery{kindName: "widget", name: "w"}}
	k := &k8sCluster{namespace: "default", checks: []*k8sCheck{c}}
	if grant := k.grants(account{}); !strings.Contains(grant, "resources: [widgets], resourceNames: [w], verbs: [list, watch]} # a guess") {
		t.Errorf("before it is known: %s", grant)
	}
	c.source.resource = kube.Resource{Group: "example.org", Version: "v1", Name: "widgets", Kind: "Widget", Namespaced: true}
	if grant := k.grants(account{}); !strings.Contains(grant, "apiGroups: [example.org]") || strings.Contains(grant, "a guess") {
		t.Errorf("when it is known: %s", grant)
	}
}

// TestK8sStillThere pins what is said of objects that are to go.
func TestK8sStillThere(t *testing.T) {
	for want, objects := range map[string][]string{
		"nobody has deleted it":                              {`{"metadata": {"name": "a"}}`},
		"being deleted, but for its finalizer example.org/x": {`{"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.org/x"]}}`},
		"2 objects":                     {`{"metadata": {"name": "a"}}`, `{"metadata": {"name": "b"}}`},
		"2 objects; b is being deleted": {`{"metadata": {"name": "a"}}`, `{"metadata": {"name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z"}}`},
	} {
		var all []kube.Object
		for _, text := range objects {
			var o kube.Object
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			all = append(all, o)
		}
		if got := failure.Of(stillThere(all)).Text; got != want {
			t.Errorf("%s: %q, want %q", objects, got, want)
		}
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

// TestK8sSelector pins how many of the objects that match have to be ready. Each
// target is waited for until it says what is wanted.
func TestK8sSelector(t *testing.T) {
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
		{"k8s:pods?selector=app=web#count=3", []string{pod("a", app, podUp), pod("b", app, podUp)}, "2 of 3 ready; only 2 objects to choose from"},
		{"k8s:pods?selector=app=web", []string{pod("a", app, podUp), pod("b", app, podFailed)}, "1 of 2 ready; Pod b: failed: Evicted"},
		{"k8s:pods?selector=app=web#if-failed=fail", []string{pod("a", app, podUp), pod("b", app, podFailed)}, "1 of 2 ready; Pod b: failed: Evicted"},
		{"k8s:pods?selector=app=web#if-failed=ok", []string{pod("a", app, podFailed)}, "ready after"},
		{"k8s:pods?selector=app=web#if-failed=ok", []string{pod("a", app, podFailed), pod("b", app, podDown)}, "1 of 2 ready; Pod b: Running"},
		{"k8s:pods?selector=app=web#if-failed=some", []string{pod("a", app, podFailed), pod("b", app, podUp)}, "ready after"},
		{"k8s:pods?selector=app=web#if-failed=some", []string{pod("a", app, podFailed)}, "0 of 1 ready; Pod a: failed: Evicted"},
		{"k8s:pods?selector=app=web#if-failed=some", []string{pod("a", app, podFailed), pod("b", app, podUp), pod("c", app, podDown)}, "2 of 3 ready; Pod c: Running"},
		{"k8s:pods?selector=app=web#count=1&same-node=me", []string{pod("me", "", podUp), pod("a", app, podUp2)}, "no Pod matches in namespace default"},
		{"k8s:pods?selector=app=web#count=1&same-node=default/me", []string{pod("me", "", podUp2), pod("a", app, podUp2), pod("b", app, podDown)}, "ready after"},
		{"k8s:pods?selector=app=web#same-node=me", []string{pod("a", app, podUp2)}, "no such Pod me in namespace default, whose node counts"},
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

// TestK8sFailedSome pins that a Job of which nothing succeeded is no more ready
// for those whom some success is enough.
func TestK8sFailedSome(t *testing.T) {
	s := newAPIServer(t)
	s.apply(jobFailed)
	if err := s.begin("k8s:job/migrate#if-failed=some")(); !poll.IsPermanent(err) || !strings.Contains(err.Error(), "Job migrate failed") {
		t.Errorf("%v, want that it cannot become ready", err)
	}
}

// TestK8sFailedJobs pins that of many Jobs that failed, one is asked for the
// reason, and none whose failure does not matter.
func TestK8sFailedJobs(t *testing.T) {
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

// TestK8sForbiddenOdd pins what is said where no Role would help, or one that is
// for everybody.
func TestK8sForbiddenOdd(t *testing.T) {
	pods, _ := kube.Lookup("pods")
	for _, tt := range []struct {
		status kube.StatusError
		text   string // of the failure
		hint   string // has this
	}{
		{kube.StatusError{Code: 403, Verb: "list", Resource: pods, Namespace: "default", Message: `pods is forbidden: User "system:anonymous" cannot list resource "pods"`},
			"the API server was not told who asks, and refuses (403 Forbidden, system:anonymous)", "no credentials were sent"},
		{kube.StatusError{Code: 403, Path: "/apis/example.com", Message: `forbidden: User "bob" cannot get path "/apis/example.com"`},
			"the user bob may not get /apis/example.com, which tells what kinds there are", "system:discovery"},
		{kube.StatusError{Code: 403, Verb: "list", Resource: pods, Namespace: "default", Message: "not from here"},
			"this account may not list pods in namespace default (not from here)", "what would grant all that this wait needs"},
	} {
		f := failure.Of((&k8sCluster{namespace: "default"}).failure(&tt.status))
		text := f.Text
		if f.Note != "" {
			text += " (" + f.Note + ")"
		}
		if text != tt.text || !strings.Contains(f.Hint, tt.hint) {
			t.Errorf("%s: %q, hint %q; want %q, hint %q", tt.status.Message, text, f.Hint, tt.text, tt.hint)
		}
		if strings.Contains(f.Hint, "anonymous") {
			t.Errorf("%q would let everybody in", f.Hint)
		}
	}
}

// TestK8sDaemonSetOnNode pins same-node of a DaemonSet: of its Pods, the one on
// the node counts.
func TestK8sDaemonSetOnNode(t *testing.T) {
	set := func(scheduled int) string {
		return fmt.Sprintf(`{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}},
			"status": {"desiredNumberScheduled": 2, "currentNumberScheduled": %d}}`, scheduled)
	}
	s := newAPIServer(t)
	s.apply(set(1), pod("me", "", podUp), pod("agent-2", `"app": "agent"`, podUp2))
	end := s.begin("k8s:daemonset/agent#same-node=me")
	s.says("no Pod of it on this node yet")
	s.apply(pod("agent-1", `"app": "agent"`, podDown))
	s.says("its Pod agent-1 on this node: Running")
	s.apply(pod("agent-1", `"app": "agent"`, podUp))
	if err := end(); err != nil {
		t.Error(err)
	}
	// An old one, evicted, is there beside the new one.
	s = newAPIServer(t)
	s.apply(set(1), pod("me", "", podUp), pod("agent-1", `"app": "agent"`, podFailed), pod("agent-2", `"app": "agent"`, podUp))
	if err := s.begin("k8s:daemonset/agent#same-node=me")(); err != nil {
		t.Error(err)
	}
	// A node that is to have none.
	s = newAPIServer(t)
	s.apply(set(2), pod("me", "", podUp), pod("agent-2", `"app": "agent"`, podUp2))
	if err := s.begin("k8s:daemonset/agent#same-node=me")(); err != nil {
		t.Error(err)
	}
}

// TestK8sUnknownKind pins that a kind may be defined later.
func TestK8sUnknownKind(t *testing.T) {
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

// TestK8sNamespaces pins which namespace is meant.
func TestK8sNamespaces(t *testing.T) {
	s := newAPIServer(t)
	s.apply(strings.Replace(jobComplete, `"name"`, `"namespace": "shop", "name"`, 1), `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}, "status": {"phase": "Active"}}`)
	if err := s.begin("k8s:job/migrate?namespace=shop", "k8s:job/migrate#namespace=shop", "k8s:ns/shop?namespace=other", "k8s:job/migrate?namespace=shop#namespace=x")(); err != nil {
		t.Error(err)
	}
}

// TestK8sServerComesBack pins that what an API server does not tell is the
// failure, and that a wait outlives its absence.
func TestK8sServerComesBack(t *testing.T) {
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

// TestK8sAlone pins that a check needs no wait around it.
func TestK8sAlone(t *testing.T) {
	s := newAPIServer(t)
	check, err := Parse("k8s:job/migrate#kubeconfig="+s.kubeconfig, Options{})
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

// TestK8sNoCluster pins what is said where there is none to ask.
func TestK8sNoCluster(t *testing.T) {
	inPod := map[string]string{"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
	for _, tt := range []struct {
		target string
		env    map[string]string
		want   string
	}{
		{"k8s:job/a", nil, "there is no cluster here, and no kubeconfig file"},
		{"k8s:job/a", map[string]string{"HOME": t.TempDir()}, "there is no cluster here, and no kubeconfig file"},
		{"k8s:job/a", inPod, "this Pod has no token of its service account"},
		{"k8s:job/a#context=x", inPod, "context needs a kubeconfig file"},
	} {
		o := Options{Getenv: func(name string) string { return tt.env[name] }}
		check, err := Parse(tt.target, o)
		if err != nil {
			t.Fatal(err)
		}
		err = All(t.Context(), o, check)
		if !poll.IsPermanent(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.target, err, tt.want)
		}
	}
}
