package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"initbox/render/format"
)

// Helm's bounds: an index makes a list of that length.
const (
	maxIndex = 65536
	maxNames = 30
)

// set applies a source that is text of the command line, as Helm's strvals package does. Three things differ: a null
// may become a map or a list, an empty key is always an error, and a[0].b= at the end sets an empty string, where Helm
// loses it.
func (l *loader) set(root *node, s Source) error {
	if s.Kind == SetJSON && strings.HasPrefix(strings.TrimSpace(s.Text), "{") {
		n, err := jsonObject(s)
		if err == nil {
			merge(root, n)
		}
		return err
	}
	if !utf8.ValidString(s.Text) {
		return errors.New("not UTF-8")
	}
	p := &setParser{loader: l, source: s, rest: s.Text, flat: l.flat}
	for p.rest != "" {
		if err := p.assignment(root); err != nil {
			return err
		}
	}
	return nil
}

func jsonObject(s Source) (*node, error) {
	f, _ := format.Named("json")
	doc, err := f.ParseExact([]byte(s.Text))
	if err != nil {
		return nil, err
	}
	return build(doc, s.Kind.String(), s.Secret), nil
}

// setParser reads assignments.
type setParser struct {
	*loader
	source Source
	rest   string
	flat   bool // see Edit
}

// step is one part of a path: a key, or an index of a list.
type step struct {
	key   string
	index int // -1 for a key
}

// assignment reads and applies one.
func (p *setParser) assignment(root *node) error {
	steps, end, err := p.path()
	if err != nil {
		return err
	}
	if slices.Contains(steps, step{"", -1}) {
		return fmt.Errorf("a key is empty: %q", pathOf(steps))
	}
	source := p.source.Kind.String()
	if end {
		// Helm ignores names that lead nowhere, and name[0] makes a list.
		i := slices.IndexFunc(steps, func(s step) bool { return s.index >= 0 })
		if i < 0 {
			return nil
		}
		_, err := assign(root, steps[:i], 0, source, func(old *node, _ bool) (*node, error) {
			if old.isList() {
				return old, nil
			}
			return asList(old, steps, i, source)
		})
		return err
	}
	value, err := p.value()
	if err != nil {
		return fmt.Errorf("%s: %w", pathOf(steps), err)
	}
	_, err = assign(root, steps, 0, source, func(old *node, inList bool) (*node, error) {
		n := replace(old, value)
		n.removed = n.removed && !inList // lists have nothing removed
		return n, nil
	})
	return err
}

// assign sets the node that the steps lead to, of which i led to
// n, and makes the maps and lists on the way. It returns what replaces n.
func assign(n *node, steps []step, i int, source string, put func(old *node, inList bool) (*node, error)) (*node, error) {
	inList := i > 0 && steps[i-1].index >= 0
	if i == len(steps) {
		return put(n, inList)
	}
	s := steps[i]
	var err error
	if s.index < 0 {
		if !n.isMap() {
			if n != nil && !n.isNull() && !inList { // in a list Helm replaces what is there
				return nil, fmt.Errorf("%s is %s: a map was expected, to set %s in it", pathOf(steps[:i]), n.kind(), s.key)
			}
			n = &node{keys: map[string]*node{}, source: source, prev: n.unlessHole()}
		}
		next, err := assign(n.keys[s.key], steps, i+1, source, put)
		n.put(s.key, next)
		return n, err
	}
	if !n.isList() {
		if n, err = asList(n, steps, i, source); err != nil {
			return nil, err
		}
	}
	for len(n.items) <= s.index {
		n.items = append(n.items, &node{source: source, hole: true})
	}
	n.items[s.index], err = assign(n.items[s.index], steps, i+1, source, put)
	return n, err
}

// asList returns an empty list if n is empty, instead of n.
func asList(n *node, steps []step, i int, source string) (*node, error) {
	if n != nil && !n.isNull() {
		return nil, fmt.Errorf("%s is %s: a list was expected, to set item %d of it", pathOf(steps[:i]), n.kind(), steps[i].index)
	}
	return &node{list: true, source: source, prev: n.unlessHole()}, nil
}

// path reads up to the = of an assignment. End says that the text ends before.
func (p *setParser) path() (steps []step, end bool, err error) {
	names, stops := 0, "=[,."
	if p.flat {
		stops = "=,"
	}
	for {
		key, stop := p.until(stops)
		switch stop {
		case 0:
			if key != "" {
				return nil, false, fmt.Errorf("the key %s has no value", pathOf(append(steps, step{key, -1})))
			}
			return steps, true, nil
		case ',':
			return nil, false, fmt.Errorf("the key %s has no value", pathOf(append(steps, step{key, -1})))
		}
		steps = append(steps, step{key, -1})
		for stop == '[' {
			i, err := p.index(steps)
			if err != nil {
				return nil, false, err
			}
			steps = append(steps, step{"", i})
			between, next := p.until("[.=")
			if between != "" {
				return nil, false, fmt.Errorf("%s: something follows the ]", pathOf(steps))
			}
			if next == 0 {
				return steps, true, nil
			}
			stop = next
		}
		if stop == '=' {
			return steps, false, nil
		}
		if names++; names > maxNames {
			return nil, false, fmt.Errorf("a key of more than %d names", maxNames)
		}
	}
}

// index reads the rest of [i].
func (p *setParser) index(steps []step) (int, error) {
	text, stop := p.until("]")
	if stop == 0 {
		return 0, fmt.Errorf("%s: the [ is not closed", pathOf(steps))
	}
	i, err := strconv.Atoi(text)
	switch {
	case err != nil || i < 0:
		return 0, fmt.Errorf("%s: what stands between [ and ] is not the index of a list", pathOf(steps))
	case i > maxIndex:
		return 0, fmt.Errorf("%s: the index is greater than %d", pathOf(steps), maxIndex)
	}
	return i, nil
}

// until reads up to one of the characters in stops, which it returns, or 0 at the end. A
// backslash escapes the next character.
func (p *setParser) until(stops string) (string, byte) {
	var b strings.Builder
	escaped := false
	for i, r := range p.rest {
		switch {
		case !escaped && r == '\\':
			escaped = true
			continue
		case !escaped && r < utf8.RuneSelf && strings.IndexByte(stops, byte(r)) >= 0:
			p.rest = p.rest[i+1:]
			return b.String(), byte(r)
		}
		b.WriteRune(r)
		escaped = false
	}
	p.rest = ""
	return b.String(), 0
}

// value reads what follows the =.
func (p *setParser) value() (*node, error) {
	if p.source.Kind == SetJSON {
		return p.jsonValue()
	}
	if !strings.HasPrefix(p.rest, "{") {
		text, _ := p.until(",")
		return p.scalar(text)
	}
	p.rest = p.rest[1:]
	list := &node{list: true, source: p.source.Kind.String()}
	for {
		text, stop := p.until(",}")
		if stop == 0 {
			return nil, errors.New("the { is not closed")
		}
		item, err := p.scalar(text)
		if err != nil {
			return nil, err
		}
		list.items = append(list.items, item)
		if stop == '}' {
			p.rest = strings.TrimPrefix(p.rest, ",")
			return list, nil
		}
	}
}

// scalar is what text means as a value.
func (p *setParser) scalar(text string) (*node, error) {
	n := &node{source: p.source.Kind.String(), secret: p.source.Secret}
	switch p.source.Kind {
	case SetString:
		n.leaf = text
	case SetFile:
		content, secret, err := p.text(text)
		if err != nil {
			return nil, err
		}
		n.leaf, n.source = content, n.source+" "+text
		n.secret = n.secret || secret
	default:
		n.leaf = typed(text)
	}
	return n, nil
}

// typed returns the value of text as --set reads it.
func typed(text string) any {
	switch {
	case strings.EqualFold(text, "true"):
		return true
	case strings.EqualFold(text, "false"):
		return false
	case strings.EqualFold(text, "null"):
		return nil
	case text == "0":
		return int64(0)
	case text != "" && text[0] != '0': // 0755 stays text
		if i := format.Whole(text); i != nil {
			return i
		}
	}
	return text
}

// jsonValue reads a JSON value and the comma after it. None is null.
func (p *setParser) jsonValue() (*node, error) {
	defer func() {
		p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace)
		p.rest = strings.TrimPrefix(p.rest, ",")
	}()
	p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace)
	text := p.rest
	if text == "" || text[0] == ',' {
		return &node{source: p.source.Kind.String()}, nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, errors.New("the value is not JSON; text needs double quotes")
	}
	p.rest = text[dec.InputOffset():]
	f, _ := format.Named("json")
	doc, err := f.ParseExact(raw)
	if err != nil {
		return nil, err
	}
	return build(doc, p.source.Kind.String(), p.source.Secret), nil
}

// unlessHole returns n, or nil if it is a hole.
func (n *node) unlessHole() *node {
	if n != nil && n.hole {
		return nil
	}
	return n
}

// pathOf shows the steps as a user would write them.
func pathOf(steps []step) string {
	path := ""
	for _, s := range steps {
		if s.index >= 0 {
			path += "[" + strconv.Itoa(s.index) + "]"
		} else {
			path = join(path, s.key)
		}
	}
	return path
}
