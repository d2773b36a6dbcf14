// Package values reads the values for templates from files, directories, URLs and the command line, and merges them as
// Helm does. It records where each value came from, and whether it is secret.
//
//	v, err := values.Load(ctx, []values.Source{
//		{Kind: values.File, Text: "values.yaml"},
//		{Kind: values.Set, Text: "server.port=8080"},
//	}, values.Options{})
//	...
//	data := v.Map()
package values

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"initbox/internal/readfile"
	"initbox/render/format"
)

// Kind is how the text of a source is read.
type Kind int

// The kinds of sources, in the order in which they are applied, which is Helm's.
const (
	File      Kind = iota // a file, a directory, a URL (http, https) or "-" for standard input
	SetJSON               // key=JSON,…, or one JSON object to merge
	Set                   // key=value,… where true, null and integers are typed
	SetString             // key=value,… where every value is a string
	SetFile               // key=FILE,… where the file's content is the value, a string
)

var flags = [...]string{"--values", "--set-json", "--set", "--set-string", "--set-file"}

// String is the kind's flag, as in --set.
func (k Kind) String() string { return flags[k] }

// Source is one source of values.
type Source struct {
	Kind   Kind
	Text   string
	Secret bool // even if its file is not private
}

// Options is what sources need besides the file system.
type Options struct {
	Stdin io.Reader // for "-"; nil means no standard input

	// Fetch returns the content at a URL, and its Content-Type. Nil means that URLs
	// are not allowed. Its errors must not contain secrets of the URL.
	Fetch func(ctx context.Context, url string) (data []byte, contentType string, err error)

	mounts *secretMounts // nil means this machine's
}

// Values are merged values.
type Values struct{ root *node }

// Load reads the sources and merges them: kind by kind in the order of the constants, and within a kind in the order
// given. The later wins; maps are merged, lists replaced; null removes a key that an earlier source set.
//
// A file's format follows from its name; the default is YAML. In a directory, each file is a key, with its content as
// the value; directories in it are maps. Names that begin with ".." are left out. A mounted ConfigMap or Secret is read
// from a single version, even while the kubelet replaces it.
//
// Values are secret if the source says so, if other users cannot read the file, or if it is in a mounted Secret.
func Load(ctx context.Context, sources []Source, o Options) (*Values, error) {
	l := &loader{ctx: ctx, Options: o}
	if l.mounts == nil {
		l.mounts = machineMounts()
	}
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(a, b Source) int { return cmp.Compare(a.Kind, b.Kind) })
	v := &Values{root: &node{keys: map[string]*node{}}}
	for _, s := range sources {
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("reading values: %w", err)
		}
		if err := l.apply(v.root, s); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// Map returns the values: maps, lists, strings, booleans, int64, float64, *big.Int and nil. A float without a fraction
// is an int64. The map is the caller's own.
func (v *Values) Map() map[string]any { return v.root.plain(false).(map[string]any) }

// Shadow returns the values with each secret one replaced by another of the same
// shape, see [Shade]. The map is the caller's own.
func (v *Values) Shadow() map[string]any { return v.root.plain(true).(map[string]any) }

// Tree is like Map, but with the keys in the order in which they first appear in the sources, and with the numbers as
// they are in their files. If shaded, it is like Shadow.
func (v *Values) Tree(shaded bool) *format.Map { return v.root.exact(shaded).(*format.Map) }

// Secrets returns the secret values as text, longest first, without duplicates and empty
// ones. Booleans are left out: their text reveals nothing.
func (v *Values) Secrets() []string {
	var secrets []string
	v.root.walk("", func(_ string, n *node) {
		if _, isBool := n.leaf.(bool); n.secret && !isBool && n.leaf != nil && n.leaf != "" {
			secrets = append(secrets, fmt.Sprint(format.Number(n.leaf)))
		}
	})
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(secrets)
}

// loader is one call of [Load].
type loader struct {
	ctx context.Context
	Options
	stdin bool // has been read
	flat  bool // see Edit
}

// apply merges a source into root.
func (l *loader) apply(root *node, s Source) error {
	if s.Kind == File {
		n, err := l.file(s)
		if err == nil {
			merge(root, n)
		}
		return err
	}
	err := l.set(root, s)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Kind, err)
	}
	return nil
}

// file reads a source of the kind [File].
func (l *loader) file(s Source) (*node, error) {
	var data []byte
	var err error
	f := format.For(s.Text)
	shown, secret := s.Text, s.Secret
	switch {
	case s.Text == "":
		return nil, fmt.Errorf("--values is given without a file")
	case s.Text == "-":
		shown = "standard input"
		data, err = l.readStdin()
	case isURL(s.Text):
		shown = withoutSecrets(s.Text)
		data, f, err = l.fetch(s.Text)
	default:
		if stat, err := os.Stat(s.Text); err == nil && stat.IsDir() {
			n, err := l.directory(s)
			if err != nil {
				err = fmt.Errorf("reading values from %s: %w", s.Text, err)
			}
			return n, err
		}
		var private bool
		data, private, err = l.read(s.Text)
		secret = secret || private
	}
	if err != nil {
		return nil, fmt.Errorf("reading values: %w", err)
	}
	if f == nil {
		f, _ = format.Named("yaml")
	}
	doc, err := f.ParseExact(data)
	if err != nil {
		return nil, fmt.Errorf("reading values from %s: %w", shown, err)
	}
	return fromFile(doc, shown, secret)
}

// fromFile returns the tree of a file, which must be a map or empty.
func fromFile(doc any, shown string, secret bool) (*node, error) {
	switch doc.(type) {
	case nil:
		doc = &format.Map{}
	case *format.Map:
	case []any:
		return nil, fmt.Errorf("reading values from %s: it is a list, but values are a map of keys", shown)
	default:
		return nil, fmt.Errorf("reading values from %s: it is not a map of keys; to use its text as a value, use --set-file KEY=%s, or name its directory", shown, shown)
	}
	return build(doc, shown, secret), nil
}

func (l *loader) readStdin() ([]byte, error) {
	if l.Stdin == nil {
		return nil, fmt.Errorf("there is no standard input")
	}
	if l.stdin {
		return nil, fmt.Errorf("standard input can be read only once")
	}
	l.stdin = true
	data, err := io.ReadAll(io.LimitReader(l.Stdin, readfile.Limit+1))
	if err == nil && len(data) > readfile.Limit {
		err = fmt.Errorf("standard input is longer than %d bytes", readfile.Limit)
	}
	return data, err
}

// Remote returns whether the source is at a URL.
func (s Source) Remote() bool { return s.Kind == File && isURL(s.Text) }

func isURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// withoutSecrets returns a URL without the parts that may be secret.
func withoutSecrets(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// contentTypes has the formats for URLs whose path has no known extension.
var contentTypes = []struct{ contains, format string }{
	{"json", "json"}, {"yaml", "yaml"}, {"toml", "toml"}, {"java-properties", "properties"},
}

func (l *loader) fetch(text string) ([]byte, *format.Format, error) {
	shown := withoutSecrets(text)
	if l.Fetch == nil {
		return nil, nil, fmt.Errorf("%s: URLs are not allowed here", shown)
	}
	data, contentType, err := l.Fetch(l.ctx, text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", shown, err)
	}
	if len(data) > readfile.Limit {
		return nil, nil, fmt.Errorf("%s is longer than %d bytes", shown, readfile.Limit)
	}
	if u, err := url.Parse(text); err == nil {
		if f := format.For(u.Path); f != nil {
			return data, f, nil
		}
	}
	for _, t := range contentTypes {
		if strings.Contains(strings.ToLower(contentType), t.contains) {
			f, _ := format.Named(t.format)
			return data, f, nil
		}
	}
	return data, nil, nil
}

// read returns the content of a file, and whether it is secret. A file behind a link of a
// mount may disappear while the kubelet replaces it, so read tries again.
func (l *loader) read(name string) (data []byte, secret bool, err error) {
	for range tries {
		var stat os.FileInfo
		if stat, err = os.Stat(name); err == nil {
			secret = l.mounts.isSecret(name, stat)
			data, err = readfile.All(name)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return data, secret, err
}

// text reads the file of a --set-file, and returns whether it is secret.
func (l *loader) text(name string) (string, bool, error) {
	if name == "-" {
		data, err := l.readStdin()
		return string(data), false, err
	}
	data, secret, err := l.read(name)
	return string(data), secret, err
}
