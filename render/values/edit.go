package values

import (
	"context"
	"fmt"
	"os"
	"slices"
	"unicode/utf8"

	"initbox/render/format"
)

// Document is one file of [Files].
type Document struct {
	Name   string // its path
	Data   []byte
	Secret bool // as in [Load]
}

// Files returns the file called name, or the files in the directory of that name, sorted, of one version if it is a
// mounted ConfigMap or Secret. Directories in it are left out.
func Files(ctx context.Context, name string) ([]Document, error) {
	l := &loader{ctx: ctx, Options: Options{mounts: machineMounts()}}
	if stat, err := os.Stat(name); err != nil || !stat.IsDir() {
		data, secret, err := l.read(name)
		return []Document{{name, data, secret}}, err
	}
	n, err := l.directory(Source{Text: name})
	if err != nil {
		return nil, err
	}
	var files []Document
	for _, k := range n.inOrder() {
		if f := n.keys[k]; !f.isMap() {
			files = append(files, Document{f.source, []byte(f.leaf.(string)), f.secret})
		}
	}
	return files, nil
}

// Edit changes a document.
type Edit struct {
	Delete []string // keys, as in a.b[0].c
	Set    []Source // of the kinds Set, SetString and SetFile
	Flat   bool     // a dot in a key does not nest
}

// Apply returns doc, of [format.Format.Document], without the keys to delete, and then with those to set; a null is a
// value. Secret is whether a file of Set is. It changes doc.
func (e Edit) Apply(ctx context.Context, doc any) (_ any, secret bool, err error) {
	if doc == nil {
		doc = &format.Map{}
	}
	root := build(doc, "", false)
	l := &loader{ctx: ctx, flat: e.Flat, Options: Options{mounts: machineMounts()}}
	for _, path := range e.Delete {
		steps, err := l.deletion(path)
		if err != nil {
			return nil, false, err
		}
		root.remove(steps)
	}
	for _, s := range e.Set {
		if err := l.apply(root, s); err != nil {
			return nil, false, err
		}
	}
	root.walk("", func(path string, n *node) {
		n.removed, secret = false, secret || n.secret
		if text, ok := n.leaf.(string); ok && !utf8.ValidString(text) && err == nil {
			err = fmt.Errorf("%s: the value is not UTF-8", path)
		}
	})
	return root.exact(false), secret, err
}

// deletion reads a path to delete. It is no item of a list: each run would delete another one.
func (l *loader) deletion(path string) ([]step, error) {
	p := &setParser{rest: path + "=", flat: l.flat}
	steps, _, err := p.path()
	if err != nil || p.rest != "" || slices.Contains(steps, step{"", -1}) || steps[len(steps)-1].index >= 0 {
		return nil, fmt.Errorf("--delete %s: want the path of a key, as in a.b or a[0].b", path)
	}
	return steps, nil
}

// remove deletes the key that the steps lead to, if it is there.
func (n *node) remove(steps []step) {
	last := steps[len(steps)-1]
	for _, s := range steps[:len(steps)-1] {
		switch {
		case s.index < 0 && n.keys[s.key] != nil:
			n = n.keys[s.key]
		case s.index >= 0 && s.index < len(n.items):
			n = n.items[s.index]
		default:
			return
		}
	}
	delete(n.keys, last.key)
	n.order = slices.DeleteFunc(n.order, func(k string) bool { return k == last.key })
}
