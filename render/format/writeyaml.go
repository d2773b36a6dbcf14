package format

import (
	"math/big"

	"go.yaml.in/yaml/v3"
)

func writeYAML(w *limited, v any, like []byte) error {
	old, at, err := readYAML(like)
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
			made.Style = n.Style
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
			made.Style = n.Style
		}
		for i, e := range v {
			if _, nested := e.(*Map); i >= len(was) || !nested && !sameScalar(e, was[i]) { // the comment is about another item
				made.Content = append(made.Content, patched(e, nil, nil))
			} else {
				made.Content = append(made.Content, patched(e, was[i], n.Content[i]))
			}
		}
		return made
	}
	if n != nil && n.Kind == yaml.ScalarNode && sameScalar(v, old) {
		n.Anchor = ""
		return n
	}
	return scalarNode(v, made)
}

// sameScalar returns whether two values are the same scalar, or are both lists.
func sameScalar(a, b any) bool {
	_, list := a.([]any)
	_, wasList := b.([]any)
	return list && wasList || !list && !wasList && a == b
}

// scalarNode returns made, with comments in it or not, as the node of a scalar.
func scalarNode(v any, made *yaml.Node) *yaml.Node {
	head, line, foot := made.HeadComment, made.LineComment, made.FootComment
	switch v := v.(type) {
	case float64:
		made.Tag, made.Value = "!!float", floatText(v)
	case *big.Int:
		made.Tag, made.Value = "!!int", v.String()
	case Date:
		made.Encode(string(v))
	default:
		made.Encode(v)
	}
	made.HeadComment, made.LineComment, made.FootComment = head, line, foot
	return made
}
