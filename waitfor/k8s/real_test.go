package k8s_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"initbox/internal/poll"
	"initbox/test/servers"
	"initbox/waitfor"
	"initbox/waitfor/k8s"
	"initbox/waitfor/target"
)

// kinds is the table of all kinds.
var kinds = waitfor.Kinds()

// realWait is a wait at a real API server, as a user without permissions at first.
type realWait struct {
	t    *testing.T
	s    *servers.APIServer
	logs servers.Output
}

// put creates the object in the collection at the path, then writes its status.
func (w *realWait) put(path, object, status string) {
	w.t.Helper()
	made := w.s.Do(w.t, "POST", path, object)
	if status != "" {
		name := made["metadata"].(map[string]any)["name"]
		w.s.Do(w.t, "PATCH", fmt.Sprintf("%s/%s/status", path, name), `{"status": `+status+`}`)
	}
}

// grant applies the objects that WriteRBAC prints.
func (w *realWait) grant(text string) {
	w.t.Helper()
	for document := range strings.SplitSeq(text, "---\n") {
		data, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			w.t.Fatal(err)
		}
		var o struct {
			Kind     string
			Metadata struct{ Namespace string }
		}
		if err := json.Unmarshal(data, &o); err != nil {
			w.t.Fatal(err)
		}
		path := "/apis/rbac.authorization.k8s.io/v1"
		if o.Metadata.Namespace != "" {
			path += "/namespaces/" + o.Metadata.Namespace
		}
		w.s.Do(w.t, "POST", path+"/"+strings.ToLower(o.Kind)+"s", string(data))
	}
}

func (w *realWait) begin(targets ...string) (end func() error) {
	w.t.Helper()
	o := target.Options{Settings: target.Settings{"kubeconfig": {w.s.Kubeconfig(w.t, w.s.UserToken)}}, AttemptTimeout: 10 * time.Second,
		Log: slog.New(slog.NewTextHandler(&w.logs, nil))}
	var checks []target.Check
	for _, target := range targets {
		check, err := waitfor.Parse(target, o)
		if err != nil {
			w.t.Fatal(err)
		}
		checks = append(checks, check)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), servers.Patience)
	ended := make(chan error, 1)
	go func() { ended <- waitfor.All(ctx, o, checks...); cancel() }()
	return func() error { return <-ended }
}

// says waits until the log contains the text.
func (w *realWait) says(text string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), servers.Patience)
	defer cancel()
	err := poll.Until(ctx, poll.Policy{}, func(context.Context) error {
		if !strings.Contains(w.logs.String(), text) {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		w.t.Fatalf("no %q in the log:\n%s", text, w.logs.String())
	}
}

// TestReal pins, at a real API server, that the logged Role is sufficient for each kind of request, and that the rules
// match real objects. There are no controllers: the test writes the status that they would.
func TestReal(t *testing.T) {
	w := &realWait{t: t, s: servers.StartAPIServer(t)}
	const ns, shop = "/api/v1/namespaces", "/namespaces/shop/"
	w.put(ns, `{"metadata": {"name": "shop"}}`, "")
	w.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
		"names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`, "")
	targets := []string{
		"k8s:job/migrate", "k8s:svc/db", "k8s:secret/db#key=password", "k8s:cm/a", "k8s:cm/b", "k8s:cm/c", "k8s:ns/shop", "k8s:crd/widgets.example.com",
		"k8s:pods?selector=app=web", "k8s:widgets.example.com/w", "k8s:deploy/web", "k8s:pvc/gone#gone",
	}
	for i, target := range targets {
		base, settings, _ := strings.Cut(target, "#")
		sign := "?"
		if strings.Contains(base, "?") {
			sign = "&"
		}
		targets[i] = strings.TrimSuffix(base+sign+"namespace=shop#"+settings, "#")
	}
	end := w.begin(targets...)
	w.says("the user tester may not list jobs.batch in namespace shop")
	w.says("kind: ClusterRoleBinding")
	var checks []target.Check
	for _, text := range targets {
		check, err := kinds.Parse(text, target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		checks = append(checks, check)
	}
	w.grant(k8s.GrantToUser(checks, servers.APIUser, "wait", "shop"))
	w.says("k8s:job/migrate?namespace=shop: no such Job in namespace shop")
	w.says("k8s:crd/widgets.example.com?namespace=shop: ready after")

	w.put("/apis/batch/v1"+shop+"jobs", `{"metadata": {"name": "migrate"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}}`, "")
	w.says("k8s:job/migrate?namespace=shop: 0 of 1 completion")
	w.s.Do(t, "PATCH", "/apis/batch/v1"+shop+"jobs/migrate/status", `{"status": {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:09Z", "succeeded": 1, "conditions": [
		{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}}`)
	w.put("/api/v1"+shop+"services", `{"metadata": {"name": "db"}, "spec": {"selector": {"app": "db"}, "ports": [{"port": 5432}]}}`, "")
	w.says("k8s:svc/db?namespace=shop: no ready endpoint")
	w.put("/apis/discovery.k8s.io/v1"+shop+"endpointslices", `{"metadata": {"name": "db-x", "labels": {"kubernetes.io/service-name": "db"}}, "addressType": "IPv4",
		"endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": true}}]}`, "")
	w.put("/api/v1"+shop+"secrets", `{"metadata": {"name": "db"}, "stringData": {"password": "hUnter2tIger9"}}`, "")
	for _, name := range []string{"a", "b", "c"} {
		w.put("/api/v1"+shop+"configmaps", `{"metadata": {"name": "`+name+`"}}`, "")
	}
	w.put("/api/v1"+shop+"pods", `{"metadata": {"name": "web-0", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}`,
		`{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}`)
	w.put("/apis/example.com/v1"+shop+"widgets", `{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`, "")
	w.put("/apis/apps/v1"+shop+"deployments", `{"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}}`,
		`{"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}`)
	if err := end(); err != nil {
		t.Errorf("%v\n%s", err, w.logs.String())
	}
	if strings.Contains(w.logs.String(), "hUnter2") {
		t.Error("the log has the content of a Secret")
	}
}
