package jinja

import (
	"reflect"
	"testing"

	"initbox/render/engine"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2"
)

// everything has each kind of node that the library's parser makes.
const everything = `text {{ a.b["c"] }}{{ x | f(1, k=2) if t is odd else [1, (2, 3), {"k": -1}] }}{{ not a and b or c ~ d + 1 < 2 }}{{ 1 < x < 3 }}{{ s[1:2:3] }}{{ f(*p, **q) }}{{ m.n() }}
{% for i, j in l if i recursive %}{{ loop(i) }}{% continue %}{% break %}{% else %}e{% endfor %}{% if a %}{% elif b %}{% else %}{% endif %}
{% with a = 1 %}{% endwith %}{% set v = 1 %}{% set n.s = 1 %}{% set w | upper | lower %}b{% endset %}{% filter upper | trim %}{{ a }}{% endfilter %}
{% autoescape a %}{% endautoescape %}{% block bl %}{{ a }}{% endblock %}{% include a %}{% import a as im %}{% from a import y as z %}
{% macro mac(p, q=1) %}{{ p }}{% endmacro %}{% call(u) mac(1) %}{{ u }}{% endcall %}{% do l.append(1) %}`

// TestTree pins what the reader knows of the library's syntax tree: a version
// that has other kinds of nodes, or other fields, fails here.
func TestTree(t *testing.T) {
	fields := map[string]string{
		"Template": "Children", "EmitRaw": "Raw", "EmitExpr": "Expr", "ForLoop": "Target Iter FilterExpr Recursive Body ElseBody", "IfCond": "Expr TrueBody FalseBody",
		"WithBlock": "Assignments Body", "Assignment": "Target Value", "Set": "Target Expr", "SetBlock": "Target Filter Body", "AutoEscape": "Enabled Body", "FilterBlock": "Filter Body",
		"Block": "Name Required Body", "Include": "Name IgnoreMissing", "Import": "Expr Name", "FromImport": "Expr Names", "ImportName": "Name Alias", "Macro": "Name Args Defaults Body",
		"CallBlock": "Call CallSpan MacroDecl MacroSpan", "Do": "Call CallSpan", "Continue": "", "Break": "", "Span": "StartLine StartCol StartOffset EndLine EndCol EndOffset",
		"Var": "ID", "Const": "Value", "UnaryOp": "Op Expr", "BinOp": "Op Left Right", "Compare": "Expr Ops", "CompareOp": "Op Expr", "IfExpr": "TestExpr TrueExpr FalseExpr", "Filter": "Name Expr Args",
		"Test": "Name Expr Args", "GetAttr": "Expr Name", "GetItem": "Expr SubscriptExpr", "Slice": "Expr Start Stop Step", "Call": "Expr Args", "CallArg": "Kind Name Value", "List": "Items", "Map": "Keys Values",
	}
	tm, err := minijinja.EmptyEnvironment().TemplateFromNamedString("t", everything)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	walkTree(syntaxTree(tm).Value, func(s reflect.Value) {
		name, got := s.Type().Name(), ""
		for i := range s.NumField() {
			if f := s.Type().Field(i); f.IsExported() {
				got += " " + f.Name
			}
		}
		want, known := fields[name]
		if !known || got != "" && got[1:] != want {
			t.Errorf("%s has the fields%s, want %s", name, got, want)
		}
		seen[name] = true
	})
	for name := range fields {
		if !seen[name] && name != "Span" {
			t.Errorf("the parser makes no %s", name)
		}
	}

	e := New(&engine.Data{}, engine.Options{Limits: engine.DefaultLimits}).(*jinja)
	e.tables.filters["f"] = fn{params: "**"}
	e.tables.functions["f"] = fn{params: "**"}
	if _, err := e.read(tm, false); err != nil {
		t.Fatal(err)
	}
}

// walkTree calls f with each struct of a tree.
func walkTree(v reflect.Value, f func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walkTree(v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkTree(v.Index(i), f)
		}
	case reflect.Struct:
		f(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walkTree(v.Field(i), f)
			}
		}
	}
}
