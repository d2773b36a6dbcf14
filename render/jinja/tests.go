package jinja

import (
	"errors"
	"regexp"
	"strings"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// tests are Jinja's, then those of Ansible's that configuration uses.
func tests() map[string]fn {
	ops := operators()
	return map[string]fn{
		"!=":          {params: "other!", do: ops["Ne"]},
		"<":           {params: "other!", do: ops["Lt"]},
		"<=":          {params: "other!", do: ops["Lte"]},
		"==":          {params: "other!", do: ops["Eq"]},
		">":           {params: "other!", do: ops["Gt"]},
		">=":          {params: "other!", do: ops["Gte"]},
		"boolean":     {do: isOf(func(v value.Value) bool { _, ok := v.Raw().(bool); return ok })},
		"callable":    {do: isOf(value.Value.IsCallable)},
		"defined":     {do: isOf(func(v value.Value) bool { return !isMissing(v) }), lax: true},
		"divisibleby": {params: "num!", do: divisibleBy},
		"eq":          {params: "other!", do: ops["Eq"]},
		"equalto":     {params: "other!", do: ops["Eq"]},
		"escaped":     {do: isOf(value.Value.IsSafe)},
		"even":        {do: parity(0)},
		"false":       {do: isOf(func(v value.Value) bool { b, ok := v.Raw().(bool); return ok && !b })},
		"filter":      {do: func(c *call) (value.Value, error) { _, ok := c.e.filter(str(c.args[0])); return truth(ok) }},
		"float":       {do: isOf(func(v value.Value) bool { _, ok := v.Raw().(float64); return ok })},
		"ge":          {params: "other!", do: ops["Gte"]},
		"greaterthan": {params: "other!", do: ops["Gt"]},
		"gt":          {params: "other!", do: ops["Gt"]},
		"in":          {params: "seq!", do: ops["In"]},
		"integer":     {do: isOf(func(v value.Value) bool { _, ok := v.Raw().(int64); return ok })},
		"iterable":    {do: isOf(func(v value.Value) bool { _, err := iterate(v); return err == nil })},
		"le":          {params: "other!", do: ops["Lte"]},
		"lessthan":    {params: "other!", do: ops["Lt"]},
		"lower":       {do: isOf(func(v value.Value) bool { return isLower(str(v)) })},
		"lt":          {params: "other!", do: ops["Lt"]},
		"mapping":     {do: isOf(func(v value.Value) bool { _, ok := v.Raw().(*dict); return ok })},
		"ne":          {params: "other!", do: ops["Ne"]},
		"none":        {do: isOf(value.Value.IsNone)},
		"number":      {do: isOf(func(v value.Value) bool { _, ok := number(v); return ok })},
		"odd":         {do: parity(1)},
		"sameas":      {params: "other!", do: func(c *call) (value.Value, error) { return truth(c.args[0].SameAs(c.args[1])) }},
		"sequence":    {do: isOf(func(v value.Value) bool { return length(v) >= 0 })},
		"string":      {do: isOf(func(v value.Value) bool { _, ok := v.AsString(); return ok })},
		"test":        {do: func(c *call) (value.Value, error) { _, ok := c.e.tests[str(c.args[0])]; return truth(ok) }},
		"true":        {do: isOf(func(v value.Value) bool { b, ok := v.Raw().(bool); return ok && b })},
		"undefined":   {do: isOf(isMissing), lax: true},
		"upper":       {do: isOf(func(v value.Value) bool { return isUpper(str(v)) })},

		"contains": {params: "item!", do: func(c *call) (value.Value, error) {
			ok, err := contains(c.args[0], c.args[1])
			return value.FromBool(ok), err
		}},
		"match":    {params: "pattern! ignorecase multiline", do: matches("^(?:")},
		"search":   {params: "pattern! ignorecase multiline", do: matches("(?:")},
		"subset":   {params: "other!", do: subset},
		"superset": {params: "other!", do: func(c *call) (value.Value, error) { c.args[0], c.args[1] = c.args[1], c.args[0]; return subset(c) }},
	}
}

func isOf(is func(value.Value) bool) operator {
	return func(c *call) (value.Value, error) { return truth(is(c.args[0])) }
}

func parity(rest int64) operator {
	return func(c *call) (value.Value, error) {
		n, ok := number(c.args[0])
		if !ok || n.real {
			return value.Undefined(), errors.New("want a whole number")
		}
		return truth(n.i&1 == rest)
	}
}

func divisibleBy(c *call) (value.Value, error) {
	n := c.int(1, 0)
	if n == 0 {
		return value.Undefined(), errors.New("division by zero")
	}
	return truth(n == -1 || c.int(0, 0)%n == 0)
}

func matches(prefix string) operator {
	return func(c *call) (value.Value, error) {
		re, err := c.regex(prefix+c.text(1, "")+")", c.bool(2, false), c.bool(3, false))
		if err != nil {
			return value.Undefined(), err
		}
		return truth(re.MatchString(str(c.args[0])))
	}
}

func subset(c *call) (value.Value, error) {
	for _, v := range c.items(0) {
		if ok, err := contains(c.args[1], v); !ok {
			return value.False(), err
		}
	}
	return value.True(), nil
}

// regex compiles a regular expression, once in a run. Go's has no look-around and
// no references back, and takes time in proportion to the text only.
func (c *call) regex(pattern string, ignoreCase, multiline bool) (*regexp.Regexp, error) {
	if multiline {
		pattern = "(?m)" + pattern
	}
	if ignoreCase {
		pattern = "(?i)" + pattern
	}
	if re := c.regexes[pattern]; re != nil {
		return re, nil
	}
	if len(pattern) > 10_000 {
		return nil, errors.New("the regular expression is too long")
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, errors.New("the regular expression is not one of RE2's: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if c.regexes == nil {
		c.regexes = map[string]*regexp.Regexp{}
	}
	c.regexes[pattern] = re
	return re, nil
}
