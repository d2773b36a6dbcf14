package generate

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/internal/wait"
)

// Annotation marks the Secrets that initbox has created: no other Secret is replaced.
const Annotation = "initbox/generate"

// Secret is the Secret of a cluster that keeps a result for all Pods. It is created if it is missing, and else what it
// has is used. Of two Pods that create it at once, one succeeds, and the other uses what that has made.
type Secret struct {
	Name      string
	Namespace string // empty: the client's
	Key       string // of the file; empty for a directory, whose files have their own names
	Renew     bool   // replace a certificate that has to be made again, if the Secret has the Annotation

	Owner               *Owner // with which Kubernetes removes the Secret; nil for none
	Labels, Annotations map[string]string

	Connect func() (*kube.Client, error) // errors may heal
	Seed    uint64                       // of the jitter
}

// Owner is the object of an ownerReference.
type Owner struct {
	Resource kube.Resource
	Name     string
}

var errWantSecret = errors.New("want k8s:secret/NAME#key=KEY")

// ParseSecret reads k8s:secret/NAME#key=KEY, also with ?namespace=NAMESPACE in front of the number sign. For a
// directory there is no key.
func ParseSecret(text string, m Maker) (*Secret, error) {
	whole, fragment, _ := strings.Cut(text, "#")
	target, query, _ := strings.Cut(whole, "?")
	opaque, found := strings.CutPrefix(target, "k8s:")
	if !found {
		return nil, errWantSecret
	}
	o, err := kube.ParseObjects(opaque, query)
	if err != nil {
		return nil, err
	}
	if r, _ := kube.Lookup(o.KindName); r.String() != "secrets" || o.Name == "" {
		return nil, errWantSecret
	}
	s := &Secret{Name: o.Name, Namespace: o.Namespace}
	key, valued := strings.CutPrefix(fragment, "key=")
	if s.Key, err = url.PathUnescape(key); err != nil || fragment != "" && !valued || strings.Trim(s.Key, keyCharacters) != "" {
		return nil, errors.New("want key=KEY after #, where KEY has letters, digits and -, _ or . only")
	}
	switch dir := m.layout().dir; {
	case dir && s.Key != "":
		return nil, errors.New("a certificate has the keys tls.crt, tls.key and ca.crt: leave out #key, or write one PEM, to a file whose name ends in .pem")
	case !dir && s.Key == "":
		return nil, errors.New("which key? as in k8s:secret/" + s.Name + "#key=password")
	}
	return s, nil
}

const keyCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// shortLived are kinds with which a Secret would be removed while it is in use.
var shortLived = []string{"ReplicaSet", "Job", "Pod", "ReplicationController"}

// ParseOwner reads KIND/NAME of an object that Kubernetes knows, or PLURAL.VERSION.GROUP/NAME of another.
func ParseOwner(text string) (*Owner, error) {
	kind, name, found := strings.Cut(text, "/")
	if !found || kind == "" || name == "" || strings.Contains(name, "/") {
		return nil, errors.New("want KIND/NAME, as in statefulset/db")
	}
	r, known := kube.Lookup(kind)
	if !known {
		return nil, errors.New("no such kind: want one that every cluster has, as in statefulset/db")
	}
	if slices.Contains(shortLived, r.Kind) {
		return nil, failure.WithHint(fmt.Errorf("the Secret would be removed with its owner, and a %s does not last", r.Kind),
			"name the object above it, such as the Deployment or the StatefulSet, or no owner")
	}
	return &Owner{r, name}, nil
}

// String names the Secret in messages.
func (s *Secret) String() string { return "Secret " + failure.Printable(s.Name) }

// Permissions returns what [Run] does at the API server.
func (s *Secret) Permissions() []kube.Permission {
	needs := []kube.Permission{
		{Namespace: s.Namespace, Resource: "secrets", Verbs: []string{"create"}, Comment: "any Secret: create cannot be limited to a name"},
		{Namespace: s.Namespace, Resource: "secrets", Names: []string{s.Name}, Verbs: []string{"get"}},
	}
	if s.Renew {
		needs[1].Verbs = []string{"get", "update"}
	}
	if s.Owner != nil {
		r := s.Owner.Resource
		needs = append(needs, kube.Permission{Cluster: !r.Namespaced, Namespace: s.Namespace, Group: r.Group, Resource: r.Name, Names: []string{s.Owner.Name}, Verbs: []string{"get"}})
		if !r.Namespaced {
			needs[2].Namespace = ""
		}
	}
	return needs
}

func secrets() kube.Resource { r, _ := kube.Lookup("secrets"); return r }

// agreement is the wait for the Secret: failures of the API server are repeated until the deadline.
type agreement struct {
	*run
	old Files // in Out

	mu    sync.Mutex // one attempt at a time
	files Files      // of the Secret
	done  bool       // an attempt has succeeded: what one that overlaps it finds does not count
	fatal error      // why another attempt cannot help
}

// requestTimeout is how long a request that hangs holds up the next attempt.
const requestTimeout = 10 * time.Second

// timed makes one request.
func timed(ctx context.Context, ask func(ctx context.Context) (kube.Object, error)) (kube.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return ask(ctx)
}

// agree returns the files that the Secret has, and creates it if it is missing. With DryRun it returns nil if the
// Secret would be created or replaced.
func (r *run) agree(ctx context.Context, old Files) (Files, error) {
	a := &agreement{run: r, old: old}
	o := wait.Options{Seed: r.Secret.Seed, Log: r.Log, Goal: func(wait.Check) string { return "usable" }}
	if r.DryRun {
		o.Log = nil
	}
	err := wait.All(ctx, o, a)
	a.mu.Lock() // an attempt that overlapped the last one may still be ending
	defer a.mu.Unlock()
	if a.fatal != nil {
		return nil, hinted(failure.About(r.Secret.String(), a.fatal, fmt.Errorf("%s: %w", r.Secret, a.fatal)), a.fatal)
	}
	return a.files, err
}

func (a *agreement) String() string { return a.Secret.String() }

// Check makes one attempt.
func (a *agreement) Check(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return nil
	}
	client, err := a.Secret.Connect()
	if err == nil {
		a.files, err = a.settle(ctx, client, a.old)
	}
	switch {
	case err == nil:
		a.done = true
		return nil
	case poll.IsPermanent(err):
		a.fatal = err
		return err
	}
	return kube.Explain(err, func(who kube.Account) (hint, role string) {
		namespace := ""
		if client != nil {
			namespace = client.Namespace()
		}
		return kube.Grant("all that this command needs", a.Secret.Permissions(), who, namespace)
	})
}

// rounds is how often another client may be faster before settle gives up until the next attempt.
const rounds = 5

// settle makes one attempt.
func (r *run) settle(ctx context.Context, client *kube.Client, old Files) (Files, error) {
	s := *r.Secret
	if s.Namespace == "" {
		s.Namespace = client.Namespace()
	}
	var conflict error
	for range rounds {
		have, err := timed(ctx, func(ctx context.Context) (kube.Object, error) { return client.Get(ctx, secrets(), s.Namespace, s.Name) })
		var files Files
		switch {
		case status(err) == http.StatusNotFound:
			files, err = r.create(ctx, client, s, old)
		case err == nil:
			files, err = r.use(ctx, client, s, have)
		}
		if status(err) != http.StatusConflict {
			return files, err
		}
		conflict = err
	}
	return nil, conflict
}

// status returns the HTTP status of the API server's answer, or 0.
func status(err error) int {
	var s *kube.StatusError
	if errors.As(err, &s) {
		return s.Code
	}
	return 0
}

// about returns the logger of lines about the Secret.
func (r *run) about(s *Secret) *slog.Logger { return r.Log.With(failure.Fields(s.String(), 0, nil)) }

// create creates the Secret from the files that are there, or new ones.
func (r *run) create(ctx context.Context, client *kube.Client, s Secret, old Files) (Files, error) {
	files, did, err := r.decide(old)
	if err != nil {
		return nil, poll.Permanent(err)
	}
	if did == "" {
		did = failure.Printable(r.Out) + " put into it"
	}
	if r.DryRun {
		r.about(&s).Info(fmt.Sprintf("%s: would be created: %s", &s, did))
		return nil, nil
	}
	annotations := map[string]string{Annotation: r.Make.String()}
	maps.Copy(annotations, s.Annotations)
	metadata := map[string]any{"name": s.Name, "annotations": annotations, "labels": s.Labels}
	if s.Owner != nil {
		reference, err := s.Owner.reference(ctx, client, s.Namespace)
		if err != nil {
			return nil, err
		}
		metadata["ownerReferences"] = []any{reference}
	}
	kind := "Opaque"
	if r.Make.layout().dir {
		kind = "kubernetes.io/tls"
	}
	o := kube.Object{"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata, "data": map[string]any{}}
	s.put(o, files)
	stored, err := timed(ctx, func(ctx context.Context) (kube.Object, error) { return client.Create(ctx, secrets(), s.Namespace, o) })
	if err != nil {
		return nil, permanent(err)
	}
	r.about(&s).Info(fmt.Sprintf("%s: created%s: %s", &s, kube.InNamespace(s.Namespace), did))
	return s.stored(stored, r.Make.layout())
}

// use returns the files in the Secret, and replaces those that have to be made again, if that is allowed.
func (r *run) use(ctx context.Context, client *kube.Client, s Secret, have kube.Object) (Files, error) {
	files, err := s.files(have, r.Make.layout())
	if err != nil {
		return nil, poll.Permanent(err)
	}
	v, err := r.Make.check(files)
	if err != nil {
		return nil, poll.Permanent(err)
	}
	ours := have.At("metadata", "annotations", Annotation) != nil
	switch {
	case v.Reason == "":
		r.about(&s).Info(fmt.Sprintf("%s: found%s, and used", &s, kube.InNamespace(s.Namespace)))
		return files, nil
	case s.Renew && ours:
	case v.Usable:
		r.about(&s).Warn(fmt.Sprintf("%s: %s, but it is used and not replaced: %s", &s, v.Reason, r.why(ours)))
		return files, nil
	default:
		return nil, poll.Permanent(failure.WithHint(fmt.Errorf("%s, and it is not replaced: %s", v.Reason, r.why(ours)),
			"delete the Secret, so that the next Pod creates it; --renew replaces a certificate in a Secret that initbox has created"))
	}
	if r.DryRun {
		r.about(&s).Info(fmt.Sprintf("%s: would be replaced: %s", &s, v.Reason))
		return nil, nil
	}
	if files, err = r.Make.make(files); err != nil {
		return nil, poll.Permanent(err)
	}
	s.put(have, files)
	stored, err := timed(ctx, func(ctx context.Context) (kube.Object, error) {
		return client.Replace(ctx, secrets(), s.Namespace, have)
	})
	if err != nil {
		return nil, permanent(err)
	}
	r.about(&s).Info(fmt.Sprintf("%s: %s replaced%s: %s", &s, r.Make, kube.InNamespace(s.Namespace), v.Reason))
	return s.stored(stored, r.Make.layout())
}

// why says why the Secret is not replaced.
func (r *run) why(ours bool) string {
	_, isCertificate := r.Make.(*Certificate)
	switch {
	case !isCertificate:
		return "only certificates are"
	case !ours:
		return "initbox has not created the Secret"
	}
	return "that takes --renew"
}

// permanent marks the answers that a second attempt would get too.
func permanent(err error) error {
	if code := status(err); code == http.StatusUnprocessableEntity || code == http.StatusRequestEntityTooLarge {
		return poll.Permanent(kube.Explain(err, nil))
	}
	return err
}

// files returns the files in the Secret. One that lacks a key is not completed: it is another program's.
func (s *Secret) files(have kube.Object, l layout) (Files, error) {
	data, files := have.Data(), Files{}
	for _, name := range l.names {
		value, found := data[s.Key+name]
		if !found || len(value) == 0 {
			return nil, failure.WithHint(fmt.Errorf("it has no key %s, and nothing is added to a Secret that exists", s.Key+name),
				"is it another program's? give the result a Secret of its own")
		}
		files[name] = value
	}
	return files, nil
}

// stored returns the files in a Secret as the API server has stored it: a webhook may have changed what was sent, and
// the other Pods get what is there.
func (s *Secret) stored(have kube.Object, l layout) (Files, error) {
	files, err := s.files(have, l)
	return files, poll.Permanent(err)
}

// put sets the files in an object.
func (s *Secret) put(o kube.Object, files Files) {
	data, _ := o["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
		o["data"] = data
	}
	for name, content := range files {
		data[s.Key+name] = base64.StdEncoding.EncodeToString(content)
	}
}

// reference returns the ownerReference to the object. It does not keep the owner from being removed.
func (o *Owner) reference(ctx context.Context, client *kube.Client, namespace string) (map[string]any, error) {
	if !o.Resource.Namespaced {
		namespace = ""
	}
	object, err := timed(ctx, func(ctx context.Context) (kube.Object, error) { return client.Get(ctx, o.Resource, namespace, o.Name) })
	if err != nil {
		return nil, fmt.Errorf("the --owner-reference: %w", err)
	}
	version := o.Resource.Version
	if o.Resource.Group != "" {
		version = o.Resource.Group + "/" + version
	}
	return map[string]any{"apiVersion": version, "kind": o.Resource.Kind, "name": o.Name, "uid": object.At("metadata", "uid")}, nil
}
