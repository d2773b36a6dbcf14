package format

import (
	"fmt"
	"math/big"
	"strings"

	"go.yaml.in/yaml/v3"
)

func writeYAML(w *limited, v any, like []byte) error {
	old, at, err := readYAML(like, true)
	file := yamlNode(like, at)
	if err != nil || file == nil || len(file.Content) == 0 {
		old, file = nil, &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{nil}}
	}
	file.Content[0] = patched(v, old, file.Content[0])
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(file); err != nil {
		return err
	}
	return enc.Close()
}

// patched returns the node of v. What is equal in old keeps its node, of which n is the root, with its comments.
func patched(v, old any, n *yaml.Node) *yaml.Node {
	made := &yaml.Node{Kind: yaml.ScalarNode}
	if n != nil && n.Kind != yaml.AliasNode {
		made.HeadComment, made.LineComment, made.FootComment = n.HeadComment, n.LineComment, n.FootComment
	}
	switch v := v.(type) {
	case *Map:
		made.Kind = yaml.MappingNode
		was, _ := old.(*Map)
		if was == nil || n == nil || n.Kind != yaml.MappingNode {
			was, n = &Map{}, &yaml.Node{}
		}
		if len(n.Content) > 0 { // {} would keep everything on one line
			made.Style, made.Tag = n.Style, n.Tag
		}
		keys, values := map[string]*yaml.Node{}, map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k := n.Content[i]; k.Kind == yaml.ScalarNode && k.Tag != "!!merge" {
				key := keyOf(was.Values, k)
				k.Anchor, keys[key], values[key] = "", k, n.Content[i+1]
			}
		}
		for _, k := range v.Keys {
			if keys[k] == nil {
				keys[k] = scalarNode(k, &yaml.Node{Kind: yaml.ScalarNode})
			}
			made.Content = append(made.Content, keys[k], patched(v.Values[k], was.Values[k], values[k]))
		}
		return made
	case []any:
		made.Kind = yaml.SequenceNode
		was, _ := old.([]any)
		if n == nil || n.Kind != yaml.SequenceNode || len(n.Content) != len(was) {
			was, n = nil, &yaml.Node{}
		}
		if len(was) > 0 {
			made.Style, made.Tag = n.Style, n.Tag
		}
		for i, e := range v {
			var before any
			var node *yaml.Node
			if i < len(was) && alike(e, was[i]) { // else its comments are about another item
				before, node = was[i], n.Content[i]
			}
			made.Content = append(made.Content, patched(e, before, node))
		}
		return made
	}
	if n != nil && n.Kind == yaml.ScalarNode && (n.Value != "" || n.Style != 0) && alike(v, old) {
		n.Anchor = ""
		return n
	}
	return scalarNode(v, made)
}

// alike returns whether two items of lists are the same scalar, or maps whose first keys are, such as their names.
func alike(a, b any) bool {
	switch a := a.(type) {
	case *Map:
		b, isMap := b.(*Map)
		return isMap && len(a.Keys) > 0 && len(b.Keys) > 0 && a.Keys[0] == b.Keys[0] && alike(a.Values[a.Keys[0]], b.Values[b.Keys[0]])
	case []any:
		_, isList := b.([]any)
		return isList
	}
	_, isList := b.([]any)
	return !isList && a == b
}

// scalarNode returns made, with comments in it or not, as the node of a scalar. What YAML 1.1 takes for a boolean or a
// number in base 60 gets quotes, and so do its keys for merging and values; the library quotes what else is no text.
func scalarNode(v any, made *yaml.Node) *yaml.Node {
	switch v := v.(type) {
	case nil:
		made.Value = "null"
	case float64:
		made.Value = floatText(v)
	case Word:
		made.Value = string(v)
	case bool, int64, *big.Int:
		made.Value = fmt.Sprint(v)
	default:
		made.Tag, made.Value = "!!str", fmt.Sprint(v)
		_, word := IsBoolean(made.Value[:min(len(made.Value), 4)]) // none has more letters than off
		if word || made.Value == "<<" || made.Value == "=" || strings.Contains(made.Value, ":") && made.Value[0] <= '9' {
			made.Style = yaml.DoubleQuotedStyle
		}
	}
	return made
}
