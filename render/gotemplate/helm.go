package gotemplate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
	"sigs.k8s.io/yaml"
	yamlv3 "sigs.k8s.io/yaml/goyaml.v3"

	"initbox/render/engine"
)

// Helm's own functions, byte for byte. As there, those without must give "" or a
// map with the key Error instead of failing.

func toYAML(v any) string {
	text, _ := mustToYAML(v)
	return text
}

func mustToYAML(v any) (string, error) {
	return encodeWhole(v, func(v any) (string, error) {
		text, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(text), "\n"), err
	})
}

func toYAMLPretty(v any) string {
	text, err := encodeWhole(v, func(v any) (string, error) {
		var text bytes.Buffer
		encoder := yamlv3.NewEncoder(&text)
		encoder.SetIndent(2)
		err := encoder.Encode(v)
		return strings.TrimSuffix(text.String(), "\n"), err
	})
	if err != nil {
		return ""
	}
	return text
}

// decodedMap returns the map in a text.
func decodedMap(text string, decode func(data []byte, to any) error) map[string]any {
	m := map[string]any{}
	if err := decode([]byte(text), &m); err != nil {
		m["Error"] = err.Error()
	}
	return m
}

// decodedList returns the list in a text.
func decodedList(text string, decode func(data []byte, to any) error) []any {
	list := []any{}
	if err := decode([]byte(text), &list); err != nil {
		return []any{err.Error()}
	}
	return list
}

func decodeYAML(data []byte, to any) error { return yaml.Unmarshal(data, to) }

func fromYAML(text string) map[string]any { return decodedMap(text, decodeYAML) }
func fromYAMLArray(text string) []any     { return decodedList(text, decodeYAML) }
func fromJSON(text string) map[string]any { return decodedMap(text, json.Unmarshal) }
func fromJSONArray(text string) []any     { return decodedList(text, json.Unmarshal) }
func fromTOML(text string) map[string]any { return decodedMap(text, decodeTOML) }

func toTOML(v any) string {
	text, err := mustToTOML(v)
	if err != nil {
		return err.Error()
	}
	return text
}

func mustToTOML(v any) (string, error) {
	return encodeWhole(v, func(v any) (string, error) {
		var text bytes.Buffer
		err := toml.NewEncoder(&text).Encode(v)
		return text.String(), err
	})
}

func decodeTOML(data []byte, to any) error {
	if err := shallow(data); err != nil {
		return err
	}
	return toml.Unmarshal(data, to)
}

// shallow fails for brackets nested so deeply that a parser's recursion could overflow the stack, and for keys of so
// many parts that their memory, which grows with the square, could be exhausted. It ignores quotes.
func shallow(text []byte) error {
	depth, parts := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '[', '{':
			depth++
			parts = 0
		case ']', '}':
			depth = max(0, depth-1)
		case '.':
			parts++
		case '\n', '=', ',':
			parts = 0
		}
		if depth > maxNesting || parts > maxNesting {
			return fmt.Errorf("nested deeper than %d", maxNesting)
		}
	}
	return nil
}

func toJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func fail(message string) (string, error) { return "", &engine.Error{Text: message} }

func lookup(args ...any) (any, error) {
	return nil, &engine.Error{
		Text: "lookup queries a cluster, which render does not do",
		Fix:  "wait for the object with wait-for-service, or mount it, and give its content as values",
	}
}

// lookupHost is the function resolve: the addresses of a host name.
func (w *worker) lookupHost(host string) ([]string, error) {
	return lookedUp(w, "resolve", w.e.data.Resolve, host)
}

// lookupService is resolveSRV: the SRV records of a name.
func (w *worker) lookupService(name string) ([]any, error) {
	return lookedUp(w, "resolveSRV", w.e.data.ResolveSRV, name)
}

func lookedUp[T any](w *worker, function string, lookup func(context.Context, string) ([]T, error), name string) ([]T, error) {
	if lookup == nil {
		return nil, &engine.Error{Text: function + " queries the DNS, which is not allowed", Fix: "allow it with --resolve"}
	}
	found, err := lookup(w.ctx, name)
	switch {
	case err != nil && w.ctx.Err() != nil:
		return nil, &stopError{err}
	case err != nil:
		return nil, fmt.Errorf("resolving %s: %w", name, err)
	case len(found) == 0:
		return nil, errors.New("resolving " + name + ": no addresses")
	}
	return found, nil
}
