package kubeget

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/lazy"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// File is a file that is made of an object.
type File struct {
	Name    string // below DST, or of the variable; empty if only DST can name it
	Content []byte
	Secret  bool   // it came from a Secret
	From    string // the object, and the key if there is one, for messages

	target *Target
}

// Files returns what the target makes of the objects. The error is a [failure.Failure]: of class Missing for a key or a
// field that is not there yet, and otherwise permanent.
func (t *Target) Files(objects []kube.Object) ([]File, error) {
	if len(t.Paths) > 0 && len(objects) > 1 {
		return nil, poll.Permanent(failure.New(failure.Unexpected, "%s match, and jsonpath is for one", words.Plural(len(objects), "object")).
			WithHint("narrow the selector down, or name the object"))
	}
	var files []File
	for _, o := range objects {
		own, err := t.filesOf(o)
		if f, ok := errors.AsType[*failure.Failure](err); ok && t.Name == "" {
			f.Text = fmt.Sprintf("%s %s: %s", kindOf(t, o), failure.Printable(o.Name()), f.Text)
		}
		if err != nil {
			return nil, err
		}
		for _, f := range own {
			f.From = fmt.Sprintf("%s %s%s", kindOf(t, o), failure.Printable(o.Name()), f.From)
			f.Secret = t.secret() || o.At("kind") == "Secret"
			f.target = t
			files = append(files, f)
		}
	}
	return files, Distinct(files)
}

// kindOf returns the kind of an object; those of a list do not have it.
func kindOf(t *Target, o kube.Object) string {
	kind, _ := o.At("kind").(string)
	return cmp.Or(t.resource.Kind, failure.Printable(kind), "object")
}

// filesOf returns the files of one object.
func (t *Target) filesOf(o kube.Object) ([]File, error) {
	switch {
	case len(t.Paths) > 0:
		return t.field(o)
	case t.Format != "":
		content, err := whole(t, o)
		return []File{{Name: cmp.Or(t.To, o.Name()+"."+t.Format), Content: content}}, err
	}
	return t.keyFiles(o)
}

// field returns the file of the first path that leads to a value.
func (t *Target) field(o kube.Object) ([]File, error) {
	for _, path := range t.Paths {
		values, err := path.Find(o)
		text := strings.Join(words.Each(values, textOf), " ")
		if err == nil && text != "" {
			return []File{{Name: t.To, Content: []byte(text)}}, nil
		}
	}
	return t.without(t.To, func() error {
		paths := words.List(words.Each(t.Paths, func(p kube.Path) string { return failure.Printable(string(p)) }))
		return failure.New(failure.Missing, "has no %s", paths).WithHint("does kubectl get -o jsonpath show it? #default=TEXT writes a text instead of waiting, #optional writes nothing")
	})
}

// without returns what stands for a key or a field that is missing.
func (t *Target) without(name string, missing func() error) ([]File, error) {
	switch {
	case t.Default != nil:
		return []File{{Name: name, Content: []byte(*t.Default)}}, nil
	case t.Optional:
		return nil, nil
	}
	return nil, missing()
}

// textOf returns a value as kubectl prints it: a string as it is, and nothing for null, an empty list and an empty map.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	}
	text := strings.TrimSuffix(string(marshal(v, "")), "\n")
	if text == "[]" || text == "{}" {
		return ""
	}
	return text
}

// marshal returns a value of an object, which JSON can express, as JSON.
func marshal(v any, indent string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	e.Encode(v)
	return b.Bytes()
}

// whole returns an object in the format of t.
func whole(t *Target, o kube.Object) ([]byte, error) {
	o = maps.Clone(o)
	if o["kind"] == nil && t.resource.Kind != "" { // an item of a list
		o["kind"], o["apiVersion"] = t.resource.Kind, strings.TrimPrefix(t.resource.Group+"/"+t.resource.Version, "/")
	}
	if t.Format == "json" {
		return marshal(o, "    "), nil
	}
	return yaml.Marshal(o)
}

// keyName matches the keys that the API server admits to Secrets and ConfigMaps, each of which is a file name.
var keyName = lazy.Regexp(`^[-._a-zA-Z0-9]{1,253}$`)

// keyFiles returns a file for each key that is wanted of a Secret or ConfigMap, as a volume of it has.
func (t *Target) keyFiles(o kube.Object) (files []File, err error) {
	data, err := contents(o, t.secret())
	if err != nil {
		return nil, err
	}
	keys := t.Keys
	if len(keys) == 0 {
		keys = slices.Sorted(maps.Keys(data))
	}
	for _, key := range keys {
		name := cmp.Or(t.To, key)
		content, found := data[key]
		if !found || len(content) == 0 && len(t.Keys) > 0 && !t.Optional {
			instead, err := t.without(name, func() error { return missingKey(key, found, data) })
			if err != nil {
				return nil, err
			}
			files = append(files, instead...)
			continue
		}
		if !keyName().MatchString(key) || key == "." || strings.HasPrefix(key, "..") {
			return nil, poll.Permanent(failure.New(failure.Unexpected, "key %s cannot be the name of a file", failure.Printable(key)).
				WithHint("name the keys that are wanted, with #key=KEY"))
		}
		files = append(files, File{Name: name, Content: content, From: ", key " + failure.Printable(key)})
	}
	return files, nil
}

// missingKey is the failure of an object without the key, or with an empty one.
func missingKey(key string, found bool, data map[string][]byte) error {
	if found {
		return failure.New(failure.Missing, "key %s is empty", failure.Printable(key)).WithHint("#optional accepts an empty key")
	}
	f := failure.New(failure.Missing, "no key %s", failure.Printable(key))
	if f.Note = "it is empty"; len(data) > 0 {
		f.Note = "found " + words.List(words.Each(slices.Sorted(maps.Keys(data)), failure.Printable))
	}
	return f.WithHint("#default=TEXT writes a text instead of waiting, #optional writes nothing")
}

// contents returns the values of a Secret or ConfigMap by key. Its errors do not quote them.
func contents(o kube.Object, secret bool) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, part := range []string{"data", "binaryData"} {
		values, _ := o.At(part).(map[string]any)
		for key, value := range values {
			text, ok := value.(string)
			content, err := []byte(text), error(nil)
			if part == "binaryData" || secret {
				content, err = base64.StdEncoding.DecodeString(text)
			}
			if !ok || err != nil {
				return nil, poll.Permanent(failure.New(failure.Unexpected, "the value of key %s is not valid", failure.Printable(key)))
			}
			all[key] = content
		}
	}
	return all, nil
}

// Distinct returns an error, the same for every order of the files, if two of them have the same name.
func Distinct(files []File) error {
	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.From, b.From))
	})
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; a.Name == b.Name {
			return poll.Permanent(failure.New(failure.Unexpected, "%s would be both %s and %s", failure.Printable(a.Name), a.From, b.From).
				WithHint("name one of them with #to=NAME, or write them into different directories"))
		}
	}
	return nil
}
