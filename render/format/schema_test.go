package format

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const exampleSchema = `
$schema: https://json-schema.org/draft/2020-12/schema
type: object
required: [db, name]
additionalProperties: false
properties:
  name: {type: string, minLength: 3, pattern: "^[a-z]+$"}
  db:
    type: object
    required: [host, port]
    properties:
      host: {type: string}
      port: {$ref: "#/$defs/port"}
      mode: {enum: [ro, rw]}
      password: {type: string, maxLength: 4}
  list:
    type: array
    maxItems: 2
    items: {type: [integer, "null"]}
  either:
    anyOf: [{type: integer}, {const: auto}]
  tree: {$ref: "#/$defs/tree"}
$defs:
  port: {type: integer, minimum: 1, maximum: 65535}
  tree: {type: object, additionalProperties: {$ref: "#/$defs/tree"}}
`

func TestSchema(t *testing.T) {
	schema, err := ReadSchema([]byte(exampleSchema))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ doc, want string }{
		{"{name: abc, db: {host: x, port: 80, mode: rw}, list: [1, null], either: auto, tree: {a: {b: {}}}}", ""},
		{"{name: abc, db: {host: x, port: 80.0}}", ""},
		{"{}", `the key "db" is missing; the key "name" is missing`},
		{"{name: A1, db: {host: 1, port: 70000, mode: hunter2, password: hunter2}, extra: hunter2, either: hunter2, list: [1, hunter2, 3]}",
			`/db/host: is of type integer, not string; /db/mode: is not one of ["ro","rw"]; /db/password: is more than 4 characters; /db/port: is more than 65535; ` +
				`/either: matches none of the 2 alternatives of anyOf; /extra: the schema has no such key; /list: is more than 2 items; ` +
				`/list/1: is of type string, not integer or null; /name: is less than 3 characters; /name: does not match ^[a-z]+$`},
		{"{name: abc, db: {host: x, port: 80}, tree: {a: {b/c~d: 1}}}", "/tree/a/b~1c~0d: is of type integer, not object"},
		{"[hunter2]", "is of type array, not object"},
	} {
		doc, err := For("x.yaml").Parse([]byte(test.doc))
		if err != nil {
			t.Fatal(err)
		}
		err = schema.Validate(doc)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.doc, err)
		case test.want != "" && (err == nil || err.Error() != test.want || !errors.As(err, new(*SchemaError))):
			t.Errorf("%s:\n got %v\nwant %s", test.doc, err, test.want)
		}
	}
}

// TestSchemaWords has what only the library judges: its verdict stands, and what it says of values does not.
func TestSchemaWords(t *testing.T) {
	for _, test := range []struct{ schema, doc, want string }{
		{`{"not": {"type": "string"}}`, "hunter2", "it violates not of the schema"},
		{`{"uniqueItems": true}`, "[hunter2, hunter2]", "it violates uniqueItems of the schema"},
		{`{"properties": {"a": {"contains": {"const": 1}}}}`, "{a: [hunter2]}", "it violates contains of the schema"},
		{`{"if": {"required": ["a"]}, "then": {"required": ["b"]}}`, "{a: hunter2}", "it violates the schema"},
		{`{"oneOf": [{"type": "string"}, {"minLength": 1}]}`, "hunter2", "it violates oneOf of the schema"},
		{`{"propertyNames": {"maxLength": 3}}`, "{hunter2: 1}", "it violates the schema"},
		{`{"unevaluatedProperties": false}`, "{a: hunter2}", "it violates not of the schema"},
		{`{"multipleOf": 2}`, "3", "it violates multipleOf of the schema"},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"p": {"type": "integer"}}, "items": [{"$ref": "#/definitions/p"}], "additionalItems": false}`, "[x, 1]", "/0: is of type string, not integer; /1: is not allowed"},
		{`{"const": null}`, "a", "is not null"},
		{`{"type": "null"}`, "~", ""},
		{`{"$defs": {"a": {"$anchor": "x", "type": "string"}}, "$ref": "#x"}`, "1", "is of type integer, not string"},
	} {
		schema, err := ReadSchema([]byte(test.schema))
		if err != nil {
			t.Errorf("%s: %v", test.schema, err)
			continue
		}
		doc, err := For("x.yaml").Parse([]byte(test.doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err == nil && test.want != "" || err != nil && err.Error() != test.want {
			t.Errorf("%s %s: %v, want %q", test.schema, test.doc, err, test.want)
		}
	}
}

func TestReadSchema(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{`{"type": "string"`, "line 1, column 18: the file ends"},
		{`[]`, "it is of type array, not object"},
		{`{"type": "sting"}`, ""},
		{`{"type": 1}`, "not a JSON Schema"},
		{`{"$ref": "https://example.com/x.json"}`, "a schema must be in one file"},
		{`{"$ref": "other.json"}`, "not a JSON Schema"},
		{`{"$schema": "http://json-schema.org/draft-04/schema#"}`, "supported versions"},
		{`{"pattern": "("}`, "not a JSON Schema"},
		{`{"$ref": "#"}`, "the schema at # refers to itself endlessly"},
		{`{"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}`, "endlessly"},
		{`{"$defs": {"a": {"$anchor": "x", "anyOf": [{"$ref": "#x"}]}}}`, "endlessly"},
		{`{"properties": {"a": {"$ref": "#"}}}`, ""},
		{`{"items": {"$ref": "#"}}`, ""},
	} {
		_, err := ReadSchema([]byte(test.schema))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", test.schema, err, test.want)
		}
	}
}

// TestSchemaMisspelt pins that a keyword in another case is an error, and a name that looks like one is not.
func TestSchemaMisspelt(t *testing.T) {
	for text, want := range map[string]string{
		`{"AllOf": [{"$ref": "#"}]}`:                             "the schema has #/AllOf, which is not a keyword: did you mean allOf?",
		`{"$defs": {"Type": {"items": {"Not": {"$ref": "#"}}}}}`: "the schema has #/$defs/Type/items/Not, which is not a keyword: did you mean not?",
		`{"anyOf": [{}, {"minlength": 1}]}`:                      "the schema has #/anyOf/1/minlength, which is not a keyword: did you mean minLength?",
		`{"properties": {"Type": {}, "REQUIRED": {"type": "null"}}, "const": {"Not": 1}, "x-own": {"Not": 1}}`: "",
	} {
		_, err := ReadSchema([]byte(text))
		if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(exampleSchema, "{name: abc, db: {host: x, port: 80}}")
	f.Add(`{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": ["string", "null"]}}}`, "[1]")
	f.Add(`{"$dynamicRef": "#x", "$defs": {"a": {"$dynamicAnchor": "x", "not": {}}}}`, "1")
	f.Add(`{"AllOf": [{"$ref": "#"}]}`, "1")
	f.Fuzz(func(t *testing.T, text, doc string) {
		schema, err := ReadSchema([]byte(text))
		if err != nil {
			return
		}
		v, err := For("x.yaml").Parse([]byte(doc))
		if err != nil {
			return
		}
		if err := schema.Validate(v); err != nil && !errors.As(err, new(*SchemaError)) {
			t.Errorf("%T", err)
		}
	})
}
