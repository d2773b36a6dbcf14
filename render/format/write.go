package format

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/BurntSushi/toml"

	"initbox/internal/failure"
)

// Date is a date or a time of a TOML file, as it is written there.
type Date string

// MarshalTOML returns the date without quotes.
func (d Date) MarshalTOML() ([]byte, error) { return []byte(d), nil }

// Word is a boolean of a YAML file that is not written true or false, such as y or off. YAML 1.2 takes it for text, and
// so may the reader of the result.
type Word string

func (w Word) bool() bool {
	is, _ := IsBoolean(string(w))
	return is
}

// Document is like [Format.ParseExact], but returns a [Date] for each date of a TOML file, and a [Word] for some of
// YAML's booleans. It reads INI files too: their values are strings; nil for a key without =, and a list for a key that
// is repeated.
func (f *Format) Document(data []byte) (any, error) {
	if f.document != nil {
		f = &Format{Name: f.Name, parse: f.document}
	}
	return f.ParseExact(data)
}

// Writable returns whether [Format.Write] can write values in the format.
func (f *Format) Writable() bool { return f.write != nil }

// Flat returns whether a file of the format is one map of strings, in whose keys a dot does not nest.
func (f *Format) Flat() bool { return f.Name == "env" || f.Name == "properties" }

// Write returns a file with the value v, of [Format.Document] of any format. In YAML, comments and style of like, which
// is YAML or nil, are kept where its values are; anchors and merge keys are expanded. A result that [Format.Validate]
// refuses, or of more than 16 MiB, is an error. Errors have paths in their texts, and no values.
func (f *Format) Write(v any, like []byte) ([]byte, error) {
	if f.write == nil {
		return nil, &Error{Text: "values cannot be written as " + f.Name}
	}
	w := &limited{}
	err := f.guard(func() error { return f.write(w, v, like) })
	if err = cmp.Or(w.err, err); err == nil {
		err = f.Validate(w.data.Bytes())
	}
	return w.data.Bytes(), err
}

// limited holds up to maxTable bytes: indentation multiplies the size of what is nested deeply.
type limited struct {
	data bytes.Buffer
	err  error // why the data are incomplete
}

func (w *limited) Write(p []byte) (int, error) {
	if w.data.Len()+len(p) > maxTable {
		w.err = tooLong("the result", maxTable)
	}
	if w.err != nil {
		return 0, w.err
	}
	return w.data.Write(p)
}

// floatText returns a number that every reader takes for a float.
func floatText(f float64) string {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	switch {
	case math.IsNaN(f):
		return ".nan" // which Validate refuses in YAML
	case math.IsInf(f, 0):
		return ".inf"
	case !strings.Contains(text, "."):
		text += ".0"
	}
	return text
}

func writeJSON(w *limited, v any, _ []byte) error {
	w.json(v, "\n")
	fmt.Fprintln(w)
	return nil
}

// json writes a value. What begins a line in it begins with newline, which has the indentation.
func (w *limited) json(v any, newline string) {
	each := func(begin string, n int, end string, item func(i int)) {
		for i := range n {
			fmt.Fprint(w, begin, newline, "  ")
			item(i)
			begin = ","
		}
		if n > 0 {
			begin = newline
		}
		fmt.Fprint(w, begin, end)
	}
	switch v := v.(type) {
	case *Map:
		each("{", len(v.Keys), "}", func(i int) {
			w.json(v.Keys[i], "")
			fmt.Fprint(w, ": ")
			w.json(v.Values[v.Keys[i]], newline+"  ")
		})
	case []any:
		each("[", len(v), "]", func(i int) { w.json(v[i], newline+"  ") })
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			w.err = &Error{Text: "a number is infinite or NaN, which JSON cannot express"}
		}
		fmt.Fprint(w, floatText(v))
	case Word:
		fmt.Fprint(w, v.bool())
	default:
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.Encode(v)
		w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	}
}

func writeTOML(w *limited, v any, _ []byte) error {
	if _, isMap := v.(*Map); !isMap {
		return errNoMap
	}
	table, err := tomlValue(v, "")
	if err != nil {
		return err
	}
	enc := toml.NewEncoder(w)
	enc.Indent = ""
	return enc.Encode(table)
}

// tomlValue returns v with the types of the TOML library.
func tomlValue(v any, path string) (_ any, err error) {
	switch v := v.(type) {
	case *Map:
		table := make(map[string]any, len(v.Keys))
		for _, k := range v.Keys {
			if table[k], err = tomlValue(v.Values[k], Path(path, k)); err != nil {
				return nil, err
			}
		}
		return table, nil
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			if list[i], err = tomlValue(e, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	case Word:
		return v.bool(), nil
	case nil:
		return nil, &Error{Text: path + ": TOML has no null"}
	case *big.Int:
		return nil, &Error{Text: path + ": the number is too large for TOML"}
	}
	return v, nil
}

// Path returns the path of a key in the map at path, for messages.
func Path(path, key string) string {
	if path != "" {
		path += "."
	}
	return path + failure.Printable(key)
}

// lines writes a line for each key of m, and for each item of a list. It refuses what is not read back as it is: no
// value may become another key. A nil is written as "", or as line does without a value.
func (w *limited) lines(m *Map, path string, read func([]byte) (any, error), line func(key, text string, valued bool) string) error {
	for _, k := range m.Keys {
		items, several := m.Values[k].([]any)
		if !several {
			items = []any{m.Values[k]}
		}
		for _, item := range items {
			text, err := lineText(item)
			if err != nil {
				return fmt.Errorf("%s: %w", Path(path, k), err)
			}
			l := line(k, text, item != nil)
			back, _ := read([]byte(l))
			if got, ok := back.(*Map); !ok || len(got.Keys) != 1 || got.Values[k] != any(text) && got.Values[k] != item {
				return &Error{Text: Path(path, k) + ": this format cannot hold the name, or the spaces, line breaks or quotes of the value"}
			}
			fmt.Fprint(w, l)
		}
	}
	return nil
}

// lineText returns a scalar as the text of a line.
func lineText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case *Map, []any:
		return "", &Error{Text: "a map or a list cannot be written here"}
	case Word:
		return strconv.FormatBool(v.bool()), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return fmt.Sprint(v), nil
}

// writeEnv quotes values so that a shell reads the same. It cannot quote both ' and `: not all readers know \`.
func writeEnv(w *limited, v any, _ []byte) error {
	escape := strings.NewReplacer(`"`, `\"`, `\`, `\\`, "$", `\$`)
	return w.flat(v, parseEnv, func(key, text string, _ bool) string {
		switch {
		case strings.Contains(text, "'") && strings.Contains(text, "`"):
			return ""
		case strings.Contains(text, "'"):
			text = `"` + escape.Replace(text) + `"`
		case strings.ContainsAny(text, " \t\r\n\"\\$`#&|;<>()*?[]{}~!"):
			text = "'" + text + "'"
		}
		return key + "=" + text + "\n"
	})
}

func writeProperties(w *limited, v any, _ []byte) error {
	return w.flat(v, parseProperties, func(key, text string, _ bool) string {
		return escapeProperty(key, " :=#!") + "=" + escapeProperty(text, "") + "\n"
	})
}

// escapeProperty returns a text in ASCII, as java.util.Properties.store does: all versions of Java read that alike. The
// characters in special are escaped, and so is a space at the beginning.
func escapeProperty(s, special string) string {
	var b strings.Builder
	for i, r := range s {
		at := strings.IndexRune("\t\n\r\f\\", r)
		switch {
		case at >= 0:
			b.WriteString(`\` + `tnrf\`[at:at+1])
		case r == ' ' && i == 0 || strings.ContainsRune(special, r):
			b.WriteString(`\` + string(r))
		case r < ' ' || r > '~':
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04X`, u)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// flat writes lines of the flattened v, without lists.
func (w *limited) flat(v any, read func([]byte) (any, error), line func(key, text string, valued bool) string) error {
	m, err := Flatten(v)
	if err != nil {
		return err
	}
	for _, k := range m.Keys {
		if _, list := m.Values[k].([]any); list {
			return &Error{Text: Path("", k) + ": a list cannot be written in this format"}
		}
	}
	return w.lines(m, "", read, line)
}

// Flatten returns v as the keys of a flat file: those of a map in a map are joined with dots.
func Flatten(v any) (*Map, error) {
	m, isMap := v.(*Map)
	if !isMap {
		return nil, errNoMap
	}
	flat := &Map{}
	var add func(prefix string, m *Map)
	add = func(prefix string, m *Map) {
		for _, k := range m.Keys {
			if below, nested := m.Values[k].(*Map); nested {
				add(prefix+k+".", below)
			} else {
				flat.Set(prefix+k, m.Values[k])
			}
		}
	}
	add("", m)
	return flat, nil
}

var errNoMap = &Error{Text: "a file of this format is a map of keys, and the result is not"}

// writeINI writes the keys without a section first: nothing ends a section but the next one.
func writeINI(w *limited, v any, _ []byte) error {
	root, isMap := v.(*Map)
	if !isMap {
		return errNoMap
	}
	line := func(key, text string, valued bool) string {
		if !valued {
			return key + "\n"
		}
		return key + "=" + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
	}
	top := &Map{}
	for _, k := range root.Keys {
		if _, section := root.Values[k].(*Map); !section {
			top.Set(k, root.Values[k])
		}
	}
	if err := w.lines(top, "", parseINI, line); err != nil {
		return err
	}
	for _, k := range root.Keys {
		section, is := root.Values[k].(*Map)
		if !is {
			continue
		}
		title := "[" + k + "]\n"
		if back, err := parseINI([]byte(title)); err != nil || len(back.(*Map).Keys) != 1 || back.(*Map).Keys[0] != k {
			return &Error{Text: Path("", k) + ": not the name of a section"}
		}
		fmt.Fprint(w, title)
		if err := w.lines(section, Path("", k), parseINI, line); err != nil {
			return err
		}
	}
	return nil
}
