package gotemplate

import (
	"errors"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Whole numbers beyond int64 come as *big.Int. Helm rounds them, since all its numbers are float64; here they stay as
// they are, or are an error.

// wholes gives those numbers the types that work best in templates: uint64, which text/template compares and all
// encoders write, or else one *big.Int for each number, which eq finds equal.
type wholes map[string]*big.Int

// convert returns v with these types.
func (w wholes) convert(v any) any {
	return replaceBig(v, func(i *big.Int) any {
		if i.IsUint64() {
			return i.Uint64()
		}
		digits := i.String()
		if w[digits] == nil {
			w[digits] = i
		}
		return w[digits]
	})
}

func hasBig(v any) bool {
	switch v := v.(type) {
	case nil, string, bool, int, int64, uint64, float64:
		return false
	case *big.Int:
		return true
	case map[string]any:
		for _, element := range v {
			if hasBig(element) {
				return true
			}
		}
		return false
	}
	list := reflect.ValueOf(v)
	for i := range lengthOf(list) {
		if hasBig(list.Index(i).Interface()) {
			return true
		}
	}
	return false
}

// replaceBig returns a copy of v with other values for its *big.Int.
func replaceBig(v any, by func(*big.Int) any) any {
	switch v := v.(type) {
	case *big.Int:
		return by(v)
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, element := range v {
			m[key] = replaceBig(element, by)
		}
		return m
	}
	if !hasBig(v) {
		return v
	}
	old := reflect.ValueOf(v)
	list := make([]any, lengthOf(old))
	for i := range list {
		list[i] = replaceBig(old.Index(i).Interface(), by)
	}
	return list
}

// lengthOf returns the length of a list, of which elements can be looked at, or 0.
func lengthOf(v reflect.Value) int {
	if v.Kind() != reflect.Slice || v.Type().Elem().Kind() < reflect.Interface && v.Type().Elem().Kind() != reflect.Array {
		return 0
	}
	return v.Len()
}

// encodeWhole returns what encode makes of v, for an encoder that would write a *big.Int as a float or as a string: it
// gets a word, which is then replaced by the digits.
func encodeWhole(v any, encode func(any) (string, error)) (string, error) {
	if !hasBig(v) {
		return encode(v)
	}
	plain, err := encode(replaceBig(v, func(*big.Int) any { return nil }))
	if err != nil {
		return "", err
	}
	word := "whole"
	for strings.Contains(plain, word) {
		word += "x"
	}
	text, err := encode(replaceBig(v, func(i *big.Int) any { return word + i.String() }))
	return regexp.MustCompile(`"?`+word+`(-?[0-9]+)"?`).ReplaceAllString(text, "$1"), err
}

// calculates returns whether a function of sprig calculates with its arguments, and the largest integer that it takes,
// or 0 if it takes them as float64. The functions that return an int have a lower limit where an int has 32 bits.
func calculates(name string) (limit int64, is bool) {
	switch name {
	case "int", "atoi":
		return math.MaxInt, true
	case "int64", "add", "add1", "sub", "mul", "div", "mod", "max", "min", "biggest":
		return math.MaxInt64, true
	case "float64", "addf", "add1f", "subf", "mulf", "divf", "maxf", "minf", "round", "floor", "ceil":
		return 0, true
	}
	return 0, false
}

// calculable refuses numbers that sprig would take for another one. In text, sprig finds no int64 beyond an int, so
// where an int has 32 bits, it gets the number instead.
func calculable(limit int64) func(args []reflect.Value) error {
	return func(args []reflect.Value) error {
		for i, arg := range args {
			if s, isText := arg.Interface().(string); isText && limit > math.MaxInt {
				if n, err := strconv.ParseInt(s, 0, 64); err == nil {
					args[i] = reflect.ValueOf(n)
				}
			}
			if _, isBig := arg.Interface().(*big.Int); isBig || limit > 0 && exceeds(arg.Interface(), limit) {
				return errTooLarge
			}
		}
		return nil
	}
}

// exceeds returns whether v is an integer beyond the limit, or, if the limit is that of an int of 32 bits, a text or a
// float64 that stands for one.
func exceeds(v any, limit int64) bool {
	switch v := v.(type) {
	case uint64:
		return v > uint64(limit)
	case int64:
		return v > limit || v < -limit-1
	case float64:
		return limit < math.MaxInt64 && math.Abs(v) > float64(limit)
	case string:
		n, err := strconv.ParseInt(v, 0, 64)
		return limit < math.MaxInt64 && err == nil && exceeds(n, limit)
	}
	return false
}

var errTooLarge = errors.New("the number is too large to calculate with")
