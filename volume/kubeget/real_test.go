package kubeget

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/internal/setting"
	"initbox/test/servers"
)

// TestReal reads from a real API server, as a user without rights at first: the logged Role must be sufficient. It
// grants it, and then creates the objects.
func TestReal(t *testing.T) {
	s := servers.StartAPIServer(t)
	s.Do(t, "POST", "/api/v1/namespaces", `{"metadata": {"name": "shop"}}`)
	s.Do(t, "POST", "/api/v1/nodes", `{"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}}}`)
	big := bytes.Repeat([]byte{0, 0xff, '\n'}, 250<<10) // base64 of it is the 1 MiB that a ConfigMap may have
	var logs servers.Output
	o := Options{Dst: t.TempDir(), Prune: true, AttemptTimeout: 10 * time.Second, Getenv: os.Getenv, Log: slog.New(slog.NewTextHandler(&logs, nil))}
	flags := setting.Settings{"kubeconfig": {s.Kubeconfig(t, s.UserToken)}, "namespace": {"shop"}}
	for _, text := range []string{
		"k8s:secret/db#key=password", "k8s:cm/big", "k8s:configmaps?selector=app=x", `k8s:node/n1#jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}&to=zone`,
		"k8s:services?selector=app=lb#jsonpath=.spec.ports[0].port&to=port", "k8s:secrets?selector=app=x#format=yaml",
	} {
		target, err := Parse(text, flags)
		if err != nil {
			t.Fatal(err)
		}
		o.Targets = append(o.Targets, target)
	}
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	says := func(text string) {
		t.Helper()
		err := poll.Until(ctx, poll.Policy{}, func(context.Context) error {
			if !strings.Contains(logs.String(), text) {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil {
			t.Fatalf("no %q in the log:\n%s", text, logs.String())
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := run(ctx, o)
		ended <- err
	}()
	says("may not get secrets in namespace shop")
	says("may not list configmaps in namespace shop")
	says("kind: ClusterRoleBinding")
	var needs []kube.Permission
	for _, target := range o.Targets {
		needs = append(needs, target.Needs())
	}
	for document := range strings.SplitSeq(kube.RBAC(needs, kube.Account{User: servers.APIUser}, "get", "shop"), "---\n") {
		data, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		path, kind := "/apis/rbac.authorization.k8s.io/v1", object(t, string(data))
		if ns := kind.Namespace(); ns != "" {
			path += "/namespaces/" + ns
		}
		s.Do(t, "POST", path+"/"+strings.ToLower(kind["kind"].(string))+"s", string(data))
	}
	says("k8s:secret/db?namespace=shop: no such Secret in namespace shop")
	says("no ConfigMap matches in namespace shop")
	put := func(kind string, o any) {
		t.Helper()
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Do(t, "POST", "/api/v1/namespaces/shop/"+kind, string(data))
	}
	type m = map[string]any
	put("configmaps", m{"metadata": m{"name": "big"}, "binaryData": m{"big": base64.StdEncoding.EncodeToString(big)}})
	put("configmaps", m{"metadata": m{"name": "a", "labels": m{"app": "x"}}, "data": m{"a": "1"}})
	put("services", m{"metadata": m{"name": "lb", "labels": m{"app": "lb"}}, "spec": m{"ports": []m{{"port": 8080}}}})
	put("secrets", m{"metadata": m{"name": "db", "labels": m{"app": "x"}}, "stringData": m{"user": "joe"}})
	says("no key password (found user)")
	s.Do(t, "PATCH", "/api/v1/namespaces/shop/secrets/db", `{"stringData": {"password": "hUnter2tIger9"}}`)
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, logs.String())
	}
	for name, want := range map[string]string{"password": "hUnter2tIger9", "big": string(big), "a": "1", "zone": "z1", "port": "8080"} {
		if got, err := os.ReadFile(filepath.Join(o.Dst, name)); err != nil || string(got) != want {
			t.Errorf("%s: %.20q, %v, want %.20q", name, got, err, want)
		}
	}
	whole, err := os.ReadFile(filepath.Join(o.Dst, "db.yaml"))
	if text := string(whole); err != nil || !strings.HasPrefix(text, "apiVersion: v1\n") || !strings.Contains(text, "\nkind: Secret\n") || strings.Contains(text, "managedFields") {
		t.Errorf("db.yaml: %v\n%s", err, text)
	}
	if done, err := run(ctx, o); err != nil || fmt.Sprint(done.Same, done.Created, done.Changed, done.Removed) != "6 0 0 0" {
		t.Errorf("the second run: %v, %v", done, err)
	}
	if strings.Contains(logs.String(), "hUnter2") {
		t.Error("the log has the content of a Secret")
	}
}
