package k8s

import (
	"fmt"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/waitfor/target"
)

// follow are the verbs of every wait.
var follow = []string{"list", "watch"}

// needs returns the rules that the target needs. It guesses the resource of a kind that only the API server knows, but
// not its group: without one, there are no rules.
func (c *check) needs() []kube.Permission {
	r, guess := c.resource, ""
	c.mu.Lock()
	resolved := c.source.resource
	c.mu.Unlock()
	switch {
	case c.lookedUp:
	case resolved.Name != "":
		r = resolved
	default:
		r, guess = kube.Guess(c.KindName), kube.Guessed
	}
	if guess != "" && r.Group == "" { // the core's kinds are known
		return nil
	}
	n := kube.Permission{Cluster: !r.Namespaced, Group: r.Group, Resource: r.Name, Verbs: follow, Comment: guess}
	if r.Namespaced {
		n.Namespace = c.Namespace
	}
	if c.Name != "" {
		n.Names = []string{c.Name}
	}
	needs := []kube.Permission{n}
	if c.needsSlices(r) { // their names are generated
		needs = append(needs, kube.Permission{Namespace: n.Namespace, Group: "discovery.k8s.io", Resource: "endpointslices", Verbs: follow})
	}
	if plain := len(c.expect.conditions)+len(c.expect.paths) == 0 && !c.expect.exists && !c.Gone; plain && r.String() == "jobs.batch" && c.expect.ifFailed != "ok" {
		needs = append(needs, kube.Permission{Namespace: n.Namespace, Resource: "pods", Verbs: follow[:1], Comment: "to report why a Job failed; " + kube.Optional})
	}
	if pod := c.expect.node; pod[1] != "" {
		needs = append(needs, kube.Permission{Namespace: pod[0], Resource: "pods", Names: pod[1:], Verbs: follow})
		if r.Kind == "DaemonSet" {
			needs = append(needs, kube.Permission{Namespace: n.Namespace, Resource: "pods", Verbs: follow})
		}
	}
	return needs
}

// unwrap returns the check of a k8s target, or nil for other kinds.
func unwrap(parsed target.Check) *check {
	if g, ok := parsed.(interface{ Unwrap() target.Check }); ok { // of #gone
		parsed = g.Unwrap()
	}
	c, _ := parsed.(*check)
	return c
}

// Permissions returns the rules that a wait for the checks needs; those of other kinds than k8s need none.
func Permissions(checks []target.Check) ([]kube.Permission, error) {
	var needs []kube.Permission
	for _, parsed := range checks {
		c := unwrap(parsed)
		if c == nil {
			continue
		}
		own := c.needs()
		if len(own) == 0 {
			return nil, failure.WithHint(fmt.Errorf("%s: no such kind without a group: write k8s:PLURAL.GROUP/NAME, as in k8s:certificates.cert-manager.io/web", c), "kubectl api-resources lists the kinds of your cluster with their groups")
		}
		needs = append(needs, own...)
	}
	return needs, nil
}
