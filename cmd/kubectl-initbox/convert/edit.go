package convert

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"initbox/cmd/kubectl-initbox/manifest"
)

// errEdit says that a change cannot be made in the text of the manifest.
var errEdit = errors.New("its text cannot be edited with certainty, because of anchors or an unusual style")

// editor collects the edits of a file.
type editor struct {
	text  []byte
	lines []int  // where each line starts
	eol   string // of the first line
	deep  int    // by how much the items of a list are indented below its key
	edits []edit
	err   error
}

// edit replaces the bytes of the text from start to end.
type edit struct {
	start, end int
	text       string
}

// editText returns the text of the file with the changes made. Only what changes is edited: comments, order and style
// of the rest stay.
func editText(text []byte, objects []*manifest.Object, changes []*Change) ([]byte, error) {
	e := &editor{text: text, eol: "\n", lines: []int{0}}
	for i, b := range text {
		if b == '\n' {
			e.lines = append(e.lines, i+1)
		}
	}
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		e.eol = "\r\n"
	}
	for _, o := range objects {
		e.object(o, of(o, changes))
	}
	return e.apply()
}

// of returns the changes of the object's containers.
func of(o *manifest.Object, changes []*Change) (its []*Change) {
	for _, c := range changes {
		if c.Verdict != Kept && c.Container.Pod.Object == o {
			its = append(its, c)
		}
	}
	return its
}

// toolsOf returns the first of the changes that needs the volume with the program; nil without one.
func toolsOf(changes []*Change) *Change {
	if i := slices.IndexFunc(changes, func(c *Change) bool { return c.Inside }); i >= 0 {
		return changes[i]
	}
	return nil
}

func (e *editor) object(o *manifest.Object, changes []*Change) {
	if len(changes) == 0 {
		return
	}
	key, list := manifest.Pair(o.Pod.Node, "initContainers")
	e.deep = 0
	if list.Style&yaml.FlowStyle == 0 {
		e.deep = max(0, list.Column-key.Column)
	}
	for _, c := range changes {
		e.container(c)
	}
	c := toolsOf(changes)
	if c == nil {
		return
	}
	e.insertItem(list, c.Container.Index, installContainerOf(c))
	e.addItem(o.Pod.Node, "volumes", toolsVolumeOf(c))
}

func (e *editor) container(c *Change) {
	node := c.Container.Node
	if !c.Inside {
		e.setScalar(node, "image", c.Initbox)
	}
	first, second := "command", "args"
	k1, _ := manifest.Pair(node, first)
	k2, _ := manifest.Pair(node, second)
	if k1 == nil || k2 != nil && (k2.Line < k1.Line || k2.Line == k1.Line && k2.Column < k1.Column) {
		first, second = second, first
		k1, k2 = k2, k1
	}
	if k1 == nil {
		first = "image"
		e.insert(node, first, c.key(), list(c.Words...))
	} else {
		e.replace(node, first, c.key(), list(c.Words...))
	}
	if c.User != nil {
		_, context := manifest.Pair(node, "securityContext")
		user := mapping("runAsUser", *c.User)
		switch {
		case context == nil:
			user.Style = yaml.FlowStyle
			e.insert(node, first, "securityContext", user)
		case context.Kind == yaml.MappingNode:
			e.insert(context, "", "runAsUser", user.Content[1])
		default:
			e.replace(node, "securityContext", "securityContext", user)
		}
	}
	if k2 != nil {
		e.remove(node, second)
	}
	if c.Hostname {
		e.addItem(node, "env", hostnameOf())
	}
	if c.Inside {
		e.addItem(node, "volumeMounts", toolsMountOf(c))
	}
}

// setScalar replaces the value of a key.
func (e *editor) setScalar(m *yaml.Node, key, value string) {
	k, v := manifest.Pair(m, key)
	if k == nil {
		e.insert(m, "name", key, scalar(value))
		return
	}
	start, end, ok := e.scalarSpan(v)
	if !ok {
		e.replace(m, key, key, scalar(value))
		return
	}
	text := flow(scalar(value), jsonStyle(v))
	if v.Style&yaml.SingleQuotedStyle != 0 {
		text = "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	e.edit(start, end, text)
}

// scalarSpan returns where a scalar of one line stands.
func (e *editor) scalarSpan(v *yaml.Node) (start, end int, ok bool) {
	if v.Kind != yaml.ScalarNode || v.Anchor != "" || v.Style&(yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0 {
		return 0, 0, false
	}
	start = e.offset(v)
	if v.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return start, e.flowEnd(start), true
	}
	return start, start + len(v.Value), strings.HasPrefix(string(e.text[start:]), v.Value) && v.Value != ""
}

// replace puts another key and value where an entry of a mapping stands.
func (e *editor) replace(m *yaml.Node, old, key string, value *yaml.Node) {
	k, v := manifest.Pair(m, old)
	if v.Anchor != "" {
		e.fail()
		return
	}
	start, end := e.span(m, k, v)
	e.edit(start, end, e.entry(m, k, key, value))
}

// insert adds an entry to a mapping, after the one with the key after, or at the end.
func (e *editor) insert(m *yaml.Node, after, key string, value *yaml.Node) {
	if len(m.Content) == 0 {
		e.edit(e.offset(m)+1, e.offset(m)+1, e.entry(m, nil, key, value))
		return
	}
	k, v := manifest.Pair(m, after)
	if k == nil {
		k, v = m.Content[len(m.Content)-2], m.Content[len(m.Content)-1]
	}
	_, end := e.span(m, k, v)
	if isFlow(m) {
		e.edit(end, end, ", "+e.entry(m, k, key, value))
		return
	}
	end = e.lineEnd(end)
	e.edit(end, end, e.eol+indent(m.Content[0].Column-1)+e.entry(m, k, key, value))
}

// remove removes an entry of a mapping that is not its first.
func (e *editor) remove(m *yaml.Node, key string) {
	for i := 2; i+1 < len(m.Content); i += 2 {
		if k := m.Content[i]; k.Value == key {
			_, before := e.span(m, m.Content[i-2], m.Content[i-1])
			start, end := e.span(m, k, m.Content[i+1])
			if !isFlow(m) {
				before, end = e.lines[k.Line-1]-len(e.eol), e.lineEnd(end) // the comments in front of it stay
				if strings.TrimSpace(string(e.text[e.lines[k.Line-1]:start])) != "" {
					e.fail()
				}
			}
			e.edit(before, end, "")
			return
		}
	}
	e.fail()
}

// addItem adds an item at the end of the list of a key, which may be missing.
func (e *editor) addItem(m *yaml.Node, key string, item *yaml.Node) {
	k, items := manifest.Pair(m, key)
	switch {
	case k == nil:
		e.insert(m, "", key, sequence(item))
	case items.Kind == yaml.SequenceNode && len(items.Content) > 0:
		e.insertItem(items, len(items.Content), item)
	default:
		e.replace(m, key, key, sequence(item))
	}
}

// insertItem adds an item to a list in front of the n-th, or at the end.
func (e *editor) insertItem(items *yaml.Node, n int, item *yaml.Node) {
	if items.Kind != yaml.SequenceNode || len(items.Content) == 0 {
		e.fail()
		return
	}
	last := n == len(items.Content)
	if isFlow(items) {
		text := flow(item, jsonStyle(items.Content[0]))
		if last {
			end := e.flowEnd(e.offset(items.Content[n-1]))
			e.edit(end, end, ", "+text)
		} else {
			start := e.offset(items.Content[n])
			e.edit(start, start, text+", ")
		}
		return
	}
	column := items.Column - 1
	text := indent(column) + "- " + strings.Join(e.block(item, column+2), e.eol+indent(column+2))
	if last {
		node := items.Content[n-1]
		end := e.blockEnd(node.Line, column, leaf(node), false)
		e.edit(end, end, e.eol+text)
		return
	}
	line := items.Content[n].Line - 1
	for line > 0 && strings.HasPrefix(e.line(line-1), indent(column)+"#") {
		line--
	}
	if !strings.HasPrefix(e.line(items.Content[n].Line-1), indent(column)+"- ") {
		e.fail()
		return
	}
	e.edit(e.lines[line], e.lines[line], text+e.eol)
}

// span returns where an entry of a mapping stands, without the line break at its end.
func (e *editor) span(m, k, v *yaml.Node) (start, end int) {
	start = e.offset(k)
	quoted := v.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
	if !isFlow(m) && !quoted && (v.Style&yaml.FlowStyle == 0 || v.Anchor != "") {
		return start, e.blockEnd(k.Line, k.Column-1, leaf(v), v.Kind == yaml.SequenceNode && !isFlow(v))
	}
	return start, e.flowEnd(e.offset(v))
}

// blockEnd returns the end of what begins in a line and is indented deeper than column. In a list that is a value, the
// items may be indented as deep as its key. Comments at the end belong to what follows, unless they are lines of a
// text, the last leaf.
func (e *editor) blockEnd(line, column int, last *yaml.Node, list bool) int {
	end := line // the number of the last line, from 1
	text := last != nil && last.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	for n := line + 1; n <= len(e.lines); n++ {
		l := e.line(n - 1)
		content := strings.TrimLeft(l, " ")
		depth := len(l) - len(content)
		item := list && depth == column && (content == "-" || strings.HasPrefix(content, "- "))
		switch {
		case content == "":
		case strings.HasPrefix(content, "#") && (!text || depth <= column || last.Line > n):
		case depth > column, item:
			end = n
		default:
			n = len(e.lines)
		}
	}
	if last != nil && last.Line > end {
		e.fail()
		return e.lines[line-1]
	}
	return e.lines[end-1] + len(e.line(end-1))
}

// leaf returns the last node in a value.
func leaf(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind != yaml.AliasNode && len(n.Content) > 0 {
		n = n.Content[len(n.Content)-1]
	}
	return n
}

// line returns a line, from 0, without its line break.
func (e *editor) line(n int) string {
	end := len(e.text)
	if n+1 < len(e.lines) {
		end = e.lines[n+1] - 1
	}
	return strings.TrimSuffix(string(e.text[e.lines[n]:end]), "\r")
}

// offset returns where a node begins.
func (e *editor) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(e.lines) {
		e.fail()
		return 0
	}
	start, column := e.lines[n.Line-1], n.Column
	for i := range e.line(n.Line - 1) { // columns count characters
		if column--; column == 0 {
			return start + i
		}
	}
	e.fail()
	return start
}

// lineEnd returns the end of the line that contains the place, without its line break.
func (e *editor) lineEnd(at int) int {
	n, found := slices.BinarySearch(e.lines, at)
	if !found {
		n--
	}
	return e.lines[n] + len(e.line(n))
}

// flowEnd returns the end of the value in flow style, or the scalar in it, that begins at start.
func (e *editor) flowEnd(start int) int {
	depth := 0
	for i := start; i < len(e.text); i++ {
		switch b := e.text[i]; {
		case b == '"' || b == '\'':
			if i = e.quoteEnd(i); depth == 0 {
				return i + 1
			}
		case b == '#' && (e.text[i-1] == ' ' || e.text[i-1] == '\n'):
			for i+1 < len(e.text) && e.text[i+1] != '\n' {
				i++
			}
		case b == '[' || b == '{':
			depth++
		case depth == 0 && strings.IndexByte(",]}\r\n", b) >= 0:
			return start + len(bytes.TrimRight(e.text[start:i], " "))
		case b == ']' || b == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(e.text)
}

// quoteEnd returns the place of the quote that ends the one at start.
func (e *editor) quoteEnd(start int) int {
	quote := e.text[start]
	for i := start + 1; i < len(e.text); i++ {
		switch {
		case quote == '"' && e.text[i] == '\\':
			i++
		case e.text[i] == quote:
			if quote == '"' || i+1 == len(e.text) || e.text[i+1] != quote {
				return i
			}
			i++
		}
	}
	return len(e.text) - 1
}

func (e *editor) fail() { e.err = errEdit }

func (e *editor) edit(start, end int, text string) {
	next := edit{start, end, text}
	if !slices.Contains(e.edits, next) { // two objects may share a container by an alias
		e.edits = append(e.edits, next)
	}
}

func (e *editor) apply() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	slices.SortStableFunc(e.edits, func(a, b edit) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, next := range e.edits {
		if next.start < at || next.end < next.start {
			return nil, errEdit
		}
		out = append(append(out, e.text[at:next.start]...), next.text...)
		at = next.end
	}
	return append(out, e.text[at:]...), nil
}
