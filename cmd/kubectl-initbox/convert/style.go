package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"initbox/internal/lazy"
)

// width is how long a line may become before a list is written with one item a line.
const width = 100

func scalar(value any) *yaml.Node {
	n := &yaml.Node{}
	_ = n.Encode(value) // of scalars, which cannot fail
	return n
}

func sequence(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// list returns a list of texts.
func list(words ...string) *yaml.Node {
	n := sequence()
	for _, word := range words {
		n.Content = append(n.Content, scalar(word))
	}
	return n
}

// mapping returns a mapping of keys and values, which are nodes or scalars.
func mapping(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, p := range pairs {
		node, ok := p.(*yaml.Node)
		if !ok {
			node = scalar(p)
		}
		n.Content = append(n.Content, node)
	}
	return n
}

func isFlow(n *yaml.Node) bool {
	return n.Style&yaml.FlowStyle != 0 || len(n.Content) == 0
}

// jsonStyle reports whether a node of flow style is written as in JSON.
func jsonStyle(n *yaml.Node) bool {
	for n != nil && len(n.Content) > 0 {
		n = n.Content[0]
	}
	return n != nil && n.Style&yaml.DoubleQuotedStyle != 0
}

// entry returns a key and its value as the mapping m, whose key k stands beside it, would have them.
func (e *editor) entry(m, k *yaml.Node, key string, value *yaml.Node) string {
	if isFlow(m) {
		asJSON := jsonStyle(k)
		return flow(scalar(key), asJSON) + ": " + flow(value, asJSON)
	}
	depth := m.Content[0].Column - 1
	return strings.Join(e.pair(key, value, depth), e.eol+indent(depth))
}

// pair returns the lines of a key and its value in block style, without the indentation, which is depth.
func (e *editor) pair(key string, value *yaml.Node, depth int) []string {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	if value.Style&yaml.LiteralStyle != 0 {
		lines := []string{key + ": |"}
		for l := range strings.Lines(value.Value) {
			lines = append(lines, "  "+strings.TrimSuffix(l, "\n"))
		}
		return lines
	}
	short := flow(value, false)
	if value.Kind == yaml.ScalarNode || isFlow(value) || scalars(value) && len(short)+len(key)+depth+2 <= width {
		return []string{key + ": " + short}
	}
	lines := []string{key + ":"}
	deeper := 2
	if value.Kind == yaml.SequenceNode {
		deeper = e.deep
	}
	for _, l := range e.block(value, depth+deeper) {
		lines = append(lines, indent(deeper)+l)
	}
	return lines
}

// block returns the lines of a value in block style, without the indentation, which is depth.
func (e *editor) block(n *yaml.Node, depth int) (lines []string) {
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) > 0:
		for i := 0; i+1 < len(n.Content); i += 2 {
			lines = append(lines, e.pair(n.Content[i].Value, n.Content[i+1], depth)...)
		}
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		for _, item := range n.Content {
			dash := "- "
			for _, l := range e.block(item, depth+2) {
				lines = append(lines, dash+l)
				dash = "  "
			}
		}
	default:
		lines = []string{flow(n, false)}
	}
	return lines
}

// scalars reports whether the node is a list of scalars.
func scalars(n *yaml.Node) bool {
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return false
		}
	}
	return n.Kind == yaml.SequenceNode
}

// flow returns a node in flow style.
func flow(n *yaml.Node, asJSON bool) string {
	var parts []string
	switch n.Kind {
	case yaml.AliasNode:
		return flow(n.Alias, asJSON)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			parts = append(parts, flow(n.Content[i], asJSON)+": "+flow(n.Content[i+1], asJSON))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		for _, item := range n.Content {
			parts = append(parts, flow(item, asJSON))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if n.ShortTag() != "!!str" || !asJSON && isPlain(n.Value) {
		return n.Value
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(n.Value) // a string, which cannot fail
	return strings.TrimSuffix(text.String(), "\n")
}

// unquoted matches texts that are plain scalars also in flow style, unless they mean something else than themselves.
var unquoted = lazy.Regexp(`^[A-Za-z0-9_./$=+~^()-]([A-Za-z0-9_./$=+@%~^();?&#:*|<> -]*[A-Za-z0-9_./$=+@%~^();?&*|<>-])?$`)

func isPlain(text string) bool {
	if !unquoted().MatchString(text) || strings.Contains(text, " #") || strings.Contains(text, ": ") {
		return false
	}
	var node yaml.Node
	err := yaml.Unmarshal(fmt.Appendf(nil, "[%s]", text), &node)
	return err == nil && len(node.Content) == 1 && len(node.Content[0].Content) == 1 &&
		node.Content[0].Content[0].Kind == yaml.ScalarNode && node.Content[0].Content[0].ShortTag() == "!!str" && node.Content[0].Content[0].Value == text
}

func indent(n int) string { return strings.Repeat(" ", n) }
