package jinja_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"initbox/render/engine"
	"initbox/render/jinja"
)

// TestNames pins what the top-level names are.
func TestNames(t *testing.T) {
	e := jinja.New(&engine.Data{
		Values: map[string]any{"a": "value", "Env": "hidden", "range": "own", "float": 8080.0, "half": 0.5},
		Env:    map[string]any{"HOME": "/root"},
		Pod:    map[string]any{"Name": "db-3"},
	}, engine.Options{Limits: engine.DefaultLimits})
	for snippet, want := range map[string]string{
		"{{ a }} {{ Values.a }} {{ Env.HOME }} {{ Pod.Name }} {{ Values.Env }}": "value value /root db-3 hidden",
		"{{ range }} {{ range(2)|list }}":                                       "own [0, 1]",
		"{{ float }} {{ half }}":                                                "8080.0 0.5",
		"{{ ordinal() }} {{ 'web-7' | ordinal }} {{ hostport('::1', 80) }}":     "3 7 [::1]:80",
		"{{ \"it's\" | shquote }} {{ ['a b'] | map('shquote') | join }}":        `'it'\''s' 'a b'`,
	} {
		if got := ours(e, snippet); !got.OK || got.Text != want {
			t.Errorf("%s is %q, want %q", snippet, got.Text, want)
		}
	}
}

// TestAnsible pins the filters that are Ansible's.
func TestAnsible(t *testing.T) {
	e := engineOf(t, engine.Options{})
	for _, c := range []struct{ snippet, want string }{
		{`{{ '10.1.2.3/16' | ipaddr('network') }} {{ 'x' | ipaddr }} {{ ['10.0.0.1', 'x', '::1'] | ipaddr | join(',') }} {{ ['10.0.0.1', '::1'] | ipv6 }}`, "10.1.0.0 False 10.0.0.1,::1 ['::1']"},
		{`{{ '10.1.0.0/16' | ipaddr(1) }} {{ '10.1.0.0/16' | ipaddr('-2') | ipaddr('address') }} {{ ['10.1.0.1', '10.2.0.1'] | ipaddr('10.1.0.0/16') }}`, "10.1.0.1/16 10.1.255.254 ['10.1.0.1']"},
		{`{{ '::1' | ipwrap }} {{ '10.0.0.1' | ipwrap }} {{ 'db' | ipwrap }} {{ '10.0.0.0/24' | ipaddr('size') + 1 }} {{ [] | ipaddr }} {{ '10.0.0.1' | ipv4 }}`, "[::1] 10.0.0.1 db 257 [] 10.0.0.1"},
		{`{{ 2 | pow(10) }} {{ 2 | pow(-1) }} {% for r in 'a,b\n1,2\n' | from_csv %}{{ r.a }}{{ r.b }}{% endfor %} {{ ('a;b\n1;2' | from_csv(delimiter=';'))[0].b }}`, "1024.0 0.5 12 2"},
		{`{{ name | b64encode }} {{ 'aW5pdGJveA==' | b64decode }}`, "aW5pdGJveA== initbox"},
		{`{{ '/etc/app.conf' | basename }} {{ '/etc/app.conf' | dirname }} {{ '/x' | dirname }} {{ 'a/b.c' | splitext }}`, "app.conf /etc / ('a/b', '.c')"},
		{`{{ 'Yes' | bool }} {{ 'off' | bool }} {{ 1 | bool }}`, "True False True"},
		{`{{ yes | ternary('a', 'b') }} {{ no | ternary('a', 'b') }} {{ none | ternary('a', 'b', 'c') }}`, "a b c"},
		{`{{ {'a': {'x': 1}} | combine({'a': {'y': 2}}, recursive=true) }} {{ {'a': 1} | combine({'a': 2}, {'b': 3}) }}`, "{'a': {'x': 1, 'y': 2}} {'a': 2, 'b': 3}"},
		{`{{ {'a': 1} | dict2items }} {{ [{'key': 'a', 'value': 1}] | items2dict }}`, "[{'key': 'a', 'value': 1}] {'a': 1}"},
		{`{{ [1, 2, 2] | union([3]) }} {{ [1, 2] | intersect([2]) }} {{ [1, 2] | difference([2]) }} {{ [1, 2] | symmetric_difference([2, 3]) }}`, "[1, 2, 3] [2] [1] [1, 3]"},
		{`{{ [1, [2, [3]]] | flatten }} {{ [1, [2, [3]]] | flatten(1) }} {{ [1, 2] | zip(['a', 'b']) }}`, "[1, 2, 3] [1, 2, [3]] [(1, 'a'), (2, 'b')]"},
		{`{{ '{"a": [1, 2.5, null, 1.0]}' | from_json }} {{ 'a: [1, x, 1.0, 2.50, {v: 3.0}]' | from_yaml }}`, "{'a': [1, 2.5, None, 1.0]} {'a': [1, 'x', 1.0, 2.5, {'v': 3.0}]}"},
		{`{{ {'b': 1, 'a': 'ä'} | to_json }} {{ {'b': [1], 'a': {}} | to_nice_json }}`, "{\"b\": 1, \"a\": \"\\u00e4\"} {\n    \"a\": {},\n    \"b\": [\n        1\n    ]\n}"},
		{`{{ {'b': [1, 'x'], 'a': '1'} | to_nice_yaml }}`, "a: \"1\"\nb:\n- 1\n- x\n"},
		{`{{ 'a' | md5 }} {{ 'a' | hash }} {{ 'a' | sha1 }}`, "0cc175b9c0f1b6a831c399e269772661 86f7e437faa5a7fce15d1ddcb9eaeaea377667b8 86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"},
		{`{{ 'a1b2' | regex_replace('([a-z])(\\d)', '\\2$\\1') }} {{ 'x=5' | regex_search('\\d+') }} {{ 'x=5' | regex_search('(\\w)=(\\d)', '\\2') }} {{ 'a1b2' | regex_findall('\\d') }}`, "1$a2$b 5 ['5'] ['1', '2']"},
		{`{{ 'a.b' | regex_escape }} {{ 'abc' is match('b') }} {{ 'abc' is search('b') }} {{ [1, 2] is contains(1) }} {{ [1] is subset([1, 2]) }}`, `a\.b False True True True`},
		{`{{ "a b" | quote }} {{ 'a,b' | split(',') }} {{ name | mandatory }}`, "'a b' ['a', 'b'] initbox"},
	} {
		if got := ours(e, c.snippet); !got.OK || got.Text != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.snippet, got.Text, c.want)
		}
	}
}

// TestMissing pins that everything missing is reported, once for each place and by
// name, and that nothing is written after the first.
func TestMissing(t *testing.T) {
	e := engineOf(t, engine.Options{})
	for _, c := range []struct{ snippet, want string }{
		{"{{ a }}\n  {{ db.nope }}{{ name }}{{ Env.NOPE }}", "t:1:4: .Values.a is missing; t:2:6: .Values.db.nope is missing; t:2:29: .Env.NOPE is missing"},
		{"{% for u in users %}{{ u.phone }}{% endfor %}{% if a.b %}{% endif %}", "t:1:24: u.phone is missing; t:1:52: .Values.a is missing"},
		{"{{ users[7].name }}{{ nums[9] | default(1) }}", "t:1:4: .Values.users.7 (7 of 3) is missing"},
		{"{% for x in a %}{% endfor %}{{ 1 + b }}{{ c ~ 'x' }}{{ d | upper }}{{ 'x' | replace(f, 'y') }}{{ g == 1 }}",
			"a b c d f g"},
		{"{% macro m(p, q) %}{{ p }}{{ q }}{% endmacro %}{{ m(1) }}", "t:1:30: q is missing"},
		{"{{ none_list | first }}", "t:1:16: the first item of an empty list is missing"},
		{"{{ a | mandatory }}{{ b | mandatory('set b') }}", "t:1:4: .Values.a is missing"},
		{"{% set v = a | default(b) %}{{ v }}", "t:1:24: .Values.b is missing"},
	} {
		tm, err := e.Parse("t", c.snippet)
		if err != nil {
			t.Errorf("%s: %v", c.snippet, err)
			continue
		}
		var b strings.Builder
		err = tm.Execute(t.Context(), &b)
		var m *engine.MissingError
		if !errors.As(err, &m) {
			t.Errorf("%s: %v", c.snippet, err)
			continue
		}
		var names []string
		for _, in := range m.Missing {
			names = append(names, strings.TrimPrefix(in.Name, ".Values."))
		}
		if err.Error() != c.want && strings.Join(names, " ") != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.snippet, err, c.want)
		}
		if strings.Contains(b.String(), "initbox") {
			t.Errorf("%s: written after the first: %q", c.snippet, b.String())
		}
	}
	if got := ours(engineOf(t, engine.Options{MissingZero: true}), "[{{ a }}{{ a.b.c }}{{ db.nope | upper }}{% for x in a %}x{% endfor %}{{ a ~ 'x' }}]"); got.Text != "[x]" {
		t.Errorf("missing values that are to be empty: %q", got.Text)
	}
}

// TestErrors pins the place, the text and the hint of errors.
func TestErrors(t *testing.T) {
	e := engineOf(t, engine.Options{})
	for snippet, want := range map[string]string{
		"\n {{ name | uper }}":                       "t:2:12: there is no filter uper (did you mean upper?)",
		"{{ rnge(3) }}":                              "t:1:4: there is no function rnge (did you mean range?)",
		"{{ name is defind }}":                       "t:1:12: there is no test defind (did you mean defined?)",
		"{% include 'helo.j2' %}":                    "t:1:4: there is no template helo.j2 to include (did you mean hello.j2?)",
		"a\n{{ 1 // 0 }}":                            "t:2:4: division by zero ()",
		"{{ name | replace('a') }}":                  "t:1:11: the argument new is required ()",
		"{{ name | upper(1) }}":                      "t:1:11: filter upper takes at most 0 arguments, got 1 ()",
		"{{ name | indent(wdth=2) }}":                "t:1:11: there is no argument wdth ()",
		"{{ resolve('x') }}":                         "t:1:4: resolve is not allowed (allow templates to look up names with --resolve)",
		"{{ b | mandatory('set b') }}":               "t:1:4: set b ()",
		"{{ 'a' is match('(?=a)') }}":                "t:1:11: the regular expression is not valid in RE2: invalid or unsupported Perl syntax: `(?=` ()",
		"x\n{% macro m() %}{% endmacro %}{{ m(1) }}": "t:2:33: m takes at most 0 arguments, got 1 ()",
		"a\n\n{% if %}":                              "t:3:7: unexpected %}, expected an expression ()",
		"{{ caller() }}":                             "t:1:4: there is no caller (call the macro with {% call %})",
		"a\n {{ name\n{{ one }}":                     "t:2:2: {{ is not closed (end it with }})",
		"a\n {{ name":                                "t:2:2: {{ is not closed (end it with }})",
		"ü {{ name ü":                                "t:1:3: {{ is not closed (end it with }})",
		"ü {{ name ü }}":                             "t:1:11: unexpected ü, expected the end of the tag ()",
		"{% if name %}\n{{ one }}":                   "t:1:1: {% if %} is not closed: there is no {% endif %} ()",
		"{% for x in nums %}{% if x %}{% endfor %}":  "t:1:33: unexpected {% endfor %}: {% if %} of line 1 has no {% endif %} yet ()",
		"a\n{% set x\n{{ one }}":                     "t:2:1: {% is not closed (end it with %})",
		"a\n{# note\n{{ one }}":                      "t:2:1: the comment {# is not closed (end it with #})",
		"a\n{% raw %}\n{{ one }}":                    "t:2:1: {% raw %} is not closed: there is no {% endraw %} ()",
		"a {{ 'b }}\n{{ one }}":                      "t:1:6: the string is not closed ()",
		"a {{ 'b }}\n{{ 'c' }}":                      "t:1:6: the string is not closed ()",
		"{% iff name %}{% endiff %}":                 "t:1:4: there is no tag iff (did you mean if?)",
		"{{ .Values.name }}":                         "t:1:4: unexpected . before a name (in Jinja, write Values)",
		"{{ getenv('POD_IP') }}":                     "t:1:4: there is no function getenv (write Env.POD_IP)",
		"{{ lookup('env', 'POD_IP') }}":              "t:1:4: there is no function lookup (write Env.POD_IP)",
		"{{ {'a b': 1} | xmlattr }}":                 "t:1:17: 'a b' cannot be the name of an attribute: it may have no spaces, /, > and = ()",
		"{{ nums | map('string') }}":                 "t:1:4: map returns no list: add | list to print it ()",
	} {
		_, err := func() (any, error) {
			tm, err := e.Parse("t", snippet)
			if err == nil {
				err = tm.Execute(t.Context(), io.Discard)
			}
			return nil, err
		}()
		var failed *engine.Error
		if !errors.As(err, &failed) || fmt.Sprintf("%v (%s)", failed, failed.Fix) != want {
			t.Errorf("%q\n got %v\nwant %s", snippet, err, want)
			if failed != nil {
				t.Log(failed.Fix)
			}
		}
	}
}

// TestBounds pins that what would hang a Pod, or take its memory, soon fails instead.
func TestBounds(t *testing.T) {
	limits := engine.Limits{Bytes: 1 << 18, Depth: 50, Steps: 100_000}
	e := jinja.New(&engine.Data{}, engine.Options{Limits: limits})
	for name, text := range map[string]string{
		"self.j2":  "{% include 'self.j2' %}",
		"macro.j2": "{% macro m() %}{% import 'macro.j2' as x %}{{ x.m() }}{% endmacro %}",
		"up.j2":    "{% extends 'up.j2' %}",
		"from.j2":  "{% from 'from.j2' import x %}",
		"wide.j2":  "{% set a = range(1000) %}{% for b in a %}{% set c = b %}{% endfor %}",
	} {
		if err := e.AddPartial(name, text); err != nil {
			t.Fatal(err)
		}
	}
	double := func(n int, s string) string { return strings.Repeat(s, n) + "{{ x }}" }
	for _, snippet := range []string{
		`{{ "x" * 10 ** 9 }}`, `{{ [1] * 10 ** 9 }}`, `{{ 10 ** 9 * [1, 2] }}`, `{{ range(10 ** 9) }}`, `{{ range(10 ** 18) | length }}`, `{{ 'x' * 9223372036854775807 }}`, `{{ 'xx' * 9223372036854775807 }}`,
		`{{ 2 ** (10 ** 9) }}`, `{{ 2 ** 99999999999999999999 }}`, `{{ 10 ** 400.0 * 'x' }}`, `{{ ('x' * 1000000) * 1000000 }}`,
		"{% set x = 'xxxxxxxxxx' %}" + double(60, "{% set x = x ~ x %}"), "{% set x = 'xxxxxxxxxx' %}" + double(60, "{% set x = x + x %}"), "{% set x = [1] %}" + double(60, "{% set x = x + x %}"),
		"{% set x = [1] %}" + double(60, "{% set x = [x, x] %}"), "{% set x = {} %}" + double(60, "{% set x = {'a': x, 'b': x} %}"), "{% set x = [1] %}" + double(60, "{% set x = [x, x] %}{% set y = [x, x] %}") + "{{ x == y }}",
		"{% set x = [1] %}" + strings.Repeat("{% set x = [x, x] %}", 60) + "{{ x | flatten }}", "{% set x = (1,) %}" + double(60, "{% set x = (x, x) %}{% set y = {x: 1} %}"), "{% set x = (1,) %}" + double(60, "{% set x = (x,) %}{% set y = {x: 1} %}") + "{{ 1 / 0 }}", "{% set x = [1] %}" + strings.Repeat("{% set x = [x, x] %}", 60) + "{{ x | to_yaml }}", "{% set x = [1] %}" + strings.Repeat("{% set x = [x, x] %}", 60) + "{{ x | tojson }}", "{% set x = [1] %}" + strings.Repeat("{% set x = [x, x] %}", 60) + "{{ x | jsonquote }}",
		"{% set x = 'xxxxxxxxxx' %}" + double(60, "{% set x %}{{ x }}{{ x }}{% endset %}"), "{% set x = 'xxxxxxxxxx' %}" + double(60, "{% set x = '%s%s' % (x, x) %}"), "{% set x = 'xxxxxxxxxx' %}" + double(60, "{% set x = '{0}{0}'.format(x) %}"), "{% set x = 'aaaa' %}" + double(60, "{% set x = x.replace('a', 'aa') %}"), "{% set x = 'aaaa' %}" + double(60, "{% set x = [x, x] | join %}"), "{% set x = 'aaaa' %}" + double(60, "{% set x = x | regex_replace('a', 'aa') %}"),
		`{{ 'x' | center(10 ** 9) }}`, `{{ 'x'.rjust(10 ** 9) }}`, `{{ '%1000000000d' % 1 }}`, `{{ '%.1000000000d' % 1 }}`, `{{ '%*d' % (10 ** 9, 1) }}`, `{{ '{:1000000000}'.format(1) }}`, `{{ 'x'.zfill(10 ** 9) }}`, `{{ 'a` + "\n" + `b' | indent(10 ** 9) }}`, `{{ [1] | batch(10 ** 9, 'x') }}`, `{{ [1] | slice(10 ** 9) }}`, `{{ [1] | tojson(10 ** 9) }}`, `{{ ('x' * 100000) | wordwrap(1) }}`, `{{ ('x' * 100000) | regex_findall('') }}`,
		`{% set l = [1] %}{% do l.append(l) %}{{ l }}`, `{% set l = [1] %}{% do l.append(l) %}{{ l == l + [] }}`, `{% set l = [1] %}{% do l.append(l) %}{{ l | tojson }}{{ l | to_yaml }}`, `{% set l = [1] %}{% for x in range(1000) %}{% do l.extend(l) %}{% endfor %}`, `{% set l = [1] %}{% do l.append(l) %}{{ l | flatten }}`,
		`{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}`, `{% for a in range(1000) %}{% for b in range(1000) %}x{% endfor %}{% endfor %}`, `{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`, `{% include 'self.j2' %}`, `{% import 'macro.j2' as x %}{{ x.m() }}`, `{% extends 'up.j2' %}`,
		`{% macro a() %}{% for i in range(9) %}{{ a() }}{% endfor %}{% endmacro %}{{ a() }}`, `{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = ns.l + [i] %}{% endfor %}`, `{% set ns = namespace(s='') %}{% for i in range(30000) %}{% set ns.s = ns.s ~ 'some text that grows' %}{% endfor %}`,
		`{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}`, `{% for x in [1, 1] recursive %}{{ loop([1, 1]) }}{% endfor %}`, `{% block a %}{{ self.a() }}{% endblock %}`, `{% block a %}{{ self.b() }}{% endblock %}{% block b %}{{ self.a() }}{% endblock %}`,
		`{% macro a() %}{{ caller() }}{% endmacro %}{% macro b() %}{% call a() %}{{ b() }}{% endcall %}{% endmacro %}{{ b() }}`, `{% macro a(f) %}{{ f(f) }}{% endmacro %}{{ a(a) }}`, `{% macro a(x=a()) %}{% endmacro %}{{ a() }}`, `{% set x = [1] %}{{ dict(*range(10 ** 6)) }}`,
		`{% from 'from.j2' import x %}`, `{% for i in range(100000) %}{% include 'wide.j2' %}{% endfor %}`, `{% macro m() %}{% set a %}{{ m() }}{{ m() }}{% endset %}{% endmacro %}{{ m() }}`, "{% macro m() %}{{ m()" + strings.Repeat(" ~ 1", 900) + " }}{% endmacro %}{{ m() }}",
		"{% macro m() %}{% if 0 %}" + strings.Repeat("{% elif 0 %}", 2000) + "{% else %}{{ m() }}{% endif %}{% endmacro %}{{ m() }}", `{{ 'x'.ljust(10 ** 12) }}`, `{% filter center(10 ** 9) %}x{% endfilter %}`, `{% set ns = namespace(f=0) %}{% macro m() %}{{ ns.f() }}{% endmacro %}{% set ns.f = m %}{{ m() }}`,
		"{{ " + strings.Repeat("-", 20_000) + "1 }}", "{{ " + strings.Repeat("not ", 20_000) + "1 }}", "{{ " + strings.Repeat("(", 20_000) + "1 }}", "{{ 1" + strings.Repeat(" + 1", 20_000) + " }}", "{{ 1" + strings.Repeat("|abs", 20_000) + " }}", "{{ a" + strings.Repeat(".b", 20_000) + " }}", "{{ a" + strings.Repeat("[0]", 20_000) + " }}", "{{ " + strings.Repeat("[", 20_000) + " }}", strings.Repeat("{% if 1 %}", 20_000), "{% if 1 %}" + strings.Repeat("{% elif 1 %}", 20_000) + "{% endif %}", "{{ 1" + strings.Repeat(" if 1 else 2", 30_000) + " }}", "{{ 1" + strings.Repeat(" ** 1", 20_000) + " }}", "{{ x" + strings.Repeat("()", 20_000) + " }}",
	} {
		begin := time.Now()
		got := ours(e, snippet)
		if got.OK && len(got.Text) > 0 || strings.Contains(got.Text, "runtime error") {
			t.Errorf("%.100s: %v %.200q", snippet, got.OK, got.Text)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Logf("%.100s took %v", snippet, took)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%.100s took %v", snippet, took)
		}
	}
	if got := ours(e, strings.Repeat("{{ 'x' * 1000 }}", 200)); !got.OK || len(got.Text) != 200_000 {
		t.Errorf("an output of 200 000 bytes: %.100s", got.Text)
	}
	if got := ours(e, strings.Repeat("{{ 'x' * 1000 }}", 300)); got.OK || !strings.Contains(got.Text, "larger than 262144") {
		t.Errorf("an output of 300 000 bytes: %.100s", got.Text)
	}
}

// TestEnd pins that the end of the context ends a template.
func TestEnd(t *testing.T) {
	e := jinja.New(&engine.Data{}, engine.Options{Limits: engine.Limits{Bytes: 1 << 30, Depth: 100, Steps: 1 << 50}})
	tm, err := e.Parse("t", "{% for a in range(1000000) %}{% for b in range(1000000) %}{{ b * a }}{% endfor %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("it is late")
	ctx, stop := context.WithCancelCause(t.Context())
	w := writerFunc(func(p []byte) (int, error) { stop(late); return len(p), nil })
	if err := tm.Execute(ctx, w); !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
	full := errors.New("no space")
	tm, _ = e.Parse("t", "a{{ 1 }}b")
	if err := tm.Execute(t.Context(), writerFunc(func([]byte) (int, error) { return 0, full })); !errors.Is(err, full) {
		t.Errorf("a full disk: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestInputs pins what a template is reported to read.
func TestInputs(t *testing.T) {
	e := engineOf(t, engine.Options{})
	if err := e.AddPartial("late.j2", "{{ from_partial }}"); err != nil {
		t.Fatal(err)
	}
	tm, err := e.Parse("t", `{{ a.b.c }}{{ d | default(f) }}{% if g is defined %}{{ g }}{% endif %}{% for x in h.list %}{{ x.y }}{{ Env.HOME }}{% endfor %}
{% set p = p | default(1) %}{{ p }}{{ Values.q['r'].s[0] }}{{ i[j] }}{{ k.items() }}{% macro m(z) %}{{ z }}{% endmacro %}{{ m(n) }}{% include 'late.j2' %}{{ range(2) }}{% include 'late.j2' %}{{ [1] | random }}
{{ jvmHeap() }}{{ t | memMiB | default(1) }}{{ 75 | jvmHeap }}{{ cpuCount() }}{{ ordinal() }}{{ ordinal('x-1') }}{{ 'x-1' | ordinal }}`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, in := range tm.Inputs() {
		s := fmt.Sprintf("%v=%s", in.Position, in.Name)
		if in.Optional {
			s += "?"
		}
		got = append(got, s)
	}
	want := "t:1:4=.Values.a.b.c t:1:15=.Values.d? t:1:27=.Values.f t:1:38=.Values.g? t:1:56=.Values.g? t:1:83=.Values.h.list t:1:104=.Env.HOME " +
		"t:2:12=.Values.p? t:2:39=.Values.q.r.s.0 t:2:63=.Values.i t:2:65=.Values.j t:2:73=.Values.k t:2:127=.Values.n t:3:4=.Pod.Limits.memory t:3:19=.Pod.Limits.memory t:3:19=.Values.t t:3:48=.Pod.Limits.memory t:3:66=.Pod.Limits.cpu t:3:82=.Pod.Name late.j2:1:4=.Values.from_partial"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	if u := fmt.Sprint(tm.Unsteady()); u != "[random]" {
		t.Errorf("unsteady: %s", u)
	}
}

// TestConcurrent pins that templates of one engine share nothing that changes.
func TestConcurrent(t *testing.T) {
	e := engineOf(t, engine.Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if got := ours(e, "{% include 'hello.j2' %}{% do nums.append(4) %}{{ nums }}{% do db.update(x=1) %}{{ db | length }}"); got.Text != "Hello initbox![3, 1, 2, 3, 4]4" {
					t.Errorf("got %q", got.Text)
				}
			}
		})
	}
	all.Wait()
}

// TestNoEscaping pins that files are not HTML, whatever they are called.
func TestNoEscaping(t *testing.T) {
	e := engineOf(t, engine.Options{})
	for _, name := range []string{"a.html", "a.xml.j2", "a.json", "a.yaml"} {
		tm, err := e.Parse(name, "{{ html }}{{ nums }}")
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := tm.Execute(t.Context(), &b); err != nil || b.String() != `<a href="x">Tom & 'Jerry'</a>[3, 1, 2, 3]` {
			t.Errorf("%s: %s, %v", name, &b, err)
		}
	}
}

func FuzzJinja(f *testing.F) {
	for _, family := range families(f) {
		for _, c := range family.cases {
			f.Add(c.template)
		}
	}
	limits := engine.Limits{Bytes: 1 << 16, Depth: 20, Steps: 20_000}
	e := engineOf(f, engine.Options{Limits: limits})
	f.Fuzz(func(t *testing.T, text string) {
		tm, err := e.Parse("t", text)
		if err != nil {
			var failed *engine.Error
			if !errors.As(err, &failed) || strings.Contains(err.Error(), "runtime error") {
				t.Errorf("parsing fails with %v", err)
			}
			return
		}
		tm.Inputs()
		tm.Unsteady()
		var b bytes.Buffer
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		err = tm.Execute(ctx, &b)
		if ctx.Err() != nil || b.Len() > 1<<16 || err != nil && strings.Contains(err.Error(), "runtime error") {
			t.Errorf("%d bytes, %v", b.Len(), err)
		}
	})
}

func BenchmarkJinja(b *testing.B) {
	for name, snippet := range map[string]string{
		"1kB":  strings.Repeat("server {{ name }}:{{ db.port }} {% if yes %}on{% endif %};\n", 16),
		"loop": "{% for i in range(10000) %}{% if i is odd or name == 'x' %}{{ name | upper }}-{{ i }}\n{% endif %}{% endfor %}",
		"50MB": "{% for i in range(1000) %}{% for j in range(1000) %}{{ name }} some text of fifty bytes or so in a line\n{% endfor %}{% endfor %}",
	} {
		b.Run(name, func(b *testing.B) {
			e := engineOf(b, engine.Options{})
			b.ReportAllocs()
			for b.Loop() {
				tm, err := e.Parse("t", snippet)
				if err == nil {
					err = tm.Execute(context.Background(), io.Discard)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("New", func(b *testing.B) {
		for b.Loop() {
			engineOf(b, engine.Options{})
		}
	})
}

// TestLineEnds pins that line ends become those of Unix, as in Jinja.
func TestLineEnds(t *testing.T) {
	got := ours(engineOf(t, engine.Options{}), "a\r\n{{ one }}\r{{ 'b\r\nc' | length }}\r\n")
	if got.Text != "a\n1\n3\n" {
		t.Errorf("got %q", got.Text)
	}
}

// TestLongTemplates pins that what is read of a long template does not cost what has been read before.
func TestLongTemplates(t *testing.T) {
	sets, line := "", strings.Repeat("{% for i in [] %}{% endfor %}", 3000)
	for i := range 3000 {
		sets += fmt.Sprintf("{%% set a%d = 1 %%}", i)
	}
	for name, text := range map[string]string{"names and scopes": sets + line, "texts in a row": "{{ " + strings.Repeat("'abcdefgh' ", 20_000) + "}}"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := engineOf(t, engine.Options{}).Parse("t", text); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 100 {
			t.Errorf("%s, %d KiB, take %d MiB", name, len(text)>>10, used)
		}
	}
}
