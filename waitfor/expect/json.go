package expect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"initbox/internal/failure"
)

// BodyLimit is how many bytes of an answer's body are read at most. An endless body must not fill the memory.
const BodyLimit = 1 << 20

// JSON is the expectation of a JSON document: a path such as .items[0].status or ["a.b"].c, and optionally a value.
type JSON struct {
	text  string // the path, for messages
	steps []any  // string: member, int: element, counted from the end if negative
	op    string // "==", "!=", or "" for a value that is present, and neither null nor false
	value Matcher
}

// ParseJSON reads PATH, PATH==VALUE or PATH!=VALUE, where the value may be a /REGEX/.
func ParseJSON(text string) (*JSON, error) {
	text = PlainPath(text)
	steps, rest, err := parseSteps(text)
	if err != nil {
		return nil, err
	}
	j := &JSON{text: strings.TrimRight(text[:len(text)-len(rest)], " "), steps: steps}
	rest = strings.TrimLeft(rest, " ")
	switch {
	case rest == "":
		return j, nil
	case strings.HasPrefix(rest, "=="), strings.HasPrefix(rest, "!="):
		j.op = rest[:2]
		j.value, err = ParseMatcher(strings.TrimLeft(rest[2:], " "))
		return j, err
	case rest[0] == '=':
		return nil, errors.New("use == to compare, as in .status==UP")
	case rest[0] == '!':
		return nil, errors.New("use != to compare, as in .status!=DOWN")
	}
	return nil, errors.New("a path may be followed only by == or != and a value, as in .status==UP")
}

// PlainPath removes the $ and {} of JSONPath and kubectl from a path: $.status and {.status} become .status.
func PlainPath(text string) string {
	text = strings.TrimLeft(text, " ")
	if inside, ok := strings.CutPrefix(text, "{"); ok {
		path, after, closed := strings.Cut(inside, "}")
		if closed {
			text = strings.TrimSpace(path) + after
		}
	}
	if path, ok := strings.CutPrefix(text, "$"); ok {
		text = path
		if text == "" || strings.ContainsAny(text[:1], " =!") {
			text = "." + text
		}
	}
	return text
}

// parseSteps reads the path at the beginning of text, and returns the rest of text.
func parseSteps(text string) (steps []any, rest string, err error) {
	if after, ok := strings.CutPrefix(text, "."); ok && (after == "" || strings.ContainsAny(after[:1], " =!")) {
		return nil, after, nil // "." is the document itself
	}
	rest = text
	for rest != "" && (rest[0] == '.' || rest[0] == '[') {
		if rest = strings.TrimPrefix(rest, "."); strings.HasPrefix(rest, "[") { // jq writes .[0]
			inside, after, ok := strings.Cut(rest[1:], "]")
			step, err := index(inside)
			if !ok || err != nil {
				return nil, "", errors.New(`want an index such as [0], [-1] or ["key"]: a path leads to one value and cannot have [*] or a filter`)
			}
			steps, rest = append(steps, step), after
			continue
		}
		end := strings.IndexAny(rest, ".[=!")
		if end < 0 {
			end = len(rest)
		}
		name := strings.TrimRight(rest[:end], " ")
		if name == "" {
			return nil, "", errors.New("a name is missing after a dot")
		}
		steps, rest = append(steps, name), rest[end:]
	}
	if len(steps) == 0 {
		return nil, "", errors.New("a path starts with a dot, as in .status or .items[0].name")
	}
	return steps, rest, nil
}

func index(s string) (any, error) {
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' { // JSONPath
		return s[1 : len(s)-1], nil
	}
	if strings.HasPrefix(s, `"`) {
		return strconv.Unquote(s)
	}
	return strconv.Atoi(s)
}

// Check returns why the document does not meet the expectation, or nil.
func (j *JSON) Check(document []byte) error {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber() // so that 1e21 and 10000000000000001 compare as written
	var v any
	if err := d.Decode(&v); err != nil {
		f := failure.New(failure.Unexpected, "the body is not JSON")
		if len(document) == BodyLimit {
			f.Text = "the body is not JSON, or longer than 1 MiB"
		}
		return f
	}
	for _, step := range j.steps {
		var ok bool
		if v, ok = child(v, step); !ok {
			return failure.New(failure.Unexpected, "JSON has no %s", j.text)
		}
	}
	text := Text(v)
	switch {
	case j.op == "" && (v == nil || v == false):
		return failure.New(failure.Unexpected, "JSON %s is %s", j.text, text)
	case j.op == "==" && !j.is(v), j.op == "!=" && j.is(v):
		return failure.New(failure.Unexpected, "JSON %s is %s", j.text, Shorten(text))
	}
	return nil
}

// is reports whether v is the expected value. An expected string may have quotes, as in jq.
func (j *JSON) is(v any) bool {
	if _, ok := v.(string); ok && j.value.Regexp == nil {
		if quoted, err := json.Marshal(v); err == nil && string(quoted) == j.value.Text {
			return true
		}
	}
	return j.value.Whole(Text(v))
}

func child(v, step any) (any, bool) {
	switch step := step.(type) {
	case string:
		m, _ := v.(map[string]any)
		v, ok := m[step]
		return v, ok
	case int:
		a, _ := v.([]any)
		if step < 0 {
			step += len(a)
		}
		if step >= 0 && step < len(a) {
			return a[step], true
		}
	}
	return nil, false
}

// Text returns a string as it is, and any other value as JSON.
func Text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// Shorten quotes a value from a server, cut to a length that does not fill the log.
func Shorten(s string) string {
	const limit = 64
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strconv.Quote(s)
}
