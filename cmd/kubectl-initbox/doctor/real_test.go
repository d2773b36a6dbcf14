package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	sigyaml "sigs.k8s.io/yaml"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/poll"
	apiserver "initbox/test/servers"
)

// TestReal runs against a kube-apiserver: what the fake one of the other tests answers is what we believe, and no more.
func TestReal(t *testing.T) {
	s := apiserver.StartAPIServer(t)
	client := func(token string) *Client {
		config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig(t, token))
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	admin, user := client(s.AdminToken), client(s.UserToken)
	s.Do(t, "POST", "/api/v1/namespaces", `{"metadata": {"name": "shop"}}`)
	create := func(manifests string) {
		for _, document := range strings.Split(manifests, "\n---\n") {
			var o kube.Object
			if err := sigyaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatal(err)
			}
			path := on(admin.rest.Get(), resourceOf(fmt.Sprint(o["kind"])), o.Namespace()).URL().Path
			s.Do(t, "POST", path, o)
			if o["status"] != nil {
				s.Do(t, "PATCH", path+"/"+o.Name()+"/status", map[string]any{"status": o["status"]})
			}
		}
	}
	create(waiting("web", `wait-for-service, "postgres://pgg/shop", "k8s:job/migrat", "k8s:pods?selector=app=web"`, "volumes: [{name: v, configMap: {name: zoo-setting}}]"))
	create(waiting("kinds", `wait-for-service, "k8s:widget/w", "k8s:job/migrate"`))
	create(strings.Replace(waiting("unstarted", "sleep, 1h", "volumes: [{name: v, configMap: {name: zoo-setting}}, {name: s, secret: {secretName: login, items: [{key: usr, path: u}]}}]"),
		"state: {running: {startedAt: \""+ago(60e9)+"\"}}", "state: {waiting: {reason: PodInitializing}}", 1))
	create(`apiVersion: v1
kind: Service
metadata: {name: pg, namespace: shop}
spec: {selector: {app: pg}, ports: [{port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: pg-x, namespace: shop, labels: {kubernetes.io/service-name: pg}}
addressType: IPv4
ports: [{port: 5432, name: ""}]
endpoints: [{addresses: [10.1.0.1], conditions: {ready: true}}]
---
apiVersion: v1
kind: Secret
metadata: {name: login, namespace: shop}
stringData: {user: me, password: correct-horse}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: shop}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}
---
apiVersion: v1
kind: Event
metadata: {name: e, namespace: shop}
type: Warning
reason: Odd
message: something is odd
involvedObject: {kind: Pod, name: web, namespace: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: zoo-settings, namespace: shop}`)
	for i := range pageSize + 5 { // the one above is on the second page
		s.Do(t, "POST", "/api/v1/namespaces/shop/configmaps", map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("n%03d", i)}})
	}

	diagnose := func(c *Client) (string, error) {
		var b strings.Builder
		r, err := Diagnose(context.Background(), c, Options{Namespace: "shop"})
		if err == nil {
			err = r.Write(&b)
		}
		return b.String(), err
	}
	got, err := diagnose(admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Pod shop/web: Init:0/1 for ", "no Service pgg in shop; near: pg (1 ready endpoint)", "no Job migrat in namespace shop; near: migrate", "the cluster has no kind widget ", "shop/default may not list or watch jobs.batch in namespace shop",
		"1 Pod of 3 in namespace shop match the labels", "shop/default may not list or watch jobs.batch, pods in namespace shop", "event Odd", "something is odd",
		"no ConfigMap zoo-setting in shop; near: zoo-settings", "Secret login has no key usr; it has password, user",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "not read:") || strings.Contains(got, "correct-horse") {
		t.Errorf("got:\n%s", got)
	}

	if _, err = diagnose(user); err == nil || err.Error() != "list pods in shop: forbidden" || !strings.Contains(failure.Hint(err), "kubectl auth can-i list pods -n shop") {
		t.Errorf("got %v; %s", err, failure.Hint(err))
	}
	create(`apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: shop}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: r, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ` + apiserver.APIUser + `}]`)
	// The server's authorizer learns of a binding by a watch, some time after its creation has been answered.
	ctx, cancel := context.WithTimeout(t.Context(), apiserver.Patience)
	defer cancel()
	if err = poll.Until(ctx, poll.Policy{}, func(context.Context) error { got, err = diagnose(user); return err }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Pod shop/web: Init:0/1 for ", "it is not known whether there is a Service pgg", "you may neither create subjectaccessreviews nor read the Roles",
		"\nnot read: logs in shop (forbidden)\n", "\nnot read: nodes (forbidden)\n", "\nnot read: services in shop (forbidden)\n", "not read: secrets in shop (forbidden)"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
}
