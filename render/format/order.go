package format

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3" // tells the order of keys and the digits of numbers, which v2 does not

	"initbox/internal/lazy"
)

// yamlNode returns a document of data, or nil where the versions differ.
func yamlNode(data []byte, document int) (n *yaml.Node) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	for range document + 1 {
		n = &yaml.Node{}
		if d.Decode(n) != nil {
			return nil
		}
	}
	return n
}

// ordered returns v, which v2 has read from the document n, with its maps in order and its whole numbers exact. Without
// n, the keys are sorted.
func ordered(v any, n *yaml.Node, words bool) any {
	for n != nil && (n.Kind == yaml.AliasNode || n.Kind == yaml.DocumentNode) {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		} else {
			n = n.Content[0]
		}
	}
	switch v := v.(type) {
	case map[string]any:
		values := map[string]*yaml.Node{}
		order := orderedKeys(v, n, values)
		for k, e := range v {
			v[k] = ordered(e, values[k], words)
		}
		m := newMap(v, order)
		if words && n != nil && n.Kind == yaml.MappingNode {
			m.nameWords(n)
		}
		return m
	case []any:
		for i, e := range v {
			if n != nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
				v[i] = ordered(e, n.Content[i], words)
			} else {
				v[i] = ordered(e, nil, words)
			}
		}
	case bool:
		if words && n != nil && n.Kind == yaml.ScalarNode && !strings.EqualFold(n.Value, strconv.FormatBool(v)) {
			return Word(n.Value)
		}
	case float64:
		if n != nil && digitsOnly().MatchString(n.Value) {
			if i := Whole(strings.ReplaceAll(n.Value, "_", "")); i != nil {
				return i
			}
		}
	}
	return v
}

// nameWords gives the keys true and false the words that they are in n, such as on: YAML 1.2 takes those for text.
func (m *Map) nameWords(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		word := n.Content[i].Value
		key := keyOf(m.Values, n.Content[i])
		_, taken := m.Values[word]
		if _, is := IsBoolean(key); key != word && is && !taken {
			m.Values[word] = m.Values[key]
			delete(m.Values, key)
			m.Keys[slices.Index(m.Keys, key)] = word
		}
	}
}

var digitsOnly = lazy.Regexp(`^[-+]?[0-9_]+$`)

// orderedKeys returns the keys of v in the order of n, and puts their nodes into values. Merged keys come first, as in
// PyYAML.
func orderedKeys(v map[string]any, n *yaml.Node, values map[string]*yaml.Node) (order []string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == "!!merge" {
			order = append(order, mergedKeys(v, n.Content[i+1], values)...)
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; k.Tag != "!!merge" {
			key := keyOf(v, k)
			order = append(order, key)
			values[key] = n.Content[i+1]
		}
	}
	return order
}

func mergedKeys(v map[string]any, n *yaml.Node, values map[string]*yaml.Node) (order []string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.SequenceNode {
		return orderedKeys(v, n, values)
	}
	for _, m := range slices.Backward(n.Content) {
		order = append(order, mergedKeys(v, m, values)...)
	}
	return order
}

// keyOf returns the key of v that a node stands for: to v2, yes without quotes is the key true.
func keyOf(v map[string]any, n *yaml.Node) string {
	var k any
	if n.Style == 0 && yamlv2.Unmarshal([]byte(n.Value), &k) == nil {
		if key, err := yamlKey(k); err == nil {
			if _, there := v[key]; there {
				return key
			}
		}
	}
	return n.Value
}
