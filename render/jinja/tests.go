package jinja

import (
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// tests are Jinja's, then those of Ansible's that configuration uses.
func tests() map[string]fn {
	all := map[string]fn{
		"boolean":     {do: isOf(is[bool])},
		"callable":    {do: isOf(isCallable)},
		"defined":     {do: isOf(func(v any) bool { return !isMissing(v) }), lax: true},
		"divisibleby": {params: "num!", do: divisibleBy},
		"escaped":     {do: isOf(is[safe])},
		"even":        {do: parity(0)},
		"false":       {do: isOf(func(v any) bool { return v == false })},
		"filter":      {do: func(c *call) any { _, ok := c.e.filters[str(c.args[0])]; return ok }},
		"float":       {do: isOf(is[float64])},
		"integer":     {do: isOf(func(v any) bool { return is[int64](v) || is[*big.Int](v) })},
		"iterable":    {do: isOf(func(v any) bool { _, isText := asString(v); return isText || is[*list](v) || is[*dict](v) })},
		"lower":       {do: isOf(func(v any) bool { return isLower(str(v)) })},
		"mapping":     {do: isOf(is[*dict])},
		"none":        {do: isOf(func(v any) bool { return v == none })},
		"number":      {do: isOf(func(v any) bool { _, ok := number(v); return ok })},
		"odd":         {do: parity(1)},
		"sameas":      {params: "other!", do: func(c *call) any { return sameAs(c.args[0], c.args[1]) }},
		"sequence":    {do: isOf(isSequence)},
		"string":      {do: isOf(func(v any) bool { _, ok := asString(v); return ok })},
		"test":        {do: func(c *call) any { _, ok := c.e.tests[str(c.args[0])]; return ok }},
		"true":        {do: isOf(func(v any) bool { return v == true })},
		"undefined":   {do: isOf(isMissing), lax: true},
		"upper":       {do: isOf(func(v any) bool { return isUpper(str(v)) })},

		"contains": {params: "item!", do: func(c *call) any { return contains(c.args[0], c.args[1]) }},
		"match":    {params: "pattern! ignorecase multiline", do: matches("^(?:")},
		"search":   {params: "pattern! ignorecase multiline", do: matches("(?:")},
		"subset":   {params: "other!", do: subset},
		"superset": {params: "other!", do: func(c *call) any { c.args[0], c.args[1] = c.args[1], c.args[0]; return subset(c) }},
	}
	names := [][]string{{"==", "eq", "equalto"}, {"!=", "ne"}, {"<", "lt", "lessthan"}, {"<=", "le"}, {">", "gt", "greaterthan"}, {">=", "ge"}}
	for i, same := range names {
		for _, name := range same {
			all[name] = fn{params: "other!", do: comparators[i]}
		}
	}
	all["in"] = fn{params: "seq!", do: comparators[6]}
	return all
}

func isOf(is func(any) bool) operator { return func(c *call) any { return is(c.args[0]) } }

func parity(rest int64) operator {
	return func(c *call) any { return equal(remainderOf(c, c.args[0], int64(2)), rest) }
}

func divisibleBy(c *call) any { return equal(remainderOf(c, c.args[0], c.args[1]), int64(0)) }

// remainderOf is v % n. As in Jinja, a text is no format here.
func remainderOf(c *call, v, n any) any {
	return arithmetic("%")(&call{run: c.run, op: c.op, arguments: arguments{args: []any{v, n}}})
}

func matches(prefix string) operator {
	return func(c *call) any {
		re := c.regex(prefix+c.text(1, "")+")", c.bool(2, false), c.bool(3, false))
		return re.MatchString(str(c.args[0]))
	}
}

func subset(c *call) any {
	return !slices.ContainsFunc(c.items(0), func(v any) bool { return !contains(c.args[1], v) })
}

// regex compiles a regular expression, once in a run. Go's has no look-around and no references back, and takes time in
// proportion to the text only.
func (c *call) regex(pattern string, ignoreCase, multiline bool) *regexp.Regexp {
	if multiline {
		pattern = "(?m)" + pattern
	}
	if ignoreCase {
		pattern = "(?i)" + pattern
	}
	if c.regexes[pattern] == nil {
		failIf(len(pattern) > 10_000, "the regular expression is too long")
		re, err := regexp.Compile(pattern)
		if err != nil {
			failf("the regular expression is not valid in RE2: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		c.regexes[pattern] = re
	}
	return c.regexes[pattern]
}

func isSequence(v any) bool {
	if l, ok := v.(*list); ok {
		return l.kind == "" || l.kind == rangeKind
	}
	return length(v) >= 0
}

func isCallable(v any) bool {
	switch v.(type) {
	case *op, *macro, *loop, *blockReference, *method:
		return true
	}
	return false
}

// sameAs compares as Python's "is" does, for what templates compare so.
func sameAs(a, b any) bool {
	if x, y, ok := both(asString, a, b); ok {
		return x == y
	}
	return a == b
}
