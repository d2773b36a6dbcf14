package grants

import (
	"fmt"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/kube"
)

const roles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: jobs, namespace: shop}
rules:
- {apiGroups: [batch], resources: [jobs], resourceNames: [migrate], verbs: [list, watch]}
- {apiGroups: [batch], resources: [jobs], resourceNames: [seed], verbs: [list]}
- {apiGroups: [""], resources: ["*"], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jobs, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: jobs}
subjects: [{kind: ServiceAccount, name: web, namespace: shop}, {kind: Group, name: "system:serviceaccounts:ci"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodes}
subjects: [{kind: ServiceAccount, name: web, namespace: shop}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: view, namespace: other}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: "system:serviceaccount:shop:web"}]
`

func TestMissing(t *testing.T) {
	t.Parallel()
	objects, err := manifest.Read("roles.yaml", strings.NewReader(roles))
	if err != nil {
		t.Fatal(err)
	}
	web := kube.Account{Namespace: "shop", Name: "web"}
	jobs := func(verbs string, names ...string) kube.Permission {
		return kube.Permission{Group: "batch", Resource: "jobs", Names: names, Verbs: strings.Fields(verbs)}
	}
	for _, c := range []struct {
		who  kube.Account
		need kube.Permission
		want string // the verbs that are missing, and the Roles that are elsewhere
	}{
		{web, jobs("list watch", "migrate"), "[] []"},
		{web, jobs("list watch", "migrate", "seed"), "[watch] []"},
		{web, jobs("list watch"), "[list watch] []"},
		{web, kube.Permission{Resource: "secrets", Verbs: []string{"get"}}, "[] []"},
		{web, kube.Permission{Resource: "nodes", Cluster: true, Verbs: []string{"watch"}}, "[] []"},
		{web, kube.Permission{Resource: "nodes", Group: "other", Cluster: true, Verbs: []string{"watch"}}, "[watch] []"},
		{web, kube.Permission{Resource: "persistentvolumes", Cluster: true, Verbs: []string{"get"}}, "[get] []"},
		{web, kube.Permission{Resource: "pods", Namespace: "other", Verbs: []string{"get"}}, "[get] [ClusterRole/view]"},
		{kube.Account{Namespace: "ci", Name: "any"}, kube.Permission{Namespace: "shop", Resource: "pods", Verbs: []string{"get"}}, "[] []"},
		{kube.Account{Namespace: "ci", Name: "any"}, kube.Permission{Resource: "pods", Verbs: []string{"get"}}, "[get] []"},
		{kube.Account{Namespace: "shop", Name: "default"}, jobs("list", "migrate"), "[list] []"},
		{kube.Account{Name: "web"}, jobs("list", "migrate"), "[] []"}, // the namespace is left to kubectl
	} {
		missing, elsewhere := Of(objects).Missing([]kube.Permission{c.need}, c.who)
		var verbs []string
		for _, p := range missing {
			verbs = append(verbs, p.Verbs...)
		}
		if got := fmt.Sprint(verbs, " ", elsewhere); got != c.want {
			t.Errorf("%+v for %v: %s, want %s", c.need, c.who, got, c.want)
		}
	}
	if g := Of(objects); !g.Bound(web) || g.Bound(kube.Account{Namespace: "shop", Name: "other"}) {
		t.Error("Bound")
	}
}
