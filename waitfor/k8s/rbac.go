package k8s

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/lazy"
	"initbox/internal/words"
	"initbox/waitfor/target"
)

// permission is a rule of a Role that a wait needs.
type permission struct {
	Cluster   bool   // for objects without a namespace
	Namespace string // of the Role; empty for the one into which it is applied
	Group     string // of the API; empty for the core
	Resource  string // plural
	Names     []string
	Verbs     []string
	Comment   string // why it may be left out, or that it is a guess; may be empty
}

// follow are the verbs of every wait.
var follow = []string{"list", "watch"}

// needs returns the rules that the target needs; namespace is for a target that names none. It guesses the resource of
// a kind that only the API server knows, but not its group: without one, there are no rules.
func (c *check) needs(namespace string) []permission {
	r, guess := c.resource, ""
	c.mu.Lock()
	resolved := c.source.resource
	c.mu.Unlock()
	switch {
	case c.lookedUp:
	case resolved.Name != "":
		r = resolved
	default:
		r, guess = kube.Guess(c.KindName), guessed
	}
	if guess != "" && r.Group == "" { // the core's kinds are known
		return nil
	}
	n := permission{Cluster: !r.Namespaced, Group: r.Group, Resource: r.Name, Verbs: follow, Comment: guess}
	if r.Namespaced {
		n.Namespace = cmp.Or(c.Namespace, namespace)
	}
	if c.Name != "" {
		n.Names = []string{c.Name}
	}
	needs := []permission{n}
	if c.needsSlices(r) { // their names are generated
		needs = append(needs, permission{Namespace: n.Namespace, Group: "discovery.k8s.io", Resource: "endpointslices", Verbs: follow})
	}
	if plain := len(c.expect.conditions)+len(c.expect.paths) == 0 && !c.expect.exists && !c.Gone; plain && r.String() == "jobs.batch" && c.expect.ifFailed != "ok" {
		needs = append(needs, permission{Namespace: n.Namespace, Resource: "pods", Verbs: follow[:1], Comment: "to report why a Job failed; may be left out"})
	}
	if pod := c.expect.node; pod[1] != "" {
		needs = append(needs, permission{Namespace: cmp.Or(pod[0], namespace), Resource: "pods", Names: pod[1:], Verbs: follow})
		if r.Kind == "DaemonSet" {
			needs = append(needs, permission{Namespace: n.Namespace, Resource: "pods", Verbs: follow})
		}
	}
	return needs
}

// guessed is the comment of a rule for a kind that was not looked up at an API server.
const guessed = "a guess: kubectl api-resources shows the plural, and whether it has a namespace"

// mergeRules merges rules, and sorts them by namespace, group and resource.
func mergeRules(needs []permission) []permission {
	var rules []permission
	for _, n := range needs {
		i := slices.IndexFunc(rules, func(r permission) bool {
			return r.Cluster == n.Cluster && r.Namespace == n.Namespace && r.Group == n.Group && r.Resource == n.Resource && (len(r.Names) == 0) == (len(n.Names) == 0)
		})
		if i < 0 {
			n.Names = slices.Clone(n.Names)
			rules = append(rules, n)
			continue
		}
		r := &rules[i]
		r.Names = append(r.Names, n.Names...)
		slices.Sort(r.Names)
		r.Names = slices.Compact(r.Names)
		if len(n.Verbs) > len(r.Verbs) || len(n.Verbs) == len(r.Verbs) && n.Comment == "" {
			r.Verbs, r.Comment = n.Verbs, n.Comment // more verbs, or the same ones without a comment
		}
	}
	// A rule for all objects makes one for names redundant.
	rules = slices.DeleteFunc(rules, func(n permission) bool {
		return len(n.Names) > 0 && slices.ContainsFunc(rules, func(r permission) bool {
			return r.Cluster == n.Cluster && r.Namespace == n.Namespace && r.Group == n.Group && r.Resource == n.Resource && len(r.Names) == 0 && len(r.Verbs) >= len(n.Verbs)
		})
	})
	slices.SortStableFunc(rules, func(a, b permission) int {
		return cmp.Or(cmp.Compare(order(a.Cluster), order(b.Cluster)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return rules
}

// order puts cluster-wide rules first.
func order(cluster bool) int {
	if cluster {
		return 0
	}
	return 1
}

// permissions returns the least permissions for a wait for the checks, sorted by namespace; checks of kinds other than
// k8s need none. The namespace is for targets that name none.
func permissions(checks []target.Check, namespace string) []permission {
	var needs []permission
	for _, parsed := range checks {
		if c := unwrap(parsed); c != nil {
			needs = append(needs, c.needs(namespace)...)
		}
	}
	return mergeRules(needs)
}

// unwrap returns the check of a k8s target, or nil for other kinds.
func unwrap(parsed target.Check) *check {
	if g, ok := parsed.(interface{ Unwrap() target.Check }); ok { // of #gone
		parsed = g.Unwrap()
	}
	c, _ := parsed.(*check)
	return c
}

// WriteRBAC writes, as YAML for kubectl apply, the smallest Roles and RoleBindings (or ClusterRole and
// ClusterRoleBinding, for what has no namespace) that let a service account wait for the checks. Each has the name
// given, by default initbox- and the service account. The namespace is the service account's, and for targets that name
// none; it may be empty, and then is the one into which the objects are applied.
func WriteRBAC(w io.Writer, checks []target.Check, name, serviceAccount, namespace string) error {
	for _, parsed := range checks {
		if c := unwrap(parsed); c != nil && len(c.needs(namespace)) == 0 {
			return failure.WithHint(fmt.Errorf("%s: no such kind without a group: write k8s:PLURAL.GROUP/NAME, as in k8s:certificates.cert-manager.io/web", c), "kubectl api-resources lists the kinds of your cluster with their groups")
		}
	}
	rules := permissions(checks, namespace)
	if len(rules) == 0 {
		return errors.New("none of the targets is of kind k8s: only those need a Role")
	}
	if namespace == "" && slices.ContainsFunc(rules, func(r permission) bool { return r.Cluster || r.Namespace != "" }) {
		return errors.New("objects without a namespace, and targets that name one, need the namespace of the service account: give it with --namespace")
	}
	_, err := io.WriteString(w, rbacYAML(rules, account{namespace: namespace, name: serviceAccount}, name, namespace))
	return err
}

// rbacYAML returns the Roles and bindings with the rules for an account, by default the service account default.
func rbacYAML(rules []permission, who account, name, namespace string) string {
	if who == (account{}) {
		who = account{namespace: namespace, name: "default"}
	}
	if name == "" { // two accounts in a namespace must not share a Role
		name = strings.TrimSuffix("initbox-"+who.name, "-")
	}
	subject := "{kind: ServiceAccount, " + metadata(who.name, who.namespace) + "}"
	if who.user != "" {
		subject = fmt.Sprintf("{kind: User, apiGroup: rbac.authorization.k8s.io, name: %s}", yamlWord(who.user))
	}
	var b strings.Builder
	for len(rules) > 0 {
		first := rules[0]
		end := slices.IndexFunc(rules, func(r permission) bool { return r.Cluster != first.Cluster || r.Namespace != first.Namespace })
		if end < 0 {
			end = len(rules)
		}
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

// metadata returns the name and the namespace, if there is one, of an object.
func metadata(name, namespace string) string {
	if namespace == "" {
		return "name: " + yamlWord(name)
	}
	return "name: " + yamlWord(name) + ", namespace: " + yamlWord(namespace)
}

func (r permission) yaml() string {
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
