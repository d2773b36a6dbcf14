package format

import (
	"maps"
	"math"
	"math/big"
	"slices"
)

// Map is a map that keeps the order of its keys in the file.
type Map struct {
	Keys   []string
	Values map[string]any
}

// newMap returns a map with the values of m. Of its keys, those in order come first, in that order.
func newMap(m map[string]any, order []string) *Map {
	ordered := &Map{Values: make(map[string]any, len(m))}
	for _, k := range slices.Concat(order, slices.Sorted(maps.Keys(m))) {
		if v, ok := m[k]; ok {
			ordered.Set(k, v)
		}
	}
	return ordered
}

// Set sets a key. One that is there keeps its place.
func (m *Map) Set(key string, v any) {
	if m.Values == nil {
		m.Values = map[string]any{}
	}
	if _, ok := m.Values[key]; !ok {
		m.Keys = append(m.Keys, key)
	}
	m.Values[key] = v
}

// plain returns v, of [Format.ParseExact], as [Format.Parse] does.
func plain(v any) any {
	switch v := v.(type) {
	case *Map:
		m := make(map[string]any, len(v.Values))
		for k, e := range v.Values {
			m[k] = plain(e)
		}
		return m
	case []any:
		for i, e := range v {
			v[i] = plain(e)
		}
		return v
	}
	return Number(v)
}

// rounded returns v with a float64 for each *big.Int.
func rounded(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = rounded(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = rounded(e)
		}
		return l
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f
	}
	return v
}

// Number returns v, which may be an exact number, as [Format.Parse] does: without a fraction, it is an int64 if a
// float64 represents it exactly.
func Number(v any) any {
	const exact = 1 << 53
	if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) <= exact {
		return int64(f)
	}
	return v
}

// maxDigits bounds whole numbers: Python reads no more.
const maxDigits = 4300

// Whole returns the value of the digits of a whole number, an int64 or a *big.Int, or nil if they are none or too many.
func Whole(digits string) any {
	i, ok := new(big.Int), len(digits) <= maxDigits
	if ok {
		i, ok = i.SetString(digits, 10)
	}
	switch {
	case !ok:
		return nil
	case i.IsInt64():
		return i.Int64()
	}
	return i
}
