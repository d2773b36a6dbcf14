package jinja_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"initbox/render/engine"
	"initbox/test/soak"
)

// What templates are made of at random: values, and what is applied to them.
var (
	randomValues = strings.Split(`0|1|-7|2.5|-0.5|1.0|1e20|true|false|none|''|'a'|'Hello World'|" it's "|'a,b,,c'|'12'|'-3.7'|'x=1'|"<a&b>"|'é ß 日'|[]|[3, 1, 2]|['b', 'A', 'a']|[1, 'a']|[[1, 2], [3]]|(1, 2)|{}|{'a': 1, 'b': 2}|{'b': [1], 'a': none}|nums|letters|users|db|cfg|table|name|words|lines|multi|big|version|range(4)|db.keys()|cfg.items()|[none, 0]|[1.5, 2]|['x', 'xy']|'line\nbreak'|[true, 1]|('a',)`, "|")
	randomSteps  = strings.Split(`abs;capitalize;center(9);count;default('d');default('d', true);dictsort;dictsort(by='value');dictsort(reverse=true);e;filesizeformat;filesizeformat(true);first;float;float(1.5);forceescape;format(1);groupby(0)|list;indent;indent(2, true);indent('>', blank=true);int;int(5);int(base=16);items|list;join;join(',');join('-', attribute=0);last;length;list;lower;map('string')|list;map('upper')|list;map(attribute='name')|list;map('int')|list;map('length')|list;max;min;max(true);pprint;reject('none')|list;rejectattr('age')|list;replace('a', 'X');replace('l', '', 1);reverse|list;round;round(1);round(1, 'floor');round(0, 'ceil');safe;select|list;select('string')|list;select('number')|list;selectattr('admin')|list;slice(2)|list;slice(3, 'f')|list;batch(2)|list;batch(3, 0)|list;sort;sort(true);sort(case_sensitive=true);string;striptags;sum;sum(start=1);title;tojson;tojson(2);trim;trim('a');truncate(5);truncate(8, true);truncate(3, true, '', 0);unique|list;upper;urlencode;wordcount;wordwrap(5);wordwrap(4, false);xmlattr;attr('x')|default('n')`, ";")
	randomTests  = strings.Split(`boolean;callable;defined;divisibleby 2;eq 1;escaped;even;false;float;ge 1;gt 1;in [1, 'a', none];integer;iterable;le 2;lower;lt 2;mapping;ne 1;none;number;odd;sameas none;sequence;string;true;undefined;upper`, ";")
	randomSigns  = strings.Split(`+ - * / // % ** ~ == != < <= > >= in and or`, " ")
	randomCalls  = strings.Split(`upper();lower();title();capitalize();swapcase();strip();split();split(',');split(none, 1);rsplit(' ', 1);splitlines();partition('a');replace('a', 'b');find('l');count('l');startswith('H');endswith('d');center(9, '*');ljust(5);rjust(5, '0');zfill(6);isdigit();isalpha();isspace();islower();join(['x', 'y']);format(1, 2);keys()|list;values()|list;items()|list;get('a');get('zz', 5);copy();index(1);count(1);pop()`, ";")
	randomForms  = strings.Split(`'%s' % (V,);'%d' % V;'%5.1f' % V;'%x' % V;'%r' % (V,);'%e' % V;'{}'.format(V);'{:>8}'.format(V);'{:,}'.format(V);'{:.2f}'.format(V);'{:08.3f}'.format(V);'{:+}'.format(V);'{!r}'.format(V);V[0];V[-1];V[1:];V[::-1];V[:2];-V;+V;not V;[V];(V,);{'k': V};V is defined;dict(a=V);V if V else 'no'`, ";")
)

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// randomTemplate makes an expression of values, filters, tests, operators and methods.
func randomTemplate(r *rand.Rand) string {
	v := pick(r, randomValues)
	for range 1 + r.IntN(3) {
		switch r.IntN(7) {
		case 0:
			v = "(" + v + " " + pick(r, randomSigns) + " " + pick(r, randomValues) + ")"
		case 1:
			v = "(" + v + ")." + pick(r, randomCalls)
		case 2:
			v = "(" + strings.ReplaceAll(pick(r, randomForms), "V", "("+v+")") + ")"
		case 3:
			v = "(" + v + " is " + pick(r, randomTests) + ")"
		default:
			v = "(" + v + ")|" + pick(r, randomSteps)
		}
	}
	if r.IntN(8) == 0 {
		return fmt.Sprintf("{%% for x in %s %%}{{ loop.index }}{{ x }}{{ loop.last }},{%% endfor %%}", v)
	}
	return "{{ " + v + " }}"
}

// TestVariety compares random templates with jinja2. They are the same each time, others with INITBOX_SOAK=1s.
func TestVariety(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	r := soak.Rand(t)
	templates := make([]string, 4000)
	for i := range templates {
		templates[i] = randomTemplate(r)
	}
	compareWithJinja(t, templates)
}

// compareWithJinja compares our answers with those of the installed jinja2.
func compareWithJinja(t *testing.T, templates []string) {
	t.Helper()
	shared := readFamily(t, "testdata/conformance/shared.txtar")
	e := shared.engine(t, engine.Options{})
	counts := map[string]int{}
	for i, theirs := range jinja2(t, []job{{shared.data, shared.partials, templates}}) {
		got := ours(e, templates[i])
		kind, wrong := kindOf(theirs, got)
		if counts[kind]++; wrong != "" {
			t.Errorf("%s: %s\n   ours: %v %.300q\n jinja2: %v %.300q", templates[i], wrong, got.OK, got.Text, theirs.OK, theirs.Text)
		}
		if kind == "only jinja2" {
			t.Logf("only jinja2: %s: %.100q", templates[i], got.Text)
		}
	}
	t.Logf("%d are the same, %d are refused by both, %d only by us", counts["want"], counts["refused"], counts["only jinja2"])
}

var pieces = regexp.MustCompile(`\w+|\s+|[{%#]?[-+]?[}%{]+|.`)

// mutated changes a template in a few places: a piece of it is left out, repeated, or replaced by one of another.
func mutated(r *rand.Rand, template, other string) string {
	all, others := pieces.FindAllString(template, -1), pieces.FindAllString(other, -1)
	for range 1 + r.IntN(2) {
		if len(all) == 0 || len(others) == 0 {
			return other
		}
		i, with := r.IntN(len(all)), others[r.IntN(len(others))]
		switch r.IntN(4) {
		case 0:
			all = slices.Delete(all, i, i+1)
		case 1:
			all = slices.Insert(all, i, all[i])
		case 2:
			all = slices.Insert(all, i, with)
		default:
			all[i] = with
		}
	}
	return strings.Join(all, "")
}

// TestSyntaxVariety compares the answers for the templates of the families when a few pieces of them change: mostly,
// whether they are refused. It is not for the gate: a new template changes what is drawn.
func TestSyntaxVariety(t *testing.T) {
	if os.Getenv("INITBOX_SOAK") == "" {
		t.Skip("$INITBOX_SOAK is not set")
	}
	var from []string
	for _, f := range families(t) {
		for _, c := range f.cases {
			if !strings.ContainsAny(c.template, "*") && !strings.Contains(c.template, "random") && !strings.Contains(c.template, "lipsum") { // * may take Python forever
				from = append(from, c.template)
			}
		}
	}
	r := soak.Rand(t)
	templates := make([]string, 4000)
	for i := range templates {
		templates[i] = mutated(r, pick(r, from), pick(r, from))
	}
	compareWithJinja(t, templates)
}
