package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is a JSON Schema, of draft 2020-12 or draft-07. It may be used by several goroutines.
type Schema struct {
	resolved *jsonschema.Resolved
	raw      any // the schema itself, to find violations
}

// ReadSchema reads a schema, in JSON or YAML. It fails with an [*Error] if data is not a
// schema, or if it refers to another file: it never reads or fetches one.
func ReadSchema(data []byte) (s *Schema, err error) {
	defer func() {
		if recover() != nil { // the library makes unchecked type assertions
			s, err = nil, &Error{Text: "not a JSON Schema"}
		}
	}()
	parse := parseYAML
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		parse = parseJSON
	}
	raw, err := parse(data)
	if err != nil {
		return nil, err
	}
	raw = rounded(plain(raw))
	if _, ok := raw.(map[string]any); !ok {
		return nil, &Error{Text: "not a JSON Schema: it is of type " + typeOf(raw) + ", not object"}
	}
	if at, word := misspelt(raw); word != "" {
		return nil, &Error{Text: "the schema has " + at + ", which is not a keyword: did you mean " + word + "?"}
	}
	if at := endless(raw); at != "" {
		return nil, &Error{Text: "the schema at " + at + " refers to itself endlessly"}
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return nil, &Error{Text: "not a JSON Schema"}
	}
	parsed := &jsonschema.Schema{}
	if err := json.Unmarshal(text, parsed); err != nil {
		return nil, &Error{Text: "not a JSON Schema: " + err.Error()}
	}
	resolved, err := parsed.Resolve(nil)
	if err != nil {
		return nil, &Error{Text: "not a JSON Schema: " + strings.ReplaceAll(err.Error(), "no loader passed to Schema.Resolve", "a schema must be in one file")}
	}
	if err := resolved.Validate(nil); err != nil && strings.HasPrefix(err.Error(), "cannot validate version") {
		return nil, &Error{Text: err.Error()}
	}
	return &Schema{resolved, raw}, nil
}

// Violation is one violation of a schema.
type Violation struct {
	Pointer string // into the document, as in RFC 6901; "" is the whole
	Text    string // without values of the document
}

// SchemaError lists how a document violates its schema.
type SchemaError struct {
	Violations []Violation // by Pointer; at least one, at most [maxViolations]
}

const maxViolations = 50

func (e *SchemaError) Error() string {
	var b strings.Builder
	for i, v := range e.Violations {
		if i > 0 {
			b.WriteString("; ")
		}
		if v.Pointer != "" {
			b.WriteString(v.Pointer + ": ")
		}
		b.WriteString(v.Text)
	}
	return b.String()
}

// Validate returns nil if doc, as [Format.Parse] returns it, conforms to the schema, or else
// a [*SchemaError]. The library decides whether it conforms. Because the library stops at
// the first violation, and quotes values, schemaWalk finds the violations.
func (s *Schema) Validate(doc any) (err error) {
	defer func() {
		if recover() != nil {
			err = &SchemaError{[]Violation{{"", "it cannot be checked against the schema"}}}
		}
	}()
	doc = rounded(doc)
	verdict := s.resolved.Validate(doc)
	if verdict == nil {
		return nil
	}
	w := &schemaWalk{root: s.raw}
	w.check(s.raw, doc, "", 0)
	if len(w.found) == 0 {
		w.add("", "%s", keywordOf(verdict))
	}
	slices.SortStableFunc(w.found, func(a, b Violation) int { return strings.Compare(a.Pointer, b.Pointer) })
	return &SchemaError{slices.Compact(w.found)}
}

// keywordOf returns which keyword the library found to be violated. Its error names the keyword before the value.
func keywordOf(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	word, _, _ := strings.Cut(err.Error(), ":")
	switch word, _, _ = strings.Cut(word, "["); word {
	case "anyOf", "oneOf", "not", "if", "contains", "minContains", "maxContains", "dependentRequired", "uniqueItems", "multipleOf":
		return "it violates " + word + " of the schema"
	}
	return "it violates the schema"
}

// schemaWalk finds violations, as far as it is sure of them.
type schemaWalk struct {
	root  any
	found []Violation
}

func (w *schemaWalk) add(pointer, text string, args ...any) {
	if len(w.found) < maxViolations {
		w.found = append(w.found, Violation{pointer, fmt.Sprintf(text, args...)})
	}
}

func (w *schemaWalk) check(schema, doc any, pointer string, depth int) {
	if depth > 2*MaxDepth || len(w.found) == maxViolations {
		return
	}
	if schema == false {
		w.add(pointer, "is not allowed")
	}
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	if ref, ok := s["$ref"].(string); ok {
		if target := refersTo(w.root, ref); target != nil {
			w.check(target, doc, pointer, depth+1)
		}
	}
	if !w.checkType(s, doc, pointer) {
		return // further keywords would only repeat it
	}
	w.checkEqual(s, doc, pointer)
	switch doc := doc.(type) {
	case map[string]any:
		w.checkMap(s, doc, pointer, depth)
	case []any:
		w.checkList(s, doc, pointer, depth)
	case string:
		w.checkBounds(s, pointer, float64(len([]rune(doc))), "minLength", "maxLength", "characters")
		if pattern, ok := s["pattern"].(string); ok && !matches(pattern, doc) {
			w.add(pointer, "does not match %s", pattern)
		}
	case int64:
		w.checkBounds(s, pointer, float64(doc), "minimum", "maximum", "")
	case float64:
		w.checkBounds(s, pointer, doc, "minimum", "maximum", "")
	}
	all, _ := s["allOf"].([]any)
	for _, sub := range all {
		w.check(sub, doc, pointer, depth+1)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		w.checkAny(s, word, doc, pointer, depth)
	}
}

func (w *schemaWalk) checkType(s map[string]any, doc any, pointer string) bool {
	var want []string
	switch t := s["type"].(type) {
	case string:
		want = []string{t}
	case []any:
		for _, e := range t {
			want = append(want, fmt.Sprint(e))
		}
	}
	got := typeOf(doc)
	if want == nil || slices.Contains(want, got) || got == "integer" && slices.Contains(want, "number") {
		return true
	}
	if f, ok := doc.(float64); ok && Number(f) != any(f) && slices.Contains(want, "integer") {
		return true
	}
	w.add(pointer, "is of type %s, not %s", got, strings.Join(want, " or "))
	return false
}

func (w *schemaWalk) checkEqual(s map[string]any, doc any, pointer string) {
	if enum, ok := s["enum"].([]any); ok && !slices.ContainsFunc(enum, func(e any) bool { return jsonschema.Equal(e, doc) }) {
		shown, _ := json.Marshal(enum)
		w.add(pointer, "is not one of %.200s", shown)
	}
	if c, ok := s["const"]; ok && !jsonschema.Equal(c, doc) {
		shown, _ := json.Marshal(c)
		w.add(pointer, "is not %.200s", shown)
	}
}

func (w *schemaWalk) checkBounds(s map[string]any, pointer string, n float64, least, most, unit string) {
	limit := func(word string) (float64, bool) {
		switch v := s[word].(type) {
		case int64:
			return float64(v), true
		case float64:
			return v, true
		}
		return 0, false
	}
	show := func(f float64) string {
		return strings.TrimSuffix(strconv.FormatFloat(f, 'f', -1, 64)+" "+unit, " ")
	}
	if v, ok := limit(least); ok && n < v {
		w.add(pointer, "is less than %s", show(v))
	}
	if v, ok := limit(most); ok && n > v {
		w.add(pointer, "is more than %s", show(v))
	}
	if unit == "" {
		if v, ok := limit("exclusiveMinimum"); ok && n <= v {
			w.add(pointer, "is not more than %s", show(v))
		}
		if v, ok := limit("exclusiveMaximum"); ok && n >= v {
			w.add(pointer, "is not less than %s", show(v))
		}
	}
}

func (w *schemaWalk) checkMap(s, doc map[string]any, pointer string, depth int) {
	required, _ := s["required"].([]any)
	for _, r := range required {
		if key, ok := r.(string); ok {
			if _, ok := doc[key]; !ok {
				w.add(pointer, "the key %q is missing", key)
			}
		}
	}
	w.checkBounds(s, pointer, float64(len(doc)), "minProperties", "maxProperties", "keys")
	properties, _ := s["properties"].(map[string]any)
	patterns, _ := s["patternProperties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		inner := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		known := false
		if sub, ok := properties[key]; ok {
			known = true
			w.check(sub, doc[key], inner, depth+1)
		}
		for pattern, sub := range patterns {
			if matches(pattern, key) {
				known = true
				w.check(sub, doc[key], inner, depth+1)
			}
		}
		switch additional, ok := s["additionalProperties"]; {
		case known || !ok:
		case additional == false:
			w.add(inner, "the schema has no such key")
		default:
			w.check(additional, doc[key], inner, depth+1)
		}
	}
}

func (w *schemaWalk) checkList(s map[string]any, doc []any, pointer string, depth int) {
	w.checkBounds(s, pointer, float64(len(doc)), "minItems", "maxItems", "items")
	first, _ := s["prefixItems"].([]any)
	rest := s["items"]
	if list, ok := rest.([]any); ok { // draft-07
		first, rest = list, s["additionalItems"]
	}
	for i, e := range doc {
		sub := rest
		if i < len(first) {
			sub = first[i]
		}
		if sub != nil {
			w.check(sub, e, pointer+"/"+strconv.Itoa(i), depth+1)
		}
	}
}

// checkAny adds a violation if doc matches no schema of a list.
func (w *schemaWalk) checkAny(s map[string]any, word string, doc any, pointer string, depth int) {
	list, ok := s[word].([]any)
	if !ok {
		return
	}
	var last []Violation
	for _, sub := range list {
		inner := &schemaWalk{root: w.root}
		if inner.check(sub, doc, pointer, depth+1); len(inner.found) == 0 {
			return
		}
		last = inner.found
	}
	if len(list) == 1 {
		w.found = append(w.found, last...)
		return
	}
	w.add(pointer, "matches none of the %d alternatives of %s", len(list), word)
}

// typeOf returns the name of the type of v in JSON Schema.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case int64, int:
		return "integer"
	case float64:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// refersTo returns the target of a $ref within the file, or nil.
func refersTo(root any, ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	switch {
	case !ok:
		return nil
	case pointer == "":
		return root
	case pointer[0] != '/':
		return anchored(root, pointer)
	}
	v := root
	for part := range strings.SplitSeq(pointer[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%").Replace(part)
		switch node := v.(type) {
		case map[string]any:
			v = node[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

// anchored finds the schema in root with the anchor name.
func anchored(root any, name string) any {
	for _, m := range mapsIn(root, "") {
		if m["$anchor"] == name || m["$dynamicAnchor"] == name {
			return m
		}
	}
	return nil
}

// mapsIn yields v, if it is a map, and each map in it, with their pointers.
func mapsIn(v any, pointer string) iter.Seq2[string, map[string]any] {
	return func(yield func(string, map[string]any) bool) { yieldMaps(v, pointer, yield) }
}

func yieldMaps(v any, pointer string, yield func(string, map[string]any) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		if !yield(pointer, v) {
			return false
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !yieldMaps(v[key], pointer+"/"+key, yield) {
				return false
			}
		}
	case []any:
		for i, e := range v {
			if !yieldMaps(e, pointer+"/"+strconv.Itoa(i), yield) {
				return false
			}
		}
	}
	return true
}

func matches(pattern, s string) bool {
	re, err := regexp.Compile(pattern)
	return err == nil && re.MatchString(s)
}

// keywords are the keywords that the library knows, by their names in lower case.
var keywords = sync.OnceValue(func() map[string]string {
	words := map[string]string{"type": "type", "items": "items", "dependencies": "dependencies"} // which it reads itself
	for field := range reflect.TypeFor[jsonschema.Schema]().Fields() {
		if word, _, _ := strings.Cut(field.Tag.Get("json"), ","); word != "-" {
			words[strings.ToLower(word)] = word
		}
	}
	return words
})

// misspelt returns the pointer to a key in the schema that differs from a keyword only in case, and the keyword. Such a
// key has no meaning, but the library treats it as the keyword, so endless would miss a loop through it.
func misspelt(schema any) (pointer, word string) {
	var inSchema func(v any, pointer string) (string, string)
	inMap := func(v any, pointer string) (string, string) {
		m, _ := v.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if at, word := inSchema(m[key], pointer+"/"+key); word != "" {
				return at, word
			}
		}
		return "", ""
	}
	inSchema = func(v any, pointer string) (string, string) {
		switch v := v.(type) {
		case []any:
			for i, e := range v {
				if at, word := inSchema(e, pointer+"/"+strconv.Itoa(i)); word != "" {
					return at, word
				}
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				at, word := "", ""
				switch known := keywords()[strings.ToLower(key)]; {
				case known != "" && known != key:
					return "#" + pointer + "/" + key, known
				case known == "" || key == "enum" || key == "const" || key == "default" || key == "examples":
				case strings.HasSuffix(key, "roperties") && !strings.HasPrefix(key, "additional") && !strings.HasPrefix(key, "unevaluated"), strings.HasPrefix(key, "depend"), key == "$defs", key == "definitions":
					at, word = inMap(v[key], pointer+"/"+key) // the keys are names
				default:
					at, word = inSchema(v[key], pointer+"/"+key)
				}
				if word != "" {
					return at, word
				}
			}
		}
		return "", ""
	}
	return inSchema(schema, "")
}

// inPlace are the keywords whose schemas apply to the same value as the schema that contains them.
var inPlace = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}

// endless returns where in the schema, if anywhere, a chain of references and [inPlace] keywords forms a loop. The
// library would follow it until the stack overflows, which ends the process.
func endless(root any) string {
	const visiting, done = 1, 2
	state := map[uintptr]int{}
	var follow func(v any) bool
	follow = func(v any) bool {
		switch v := v.(type) {
		case []any:
			return slices.ContainsFunc(v, follow)
		case map[string]any:
			id := reflect.ValueOf(v).Pointer()
			if state[id] != 0 {
				return state[id] == visiting
			}
			state[id] = visiting
			for _, word := range inPlace {
				switch sub := v[word].(type) {
				case map[string]any:
					if follow(sub) || strings.HasPrefix(word, "depend") && slices.ContainsFunc(slices.Collect(maps.Values(sub)), follow) {
						return true
					}
				case []any:
					if follow(sub) {
						return true
					}
				}
			}
			for _, word := range []string{"$ref", "$dynamicRef"} {
				if ref, ok := v[word].(string); ok && follow(refersTo(root, ref)) {
					return true
				}
			}
			state[id] = done
		}
		return false
	}
	for pointer, schema := range mapsIn(root, "#") {
		if follow(schema) {
			return pointer
		}
	}
	return ""
}
