package kubeget

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/perm"
	"initbox/internal/secret"
	"initbox/internal/setting"
)

// Target says which objects are read, and what of them is written.
type Target struct {
	kube.Objects
	Kubeconfig, Context string // of the cluster, as in [kube.Place]

	Keys     []string    // of a Secret or ConfigMap; empty means all
	Paths    []kube.Path // of one field: the first one with a value counts
	Format   string      // json or yaml, for whole objects; otherwise empty
	Default  *string     // what is written if a key or the field is missing; nil: it is waited for
	Optional bool        // what is missing is left out
	To       string      // the file's name; empty: the key's or the object's

	Mode  []perm.Rule[perm.Mode] // none: 0600 for what comes from a Secret, otherwise 0644
	Owner *perm.Owner            // nil: who runs this

	resource kube.Resource // valid if known without asking the API server
	known    bool
}

// Settings are the settings of a target.
var Settings = setting.List{
	{Name: "key", Value: "KEY", Usage: "only this key of the Secret or ConfigMap", Multi: true, Excludes: []string{"jsonpath", "format"}},
	{Name: "jsonpath", Value: "PATH", Usage: "the value at the JSONPath, as in {.status.phase}", Excludes: []string{"format"}},
	{Name: "else", Value: "PATH", Usage: "a JSONPath to use where the one before it leads to nothing", Multi: true, Needs: "jsonpath"},
	{Name: "default", Value: "TEXT", Usage: "what to write if the object lacks the key or field: TEXT, or nothing", Optional: true},
	{Name: "format", Value: "json|yaml", Usage: "the whole object, in this format"},
	{Name: "to", Value: "NAME", Usage: "name of the file in DST, or of the variable (default: the key's name)"},
	{Name: "optional", Usage: "leave out objects, keys and fields that are missing, instead of waiting for them"},
	{Name: "mode", Value: "[PATTERN=]MODE", Usage: "mode of files, as in 0640 or '*.key=0600' (default: 0600 for what comes from a Secret, otherwise 0644)", Multi: true},
	{Name: "owner", Value: "UID[:GID]", Usage: "owner of files: " + perm.OwnerUsage},
	{Name: "namespace", Value: "NAMESPACE", Usage: "namespace of the object; ?namespace= in a target wins (default: the Pod's own)"},
	{Name: "kubeconfig", Value: "FILE", Usage: "file that says where the cluster is, as for kubectl (default: $KUBECONFIG, or the Pod's own cluster)"},
	{Name: "context", Value: "NAME", Usage: "context of the kubeconfig file"},
}

// Parse reads a target, such as k8s:secret/db#key=password. The flags are settings that hold where its fragment has
// none.
func Parse(text string, flags setting.Settings) (*Target, error) {
	if err := secret.Unreplaced("a target", text); err != nil {
		return nil, err
	}
	rest, ours := strings.CutPrefix(text, "k8s:")
	rest, fragment, _ := strings.Cut(rest, "#")
	opaque, query, _ := strings.Cut(rest, "?")
	if kind, _, named := strings.Cut(opaque, "/"); !ours && named {
		if _, known := kube.Lookup(kind); known {
			return nil, errors.New("a target begins with k8s:, as in k8s:" + kind + "/NAME")
		}
	}
	if !ours || strings.HasPrefix(opaque, "/") {
		return nil, errors.New("not a target: " + kube.WantTarget)
	}
	q, err := kube.ParseObjects(opaque, query)
	if err != nil {
		return nil, err
	}
	t := &Target{Objects: q}
	s, err := Settings.Parse(fragment)
	if err == nil {
		s.Take(Settings, flags)
		err = s.Consistent(Settings)
	}
	if err == nil {
		err = t.set(s)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return t, nil
}

// String returns the target without its settings.
func (t *Target) String() string { return failure.Printable(t.Text(failure.Printable)) }

// set sets what the settings say.
func (t *Target) set(s setting.Settings) (err error) {
	t.Namespace = cmp.Or(t.Namespace, s.Get("namespace"))
	t.Kubeconfig, t.Context = s.Get("kubeconfig"), s.Get("context")
	t.Keys, t.Optional, t.To = s["key"], s.On("optional"), s.Get("to")
	if s.On("default") {
		text := s.Get("default")
		t.Default = &text
	}
	for _, text := range slices.Concat(s["jsonpath"], s["else"]) {
		path, rest := kube.CutPath(text)
		p, err := kube.ParsePath(path)
		if rest != "" {
			err = errors.New("a path stands alone here: wait-for-service compares")
		}
		if err != nil {
			return fmt.Errorf("jsonpath: %w", err)
		}
		t.Paths = append(t.Paths, p)
	}
	if t.Format, err = s.OneOf("format", "json", "yaml"); err != nil {
		return err
	}
	if t.Mode, err = perm.ParseRules("mode", s["mode"], perm.ParseMode); err != nil {
		return err
	}
	if s.On("owner") {
		owner, err := perm.ParseOwner(s.Get("owner"))
		if err != nil {
			return fmt.Errorf("owner: %w", err)
		}
		t.Owner = &owner
	}
	t.resource, t.known = kube.Lookup(t.KindName)
	return t.check(s)
}

// check refuses what cannot be meant.
func (t *Target) check(s setting.Settings) error {
	switch field := len(t.Keys) > 0 || len(t.Paths) > 0; {
	case !t.data() && len(t.Keys) > 0:
		return errors.New("key: is for Secrets and ConfigMaps; of other objects, jsonpath names a field")
	case !t.data() && !field && t.Format == "":
		return errors.New("which part of the object? add #jsonpath=PATH for one field, or #format=yaml for the whole object")
	case t.Default != nil && !field:
		return errors.New("default: is for one key or field: add key or jsonpath")
	case t.Default != nil && t.Optional:
		return errors.New("default and optional are mutually exclusive")
	case t.To != "" && (len(t.Keys) > 1 || !field && t.Format == ""):
		return errors.New("to: names one file: add one key or jsonpath")
	case s.On("to") && (!fs.ValidPath(t.To) || t.To == "." || strings.ContainsRune(t.To, 0)):
		return errors.New("to: want the name of a file in DST, such as zone or node/zone")
	}
	return nil
}

// data reports whether the objects consist of keys, which become files.
func (t *Target) data() bool {
	return t.known && t.resource.Group == "" && (t.resource.Name == "secrets" || t.resource.Name == "configmaps")
}

// secret reports whether what the objects hold is secret.
func (t *Target) secret() bool { return t.known && t.resource.String() == "secrets" }

// single reports whether the target is one file, which then may have the name DST.
func (t *Target) single() bool {
	return t.To == "" && (len(t.Keys) == 1 && t.Name != "" || len(t.Paths) > 0 || t.Format != "" && t.Name != "")
}

// Needs returns the permission that reading the objects takes. A kind that only the API server knows is a guess.
func (t *Target) Needs() kube.Permission {
	r := t.resource
	p := kube.Permission{Verbs: []string{"get"}}
	if !t.known {
		r, p.Comment = kube.Guess(t.KindName), kube.Guessed
	}
	p.Cluster, p.Group, p.Resource = !r.Namespaced, r.Group, r.Name
	if r.Namespaced {
		p.Namespace = t.Namespace
	}
	if t.Name != "" {
		p.Names = []string{t.Name}
	} else {
		p.Verbs = []string{"list"}
	}
	return p
}
