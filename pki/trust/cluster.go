package trust

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"initbox/internal/certs"
	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/wait"
	"initbox/internal/words"
)

// cluster reads objects.
type cluster struct {
	Options
	mu        sync.Mutex
	client    *kube.Client // nil until its configuration could be read
	namespace string       // the Pod's
}

// object is a source in the cluster, and what was found there. It is a [wait.Check].
type object struct {
	Source
	cluster *cluster

	mu    sync.Mutex
	found certs.Found
	note  string
}

// wait returns the sources in the cluster by their indices, once all are there.
func (o Options) wait(ctx context.Context) (map[int]*object, error) {
	in := &cluster{Options: o}
	objects := map[int]*object{}
	var checks []wait.Check
	for i, s := range o.Sources {
		if s.objects.KindName != "" {
			objects[i] = &object{Source: s, cluster: in}
			checks = append(checks, objects[i])
		}
	}
	if len(checks) == 0 {
		return nil, nil
	}
	complete := func(wait.Check) string { return "complete" }
	return objects, wait.All(ctx, wait.Options{Seed: o.Seed, Goal: complete, Log: o.Log}, checks...)
}

// Check reads the objects once.
func (s *object) Check(ctx context.Context) error {
	client, namespace, err := s.cluster.connect()
	if err != nil {
		return err
	}
	objects, err := s.list(ctx, client, namespace)
	if status, refused := errors.AsType[*kube.StatusError](err); refused && status.Code == http.StatusNotFound {
		objects, err = nil, nil
	}
	if err != nil {
		return kube.Explain(err, func(who kube.Account) (hint, role string) {
			return kube.Grant("all that this command needs", s.cluster.Permissions(), who, namespace)
		})
	}
	password, err := s.password()
	if err != nil {
		return err
	}
	var found certs.Found
	for _, o := range objects {
		if err := s.parse(o, password, &found); err != nil {
			return err
		}
	}
	note := ""
	if len(objects) == 0 {
		if note = missing; !s.optional {
			return failure.New(failure.Missing, "not found%s", kube.InNamespace(s.in(namespace))).
				WithHint("does it have another name, or is it in another namespace (?namespace=)? #optional leaves it out if it is missing")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.note = found, note
	return nil
}

// result returns what the last attempt found. Another one, which hung, may still be running.
func (s *object) result() (certs.Found, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found, s.note
}

// connect returns the client and the Pod's namespace. It sends no request.
func (c *cluster) connect() (*kube.Client, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		config, err := c.Cluster.Config()
		if err != nil {
			return nil, "", err
		}
		c.client, c.namespace = kube.New(config, kube.Options{Dial: dial.New(nil).DialContext, Seed: c.Seed}), config.Namespace
	}
	return c.client, c.namespace, nil
}

// in returns the namespace of the objects; namespace is the Pod's.
func (s *object) in(namespace string) string {
	if !s.resource.Namespaced {
		return ""
	}
	return cmp.Or(s.objects.Namespace, namespace)
}

func (s *object) list(ctx context.Context, client *kube.Client, namespace string) ([]kube.Object, error) {
	resource, err := client.Resource(ctx, s.resource.String())
	if err != nil {
		return nil, err
	}
	if s.objects.Name == "" {
		return client.List(ctx, kube.Query{Resource: resource, Namespace: s.in(namespace), LabelSelector: s.objects.Selector, FieldSelector: s.objects.Fields})
	}
	o, err := client.Get(ctx, resource, s.in(namespace), s.objects.Name)
	return []kube.Object{o}, err
}

// parse adds the certificates of an object to found.
func (s Source) parse(o kube.Object, password string, found *certs.Found) error {
	name := "k8s:" + s.objects.KindName + "/" + o.Name()
	values := map[string][]byte{}
	for _, field := range []string{"data", "binaryData"} {
		data, _ := o.At(field).(map[string]any)
		for key, value := range data {
			text, _ := value.(string)
			values[name+"/"+key] = []byte(text)
			if s.resource.Name == "secrets" || field == "binaryData" {
				values[name+"/"+key], _ = base64.StdEncoding.DecodeString(text)
			}
		}
	}
	if text, isBundle := o.At("spec", "trustBundle").(string); isBundle {
		values = map[string][]byte{name: []byte(text)}
	}
	sources := slices.Sorted(maps.Keys(values))
	if len(s.keys) > 0 {
		sources = words.Each(s.keys, func(key string) string { return name + "/" + key })
	}
	before := len(found.Entries)
	for _, source := range sources {
		content, there := values[source]
		if !there {
			return failure.New(failure.Missing, "no key %s in %s", failure.Printable(strings.TrimPrefix(source, name+"/")), failure.Printable(o.Name())).
				WithHint("#key is a key of the object; without it, all keys that hold certificates are read")
		}
		more, err := certs.Parse(content, source, password)
		var none *certs.NoneError
		if errors.As(err, &none) && len(s.keys) == 0 {
			continue // a private key, perhaps
		}
		if err != nil {
			return err
		}
		found.Entries = append(found.Entries, more.Entries...)
		found.Ignored = append(found.Ignored, more.Ignored...)
	}
	if len(found.Entries) == before {
		return failure.New(failure.Missing, "no certificate in %s", failure.Printable(o.Name())).
			WithHint("is it the right object? another program may fill it later")
	}
	return nil
}
