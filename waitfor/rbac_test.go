package waitfor

import (
	"io"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"initbox/internal/kube"
)

// TestRBAC pins the whole YAML, since users apply it.
func TestRBAC(t *testing.T) {
	var b strings.Builder
	err := rbacOf(&b, []string{
		"k8s:job/migrate", "k8s:job/seed#if-failed=ok", "k8s:svc/db", "k8s:svc/cache?namespace=infra", "k8s:secret/true#key=x", "k8s:node/n1", "k8s:clusterrole/system:node",
		"k8s:pods?selector=app=web", "k8s:crontab.v1.stable.example.com/a", "tcp://db:5432", "k8s:ds/agent#same-node=me", "k8s:deploy/old#gone",
	}, "wait", "myapp", "shop")
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: wait}
rules:
- {apiGroups: [""], resources: [nodes], resourceNames: [n1], verbs: [list, watch]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: ["system:node"], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: wait}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: wait}
subjects: [{kind: ServiceAccount, name: myapp, namespace: shop}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: wait, namespace: infra}
rules:
- {apiGroups: [""], resources: [services], resourceNames: [cache], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: wait, namespace: infra}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: wait}
subjects: [{kind: ServiceAccount, name: myapp, namespace: shop}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: wait, namespace: shop}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
- {apiGroups: [""], resources: [secrets], resourceNames: ["true"], verbs: [list, watch]}
- {apiGroups: [""], resources: [services], resourceNames: [db], verbs: [list, watch]}
- {apiGroups: [apps], resources: [daemonsets], resourceNames: [agent], verbs: [list, watch]}
- {apiGroups: [apps], resources: [deployments], resourceNames: [old], verbs: [list, watch]}
- {apiGroups: [batch], resources: [jobs], resourceNames: [migrate, seed], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
- {apiGroups: [stable.example.com], resources: [crontabs], resourceNames: [a], verbs: [list, watch]} # a guess: kubectl api-resources shows the plural, and whether it has a namespace
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: wait, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: wait}
subjects: [{kind: ServiceAccount, name: myapp, namespace: shop}]
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	for document := range strings.SplitSeq(b.String(), "---\n") {
		var v map[string]any
		if err := yaml.Unmarshal([]byte(document), &v); err != nil || v["kind"] == nil {
			t.Errorf("%v: %s", err, document)
		}
	}
}

// TestRBACPodsOfJobs pins the comment of a rule that may be left out.
func TestRBACPodsOfJobs(t *testing.T) {
	var b strings.Builder
	if err := rbacOf(&b, []string{"k8s:job/migrate"}, "wait", "myapp", "shop"); err != nil {
		t.Fatal(err)
	}
	if want := "- {apiGroups: [\"\"], resources: [pods], verbs: [list]} # to report why a Job failed; may be left out\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
	for _, targets := range [][]string{{"k8s:job"}, {"k8s:widget/w"}} {
		if err := rbacOf(&b, targets, "wait", "myapp", "shop"); err == nil {
			t.Errorf("%q: no error", targets)
		}
	}
}

// rbacOf calls [kube.WriteRBAC] with the checks of targets, or returns why one of them is refused.
func rbacOf(w io.Writer, targets []string, name, serviceAccount, namespace string) error {
	var checks []Check
	for _, text := range targets {
		check, err := Parse(text, Options{})
		if err != nil {
			return err
		}
		checks = append(checks, check)
	}
	needs, err := Permissions(checks)
	if err != nil {
		return err
	}
	return kube.WriteRBAC(w, needs, name, serviceAccount, namespace)
}
