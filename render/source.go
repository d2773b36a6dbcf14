package render

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Source is a source and its destination: files, directories, or "-" for stdin and stdout.
type Source struct{ From, To string }

// ParseSource reads SRC:DST. SRC alone is written to stdout.
func ParseSource(text string) (Source, error) {
	from, to, found := strings.Cut(text, ":")
	switch {
	case !found:
		to = "-"
	case strings.Contains(to, ":"):
		return Source{}, fmt.Errorf("%q has more than one colon; want SRC:DST", text)
	}
	if from == "" || to == "" {
		return Source{}, fmt.Errorf("want SRC:DST, two paths, got %q", text)
	}
	return Source{from, to}, nil
}

// Inline is a template given by its text, and the file to render it to.
type Inline struct{ To, Text string }

// ParseInline reads DST=TEXT.
func ParseInline(text string) (Inline, error) {
	to, text, found := strings.Cut(text, "=")
	if !found || to == "" || strings.HasSuffix(to, "/") {
		return Inline{}, errors.New("want DST=TEXT, a file and a template")
	}
	return Inline{to, text}, nil
}

// extensions are the extensions of templates, which are removed from the names of results.
var extensions = map[string]string{
	".tmpl":   GoTemplate,
	".tpl":    GoTemplate,
	".gotmpl": GoTemplate,
	".j2":     Jinja,
}

// ParseSuffix reads SUFFIX or SUFFIX=ENGINE, for [Options].Suffixes.
func ParseSuffix(text string) (suffix, engine string, err error) {
	suffix, engine, found := strings.Cut(text, "=")
	switch {
	case len(suffix) < 2 || strings.Contains(suffix, "/"):
		return "", "", fmt.Errorf("want the end of file names, as in .template, got %q", suffix)
	case !found:
		return suffix, Engines[0], nil
	case !slices.Contains(Engines, engine):
		return "", "", fmt.Errorf("want one of %s after =, got %q", strings.Join(Engines, ", "), engine)
	}
	return suffix, engine, nil
}

// cut returns the name of a template's result, and the engine for its extension or its suffix, or "" if it is not a
// template. The longest suffix counts.
func (o Options) cut(name string) (result, engine string) {
	longest := ""
	for _, known := range []map[string]string{extensions, o.Suffixes} {
		for suffix, e := range known {
			if len(suffix) >= len(longest) && len(name) > len(suffix) && strings.HasSuffix(name, suffix) {
				longest, engine = suffix, e
			}
		}
	}
	return strings.TrimSuffix(name, longest), engine
}

// isPartial returns whether a template in a tree exists only for others to include, as in Helm's charts.
func (o Options) isPartial(base string) bool {
	_, engine := o.cut(base)
	return engine != "" && strings.HasPrefix(base, "_")
}

// unusual are extensions that templates have elsewhere, each with what --template-suffix would be.
var unusual = map[string]string{
	".template": ".template", ".tmplt": ".tmplt", ".gotpl": ".gotpl", ".envsubst": ".envsubst=envsubst",
	".jinja": ".jinja=jinja", ".jinja2": ".jinja2=jinja",
}

// checkName refuses a rendered name that would lead to another directory.
func checkName(name string) error {
	switch {
	case strings.ContainsAny(name, "/\x00"):
		return errors.New("the name contains a slash or a NUL byte")
	case strings.HasPrefix(name, ".."), name == ".":
		return errors.New("a name cannot be a dot, or start with two dots") // .. and the names that the kubelet reserves in volumes
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return errors.New("the name contains a control character, such as a line break")
	case len(name) > maxName:
		return fmt.Errorf("the name is longer than %d bytes", maxName)
	}
	return nil
}

// maxName is Linux's NAME_MAX.
const maxName = 255

// executable returns the executable bits of mode, so that a script that was a template stays executable.
func executable(mode fs.FileMode) fs.FileMode { return mode & 0o111 }
