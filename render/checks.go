package render

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"initbox/internal/failure"
	"initbox/internal/perm"
	"initbox/internal/readfile"
	"initbox/render/format"
)

// checks are the checks of results and values.
type checks struct {
	validate bool // by extension
	formats  []perm.Rule[*format.Format]
	schemas  []perm.Rule[*format.Schema]
	schema   *format.Schema // of the values; may be nil
	one      sync.Mutex     // held while a large result is checked
}

// large results are checked one at a time.
const large = 1 << 20

func newChecks(o Options) (*checks, error) {
	c := &checks{validate: o.Validate, formats: o.Formats}
	for _, rule := range o.Schemas {
		s, err := readSchema(rule.Value)
		if err != nil {
			return nil, err
		}
		c.schemas = append(c.schemas, perm.Rule[*format.Schema]{Pattern: rule.Pattern, Value: s})
	}
	if o.ValuesSchema != "" {
		s, err := readSchema(o.ValuesSchema)
		if err != nil {
			return nil, err
		}
		c.schema = s
	}
	return c, nil
}

func readSchema(name string) (*format.Schema, error) {
	text, err := readfile.All(name)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	s, err := format.ReadSchema(text)
	if err != nil {
		return nil, fmt.Errorf("the schema %s: %w", name, err)
	}
	return s, nil
}

// Check returns why a file with that name and content is not what Validate, Formats and Schemas of o ask for, or nil.
func Check(o Options, name string, content []byte) error {
	c, err := newChecks(o)
	if err != nil {
		return err
	}
	return c.file(name, content)
}

// values checks the values against their schema.
func (c *checks) values(all map[string]any) error {
	if c.schema == nil {
		return nil
	}
	if err := c.schema.Validate(all); err != nil {
		return booleans(fmt.Errorf("the values do not match their schema: %w", err))
	}
	return nil
}

// of returns the format and the schema of a result, nil for none.
func (c *checks) of(name string) (*format.Format, *format.Schema) {
	f, given := perm.LastMatch(c.formats, name)
	schema, checked := perm.LastMatch(c.schemas, name)
	if !given && (c.validate || checked) {
		f = format.For(name)
	}
	if f == format.None {
		f = nil
	}
	return f, schema
}

// apply returns whether there are checks of a result.
func (c *checks) apply(name string) bool {
	f, schema := c.of(name)
	return f != nil || schema != nil
}

// file checks a result. A schema needs a format that has documents.
func (c *checks) file(name string, content []byte) error {
	f, schema := c.of(name)
	if f == nil && schema != nil {
		return fmt.Errorf("a schema needs JSON, YAML or TOML, and the name %s is of another format", name)
	}
	if f == nil {
		return nil
	}
	if len(content) > large {
		c.one.Lock() // the memory that a check needs is a multiple of this
		defer c.one.Unlock()
	}
	if err := f.Validate(content); err != nil || schema == nil {
		if long := new(format.Error); schema == nil && errors.As(err, &long) && long.TooLong {
			return failure.WithHint(err, fmt.Sprintf("--format '%s=none' does without the check", path.Base(name)))
		}
		return err
	}
	document, err := f.Parse(content)
	if err != nil {
		return err
	}
	if err := schema.Validate(document); err != nil {
		return mismatch(err)
	}
	return nil
}

func mismatch(err error) error { return booleans(fmt.Errorf("it does not match its schema: %w", err)) }

// booleans adds a hint to the error of a schema that wants text, or a key, where YAML may have made a boolean of a
// word.
func booleans(err error) error {
	var schema *format.SchemaError
	if !errors.As(err, &schema) {
		return err
	}
	for _, v := range schema.Violations {
		key, missing := strings.CutSuffix(v.Text, " is missing")
		if _, is := format.IsBoolean(strings.Trim(strings.TrimPrefix(key, "the key "), `"`)); missing && is || v.Text == "is of type boolean, not string" {
			return failure.WithHint(err, "in YAML, y, n, yes, no, on and off without quotes are booleans, also as keys: quote what is text")
		}
	}
	return err
}
