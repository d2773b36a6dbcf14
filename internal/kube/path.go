package kube

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// Path is a JSONPath in kubectl's syntax, without braces, such as .status.phase.
type Path string

// ParsePath reads a path in any of the forms of kubectl wait: {.status.phase}, .status.phase and status.phase.
func ParsePath(text string) (Path, error) {
	text = strings.TrimSpace(text)
	if inside, ok := strings.CutPrefix(text, "{"); ok {
		if inside, ok = strings.CutSuffix(inside, "}"); ok {
			text = strings.TrimSpace(inside)
		}
	}
	text = strings.TrimPrefix(text, "$")
	if text != "" && text[0] != '.' && text[0] != '[' {
		text = "." + text
	}
	if text == "" || strings.ContainsAny(text, "{}") || jsonpath.New("").Parse("{"+text+"}") != nil {
		return "", errors.New("not a JSONPath as kubectl takes it, such as {.status.phase}")
	}
	return Path(text), nil
}

// CutPath returns the path at the beginning of text, and the rest. Text in brackets or quotes, such as a filter,
// belongs to the path: .conditions[?(@.type=="Ready")].status=True.
func CutPath(text string) (path, rest string) {
	depth := 0
	var quote byte
	for i := range len(text) {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '(' || c == '{':
			depth++
		case c == ']' || c == ')' || c == '}':
			depth--
		case depth == 0 && (c == '=' || c == '!' || c == '>'):
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// Find returns the values at the path in o. Of a key that is missing, there are none.
func (p Path) Find(o Object) (found []any, err error) {
	defer func() {
		if r := recover(); r != nil { // the library uses package reflect
			err = fmt.Errorf("JSONPath: %v", r)
		}
	}()
	j := jsonpath.New("").AllowMissingKeys(true) // it has state, so each search needs its own
	if err := j.Parse("{" + string(p) + "}"); err != nil {
		return nil, err
	}
	results, err := j.FindResults(map[string]any(o))
	if err != nil {
		return nil, err
	}
	for _, result := range results {
		for _, value := range result {
			if value.IsValid() && value.CanInterface() {
				found = append(found, value.Interface())
			}
		}
	}
	return found, nil
}
