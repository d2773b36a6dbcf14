package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2" // under sigs.k8s.io/yaml, which reads only one document of a file, and reports no positions

	"initbox/internal/lazy"
)

// maxExpanded bounds the size of a file after its aliases are expanded.
const maxExpanded = 64 << 20

// checkYAML accepts several documents. It needs memory for a few of them at a time.
func checkYAML(data []byte) error {
	const batch = 256 << 10 // bytes: a decoder for each document would take three times as long
	from, to := 0, 0
	for doc := range yamlParts(data) {
		if len(doc) > maxDocument {
			return tooLong(fmt.Sprintf("the document that begins on line %d", lineAt(data, to)), maxDocument)
		}
		if to-from+len(doc) > batch {
			if err := checkYAMLPart(data, from, to); err != nil {
				return err
			}
			from = to
		}
		to += len(doc)
	}
	return checkYAMLPart(data, from, to)
}

// checkYAMLPart checks the documents in data[from:to].
func checkYAMLPart(data []byte, from, to int) error {
	docs, err := yamlDocuments(data[from:to])
	for i := 0; i < len(docs) && err == nil; i++ {
		_, err = (&yamlTree{left: math.MaxInt}).plain(docs[i], 0)
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.Line > 0 {
		e.Line += lineAt(data, from) - 1
	}
	return err
}

// lineAt returns the number of the line at an offset.
func lineAt(data []byte, offset int) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }

// yamlParts returns the parts of data that begin with a line ---, each with a document. Such a line is no part of any
// text: it ends a document wherever it stands (YAML 1.2.2, section 9.1.2). What follows a line ... stays with the
// document before it, because it may be directives of the next.
func yamlParts(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start, at, begun := 0, 0, false // whether the part has more than blank lines, comments and directives
		for line := range bytes.Lines(data) {
			text := bytes.TrimRight(line, " \t\r\n")
			marker := bytes.HasPrefix(text, []byte("---")) && (len(text) == 3 || text[3] == ' ' || text[3] == '\t')
			if marker && begun {
				if !yield(data[start:at]) {
					return
				}
				start, begun = at, false
			}
			blank := len(text) == 0 || text[0] == '#' || text[0] == '%'
			begun = string(text) != "..." && (begun || !blank)
			at += len(line)
		}
		yield(data[start:])
	}
}

// parseYAML returns the same as sigs.k8s.io/yaml, and so Helm, except for the types of
// numbers. It refuses duplicate keys.
func parseYAML(data []byte) (any, error) {
	v, _, err := readYAML(data, false)
	return v, err
}

func wordedYAML(data []byte) (any, error) {
	v, _, err := readYAML(data, true)
	return v, err
}

// readYAML is parseYAML, and also returns which document of the file has the value, and a [Word] for some booleans.
func readYAML(data []byte, words bool) (v any, at int, err error) {
	docs, err := yamlDocuments(data)
	if err != nil {
		return nil, 0, err
	}
	var doc any
	n := 0
	for i, d := range docs {
		if d != nil { // such as after a --- at the end
			doc, n, at = d, n+1, i
		}
	}
	if n > 1 {
		return nil, 0, &Error{Text: fmt.Sprintf("%d documents: one was expected, without --- in it", n)}
	}
	v, err = (&yamlTree{left: maxExpanded}).plain(doc, 0)
	if err != nil {
		return nil, 0, err
	}
	return ordered(v, yamlNode(data, at), words), at, nil
}

// yamlDocuments reads all documents of data, without duplicate keys.
func yamlDocuments(data []byte) ([]any, error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	docs, err := decodeYAML[any](data, true)
	// Strictly, a key that overrides a merged one (<<: *defaults) passes for a
	// duplicate. In ordered maps merged keys do not show.
	if twice := (*yaml.TypeError)(nil); errors.As(err, &twice) && bytes.Contains(data, []byte("<<")) {
		if ordered, oerr := decodeYAML[yaml.MapSlice](data, false); oerr == nil && !slices.ContainsFunc(ordered, func(doc yaml.MapSlice) bool { return hasDuplicates(doc) }) {
			docs, err = decodeYAML[any](data, false)
		}
	}
	if err != nil {
		return nil, yamlError(data, err)
	}
	return docs, nil
}

func decodeYAML[T any](data []byte, strict bool) ([]T, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.SetStrict(strict)
	var docs []T
	for {
		var doc T
		switch err := dec.Decode(&doc); {
		case err == io.EOF:
			return docs, nil
		case err != nil:
			return nil, err
		}
		docs = append(docs, doc)
	}
}

func hasDuplicates(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, hasDuplicates)
	case yaml.MapSlice:
		seen := map[string]bool{}
		for _, e := range v {
			key := fmt.Sprintf("%T %v", e.Key, e.Key)
			if seen[key] || hasDuplicates(e.Value) {
				return true
			}
			seen[key] = true
		}
	}
	return false
}

// yamlTree converts the decoded document to types that JSON has. sigs.k8s.io/yaml converts it
// to JSON for that, which takes unbounded memory with aliases.
type yamlTree struct {
	left int // bytes of strings
}

func (t *yamlTree) plain(v any, depth int) (any, error) {
	switch v := v.(type) {
	case map[any]any:
		if depth == MaxDepth {
			return nil, tooDeep()
		}
		m := make(map[string]any, len(v))
		for k, e := range v {
			key, err := yamlKey(k)
			if err != nil {
				return nil, err
			}
			if _, ok := m[key]; ok {
				return nil, (&Error{Text: "duplicate key KEY, written differently" + wordsOf(key)}).about(strconv.Quote(key))
			}
			if m[key], err = t.plain(e, depth+1); err != nil {
				return nil, err
			}
		}
		return m, nil
	case []any:
		if depth == MaxDepth {
			return nil, tooDeep()
		}
		for i, e := range v {
			var err error
			if v[i], err = t.plain(e, depth+1); err != nil {
				return nil, err
			}
		}
		return v, nil
	case string:
		if t.left -= len(v); t.left < 0 {
			return nil, &Error{Text: fmt.Sprintf("with its aliases it is longer than %d MiB", maxExpanded>>20)}
		}
	case int:
		return int64(v), nil
	case uint64:
		return new(big.Int).SetUint64(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, &Error{Text: "a number is infinite or NaN; put it in quotes if it is text"}
		}
	}
	return v, nil
}

// IsBoolean returns whether YAML 1.1 takes a word without quotes for a boolean, and for which.
func IsBoolean(word string) (value, is bool) {
	var v any
	if yaml.Unmarshal([]byte(word), &v) != nil {
		return false, false
	}
	value, is = v.(bool)
	return value, is
}

// wordsOf explains a key that is a boolean. YAML 1.1 has more words for them than JSON.
func wordsOf(key string) string {
	switch key {
	case "true":
		return ": without quotes, y, yes and on are true"
	case "false":
		return ": without quotes, n, no and off are false"
	}
	return ""
}

// yamlKey returns the text of a key as in sigs.k8s.io/yaml.
func yamlKey(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case int, int64, uint64, bool:
		return fmt.Sprint(k), nil
	case float64:
		switch s := strconv.FormatFloat(k, 'g', -1, 32); s {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		default:
			return s, nil
		}
	}
	return "", &Error{Text: "a key that is neither text, number nor boolean"}
}

// yamlCauses translates the library's messages, which quote the file. The number is how many lines they are off; -1 is
// for messages without a line. A message of another kind without a line is about the first line.
var yamlCauses = []struct {
	contains, text string
	after          int
}{
	{"mapping values are not allowed", "a colon where no key can be: is the line indented wrongly, or does text with a colon need quotes?", 0},
	{"cannot start any token", "a character that needs quotes here", 0},
	{"unexpected end of stream", "a quote is not closed", 0},
	{"could not find expected ':'", "a colon after a key is missing", 0},
	{"',' or ']'", "a comma or ] is expected here", 1},
	{"',' or '}'", "a comma or } is expected here", 1},
	{"expected key", "a key was expected here: is the line indented wrongly?", 1},
	{"'-' indicator", "a - was expected here: is the line indented wrongly?", 1},
	{"expected node content", "a value is expected here", 1},
	{"unknown escape", "an unknown escape in a string in double quotes", 0},
	{"hexdecimal number", "not a hexadecimal number in an escape", 0},
	{"unknown anchor", "an alias whose anchor does not exist", -1},
	{"contains itself", "an anchor whose value contains itself", -1},
	{"excessive aliasing", "aliases expand to too much", -1},
	{"cannot decode", "a value does not match its tag", -1},
	{"invalid base64", "a !!binary value is not base64", -1},
	{"invalid map key", "a key that is a list or a map: does {{ need quotes?", -1},
	{"map merge requires", "<< needs a map, or a list of maps", -1},
	{"control characters", "a control character", 0},
	{"max depth", "nested too deep", 0},
	{"a block scalar", "the line that begins a block of text is malformed", 0},
	{"comment or line break", "only a comment may follow on this line", 0},
	{"<document start>", "a --- is expected here: something follows the value", 1},
	{"incompatible YAML document", "an unsupported version in %YAML", 1},
	{"undefined tag handle", "an undefined tag", 1},
	{"tab character", "a tab where YAML requires spaces", 0},
}

var (
	yamlTwice  = lazy.Regexp(`^line (\d+): key (.*) already set in map$`)
	yamlAnchor = lazy.Regexp(`anchor '(.*)' `)
	yamlLine   = lazy.Regexp(`^yaml: line (\d+): `)
)

func yamlError(data []byte, err error) error {
	if twice := (*yaml.TypeError)(nil); errors.As(err, &twice) {
		for _, text := range twice.Errors {
			if m := yamlTwice().FindStringSubmatch(text); m != nil {
				line, _ := strconv.Atoi(m[1])
				return (&Error{Line: line, Text: "duplicate key KEY" + wordsOf(m[2])}).about(m[2])
			}
		}
	}
	e := &Error{Text: "not YAML"}
	text := err.Error()
	if m := yamlLine().FindStringSubmatch(text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
	}
	for _, c := range yamlCauses {
		if strings.Contains(text, c.contains) {
			e.Text = c.text
			if c.after >= 0 {
				e.Line = max(1, e.Line+c.after)
			}
			break
		}
	}
	if m := yamlAnchor().FindStringSubmatch(text); m != nil {
		if i := bytes.Index(data, []byte("*"+m[1])); i >= 0 {
			return at(data, i, "%s", e.Text)
		}
	}
	if i := bytes.Index(data, []byte("{{")); i >= 0 && strings.Contains(text, "invalid map key") {
		return at(data, i, "%s", e.Text)
	}
	lines := bytes.Split(data, []byte("\n"))
	if i := e.Line - 1; i >= 0 && i < len(lines) {
		indent := lines[i][:len(lines[i])-len(bytes.TrimLeft(lines[i], " \t"))]
		if tab := bytes.IndexByte(indent, '\t'); tab >= 0 {
			return &Error{Line: e.Line, Column: tab + 1, Text: "a tab in the indentation; YAML requires spaces"}
		}
	}
	return e
}
