package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
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

// cut returns the name of a template's result, and the engine for its extension, or "" if it is not a template.
func cut(name string) (result, engine string) {
	ext := path.Ext(name)
	engine = extensions[ext]
	if engine == "" || name == ext {
		return name, ""
	}
	return strings.TrimSuffix(name, ext), engine
}

// isPartial returns whether a template in a tree exists only for others to include, as in Helm's charts.
func isPartial(base string) bool {
	_, engine := cut(base)
	return engine != "" && strings.HasPrefix(base, "_")
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
