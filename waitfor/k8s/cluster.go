package k8s

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/waitfor/forms"
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
	grant     string                    // the Roles that are missing; see grants
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
	config, err := k.config()
	if err != nil {
		return err
	}
	k.client = kube.New(config, kube.Options{Dial: dial.New(k.o.Resolver).DialContext, Seed: k.o.Seed})
	k.namespace = cmp.Or(config.Namespace, kube.DefaultNamespace)
	return nil
}

// config reads the kubeconfig file that was given or that $KUBECONFIG names, as kubectl does, or else, in a Pod, what
// the kubelet mounts.
func (k *cluster) config() (*kube.Config, error) {
	getenv := target.Env(k.o.Getenv).Get
	file := cmp.Or(k.kubeconfig, getenv("KUBECONFIG"))
	if home := getenv("HOME"); file == "" && home != "" && getenv("KUBERNETES_SERVICE_HOST") == "" {
		file = filepath.Join(home, ".kube", "config")
		if _, err := os.Stat(file); err != nil {
			file = ""
		}
	}
	switch {
	case file != "":
		config, err := kube.Kubeconfig(file, k.context)
		if err != nil {
			return nil, kubeconfigFailure(file, err)
		}
		return config, nil
	case getenv("KUBERNETES_SERVICE_HOST") == "":
		return nil, poll.Permanent(failure.New(failure.Local, "there is no cluster here, and no kubeconfig file").
			WithHint("a Pod knows its cluster by $KUBERNETES_SERVICE_HOST; elsewhere give a file with --kubeconfig or $KUBECONFIG"))
	case k.context != "":
		return nil, poll.Permanent(failure.New(failure.Local, "context needs a kubeconfig file: give one with --kubeconfig"))
	}
	config, err := kube.InCluster(getenv)
	if errors.Is(err, kube.ErrNoToken) {
		return nil, poll.Permanent(noToken(err)) // the kubelet mounts it before it starts a container
	}
	return config, err
}

// kubeconfigFailure returns the failure of a file that may still be mounted or fixed.
func kubeconfigFailure(file string, err error) *failure.Failure {
	f := &failure.Failure{Class: failure.Local, Text: failure.Printable(err.Error()), Err: err, Elsewhere: true}
	var path *fs.PathError
	if errors.As(err, &path) {
		f.Text = failure.Printable("kubeconfig " + file + ": " + path.Err.Error())
		f.Hint = "is the file mounted, and may this user read it?"
	}
	return f
}

// noToken returns the failure of a Pod without the credentials of its service account.
func noToken(err error) *failure.Failure {
	return &failure.Failure{Class: failure.Local, Text: "this Pod has no service account token", Err: err, Elsewhere: true,
		Hint: "set automountServiceAccountToken: true in the Pod's spec, which overrides the service account's; in a container without the mount, add it"}
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

// failure returns why the API server did not answer a request. That says nothing about the target itself.
func (k *cluster) failure(err error) error {
	var (
		known   *failure.Failure
		unknown *kube.UnknownResource
		status  *kube.StatusError
	)
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &unknown):
		f := failure.New(failure.Missing, "the API server has no kind of that name")
		f.Hint = "is its CustomResourceDefinition installed? kubectl api-resources lists all kinds"
		if unknown.Suggestion != "" {
			f.Hint = "did you mean " + failure.Printable(unknown.Suggestion) + "? " + f.Hint
		}
		f.Err, f.Elsewhere = err, true
		return f
	case errors.As(err, &status):
		return k.statusFailure(status)
	case errors.Is(err, kube.ErrNoToken):
		return noToken(err)
	case errors.As(err, new(*kube.CredentialsError)):
		return &failure.Failure{Class: failure.Local, Text: failure.Printable(err.Error()), Err: err, Elsewhere: true}
	}
	f := failure.Of(err)
	f.Elsewhere = true
	f.Text = "API server: " + f.Text
	switch f.Class {
	case failure.Refused:
		f.Hint = "is the API server running, and is its address right?"
	case failure.TLS:
		f.Hint = "does the kubeconfig file, or the CA that the kubelet mounts, belong to this API server?"
	case failure.TimedOut, failure.Unreachable:
		f.Hint = "can this Pod reach the API server? look for a NetworkPolicy; with a service mesh, exclude the API server's address"
	}
	return f
}

func (k *cluster) statusFailure(s *kube.StatusError) error {
	f := &failure.Failure{Class: failure.Unexpected, Err: s, Elsewhere: true}
	f.Text = fmt.Sprintf("API server: status %d", s.Code)
	if s.Reason != "" {
		f.Text += " " + failure.Printable(s.Reason)
	}
	f.Note = shortText(s.Message)
	switch s.Code {
	case 400:
		f.Hint = "does kubectl accept the selector?"
		if s.Reason != "" { // in a Status, so from the API server itself: retrying cannot help
			return poll.Permanent(f)
		}
	case 401:
		f.Class, f.Text = failure.Authentication, "the API server does not accept the credentials (401 Unauthorized)"
		f.Hint = "has the token expired, or is it for another cluster?"
	case 403:
		k.forbidden(f, s)
	case 429:
		f.Hint = "the API server is overloaded: kubectl get --raw /metrics | grep apiserver_flowcontrol"
	}
	return f
}

// forbidden completes f: which account may not do what, and which Role would grant it.
func (k *cluster) forbidden(f *failure.Failure, s *kube.StatusError) {
	who := accountOf(s.User())
	f.Class = failure.Authentication
	if who != (account{}) {
		f.Note = "" // it repeats the text
	}
	switch {
	case who.user == "system:anonymous": // a Role for it would let any client in
		f.Text = "the API server refuses requests without credentials (403 Forbidden, system:anonymous)"
		f.Hint = "no credentials were sent: does the context of the kubeconfig file have a user, with a token or a certificate?"
	case s.Verb == "":
		f.Text = fmt.Sprintf("%s may not get %s, which lists the kinds", who, failure.Printable(s.Path))
		f.Hint = "the ClusterRole system:discovery grants it, usually to every account: kubectl describe clusterrolebinding system:discovery"
	default:
		f.Text = fmt.Sprintf("%s may not %s %s%s", who, s.Verb, failure.Printable(s.Resource.String()), in(failure.Printable(s.Namespace)))
		f.Hint, f.Urgent = k.grants(who), true
	}
}

// account is an account that an API server refused.
type account struct {
	namespace, name string // of a service account
	user            string // of another account
}

func (a account) String() string {
	switch {
	case a.name != "":
		return "the service account " + a.namespace + "/" + a.name
	case a.user != "":
		return "the user " + failure.Printable(a.user)
	}
	return "this account"
}

// accountOf returns the account of a user name, such as system:serviceaccount:default:myapp.
func accountOf(user string) account {
	if whole, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		if namespace, name, ok := strings.Cut(whole, ":"); ok && strings.Trim(namespace+name, forms.NameCharacters) == "" {
			return account{namespace: namespace, name: name}
		}
	}
	return account{user: user}
}

// grants returns a hint with the Roles that all targets of the wait need.
func (k *cluster) grants(who account) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grant == "" {
		var needs []permission
		known := true
		for _, c := range k.checks {
			own := c.needs(k.namespace)
			known = known && len(own) > 0
			needs = append(needs, own...)
		}
		if !known && len(needs) == 0 {
			return "initbox rbac prints the Role that a wait needs, for kubectl apply -f -"
		}
		grant := "these objects grant all that this wait needs, for kubectl apply -f -\n" + rbacYAML(mergeRules(needs), who, "", k.namespace)
		if !known || slices.ContainsFunc(needs, func(r permission) bool { return r.Comment == guessed }) {
			return grant // not kept: the kind is not known yet
		}
		k.grant = grant
	}
	return k.grant
}

// shortText shortens a text of the API server to part of a line.
func shortText(s string) string {
	const limit = 300
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return failure.Printable(s)
}
