// Package k8s waits for Kubernetes objects: k8s:KIND/NAME, k8s:KIND?selector=LABELS or k8s:KIND?all, where KIND is
// anything that kubectl takes, and ?namespace=NAMESPACE may follow.
//
// An object is ready by the rules of its kind: a Job when it is complete, a Deployment when its rollout is, a Service
// when it has a ready endpoint. The settings condition, jsonpath, exists, key and address say what else ready means,
// count how many objects must be ready, if-missing and if-failed what a missing object and a failed Job mean.
//
// The checks of a wait share one list and one watch for each kind and namespace of a cluster. [WriteRBAC] prints the
// permissions that a service account needs for that.
package k8s

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/internal/words"
	"initbox/waitfor/target"
)

// Kind is the kind of targets with the scheme k8s.
var Kind = target.Kind{
	Schemes: []string{"k8s"},
	Usage:   "k8s:KIND[.GROUP]/NAME",
	Ready:   "the object is ready by the rules of its kind; with ?selector=LABELS, all that match are",
	Settings: []target.Setting{
		{Name: "condition", Value: "NAME[=VALUE]", Usage: "the object has the condition, with that status (default True)", Multi: true},
		{Name: "jsonpath", Value: "PATH[=VALUE]", Usage: "the object has a value at the JSONPath, as in {.status.phase}=Running; =, != and >= compare", Multi: true},
		{Name: "exists", Usage: "the object exists, ready or not"},
		{Name: "endpoints", Value: "N|all", Usage: "N endpoints of the Service are ready (default 1)"},
		{Name: "address", Usage: "a load balancer has given the Service or Ingress an address"},
		{Name: "key", Value: "KEY", Usage: "the Secret or ConfigMap has the key, and it is not empty", Multi: true},
		{Name: "completions", Value: "N", Usage: "N Pods of the Job have succeeded (default: it is complete)"},
		{Name: "count", Value: "N", Usage: "with a selector: N objects are ready, regardless of the others"},
		{Name: "same-node", Value: "[NAMESPACE/]POD", Usage: "only Pods on the node of that Pod count, of a selector or of a DaemonSet"},
		{Name: "if-missing", Value: "wait|ok|fail", Usage: "what a missing object means (default wait)"},
		{Name: "if-failed", Value: "fail|wait|ok|some", Usage: "what a failed Job or Pod means: the end, not yet, ready, or ready if one of its Pods succeeded"},
		{Name: "namespace", Value: "NAMESPACE", Usage: "namespace of the object; ?namespace= in a target wins (default: the Pod's own)"},
		{Name: "kubeconfig", Value: "FILE", Usage: "file that says where the cluster is, as for kubectl (default: $KUBECONFIG, or the Pod's own cluster)"},
		{Name: "context", Value: "NAME", Usage: "context of the kubeconfig file"},
	},
	Filters: true,
	Show:    show,
	Parse:   parse,
}

// check is a target of kind k8s. It sends no requests: it judges the objects that its cluster, which the targets of a
// wait share, has received.
type check struct {
	*target.Target
	kube.Objects
	resource kube.Resource // valid if lookedUp: known without a request
	lookedUp bool
	expect   expectations

	cluster *cluster      // nil outside [All]
	wake    chan struct{} // receives a value at changes

	mu      sync.Mutex
	source  origin
	settled chan struct{} // closed when source is set
	watched map[*kube.Follower]bool
	missing time.Time // since when the object is known not to exist
}

// expectations are what the settings of a target require.
type expectations struct {
	conditions  []condition
	paths       []*jsonPath
	exists      bool
	address     bool
	endpoints   int64 // at least 1
	everyone    bool  // every endpoint
	keys        []string
	completions int64 // 0: the Job is complete
	count       int64 // 0: all that match
	node        [2]string
	ifMissing   string
	ifFailed    string // empty: see whenFailed
}

func parse(t *target.Target) (target.Check, error) {
	q, err := objectsOf(t)
	if err != nil {
		return nil, err
	}
	q.Namespace = cmp.Or(q.Namespace, t.Settings.Get("namespace"))
	c := &check{Target: t, Objects: q, wake: make(chan struct{}, 1), settled: make(chan struct{})}
	c.resource, c.lookedUp = kube.Lookup(q.KindName)
	if c.expect, err = parseExpectations(t.Settings); err != nil {
		return nil, err
	}
	return c, c.consistent()
}

// objectsOf reads which objects a target names.
func objectsOf(t *target.Target) (kube.Objects, error) {
	if t.URL.In(t.URL.Opaque) || t.URL.In(t.URL.RawQuery) {
		return kube.Objects{}, errors.New("names and selectors of objects must not be secret: " + kube.WantTarget)
	}
	return kube.ParseObjects(t.URL.Opaque, t.URL.RawQuery)
}

// show returns the target as written, without its settings, or nothing of an invalid one.
func show(t *target.Target) string {
	q, err := objectsOf(t)
	if err != nil {
		return "k8s:…"
	}
	return q.Text(failure.Printable)
}

func parseExpectations(s target.Settings) (e expectations, err error) {
	for _, text := range s["condition"] {
		c, err := parseCondition(text)
		if err != nil {
			return e, fmt.Errorf("condition: %w", err)
		}
		e.conditions = append(e.conditions, c)
	}
	for _, text := range s["jsonpath"] {
		p, err := parsePath(text)
		if err != nil {
			return e, fmt.Errorf("jsonpath: %w", err)
		}
		e.paths = append(e.paths, p)
	}
	e.exists, e.address, e.keys = s.On("exists"), s.On("address"), s["key"]
	e.everyone = s.Get("endpoints") == "all"
	e.endpoints = 1
	for _, number := range []struct {
		name string
		n    *int64
	}{{"endpoints", &e.endpoints}, {"completions", &e.completions}, {"count", &e.count}} {
		if !s.On(number.name) || number.name == "endpoints" && e.everyone {
			continue
		}
		if *number.n, err = s.Count(number.name, 0); err != nil || *number.n < 1 {
			return e, fmt.Errorf("%s: want a whole number from 1", number.name)
		}
	}
	if e.ifMissing, err = s.OneOf("if-missing", "wait", "ok", "fail"); err != nil {
		return e, err
	}
	if e.ifFailed, err = s.OneOf("if-failed", "fail", "wait", "ok", "some"); err != nil {
		return e, err
	}
	if node := s.Get("same-node"); node != "" {
		namespace, pod, both := strings.Cut(node, "/")
		if !both {
			namespace, pod = "", node
		}
		if pod == "" || strings.Trim(namespace+pod, words.NameCharacters) != "" {
			return e, errors.New("same-node: want the name of a Pod, or NAMESPACE/POD; is a variable not set?")
		}
		e.node = [2]string{namespace, pod}
	}
	return e, nil
}

// settingsOf are the settings that only some kinds of objects have.
var settingsOf = []struct {
	setting   string
	resources []string
	kinds     string // for messages
}{
	{"endpoints", []string{"services"}, "Services"},
	{"address", []string{"services", "ingresses.networking.k8s.io", "gateways.gateway.networking.k8s.io"}, "Services, Ingresses and Gateways"},
	{"key", []string{"secrets", "configmaps"}, "Secrets and ConfigMaps"},
	{"completions", []string{"jobs.batch"}, "Jobs"},
	{"if-failed", []string{"jobs.batch", "pods"}, "Jobs and Pods"},
	{"same-node", []string{"pods", "daemonsets.apps"}, "Pods and DaemonSets"},
}

// consistent refuses settings that contradict each other, or are not for this kind of object.
func (c *check) consistent() error {
	s := c.Settings
	for _, of := range settingsOf {
		if s.On(of.setting) && !slices.Contains(of.resources, c.resource.String()) {
			return fmt.Errorf("%s: is for %s", of.setting, of.kinds)
		}
	}
	instead := []string{"exists", "condition", "jsonpath", "endpoints", "address", "completions", "key"}
	for i, a := range instead {
		if c.Gone && s.On(a) {
			return fmt.Errorf("gone and %s are mutually exclusive", a)
		}
		for _, b := range instead[i+1:] {
			if s.On(a) && s.On(b) && a+b != "conditionjsonpath" {
				return fmt.Errorf("%s and %s are mutually exclusive", a, b)
			}
		}
	}
	switch {
	case c.Gone && s.On("if-missing"):
		return errors.New("gone and if-missing are mutually exclusive")
	case s.On("count") && c.Name != "":
		return errors.New("count: is for a selector, as in k8s:pods?selector=app=web#count=2")
	case s.On("same-node") && c.resource.String() == "pods" && c.Name != "":
		return errors.New("same-node: is for Pods by a selector, or for a DaemonSet by its name")
	case s.On("same-node") && c.resource.String() == "daemonsets.apps" && c.Name == "":
		return errors.New("same-node: is for Pods by a selector, or for a DaemonSet by its name")
	}
	return nil
}

// period is how often a check is repeated without a change to the objects.
const period = 10 * time.Second

// Check judges the present state of the objects, after the first answer of the API server.
func (c *check) Check(ctx context.Context) error {
	if c.cluster == nil { // outside a wait
		return c.alone(ctx)
	}
	err := c.check(ctx)
	if err == nil || poll.IsPermanent(err) || ctx.Err() != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := time.Since(c.missing); !c.missing.IsZero() && since < missingLong {
		return poll.After(missingLong-since, err) // the message has more to say then
	}
	return poll.After(period, err)
}

func (c *check) alone(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	one := &check{Target: c.Target, Objects: c.Objects, resource: c.resource, lookedUp: c.lookedUp, expect: c.expect,
		wake: make(chan struct{}, 1), settled: make(chan struct{})}
	s := target.NewShared(target.Options{Getenv: c.Getenv})
	one.Share(s)
	s.Start(ctx)
	return one.check(ctx)
}

// Watch reports changes to the objects.
func (c *check) Watch(context.Context) <-chan struct{} { return c.wake }

func (c *check) poke() {
	select {
	case c.wake <- struct{}{}:
	default: // an attempt is due already
	}
}

// check is Check without the time of the next attempt.
func (c *check) check(ctx context.Context) error {
	select {
	case <-c.settled:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	source := c.source
	c.mu.Unlock()
	if source.err != nil {
		return c.cluster.failure(source.err)
	}
	objects, err := c.objects(ctx, source)
	if err != nil {
		return err
	}
	if c.expect.node[1] != "" && c.Name == "" {
		if objects, err = c.onNode(ctx, objects); err != nil {
			return err
		}
	}
	if len(objects) == 0 {
		return c.notThere(source)
	}
	c.setMissing(time.Time{})
	if c.Gone {
		return stillThere(objects)
	}
	return c.judge(ctx, source, objects)
}

// objects returns the objects that the target means, once they are known.
func (c *check) objects(ctx context.Context, source origin) ([]kube.Object, error) {
	poll.Doing(ctx, "listing "+source.resource.String()+" at the API server")
	if source.objects.Synced(ctx); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if c.Name == "" {
		objects, err := source.objects.Objects()
		if err != nil {
			return nil, c.cluster.failure(err)
		}
		return objects, nil
	}
	object, err := source.objects.Object(c.Name)
	switch {
	case err != nil:
		return nil, c.cluster.failure(err)
	case object == nil:
		return nil, nil
	}
	return []kube.Object{object}, nil
}

// stillThere returns the failure for objects, at least one, that should be gone.
func stillThere(objects []kube.Object) error {
	f := failure.New(failure.Unexpected, "it has not been deleted")
	if len(objects) > 1 {
		f.Text = words.Plural(len(objects), "object")
	}
	for _, o := range objects {
		if o.At("metadata", "deletionTimestamp") == nil {
			continue
		}
		f.Text = "being deleted"
		if finalizers, _ := o.At("metadata", "finalizers").([]any); len(finalizers) > 0 {
			f.Text += ", waiting for its finalizer " + failure.Printable(fmt.Sprint(finalizers[0]))
		}
		if len(objects) > 1 {
			f.Text = words.Plural(len(objects), "object") + "; " + failure.Printable(o.Name()) + " is " + f.Text
		}
		break
	}
	return f
}

// onNode returns those of the Pods that run on the node of the same-node Pod.
func (c *check) onNode(ctx context.Context, objects []kube.Object) ([]kube.Object, error) {
	node, err := c.node(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o kube.Object) bool { return text(o, "spec", "nodeName") != node }), nil
}

// node returns the name of the node of the same-node Pod.
func (c *check) node(ctx context.Context) (string, error) {
	namespace, pod := cmp.Or(c.expect.node[0], c.cluster.namespace), c.expect.node[1]
	f := c.follow(kube.Query{Resource: podResource(), Namespace: namespace, Names: []string{pod}, Sparse: true}, pod)
	if f.Synced(ctx); ctx.Err() != nil {
		return "", ctx.Err()
	}
	o, err := f.Object(pod)
	switch node := text(o, "spec", "nodeName"); {
	case err != nil:
		return "", c.cluster.failure(err)
	case node == "":
		f := failure.New(failure.Missing, "same-node: Pod %s is not on a node", pod)
		if o == nil {
			f.Text = fmt.Sprintf("same-node: no such Pod %s%s", pod, kube.InNamespace(namespace))
		}
		f.Hint = "same-node takes the name of a running Pod: this Pod's own name is available as an environment variable from the field metadata.name"
		return "", f
	default:
		return node, nil
	}
}

// missingLong is how long an object is missing before the message warns that it may never come.
const missingLong = 10 * time.Second

// setMissing records that the object is missing at now, or, with the zero time, that it exists, and returns since when
// it is missing.
func (c *check) setMissing(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.IsZero() || c.missing.IsZero() {
		c.missing = now
	}
	return c.missing
}

// notThere returns the failure for a target without an object, or nil if that counts as ready.
func (c *check) notThere(source origin) error {
	f := &failure.Failure{Class: failure.Missing, Err: target.ErrNotThere}
	if c.Name != "" {
		f.Text = "no such " + source.resource.Kind + kube.InNamespace(source.namespace)
	} else {
		f.Text = "no " + source.resource.Kind + " matches" + kube.InNamespace(source.namespace)
	}
	if c.Gone {
		return f
	}
	switch c.expect.ifMissing {
	case "ok":
		return nil
	case "fail":
		return poll.Permanent(f)
	}
	switch {
	case c.Name == "" && source.namespace == "":
		f.Hint = "are the labels right?"
	case c.Name == "":
		f.Hint = "are the labels right, and the namespace (?namespace=)?"
	case source.namespace == "":
		f.Hint = "does it have another name?"
	default:
		f.Hint = "does it have another name, or is it in another namespace (?namespace=)?"
	}
	if source.resource.String() == "jobs.batch" {
		f.Hint = "did it finish already, and did its TTL remove it? then add #if-missing=ok. Otherwise: " + f.Hint
	}
	if time.Since(c.setMissing(time.Now())) >= missingLong {
		f.Note = "and it may never come: " + f.Hint // logged at once, not only in the next summary
	}
	return f
}
