// Package grants reads the Roles and bindings of manifests, and says which rights they do not give a service account.
//
//	missing, elsewhere := grants.Of(objects).Missing(needs, kube.Account{Namespace: "shop", Name: "web"})
package grants

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/kube"
)

// Grants are the Roles and bindings of manifests.
type Grants struct {
	roles    map[role][]rbacv1.PolicyRule
	bindings []binding
}

// role is a Role, or a ClusterRole, which has no namespace.
type role struct{ kind, namespace, name string }

// binding is a RoleBinding, or a ClusterRoleBinding, which holds everywhere.
type binding struct {
	everywhere bool
	namespace  string
	of         role
	subjects   []rbacv1.Subject
}

// Of returns the Roles and bindings among the objects. One that Kubernetes would refuse grants nothing.
func Of(objects []*manifest.Object) *Grants {
	g := &Grants{roles: map[role][]rbacv1.PolicyRule{}}
	for _, o := range objects {
		var value struct {
			Rules    []rbacv1.PolicyRule
			RoleRef  rbacv1.RoleRef
			Subjects []rbacv1.Subject
		}
		if !slices.Contains([]string{"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}, o.Kind) || o.Decode(&value) != nil {
			continue
		}
		switch namespace := o.Namespace; o.Kind {
		case "Role":
			at := role{o.Kind, namespace, o.Name} // of several, such as one for each environment, each rule counts
			g.roles[at] = append(g.roles[at], value.Rules...)
		case "ClusterRole":
			at := role{o.Kind, "", o.Name}
			g.roles[at] = append(g.roles[at], value.Rules...)
		case "ClusterRoleBinding":
			g.bindings = append(g.bindings, binding{true, "", role{"ClusterRole", "", value.RoleRef.Name}, value.Subjects})
		default:
			of := role{value.RoleRef.Kind, namespace, value.RoleRef.Name}
			if of.kind == "ClusterRole" {
				of.namespace = ""
			}
			g.bindings = append(g.bindings, binding{false, namespace, of, value.Subjects})
		}
	}
	return g
}

// Bound reports whether a Role is bound to the account.
func (g *Grants) Bound(who kube.Account) bool {
	return slices.ContainsFunc(g.bindings, func(b binding) bool { return b.binds(who) })
}

// Missing returns those of the needs, with those of their verbs, that no Role of the manifests grants to the account.
// Elsewhere has the names of the Roles that are bound to it and are not in the manifests, such as ClusterRole/view. A
// namespace that the manifests leave to kubectl may be any.
func (g *Grants) Missing(needs []kube.Permission, who kube.Account) (missing []kube.Permission, elsewhere []string) {
	for _, need := range needs {
		namespace := cmp.Or(need.Namespace, who.Namespace)
		verbs := slices.Clone(need.Verbs)
		for _, b := range g.bindings {
			if !b.binds(who) || !b.everywhere && (need.Cluster || !same(b.namespace, namespace)) {
				continue
			}
			rules, known := g.roles[b.of]
			if name := b.of.kind + "/" + b.of.name; !known && !slices.Contains(elsewhere, name) {
				elsewhere = append(elsewhere, name)
			}
			verbs = slices.DeleteFunc(verbs, func(verb string) bool { return allow(rules, need, verb) })
		}
		if len(verbs) > 0 {
			need.Verbs = verbs
			missing = append(missing, need)
		}
	}
	return missing, elsewhere
}

// binds reports whether the account is among the subjects.
func (b binding) binds(who kube.Account) bool {
	return slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			return s.Name == who.Name && same(s.Namespace, who.Namespace)
		case rbacv1.GroupKind:
			return slices.Contains([]string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + who.Namespace}, s.Name)
		}
		return s.Kind == rbacv1.UserKind && s.Name == "system:serviceaccount:"+who.Namespace+":"+who.Name
	})
}

// same reports whether two namespaces may be the same one.
func same(a, b string) bool { return a == b || a == "" || b == "" }

// allow reports whether the rules allow the verb for all that the need is about.
func allow(rules []rbacv1.PolicyRule, need kube.Permission, verb string) bool {
	has := func(list []string, word string) bool {
		return slices.Contains(list, word) || slices.Contains(list, rbacv1.ResourceAll)
	}
	names := need.Names
	if len(names) == 0 {
		names = []string{""} // all
	}
	for _, name := range names {
		if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return has(r.APIGroups, need.Group) && has(r.Resources, need.Resource) && has(r.Verbs, verb) &&
				(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name))
		}) {
			return false
		}
	}
	return true
}
