package helpers

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// JSONPath returns what a path of JSONPath (RFC 9535) selects in a value, such as $.items[0].name or .spec["a.b"]. A
// path of keys and indexes selects one value, and it is an error if that is missing. A path with *, a slice, several
// keys or .. selects a list, which may be empty; maps are read in the order of their keys. Filters are not supported.
func JSONPath(path string, value any) (any, error) {
	p := pathReader{rest: strings.TrimSpace(path)}
	if inside, ok := strings.CutPrefix(p.rest, "{"); ok { // as kubectl writes it
		p.rest = strings.TrimSuffix(inside, "}")
	}
	p.rest = strings.TrimPrefix(p.rest, "$")
	if p.rest != "" && p.rest[0] != '.' && p.rest[0] != '[' {
		return nil, errors.New("a path begins with $, . or [")
	}
	nodes, one := []any{value}, true
	for p.rest != "" {
		s, err := p.step()
		if err != nil {
			return nil, fmt.Errorf("%w, in the path before %q", err, p.rest)
		}
		one = one && !s.descend && len(s.selectors) == 1 && s.selectors[0].single()
		if nodes, err = s.apply(nodes); err != nil {
			return nil, err
		}
		if one && len(nodes) == 0 {
			return nil, fmt.Errorf("there is no %s", strings.TrimSuffix(path, p.rest))
		}
	}
	if one {
		return nodes[0], nil
	}
	return nodes, nil
}

// selector selects children of a node: the one of a key or an index, those of a slice, or all.
type selector struct {
	key        string
	index      int
	isKey      bool
	start, end *int
	by         int // of a slice; 0 for an index
	all        bool
}

func (s selector) single() bool { return s.isKey || s.by == 0 && !s.all }

// step is one step of a path.
type step struct {
	descend   bool
	selectors []selector
}

const (
	mostNodes = 100_000
	deepNodes = 1000
)

func (s step) apply(nodes []any) ([]any, error) {
	var err error
	if s.descend {
		var all []any
		for _, node := range nodes {
			if all, err = descendants(all, node, 0); err != nil {
				return nil, err
			}
		}
		nodes = all
	}
	found := []any{}
	for _, node := range nodes {
		for _, selector := range s.selectors {
			if found = selector.of(found, node); len(found) > mostNodes {
				return nil, fmt.Errorf("the path selects more than %d values", mostNodes)
			}
		}
	}
	return found, nil
}

// descendants appends a node and all that is in it.
func descendants(to []any, node any, depth int) ([]any, error) {
	if to = append(to, node); len(to) > mostNodes || depth > deepNodes {
		return nil, fmt.Errorf("the path visits more than %d values", mostNodes)
	}
	for _, child := range (selector{all: true}).of(nil, node) {
		var err error
		if to, err = descendants(to, child, depth+1); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// of appends what is selected of a node.
func (s selector) of(to []any, node any) []any {
	switch v := reflect.ValueOf(node); {
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		m := map[string]any{}
		for _, key := range v.MapKeys() {
			if s.all || s.isKey && key.String() == s.key {
				m[key.String()] = v.MapIndex(key).Interface()
			}
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			to = append(to, m[key])
		}
	case v.Kind() == reflect.Slice && !s.isKey:
		for i := range s.indexes(v.Len()) {
			to = append(to, v.Index(i).Interface())
		}
	}
	return to
}

// indexes yields the indexes of a list of n items (RFC 9535, section 2.3.4.2.2).
func (s selector) indexes(n int) func(yield func(int) bool) {
	from := func(i int) int {
		if i < 0 {
			return i + n
		}
		return i
	}
	bound := func(i *int, otherwise, least, most int) int {
		if i == nil {
			return otherwise
		}
		return min(max(from(*i), least), most)
	}
	return func(yield func(int) bool) {
		by := min(max(s.by, -n-1), n+1) // the sums below must not overflow
		switch {
		case s.all:
			for i := 0; i < n && yield(i); i++ {
			}
		case s.by > 0:
			end := bound(s.end, n, 0, n)
			for i := bound(s.start, 0, 0, n); i < end && yield(i); i += by {
			}
		case s.by < 0:
			end := bound(s.end, -1, -1, n-1)
			for i := bound(s.start, n-1, -1, n-1); i > end && yield(i); i += by {
			}
		case from(s.index) >= 0 && from(s.index) < n:
			yield(from(s.index))
		}
	}
}

// pathReader reads a path.
type pathReader struct{ rest string }

func (p *pathReader) step() (step, error) {
	var s step
	dots := len(p.rest) - len(strings.TrimLeft(p.rest, "."))
	p.rest = p.rest[dots:]
	s.descend = dots == 2
	switch {
	case dots > 2:
		return s, errors.New("too many dots")
	case strings.HasPrefix(p.rest, "["):
		return s, p.brackets(&s)
	}
	n := strings.IndexAny(p.rest, ".[")
	if n < 0 {
		n = len(p.rest)
	}
	name := p.rest[:n]
	if name == "" {
		return s, errors.New("a key is missing")
	}
	p.rest = p.rest[n:]
	s.selectors = []selector{{key: name, isKey: name != "*", all: name == "*"}}
	return s, nil
}

// brackets reads the selectors in brackets.
func (p *pathReader) brackets(s *step) error {
	for next := byte(','); next == ','; {
		p.rest = strings.TrimLeft(p.rest[1:], " ")
		one, err := p.selector()
		if err != nil {
			return err
		}
		s.selectors = append(s.selectors, one)
		p.rest = strings.TrimLeft(p.rest, " ")
		if p.rest == "" || p.rest[0] != ',' && p.rest[0] != ']' {
			return errors.New("a ] is missing")
		}
		next = p.rest[0]
	}
	p.rest = p.rest[1:]
	return nil
}

func (p *pathReader) selector() (s selector, err error) {
	switch {
	case strings.HasPrefix(p.rest, "?"):
		return s, errors.New("filters are not supported: range over the list")
	case strings.HasPrefix(p.rest, "*"):
		p.rest = p.rest[1:]
		return selector{all: true}, nil
	case strings.HasPrefix(p.rest, "'"), strings.HasPrefix(p.rest, `"`):
		return p.quoted()
	}
	n := strings.IndexAny(p.rest, ",]")
	if n < 0 {
		return s, errors.New("a ] is missing")
	}
	parts := strings.Split(p.rest[:n], ":")
	var numbers [3]*int
	for i, part := range parts {
		if part = strings.TrimSpace(part); part == "" && len(parts) > 1 {
			continue
		}
		number, err := strconv.Atoi(part)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // number is the largest int, or the smallest: beyond all lists, too
		}
		if err != nil || i > 2 {
			return s, errors.New("want an index, a slice such as 1:3, or a key in quotes")
		}
		numbers[i] = &number
	}
	p.rest = p.rest[n:]
	if len(parts) == 1 {
		return selector{index: *numbers[0]}, nil
	}
	s = selector{start: numbers[0], end: numbers[1], by: 1}
	if numbers[2] != nil {
		if s.by = *numbers[2]; s.by == 0 {
			return s, errors.New("a slice by 0 is endless")
		}
	}
	return s, nil
}

// quoted reads a key in quotes, in which a backslash escapes a quote or a backslash.
func (p *pathReader) quoted() (selector, error) {
	quote := p.rest[0]
	var key strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			return selector{key: key.String(), isKey: true}, nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			key.WriteByte(p.rest[i])
		default:
			key.WriteByte(c)
		}
	}
	return selector{}, errors.New("a quote is not closed")
}
