package jinja

import (
	"cmp"
	"math"
	"math/big"
)

// num is an integer, or a float if real is set.
type num struct {
	i    int64
	big  *big.Int // the integer, where it is not an int64
	f    float64  // the number, rounded where it is an integer
	real bool
}

// number is v as a number, which booleans are in Python.
func number(v any) (num, bool) {
	switch d := v.(type) {
	case int64:
		return num{i: d, f: float64(d)}, true
	case *big.Int:
		f, _ := new(big.Float).SetInt(d).Float64()
		return num{big: d, f: f}, true
	case float64:
		return num{f: d, real: true}, true
	case bool:
		if d {
			return num{i: 1, f: 1}, true
		}
		return num{}, true
	}
	return num{}, false
}

// whole is v as an integer, if it is one, and no larger than an int64.
func whole(v any) (int64, bool) {
	n, ok := number(v)
	return n.i, ok && !n.real && n.big == nil
}

// fromBig is i as a value.
func fromBig(i *big.Int) any {
	if i.IsInt64() {
		return i.Int64()
	}
	return i
}

// maxBits are those of maxDigits.
const maxBits = maxDigits * 33220 / 10000

// bounded is i as a value, unless it is too large.
func bounded(i *big.Int) any {
	require(i.BitLen() <= maxBits, errTooLarge)
	return fromBig(i)
}

// int returns n, which is no float.
func (n num) int() *big.Int {
	if n.big != nil {
		return n.big
	}
	return big.NewInt(n.i)
}

func (n num) value() any {
	switch {
	case n.real:
		return n.f
	case n.big != nil:
		return n.big
	}
	return n.i
}

// float is n as a float. As in Python, an integer beyond the floats fails.
func (n num) float() float64 {
	require(n.real || !math.IsInf(n.f, 0), errTooLarge)
	return n.f
}

// exact is n as an integer, if it is a whole number.
func (n num) exact() any {
	if !n.real {
		return n.value()
	}
	if math.IsInf(n.f, 0) || n.f != math.Trunc(n.f) {
		return n.f
	}
	return truncated(n.f)
}

// truncated is f without its fraction, as an integer. It fails if f is not finite.
func truncated(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		failf("%s is not a whole number", formatFloat(f))
	}
	i, _ := new(big.Float).SetFloat64(f).Int(nil)
	return fromBig(i)
}

// unordered is the order of two numbers of which one is NaN.
const unordered = 2

func (n num) cmp(m num) int {
	switch {
	case n.real && math.IsNaN(n.f) || m.real && math.IsNaN(m.f):
		return unordered
	case n.real && m.real:
		return cmp.Compare(n.f, m.f)
	case n.real:
		return -m.cmp(n)
	case m.real && math.IsInf(m.f, 0):
		return cmp.Compare(0, m.f)
	case m.real:
		return new(big.Float).SetInt(n.int()).Cmp(big.NewFloat(m.f))
	case n.big == nil && m.big == nil:
		return cmp.Compare(n.i, m.i)
	}
	return n.int().Cmp(m.int())
}

func negate(c *call) any {
	n, ok := number(c.args[0])
	failIf(!ok, "a %s cannot be negated", typeName(c.args[0]))
	if n.real {
		return -n.f
	}
	return fromBig(new(big.Int).Neg(n.int()))
}

// positive is the sign +.
func positive(c *call) any {
	n, ok := number(c.args[0])
	failIf(!ok, "a %s cannot have a sign", typeName(c.args[0]))
	return n.value()
}

// arithmetic is an operator on numbers: on integers without rounding, with Python's signs for // and %.
func arithmetic(sign string) operator {
	divides := sign == "/" || sign == "//" || sign == "%"
	return func(c *call) any {
		a, b, ok := both(number, c.args[0], c.args[1])
		failIf(!ok, "cannot calculate %s %s %s", typeName(c.args[0]), sign, typeName(c.args[1]))
		failIf(b.f == 0 && divides || sign == "**" && a.f == 0 && b.f < 0, "division by zero")
		switch {
		case sign == "/" && !a.real && !b.real:
			f, _ := new(big.Rat).SetFrac(a.int(), b.int()).Float64()
			require(!math.IsInf(f, 0), errTooLarge)
			if a.f == 0 {
				return math.Copysign(0, b.f)
			}
			return f
		case a.real || b.real || sign == "**" && b.f < 0:
			return realArithmetic[sign](a.float(), b.float())
		case a.big == nil && b.big == nil && sign != "**" && a.i|b.i == (a.i|b.i)&math.MaxInt32: // the usual case
			return smallArithmetic(sign, a.i, b.i)
		}
		return bounded(intArithmetic(sign, a.int(), b.int()))
	}
}

var realArithmetic = map[string]func(a, b float64) float64{
	"+":  func(a, b float64) float64 { return a + b },
	"-":  func(a, b float64) float64 { return a - b },
	"*":  func(a, b float64) float64 { return a * b },
	"/":  func(a, b float64) float64 { return a / b },
	"//": func(a, b float64) float64 { quotient, _ := divided(a, b); return quotient },
	"**": realPower,
	"%":  func(a, b float64) float64 { _, rest := divided(a, b); return rest },
}

// divided is Python's divmod of floats.
func divided(a, b float64) (quotient, rest float64) {
	rest = math.Mod(a, b)
	quotient = (a - rest) / b
	switch {
	case rest != 0 && (rest < 0) != (b < 0):
		rest += b
		quotient--
	case rest == 0:
		rest = math.Copysign(0, b)
	}
	if quotient == 0 {
		return math.Copysign(0, a/b), rest
	}
	floor := math.Floor(quotient)
	if quotient-floor > 0.5 {
		floor++
	}
	return floor, rest
}

func realPower(a, b float64) float64 {
	failIf(a < 0 && b != math.Trunc(b), "a power of a negative number with a fraction is no real number")
	p := math.Pow(a, b)
	failIf(math.IsInf(p, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0), "the number is too large")
	return p
}

// smallArithmetic is for numbers from 0 to 2^31-1.
func smallArithmetic(sign string, a, b int64) int64 {
	switch sign {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "//":
		return a / b
	}
	return a % b
}

func intArithmetic(sign string, a, b *big.Int) *big.Int {
	switch sign {
	case "+":
		return new(big.Int).Add(a, b)
	case "-":
		return new(big.Int).Sub(a, b)
	case "*":
		require(a.BitLen()+b.BitLen() <= maxBits+2, errTooLarge)
		return new(big.Int).Mul(a, b)
	case "**":
		return intPower(a, b)
	}
	quotient, rest := new(big.Int).QuoRem(a, b, new(big.Int))
	if rest.Sign() != 0 && rest.Sign() != b.Sign() {
		quotient.Sub(quotient, big.NewInt(1))
		rest.Add(rest, b)
	}
	if sign == "%" {
		return rest
	}
	return quotient
}

// intPower is a**b, where b is not negative.
func intPower(a, b *big.Int) *big.Int {
	if a.BitLen() <= 1 { // -1, 0 or 1
		b = big.NewInt(int64(b.Bit(0)) + 2*int64(min(b.BitLen(), 1)))
	}
	require(b.IsInt64() && b.Int64() <= maxBits && float64(a.BitLen()-1)*float64(b.Int64()) <= maxBits, errTooLarge)
	return new(big.Int).Exp(a, b, nil)
}
