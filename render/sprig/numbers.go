package sprig

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"time"
)

func numberFunctions() map[string]any {
	return map[string]any{
		"atoi":      func(s string) int { n, _ := strconv.Atoi(s); return n },
		"int":       toInt,
		"int64":     toInt64,
		"float64":   toFloat64,
		"toDecimal": func(v any) int64 { return orZero(strconv.ParseInt(fmt.Sprint(v), 8, 64)) },
		"seq":       seq,

		"add1":    func(a any) int64 { return toInt64(a) + 1 },
		"add":     func(all ...any) int64 { return fold(0, all, func(a, b int64) int64 { return a + b }) },
		"sub":     func(a, b any) int64 { return toInt64(a) - toInt64(b) },
		"mul":     func(a any, all ...any) int64 { return fold(toInt64(a), all, func(a, b int64) int64 { return a * b }) },
		"div":     func(a, b any) int64 { return toInt64(a) / toInt64(b) },
		"mod":     func(a, b any) int64 { return toInt64(a) % toInt64(b) },
		"max":     maximum,
		"biggest": maximum,
		"min": func(a any, all ...any) int64 {
			return fold(toInt64(a), all, func(a, b int64) int64 { return min(a, b) })
		},
		"randInt": func(from, to int) int { return from + rand.IntN(to-from) },

		"add1f": func(a any) float64 { return decimal(a, []any{1}, (*big.Rat).Add) },
		"addf":  func(all ...any) float64 { return decimal(0.0, all, (*big.Rat).Add) },
		"subf":  func(a any, all ...any) float64 { return decimal(a, all, (*big.Rat).Sub) },
		"mulf":  func(a any, all ...any) float64 { return decimal(a, all, (*big.Rat).Mul) },
		"divf":  func(a any, all ...any) float64 { return decimal(a, all, quotient) },
		"maxf":  func(a any, all ...any) float64 { return foldFloats(a, all, math.Max) },
		"minf":  func(a any, all ...any) float64 { return foldFloats(a, all, math.Min) },
		"ceil":  func(a any) float64 { return math.Ceil(toFloat64(a)) },
		"floor": func(a any) float64 { return math.Floor(toFloat64(a)) },
		"round": round,
	}
}

func orZero(n int64, err error) int64 {
	if err != nil {
		return 0
	}
	return n
}

func maximum(a any, all ...any) int64 {
	return fold(toInt64(a), all, func(a, b int64) int64 { return max(a, b) })
}

func fold(a int64, all []any, f func(a, b int64) int64) int64 {
	for _, b := range all {
		a = f(a, toInt64(b))
	}
	return a
}

func foldFloats(first any, all []any, f func(a, b float64) float64) float64 {
	a := toFloat64(first)
	for _, b := range all {
		a = f(a, toFloat64(b))
	}
	return a
}

// pointed returns what a pointer leads to, or v.
func pointed(v any) any {
	value := reflect.ValueOf(v)
	if value.Kind() != reflect.Pointer {
		return v
	}
	for value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	return value.Interface()
}

// toInt64 returns 0 for what is not a number.
func toInt64(v any) int64 {
	switch n := pointed(v).(type) {
	case int, int8, int16, int32, int64, time.Weekday, time.Month:
		return reflect.ValueOf(n).Int()
	case uint, uint8, uint16, uint32, uint64:
		return int64(reflect.ValueOf(n).Uint())
	case float64:
		return int64(n)
	case float32:
		return int64(n)
	case string:
		return orZero(strconv.ParseInt(withoutZeros(n), 0, 0))
	case json.Number:
		return toInt64(string(n))
	case bool:
		if n {
			return 1
		}
	}
	return 0
}

func toInt(v any) int {
	switch n := pointed(v).(type) { // what does not fit becomes another number by each conversion
	case float64:
		return int(n)
	case float32:
		return int(n)
	}
	return int(toInt64(v))
}

// withoutZeros removes a point with zeros after it.
func withoutZeros(s string) string {
	zeros := false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == '0':
			zeros = true
		case s[i] != '.':
			return s
		case zeros:
			return s[:i]
		}
	}
	return s
}

// toFloat64 returns 0 for what is not a number.
func toFloat64(v any) float64 {
	switch n := pointed(v).(type) {
	case int, int8, int16, int32, int64, time.Weekday, time.Month:
		return float64(reflect.ValueOf(n).Int())
	case uint, uint8, uint16, uint32, uint64:
		return float64(reflect.ValueOf(n).Uint())
	case float64:
		return n
	case float32:
		return float64(n)
	case string:
		if f, err := strconv.ParseFloat(n, 64); err == nil {
			return f
		}
	case interface{ Float64() (float64, error) }:
		if f, err := n.Float64(); err == nil {
			return f
		}
	case bool:
		if n {
			return 1
		}
	}
	return 0
}

// decimal calculates without the errors of binary fractions: 0.1 + 0.2 is 0.3.
func decimal(first any, all []any, f func(z, x, y *big.Rat) *big.Rat) float64 {
	a := rational(first)
	for _, b := range all {
		f(a, a, rational(b))
	}
	result, _ := a.Float64()
	return result
}

// rational returns a number as print would write it.
func rational(v any) *big.Rat {
	f := toFloat64(v)
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
	if !ok {
		panic(fmt.Errorf("cannot calculate with %v", f))
	}
	return r
}

var places = big.NewInt(1e16)

// quotient is rounded to 16 places, away from zero where it is half-way.
func quotient(z, x, y *big.Rat) *big.Rat {
	if y.Sign() == 0 {
		panic(errors.New("division by zero"))
	}
	z.Quo(x, y)
	// Floor(|z| + ½), both times 2·10¹⁶/2·10¹⁶.
	n := new(big.Int).Mul(z.Num(), places)
	n.Abs(n).Lsh(n, 1).Add(n, z.Denom()).Quo(n, new(big.Int).Lsh(z.Denom(), 1))
	if z.Sign() < 0 {
		n.Neg(n)
	}
	return z.SetFrac(n, places)
}

func round(v any, places int, up ...float64) float64 {
	limit := .5 // from which a digit is rounded up
	if len(up) > 0 {
		limit = up[0]
	}
	shift := math.Pow(10, float64(places))
	shifted := shift * toFloat64(v)
	if _, rest := math.Modf(shifted); rest >= limit {
		return math.Ceil(shifted) / shift
	}
	return math.Floor(shifted) / shift
}

// seq returns the numbers that the program of that name would print: to an end, from a start to it, or in steps.
func seq(numbers ...int) string {
	start, step, end := 1, 0, 0
	switch len(numbers) {
	case 1:
		end = numbers[0]
	case 2:
		start, end = numbers[0], numbers[1]
	case 3:
		start, step, end = numbers[0], numbers[1], numbers[2]
	default:
		return ""
	}
	direction := 1
	if end < start {
		direction = -1
	}
	if len(numbers) < 3 {
		step = direction
	}
	if step*direction <= 0 {
		return ""
	}
	var list []string
	for n := start; (n-end)*direction <= 0; n += step {
		list = append(list, strconv.Itoa(n))
	}
	return strings.Join(list, " ")
}
