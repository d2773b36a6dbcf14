package kubeget

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/internal/wait"
)

// cluster is an API server that objects are read from.
type cluster struct {
	o     *Options
	place kube.Place

	mu        sync.Mutex
	client    *kube.Client // nil until its configuration could be read
	namespace string       // of objects whose target names none
}

// connect returns the client and the default namespace. It sends no request.
func (k *cluster) connect() (*kube.Client, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		config, err := k.place.Config()
		if err != nil {
			return nil, "", err
		}
		k.client = kube.New(config, kube.Options{Dial: dial.New(nil).DialContext, Seed: k.o.Seed})
		k.namespace = cmp.Or(config.Namespace, kube.DefaultNamespace)
	}
	return k.client, k.namespace, nil
}

// grants returns a hint with the Roles that all targets need.
func (o *Options) grants(namespace string) func(kube.Account) (hint, role string) {
	return func(who kube.Account) (hint, role string) {
		var needs []kube.Permission
		for _, t := range o.Targets {
			needs = append(needs, t.Needs())
		}
		return kube.Grant("all that this command needs", needs, who, namespace)
	}
}

// source are objects, and the targets that mean them. They are read together, so that the certificate and the key of a
// Secret that is replaced meanwhile belong together.
type source struct {
	*cluster
	targets []*Target

	mu    sync.Mutex
	files []File
	left  []string // what is missing, and optional
}

// sourcesOf returns the sources of the targets.
func sourcesOf(o *Options) (all []*source) {
	type key struct {
		kubeconfig, context string
		objects             kube.Objects
	}
	clusters, sources := map[key]*cluster{}, map[key]*source{}
	for _, t := range o.Targets {
		at := key{kubeconfig: t.Kubeconfig, context: t.Context}
		if clusters[at] == nil {
			clusters[at] = &cluster{o: o, place: kube.Place{Kubeconfig: t.Kubeconfig, Context: t.Context, Getenv: o.Getenv}}
		}
		of := at
		if of.objects = t.Objects; t.known {
			of.objects.KindName = t.resource.String() // a kind has several names
		}
		if sources[of] == nil {
			sources[of] = &source{cluster: clusters[at]}
			all = append(all, sources[of])
		}
		sources[of].targets = append(sources[of].targets, t)
	}
	return all
}

func (s *source) String() string { return s.targets[0].String() }

// Check reads the objects once. It fails with a [failure.Failure] until all that is wanted of them is there.
func (s *source) Check(ctx context.Context) error {
	client, namespace, err := s.connect()
	if err != nil {
		return err
	}
	t := s.targets[0]
	r := t.resource
	if !t.known {
		if r, err = client.Resource(ctx, t.KindName); err != nil {
			return kube.Explain(err, s.o.grants(namespace))
		}
	}
	if namespace = cmp.Or(t.Namespace, namespace); !r.Namespaced {
		namespace = ""
	}
	objects, err := s.read(ctx, client, r, namespace)
	if err != nil {
		return kube.Explain(err, s.o.grants(s.namespace))
	}
	required := func(t *Target) bool { return !t.Optional }
	if len(objects) == 0 && slices.ContainsFunc(s.targets, required) {
		return missing(t, r, namespace)
	}
	var files []File
	var left []string
	for _, t := range s.targets {
		own, err := t.Files(objects)
		if err != nil {
			return err
		}
		files = append(files, own...)
		if reason := t.leftOut(objects, missing(t, r, namespace)); len(own) == 0 && reason != nil {
			left = append(left, reason.Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files, s.left = files, left
	return nil
}

// read returns the objects, none if the one that is named does not exist.
func (s *source) read(ctx context.Context, client *kube.Client, r kube.Resource, namespace string) ([]kube.Object, error) {
	t := s.targets[0]
	if t.Name == "" {
		return client.List(ctx, kube.Query{Resource: r, Namespace: namespace, LabelSelector: t.Selector, FieldSelector: t.Fields})
	}
	o, err := client.Get(ctx, r, namespace, t.Name)
	if status, ok := errors.AsType[*kube.StatusError](err); ok && status.Missing() {
		return nil, nil
	}
	return []kube.Object{o}, err
}

// missing is the failure of a target without an object.
func missing(t *Target, r kube.Resource, namespace string) error {
	if t.Name == "" {
		return failure.New(failure.Missing, "no %s matches%s", r.Kind, kube.InNamespace(namespace)).
			WithHint("are the labels right, and the namespace (?namespace=)? #optional accepts that nothing matches")
	}
	f := failure.New(failure.Missing, "no such %s%s", r.Kind, kube.InNamespace(namespace))
	if namespace == "" {
		return f.WithHint("does it have another name?")
	}
	return f.WithHint("does it have another name, or is it in another namespace (?namespace=)?")
}

// leftOut returns why an optional target has no file, nil if its objects have no keys; none is the failure if there is
// no object.
func (t *Target) leftOut(objects []kube.Object, none error) error {
	if len(objects) == 0 {
		return none
	}
	required := *t
	required.Optional = false
	_, err := required.Files(objects)
	return err
}

// Read waits until all targets are there, and returns their files. The error of a wait that ended too early is a
// [wait.NotReady].
func Read(ctx context.Context, o Options) (files []File, err error) {
	sources := sourcesOf(&o)
	checks := make([]wait.Check, len(sources))
	for i, s := range sources {
		checks[i] = s
	}
	w := wait.Options{AttemptTimeout: o.AttemptTimeout, Seed: o.Seed, Goal: func(wait.Check) string { return "complete" }, Log: o.Log}
	logger := cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	start := time.Now()
	err = wait.All(ctx, w, checks...)
	if err == nil && len(checks) > 1 && time.Since(start) > time.Second { // the first ones may have changed since
		w.Log = nil
		err = wait.All(ctx, w, checks...)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		files = append(files, s.files...)
		for _, reason := range s.left {
			logger.Info(s.String() + ": " + reason + ", which is optional")
		}
	}
	if err := Distinct(files); err != nil {
		return nil, poll.Permanent(err)
	}
	return files, nil
}
