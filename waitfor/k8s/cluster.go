package k8s

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"initbox/internal/dial"
	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/waitfor/target"
)

// clusterKey identifies a cluster within a wait.
type clusterKey struct{ kubeconfig, context string }

// Share joins the other checks of a wait for the same cluster.
func (c *check) Share(s *target.Shared) {
	key := clusterKey{c.Settings.Get("kubeconfig"), c.Settings.Get("context")}
	k := s.Part(key, func() target.Part {
		return &cluster{o: s.Options, kubeconfig: key.kubeconfig, context: key.context, followers: map[string]*kube.Follower{}}
	}).(*cluster)
	c.cluster = k
	k.checks = append(k.checks, c)
}

// cluster follows the objects of all targets of a wait, with one list and one watch for each kind and namespace.
type cluster struct {
	o                   target.Options
	kubeconfig, context string
	checks              []*check
	ctx                 context.Context // of the wait, not of an attempt

	// Set by connect, before any check's source.
	client    *kube.Client
	namespace string // of objects whose target names none

	mu        sync.Mutex
	followers map[string]*kube.Follower // by query
	grant     [2]string                 // the hint and the Roles that are missing; see grants
}

// origin is where the objects of a check come from, or why that is not known.
type origin struct {
	err       error
	resource  kube.Resource
	namespace string // empty if the kind is not namespaced
	objects   *kube.Follower
	slices    *kube.Follower // the EndpointSlices of Services
}

// settle sets where the objects of c come from.
func (c *check) settle(s origin) {
	c.mu.Lock()
	first := c.source.err == nil && c.source.objects == nil
	c.source = s
	c.mu.Unlock()
	if first {
		close(c.settled)
	}
	c.poke()
}

// Run connects, and follows the objects until ctx ends.
func (k *cluster) Run(ctx context.Context) {
	k.ctx = ctx
	err := k.until(k.checks, 0, func(context.Context) error { return k.connect() })
	if err != nil {
		return // the wait is over, or the checks have the permanent error
	}
	kinds := map[string][]*check{}
	for _, c := range k.checks {
		kind := strings.ToLower(c.KindName)
		if c.lookedUp {
			kind = c.resource.String() // a kind has several names
		}
		kinds[kind] = append(kinds[kind], c)
	}
	for _, checks := range kinds {
		go k.followKind(checks)
	}
}

// until repeats try until it succeeds, and passes each failure to the checks. A pause above zero replaces the policy's.
func (k *cluster) until(checks []*check, pause time.Duration, try func(context.Context) error) error {
	return poll.Until(k.ctx, poll.Policy{AttemptTimeout: k.o.AttemptTimeout, Seed: k.o.Seed}, func(ctx context.Context) error {
		err := try(ctx)
		if err == nil || k.ctx.Err() != nil {
			return err
		}
		for _, c := range checks {
			c.settle(origin{err: err})
		}
		if pause > 0 && !poll.IsPermanent(err) {
			return poll.After(pause, err)
		}
		return err
	})
}

// connect makes the client of the API server. It sends no request.
func (k *cluster) connect() error {
	config, err := kube.Place{Kubeconfig: k.kubeconfig, Context: k.context, Getenv: target.Env(k.o.Getenv).Get}.Config()
	if err != nil {
		return err
	}
	k.client = kube.New(config, kube.Options{Dial: dial.New(k.o.Resolver).DialContext, Seed: k.o.Seed})
	k.namespace = cmp.Or(config.Namespace, kube.DefaultNamespace)
	return nil
}

// followKind looks up the kind of the checks, and follows their objects.
func (k *cluster) followKind(checks []*check) {
	resource := checks[0].resource
	if !checks[0].lookedUp {
		err := k.until(checks, discoveryPause, func(ctx context.Context) (err error) {
			resource, err = k.client.Resource(ctx, checks[0].KindName)
			return err
		})
		if err != nil {
			return
		}
	}
	type group struct{ namespace, selector, fields string }
	groups := map[group][]*check{}
	for _, c := range checks {
		g := group{selector: c.Selector, fields: c.Fields}
		if resource.Namespaced {
			g.namespace = cmp.Or(c.Namespace, k.namespace)
		}
		if c.Name == "" && g.selector == "" && g.fields == "" {
			g.fields = everything // apart from targets that name objects
		}
		groups[g] = append(groups[g], c)
	}
	for g, checks := range groups {
		k.followGroup(resource, g.namespace, checks)
	}
}

// discoveryPause is the pause between two lookups of a kind that the server does not know: the answer is long.
const discoveryPause = 2 * time.Second

// everything stands for the selectors of a target with ?all.
const everything = "?all"

// followGroup follows the objects of checks of one kind and namespace that name their objects, or have the same
// selectors.
func (k *cluster) followGroup(resource kube.Resource, namespace string, checks []*check) {
	q := kube.Query{Resource: resource, Namespace: namespace, LabelSelector: checks[0].Selector, FieldSelector: checks[0].Fields, Sparse: true}
	names := map[string]bool{}
	slicesOf := map[string]bool{} // of the Services with these names
	for _, c := range checks {
		if c.Name != "" {
			names[c.Name] = true
		}
		if c.needsSlices(resource) {
			slicesOf[c.Name] = true
		}
		q.Sparse = q.Sparse && len(c.expect.paths)+len(c.expect.keys) == 0
	}
	q.Names = slices.Sorted(maps.Keys(names))
	objects := k.follower(q)
	var endpointSlices *kube.Follower
	if len(slicesOf) > 0 {
		endpointSlices = k.follower(kube.Query{Resource: sliceResource(), Namespace: namespace, LabelSelector: sliceSelector(slicesOf)})
	}
	for _, c := range checks {
		s := origin{resource: resource, namespace: namespace, objects: objects}
		c.listen(objects, c.Name)
		if c.needsSlices(resource) {
			s.slices = endpointSlices
			c.listen(endpointSlices, "")
		}
		c.settle(s)
	}
}

// needsSlices reports whether EndpointSlices decide when the target is ready.
func (c *check) needsSlices(r kube.Resource) bool {
	e := c.expect
	return r.String() == "services" && !c.Gone && !e.exists && !e.address && len(e.conditions)+len(e.paths) == 0
}

// sliceSelector selects the EndpointSlices of the Services, or those of the whole namespace if there are more names
// than fit into a request, or one is empty, for a selector.
func sliceSelector(services map[string]bool) string {
	const label, most = "kubernetes.io/service-name", 100
	names := slices.Sorted(maps.Keys(services))
	switch {
	case services[""] || len(names) > most:
		return label
	case len(names) == 1:
		return label + "=" + names[0]
	}
	return label + " in (" + strings.Join(names, ",") + ")"
}

// follower returns the follower of q, started at the first call.
func (k *cluster) follower(q kube.Query) *kube.Follower {
	key := fmt.Sprintf("%q", []any{q.Resource.String(), q.Namespace, q.Names, q.LabelSelector, q.FieldSelector, q.Sparse})
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.followers[key]
	if f == nil {
		f = k.client.Follow(q)
		k.followers[key] = f
		go f.Run(k.ctx)
	}
	return f
}

// follow returns a follower of q, and wakes c at its changes.
func (c *check) follow(q kube.Query, name string) *kube.Follower {
	f := c.cluster.follower(q)
	c.listen(f, name)
	return f
}

// listen wakes c at each change of the object, or of any object if name is empty.
func (c *check) listen(f *kube.Follower, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched[f] {
		return
	}
	if c.watched == nil {
		c.watched = map[*kube.Follower]bool{}
	}
	c.watched[f] = true
	ctx := c.cluster.ctx
	changes := f.Changes(ctx, name)
	go func() {
		for {
			select {
			case <-changes:
				c.poke()
			case <-ctx.Done():
				return
			}
		}
	}()
}

func podResource() kube.Resource   { r, _ := kube.Lookup("pods"); return r }
func sliceResource() kube.Resource { r, _ := kube.Lookup("endpointslices.discovery.k8s.io"); return r }

// failure returns why the API server did not answer a request, with the Roles that the wait needs.
func (k *cluster) failure(err error) error { return kube.Explain(err, k.grants) }

// grants returns a hint with the Roles that all targets of the wait need.
func (k *cluster) grants(who kube.Account) (hint, role string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grant[1] == "" {
		var needs []kube.Permission
		known := true
		for _, c := range k.checks {
			own := c.needs()
			known = known && len(own) > 0
			needs = append(needs, own...)
		}
		if !known && len(needs) == 0 {
			return "initbox rbac prints the Role that a wait needs, for kubectl apply -f -", ""
		}
		hint, role := kube.Grant("all that this wait needs", needs, who, k.namespace)
		if !known || slices.ContainsFunc(needs, func(r kube.Permission) bool { return r.Comment == kube.Guessed }) {
			return hint, role // not kept: the kind is not known yet
		}
		k.grant = [2]string{hint, role}
	}
	return k.grant[0], k.grant[1]
}
