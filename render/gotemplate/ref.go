package gotemplate

import (
	"strconv"
	"strings"
)

// ref is the input that a value in a template comes from. It is tracked through with, range, variables and included
// templates, so that a missing input is reported by the name that the user gave it. The zero ref is of unknown origin.
type ref struct {
	known  bool
	keys   []string       // from the dot with which the template was called
	fields map[string]ref // of a dict that the template made; then there are no keys
}

// each stands in keys for any element of a list or a map.
const each = "[*]"

// maxKeys is how many keys a name may have. A longer one is of unknown origin: a chain of a
// million fields, or nested blocks, would take quadratic time.
const maxKeys = 256

// child returns what a value has by that key.
func (r ref) child(keys ...string) ref {
	for i, key := range keys {
		switch {
		case !r.known:
			return ref{}
		case r.fields != nil:
			r = r.fields[key]
		case len(r.keys)+len(keys)-i > maxKeys:
			return ref{}
		default:
			r.keys = append(r.keys[:len(r.keys):len(r.keys)], keys[i:]...)
			return r
		}
	}
	return r
}

// in returns what r, which begins at the dot of a template, is when the template is called with dot.
func (r ref) in(dot ref) ref {
	if !r.known {
		return ref{}
	}
	if r.fields == nil {
		return dot.child(r.keys...)
	}
	fields := make(map[string]ref, len(r.fields))
	for k, f := range r.fields {
		fields[k] = f.in(dot)
	}
	return ref{known: true, fields: fields}
}

// name returns the ref as one would write it in a template, or "".
func (r ref) name() string {
	if !r.known || r.fields != nil {
		return ""
	}
	name := ""
	for _, key := range r.keys {
		switch {
		case key == each || strings.HasPrefix(key, "["):
			name += key
		case strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == "" && key != "":
			name += "." + key
		default:
			name = "(index " + name + " " + strconv.Quote(key) + ")"
		}
	}
	if name == "" {
		return "."
	}
	return name
}
