// Package format knows the formats of configuration files. It parses the formats of values, and validates rendered
// files.
//
//	f := format.For("values.yaml")
//	data, err := f.Parse(content) // an *Error has the line and column, and quotes no value
package format

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"initbox/internal/secret"
	"initbox/internal/suggest"
)

// MaxDepth is how deep lists and maps may be nested in what [Format.Parse] returns and [Format.Validate] accepts: far
// above any configuration, and far below what overflows the stack of a program that reads it.
const MaxDepth = 1000

// Format is one format of files.
type Format struct {
	Name       string
	Extensions []string // of file names, with their dot, in lower case
	Files      []string // whole file names; one that ends in "." is the beginning of a name

	check func(data []byte) error        // nil: what parse finds
	parse func(data []byte) (any, error) // nil: values cannot be written in it
	limit int                            // of what check takes, in bytes; 0: it needs little memory

	document func(data []byte) (any, error)             // for Document; nil: parse
	write    func(w *limited, v any, like []byte) error // nil: values cannot be written in it
}

// Limits of what is checked and parsed, in bytes. The libraries for YAML and TOML take up to 50 times as much memory,
// and the others that build values up to 10 times as much.
const (
	maxDocument = 4 << 20
	maxTable    = 16 << 20
)

// None is the format of files that are not checked, whatever their extension tells.
var None = &Format{Name: "none", check: func([]byte) error { return nil }}

// formats lists every format. It has no .conf and .cfg, which are a different language for
// each program, except for one file that is known by its name.
var formats = []*Format{
	{Name: "json", Extensions: []string{".json"}, check: checkJSON, parse: parseJSON, write: writeJSON},
	{Name: "yaml", Extensions: []string{".yaml", ".yml"}, check: checkYAML, parse: parseYAML, document: wordedYAML, write: writeYAML},
	{Name: "toml", Extensions: []string{".toml"}, check: checkTOML, parse: parseTOML, document: datedTOML, write: writeTOML, limit: maxDocument},
	{Name: "ini", Extensions: []string{".ini"}, check: checkINI, document: parseINI, write: writeINI},
	{Name: "xml", Extensions: []string{".xml"}, check: checkXML},
	{Name: "env", Extensions: []string{".env"}, Files: []string{".env."}, parse: parseEnv, write: writeEnv, limit: maxTable},
	{Name: "properties", Extensions: []string{".properties"}, parse: parseProperties, write: writeProperties, limit: maxTable},
	{Name: "nginx", Files: []string{"nginx.conf"}, check: checkNginx},
	None,
}

// For returns the format of a file with that name, or nil if it is unknown. The name does not
// include endings such as .tmpl.
func For(name string) *Format {
	base := strings.ToLower(path.Base(name))
	for _, f := range formats {
		ends := func(extension string) bool { return strings.HasSuffix(base, extension) }
		is := func(file string) bool {
			return base == file || strings.HasSuffix(file, ".") && strings.HasPrefix(base, file)
		}
		if slices.ContainsFunc(f.Extensions, ends) || slices.ContainsFunc(f.Files, is) {
			return f
		}
	}
	return nil
}

// Named returns the format called name, such as "yaml".
func Named(name string) (*Format, error) {
	names := Names()
	for i, f := range formats {
		if names[i] == strings.ToLower(name) {
			return f, nil
		}
	}
	if s := suggest.Closest(name, names); s != "" {
		return nil, fmt.Errorf("no such format: %s; did you mean %s?", name, s)
	}
	return nil, fmt.Errorf("no such format: %s; the formats are %s", name, strings.Join(names, ", "))
}

// Names returns the names of all formats.
func Names() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.Name
	}
	return names
}

func (f *Format) String() string { return f.Name }

// Validate returns nil if data is a whole, well-formed file, or an [*Error]. It refuses TOML of more than 4 MiB, YAML
// with a document of more than 4 MiB, and other formats for which it would need much memory above 16 MiB.
func (f *Format) Validate(data []byte) error {
	return f.guard(func() error {
		if f.limit > 0 && len(data) > f.limit {
			return tooLong("the file", f.limit)
		}
		if f.check != nil {
			return f.check(data)
		}
		_, err := f.parse(data)
		return err
	})
}

// Parse returns the values in data: maps (map[string]any), lists ([]any), strings, booleans, numbers and nil. A number
// is an int64; a float64 if it is not an integer; or a *big.Int if it does not fit. The whole file may be any of these.
// It fails with an [*Error].
//
// Integers are int64, as after Helm's --set, and so 1000000 is printed as
// 1000000. In Helm's values files all numbers are float64, and {{ .Values.x }}
// prints 1e+06. A YAML or JSON number without a fraction is an integer, however it is written.
//
// It takes up to 4 MiB. A .env or .properties file is one map of strings, whose keys are literal: a dot does not nest.
// YAML is read as sigs.k8s.io/yaml does, and so as version 1.1: y, no and on without quotes are booleans, also as keys.
func (f *Format) Parse(data []byte) (any, error) {
	v, err := f.ParseExact(data)
	return plain(v), err
}

// ParseExact is like [Format.Parse], but keeps more of the file: maps are *[Map], in the order of the file; 1.0 is a
// float64.
func (f *Format) ParseExact(data []byte) (v any, err error) {
	switch {
	case f.parse == nil:
		return nil, &Error{Text: "values cannot be written as " + f.Name}
	case len(data) > maxDocument:
		return nil, tooLong("the file", maxDocument)
	}
	err = f.guard(func() error {
		v, err = f.parse(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// guard turns a panic into an error: libraries parse untrusted files.
func (f *Format) guard(do func() error) (err error) {
	defer func() {
		if recover() != nil { // its text may quote the file
			err = &Error{Text: "not " + f.Name}
		}
	}()
	return do()
}

// Error is where and why a file is malformed. Its text contains nothing of the file except
// keys, because the rest may be secret.
type Error struct {
	Line, Column int // from 1, Column in bytes; 0 means unknown
	Text         string
	TooLong      bool   // valid or not, it would take too much memory to tell
	keyless      string // Text without the key in it; "" if there is none
}

// about returns the error about a key, which replaces KEY in its text.
func (e *Error) about(key string) *Error {
	e.Text, e.keyless = strings.Replace(e.Text, "KEY", key, 1), strings.Replace(e.Text, "KEY", secret.Mark, 1)
	return e
}

// Keyless returns the error without the key in its text, for a key that is secret, and without its column, which shows
// how long something before it is.
func (e *Error) Keyless() *Error { return &Error{Line: e.Line, Text: cmp.Or(e.keyless, e.Text)} }

func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return e.Text
	case e.Column == 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Text)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// at returns an error at the offset in data.
func at(data []byte, offset int, text string, args ...any) *Error {
	before := data[:max(0, min(offset, len(data)))]
	return &Error{
		Line:   1 + bytes.Count(before, []byte("\n")),
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Text:   fmt.Sprintf(text, args...),
	}
}

// checkText refuses characters that no text format allows, with their position, which some parsers do not report.
func checkText(data []byte) error {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return at(data, i, "not UTF-8")
		case r == 0:
			return at(data, i, "a NUL byte")
		}
		i += n
	}
	return nil
}

// causes translates the messages of a library, which quote the file.
type causes []struct{ contains, text string }

// text returns the translation of a message, or instead if there is none.
func (c causes) text(message, instead string) string {
	for _, cause := range c {
		if strings.Contains(message, cause.contains) {
			return cause.text
		}
	}
	return instead
}

// tooLong returns the error for what would take too much memory.
func tooLong(what string, limit int) *Error {
	return &Error{TooLong: true, Text: fmt.Sprintf("%s is longer than %d MiB, and is not read because that would take many times as much memory", what, limit>>20)}
}

// tooDeep returns the error for nesting beyond [MaxDepth].
func tooDeep() *Error { return &Error{Text: fmt.Sprintf("nested deeper than %d levels", MaxDepth)} }
