package values

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"initbox/internal/secret"
	"initbox/internal/suggest"
)

// Origin is a source that set, or removed, a key.
type Origin struct {
	Key     string // in the syntax of --set: a.b[0]
	Source  string // a file's name, a URL, or a flag such as --set
	Value   string // as JSON, cut where it is long; "a map" or "a list" that another value replaced; […] if it is secret; "" if Removed
	Removed bool   // by a null
}

// Explain returns where the value of key comes from: each source that set it, in the order in which they were applied,
// so that the last one wins. The key is written as for --set (a.b[0]), or as in a template (.Values.a.b). For a map or
// a list, it explains everything in it.
func (v *Values) Explain(key string) ([]Origin, error) {
	text := strings.TrimPrefix(key, ".")
	text = strings.TrimPrefix(text, "Values.")
	var steps []step
	if text != "" && text != "Values" {
		p := &setParser{rest: text + "="}
		var err error
		if steps, _, err = p.path(); err != nil || p.rest != "" || slices.Contains(steps, step{"", -1}) {
			return nil, fmt.Errorf("explain %s: not a key such as a.b[0]", key)
		}
	}
	n := v.root
	for i, s := range steps {
		next := n.at(s)
		if next == nil {
			return nil, fmt.Errorf("explain %s: %s", key, n.lacks(steps[:i], s))
		}
		n = next
	}
	var origins []Origin
	n.walk(pathOf(steps), func(path string, n *node) { origins = append(origins, n.history(path)...) })
	return origins, nil
}

// at returns the node that the step leads to, or nil.
func (n *node) at(s step) *node {
	if s.index < 0 {
		return n.keys[s.key]
	}
	if s.index < len(n.items) {
		return n.items[s.index]
	}
	return nil
}

// lacks explains why n, to which the steps led, has no s.
func (n *node) lacks(steps []step, s step) string {
	at := pathOf(steps)
	switch {
	case s.index >= 0 && n.list:
		return fmt.Sprintf("%s has %d items", at, len(n.items))
	case s.index >= 0 || !n.isMap():
		return fmt.Sprintf("%s is %s", at, n.kind())
	}
	text := "there is no key " + join(at, s.key)
	known := slices.Sorted(maps.Keys(n.keys))
	if closest := suggest.Closest(s.key, known); closest != "" {
		return text + "; did you mean " + join(at, closest) + "?"
	}
	if len(known) > 0 && len(known) <= 10 {
		for i, k := range known {
			known[i] = join(at, k)
		}
		return text + "; the keys are " + strings.Join(known, ", ")
	}
	return text
}

// history lists the sources that set n, the earliest first.
func (n *node) history(path string) []Origin {
	var origins []Origin
	for ; n != nil; n = n.prev {
		o := Origin{Key: path, Source: n.source, Removed: n.removed}
		if !n.removed {
			o.Value = n.shown()
		}
		origins = append(origins, o)
	}
	slices.Reverse(origins)
	return origins
}

// shown returns n's value in a form for people.
func (n *node) shown() string {
	const most = 200
	switch {
	case n.isMap() && len(n.keys) > 0:
		return "a map"
	case len(n.items) > 0:
		return "a list"
	case n.secret && n.leaf != nil:
		return secret.Mark
	}
	text, err := json.Marshal(n.plain(false))
	if err != nil {
		return "?"
	}
	if runes := []rune(string(text)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(text)
}
