package kube

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/lazy"
	"initbox/internal/words"
)

// Permission is a rule of a Role.
type Permission struct {
	Cluster   bool   // for objects without a namespace
	Namespace string // of the Role; empty for the one into which it is applied
	Group     string // of the API; empty for the core
	Resource  string // plural
	Names     []string
	Verbs     []string
	Comment   string // why it may be left out, or that it is a guess; may be empty
}

// Guessed is the comment of a rule for a kind that was not looked up at an API server.
const Guessed = "a guess: kubectl api-resources shows the plural, and whether it has a namespace"

// Optional ends the comment of a rule without which the program does what it is for.
const Optional = "may be left out"

// merge merges rules, and sorts them by namespace, group and resource. Rules for names are merged only if they have the
// same verbs, so that no name gets those of another one.
func merge(needs []Permission) []Permission {
	var rules []Permission
	for _, n := range needs {
		i := slices.IndexFunc(rules, func(r Permission) bool {
			return r.about(n) && (len(r.Names) == 0) == (len(n.Names) == 0) && (len(n.Names) == 0 || slices.Equal(r.Verbs, n.Verbs))
		})
		if i < 0 {
			n.Names, n.Verbs = slices.Clone(n.Names), slices.Clone(n.Verbs)
			rules = append(rules, n)
			continue
		}
		r := &rules[i]
		r.Names = slices.Compact(slices.Sorted(slices.Values(append(r.Names, n.Names...))))
		switch {
		case !r.allows(n.Verbs):
			r.Verbs = append(r.Verbs, slices.DeleteFunc(slices.Clone(n.Verbs), func(v string) bool { return slices.Contains(r.Verbs, v) })...)
			r.Comment = n.Comment
		case n.Comment == "" && n.allows(r.Verbs):
			r.Comment = ""
		}
	}
	// A rule for all objects makes one for names redundant.
	rules = slices.DeleteFunc(rules, func(n Permission) bool {
		return len(n.Names) > 0 && slices.ContainsFunc(rules, func(r Permission) bool { return r.about(n) && len(r.Names) == 0 && r.allows(n.Verbs) })
	})
	slices.SortStableFunc(rules, func(a, b Permission) int {
		return cmp.Or(cmp.Compare(order(a.Cluster), order(b.Cluster)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return rules
}

// about reports whether both rules are about the same resource in the same namespace.
func (r Permission) about(n Permission) bool {
	return r.Cluster == n.Cluster && r.Namespace == n.Namespace && r.Group == n.Group && r.Resource == n.Resource
}

// allows reports whether r has all the verbs.
func (r Permission) allows(verbs []string) bool {
	return !slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(r.Verbs, v) })
}

// order puts cluster-wide rules first.
func order(cluster bool) int {
	if cluster {
		return 0
	}
	return 1
}

// WriteRBAC writes, as YAML for kubectl apply, the smallest Roles and RoleBindings (or ClusterRole and
// ClusterRoleBinding, for what has no namespace) that give a service account the permissions. Each has the name given,
// by default initbox- and the service account; outside the account's namespace, where accounts of other namespaces with
// the same name may have theirs, initbox-, the namespace and the service account. The namespace is the service
// account's, and that of permissions without one; it may be empty, and then is the one into which the objects are
// applied.
func WriteRBAC(w io.Writer, needs []Permission, name, serviceAccount, namespace string) error {
	if namespace == "" && slices.ContainsFunc(needs, func(r Permission) bool { return r.Cluster || r.Namespace != "" }) {
		return errors.New("objects without a namespace, and targets that name one, need the namespace of the service account: give it with --namespace, or as in --service-account shop/web")
	}
	if i := slices.IndexFunc(needs, func(r Permission) bool { return r.Comment == Guessed && r.Group == "" }); i >= 0 { // the core's kinds are known
		return failure.WithHint(fmt.Errorf("%s: no such kind without a group: write k8s:PLURAL.GROUP/NAME, as in k8s:certificates.cert-manager.io/web", needs[i].Resource),
			"kubectl api-resources lists the kinds of your cluster with their groups")
	}
	_, err := io.WriteString(w, RBAC(needs, Account{Namespace: namespace, Name: serviceAccount}, name, namespace))
	return err
}

// RBAC returns the Roles and bindings as [WriteRBAC] does, for any account, by default the service account default.
func RBAC(needs []Permission, who Account, name, namespace string) string {
	if who == (Account{}) {
		who = Account{Namespace: namespace, Name: "default"}
	}
	needs = slices.Clone(needs)
	for i := range needs {
		if !needs[i].Cluster {
			needs[i].Namespace = cmp.Or(needs[i].Namespace, namespace)
		}
	}
	rules := merge(needs)
	subject := "{kind: ServiceAccount, " + metadata(who.Name, who.Namespace) + "}"
	if who.User != "" {
		subject = fmt.Sprintf("{kind: User, apiGroup: rbac.authorization.k8s.io, name: %s}", yamlWord(who.User))
	}
	var b strings.Builder
	for len(rules) > 0 {
		first := rules[0]
		end := slices.IndexFunc(rules, func(r Permission) bool { return r.Cluster != first.Cluster || r.Namespace != first.Namespace })
		if end < 0 {
			end = len(rules)
		}
		name := cmp.Or(name, first.name(who))
		kind, of := "Role", "{"+metadata(name, first.Namespace)+"}"
		if first.Cluster {
			kind = "ClusterRole"
		}
		if b.Len() > 0 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: %s\nrules:\n", kind, of)
		for _, r := range rules[:end] {
			b.WriteString(r.yaml())
		}
		fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\nmetadata: %s\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}\nsubjects: [%s]\n",
			kind, of, kind, yamlWord(name), subject)
		rules = rules[end:]
	}
	return b.String()
}

// name returns the default name of the Role of a rule. Two accounts must not share a Role.
func (r Permission) name(who Account) string {
	if who.Namespace != "" && who.Name != "" && (r.Cluster || r.Namespace != who.Namespace) {
		return "initbox-" + who.Namespace + "-" + who.Name
	}
	return strings.TrimSuffix("initbox-"+who.Name, "-")
}

// metadata returns the name and the namespace, if there is one, of an object.
func metadata(name, namespace string) string {
	if namespace == "" {
		return "name: " + yamlWord(name)
	}
	return "name: " + yamlWord(name) + ", namespace: " + yamlWord(namespace)
}

func (r Permission) yaml() string {
	names := ""
	if len(r.Names) > 0 {
		names = ", resourceNames: " + yamlList(r.Names)
	}
	line := fmt.Sprintf("- {apiGroups: %s, resources: %s%s, verbs: %s}", yamlList([]string{r.Group}), yamlList([]string{r.Resource}), names, yamlList(r.Verbs))
	if r.Comment != "" {
		line += " # " + r.Comment
	}
	return line + "\n"
}

func yamlList(list []string) string {
	return "[" + strings.Join(words.Each(list, yamlWord), ", ") + "]"
}

var (
	yamlPlain   = lazy.Regexp(`^[a-z][a-z0-9.-]*$`)
	yamlKeyword = lazy.Regexp(`^(y|n|yes|no|on|off|true|false|null)$`)
)

// yamlWord quotes a word that YAML would not read as a string.
func yamlWord(s string) string {
	if yamlPlain().MatchString(s) && !yamlKeyword().MatchString(s) {
		return s
	}
	return strconv.QuoteToASCII(s) // YAML has the same escapes
}
