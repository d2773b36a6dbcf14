package jinja_test

// snippets go through what the documentation for template designers of Jinja 3.1 describes, in its order.
var snippets = []string{
	// Variables
	`{{ name }}`, `{{ db.host }}`, `{{ db['host'] }}`, `{{ db["tags"][0] }}`, `{{ db.tags.1 }}`, `{{ nums[-1] }}`, `{{ users[0].name }}`,
	`{{ 'db' }}{{ "x" }}`, `{{ missing }}`, `{{ db.missing }}`, `{{ db.missing.deeper }}`, `{{ nums[9] }}`, `{{ missing.a }}`, `{{ name.nope }}`,
	`{{ yes }} {{ no }} {{ nothing }}`, `{{ nums }} {{ letters }}`, `{{ db }}`, `{{ pi }} {{ half }} {{ neg }}`, `{{ uni }} {{ [uni] }}`,
	`{{ [html, lines, "it's", 'a"b\'c', '\\', '\t\r\x07'] }}`, `{{ {'a': [1, {'b': none}], 2: true} }}`, `{{ () }} {{ (1,) }} {{ (1, 'a') }}`,
	// Filters, and the text around
	`{{ name|upper|lower|capitalize }}`, `{{ nums|join(', ') }}`, "a\n{{ name }}\nb\n", "no tags at all\n\n", ``, "\n", `{ { } } {%raw%}{{ x }}{%endraw%} # %`,
	// Tests
	`{{ one is odd }} {{ one is not even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(4) }}`, `{% if name is defined and missing is not defined %}y{% endif %}`,
	`{{ name is string }}{{ one is string }}{{ one is number }}{{ pi is float }}{{ one is integer }}{{ yes is integer }}{{ yes is boolean }}{{ yes is number }}`,
	`{{ db is mapping }}{{ nums is mapping }}{{ nums is sequence }}{{ name is sequence }}{{ name is iterable }}{{ one is iterable }}`,
	`{{ nothing is none }}{{ empty is none }}{{ yes is true }}{{ one is true }}{{ no is false }}{{ zero is false }}`,
	`{{ 'abc' is lower }}{{ 'aBc' is lower }}{{ 'ABC' is upper }}{{ '1' is upper }}`, `{{ 1 is eq 1 }}{{ 1 is ne 1 }}{{ 1 is lt 2 }}{{ 2 is le 2 }}{{ 2 is gt 2 }}{{ 3 is ge 2 }}`,
	`{{ 1 is in [1, 2] }}{{ 'z' is in 'abc' }}`, `{{ 'upper' is filter }}{{ 'nope' is filter }}{{ 'odd' is test }}{{ 'nope' is test }}`,
	`{{ nothing is sameas none }}`, `{{ missing is defined }}{{ missing is undefined }}{{ db.missing is defined }}{{ db.host is defined }}`, `{{ missing.x is defined }}`,
	`{{ range is callable }}{{ name is callable }}`, `{{ name is escaped }}{{ name|safe is escaped }}`, `{{ 1 is nope }}`, `{{ 1|nope }}`,
	// Comments and white space
	`a{# comment {{ x }} #}b`, "a {#- c -#} b", "{% if yes -%}\n  x\n{%- endif %}", "  {%- if yes %} x {% endif -%}  \ny", "{{ 1 -}}  \n {{- 2 }}", "{%- for i in nums -%} {{ i }} {%- endfor -%}",
	"{% if yes %}\n a\n{% endif %}\n", "{% raw -%}  {{ a }}  {%- endraw %}", "{% for i in [1,2] +%}\n{{ i }}{% endfor %}",
	// Escaping
	`{{ '{{' }} {{ '}}' }} {{ "{%" }}`, `{% raw %}{% for %}{{ {% endraw %}`,
	// Inheritance
	`{% extends "base.j2" %}{% block body %}mine{% endblock %}`, `{% extends "base.j2" %}ignored{% block head %}{{ super() }}+{% endblock %}`,
	`{% extends "mid.j2" %}{% block head %}top({{ super() }}){% endblock %}`, `{% block a %}x{% endblock %}-{{ self.a() }}`, `{% extends "nope.j2" %}`,
	`{% set v = 1 %}{% extends "base.j2" %}{% block body %}b{% endblock body %}`, `{% block a required %}{% endblock %}`,
	// Control structures: for
	`{% for u in users %}{{ loop.index }}/{{ loop.length }} {{ u.name }}{{ "," if not loop.last }}{% endfor %}x` + "{{ '' if yes else 1 }}",
	`{% for i in nums %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }} {% endfor %}`,
	`{% for k, v in db|dictsort %}{{ k }}={{ v }};{% endfor %}`, `{% for k, v in db.items() %}{{ k }}={{ v }};{% endfor %}`, `{% for k in db %}{{ k }} {% endfor %}`, `{% for k in db.keys() %}{{ k }} {% endfor %}{% for v in db.values() %}{{ v }} {% endfor %}`,
	`{% for i in none_list %}x{% else %}nothing{% endfor %}`, `{% for i in nums if i > 1 %}{{ i }}{{ loop.length }}{% endfor %}`, `{% for i in nums if i > 9 %}{{ i }}{% else %}none{% endfor %}`,
	`{% for n in tree recursive %}{{ n.n }}({{ loop(n.kids) }}){% endfor %}`, `{% for i in nums %}{{ loop.cycle('a', 'b') }}{% endfor %}`,
	`{% for i in [1, 1, 2, 2] %}{{ i if loop.changed(i) else '-' }}{% endfor %}`, `{% for i in nums %}{{ loop.previtem|default('<') }}{{ loop.nextitem|default('>') }} {% endfor %}`,
	`{% for i in nums %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}`, `{% for i in nums %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}`,
	`{% for c in "añb" %}{{ c }}-{% endfor %}`, `{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }} {% endfor %}`, `{% for (a, (b, c)) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}`,
	`{% for i in missing %}{% endfor %}`, `{% for i in one %}{% endfor %}`, `{% for a, b in [[1]] %}{% endfor %}`, `{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{% endfor %}`,
	`{% set x = 1 %}{% for i in nums %}{% set x = i %}{% endfor %}{{ x }}`,
	// if
	`{% if no %}a{% elif one %}b{% else %}c{% endif %}`, `{% if not no and (one or missing) %}y{% endif %}`, `{% if missing %}a{% endif %}`, `{% if none_list %}a{% else %}b{% endif %}`, `{% if 0.0 or '' or none or {} or () %}a{% else %}b{% endif %}`,
	`{% if db.port == 5432 %}pg{% endif %}`, `{% if 'a' in db.tags and 'z' not in db.tags %}y{% endif %}`, `{% if %}{% endif %}`, `{% if yes %}`,
	// macros and call
	`{% macro m(a, b='B', c=none) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m(1, c=3) }} {{ m(a=5) }}`, `{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}`, `{% macro m(a) %}{{ a|default('d') }}{% endmacro %}{{ m() }}`, `{% macro m() %}{% endmacro %}{{ m(1) }}`,
	`{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{{ name }}{% endcall %}`, `{% macro m() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}{% call(x) m() %}<{{ x }}>{% endcall %}`,
	`{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}`, `{% macro m(a, b) %}{% endmacro %}{{ m.name }}`, `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }}`,
	// filter blocks, set, with
	`{% filter upper %}a{{ name }}{% endfilter %}`, `{% filter upper|replace('A', 'b') %}aaa{% endfilter %}`, `{% filter indent(2) %}a` + "\n" + `b{% endfilter %}`,
	`{% set a = 1 %}{{ a }}`, `{% set a, b = [1, 2] %}{{ a }}{{ b }}`, `{% set x %}block {{ name }}{% endset %}[{{ x }}]`, `{% set x | upper %}abc{% endset %}{{ x }}`, `{% set x | upper | replace('B', 'x') %}abc{% endset %}{{ x }}`,
	`{% set ns = namespace(found=false, n=0) %}{% for i in nums %}{% set ns.n = ns.n + i %}{% set ns.found = true %}{% endfor %}{{ ns.n }}{{ ns.found }}`, `{% set db.host = 1 %}`,
	`{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}`, `{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}`, `{% set port = port|default(1) %}{{ port }}`,
	// include, import
	`{% include "hello.j2" %}`, `{% include "nope.j2" ignore missing %}-`, `{% include "nope.j2" %}`, `{% include ["nope.j2", "hello.j2"] %}`, `{% include ["nope.j2"] ignore missing %}`, `{% for x in nums %}{% include "loop.j2" %}{% endfor %}`, `{% include 'hel' ~ 'lo.j2' with context %}`,
	`{% import "macros.j2" as m %}{{ m.field('a') }}{{ m.field('b', t='x') }}{{ m.version }}`, `{% from "macros.j2" import field, version as v %}{{ field('q') }}{{ v }}`, `{% from "macros.j2" import nope %}{{ nope }}`, `{% import "macros.j2" as m %}{% call m.field() %}{% endcall %}`,
	// Expressions: literals
	`{{ 42 }} {{ 123_456 }} {{ 42.23 }} {{ 42.1e2 }} {{ 1e100 }} {{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 0.00001 }} {{ 1.5e-7 }}`, `{{ 0x1f }} {{ 0b11 }} {{ 0o17 }}`, `{{ [1, 'a', true, none, 1.5] }}`, `{{ {'dict': 'of', 'key': 'and', 'value': 'pairs'} }}`, `{{ true }}{{ True }}{{ False }}{{ None }}`, `{{ 'a' "b" 'c' }}`, `{{ "\u00e4\n" }}`,
	// math
	`{{ 1 + 1 }} {{ 3 - 2 }} {{ 1 / 2 }} {{ 4 / 2 }} {{ 20 // 7 }} {{ -20 // 7 }} {{ 11 % 7 }} {{ -11 % 7 }} {{ 11 % -7 }} {{ 2 * 2 }} {{ 2 ** 3 }} {{ 2 ** -1 }} {{ -2 ** 2 }}`, `{{ 7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 2.0 * 3 }} {{ 2 ** 0.5 }}`,
	`{{ '=' * 10 }} {{ [1] * 3 }} {{ 2 * 'ab' }} {{ 'x' * -1 }}`, `{{ [1] + [2] }} {{ 'a' + 'b' }}`, `{{ 1 + 'a' }}`, `{{ 'a' + 1 }}`, `{{ 1 / 0 }}`, `{{ 1 // 0 }}`, `{{ 1 % 0 }}`, `{{ yes + 1 }}`, `{{ 9007199254740993 + 0 }} {{ 9007199254740993 * 3 }}`, `{{ -(3 + 4) * 2 }}`, `{{ 2 ** 3 ** 2 }}`, `{{ 10 - 3 - 2 }}`,
	// comparisons and logic
	`{{ 1 == 1.0 }} {{ 1 != 2 }} {{ 2 > 1 }} {{ 2 >= 3 }} {{ 1 < 2 }} {{ 1 <= 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}`, `{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }}`, `{{ 1 < 'a' }}`, `{{ none < 1 }}`, `{{ yes == 1 }} {{ [1] == [1.0] }} {{ {'a': 1} == {'a': 1} }} {{ none == no }} {{ '1' == 1 }}`,
	`{{ one and 'x' }} {{ zero or 'x' }} {{ not one }} {{ zero and missing }}`, `{{ missing == 1 }}`, `{{ 1 == missing }}`, `{{ missing ~ 'x' }}`, `{{ missing + 1 }}`, `{{ not missing }}`, `{{ [missing] | length }}`, `{{ missing | upper }}`, `{{ 'a' | replace(missing, 'b') }}`, `{{ missing in nums }}`, `{{ 1 in missing }}`,
	// other operators
	`{{ 1 in [1, 2] }} {{ 'a' in 'cat' }} {{ 'host' in db }} {{ 4 not in nums }}`, `{{ 'a' ~ 1 ~ none ~ true ~ [1] ~ 1.0 }}`, `{{ 'x' if yes else 'y' }} {{ 'x' if no else 'y' }}`, `{{ 'x' if no }}`, `{{ ('x' if no) | default('d') }}`, `{{ nums|length + 1 }}`, `{{ -one|abs }}`, `{{ (one + 2) | string + 'x' }}`, `{{ 1 if yes else 2 if no else 3 }}`,
	// slices
	`{{ nums[1:] }} {{ nums[:2] }} {{ nums[-2:] }} {{ nums[::2] }} {{ nums[::-1] }} {{ nums[1:3] }} {{ nums[5:] }} {{ nums[:-9] }}`, `{{ name[1:3] }} {{ name[::-1] }} {{ name[-3:] }} {{ uni[:3] }} {{ name[5:1:-1] }}`, `{{ nums[-9:9:3] }}`,
	// Python's methods
	`{{ name.upper() }} {{ 'ABC'.lower() }} {{ 'hello world'.title() }} {{ "they're".title() }} {{ 'hello'.capitalize() }} {{ 'aB'.swapcase() }}`, `[{{ text.strip() }}] [{{ text.lstrip() }}] [{{ text.rstrip() }}] [{{ 'xxaxx'.strip('x') }}]`,
	`{{ 'a,b,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c'.rsplit(none, 1) }} {{ 'a  b  c'.split(none, 1) }} {{ ''.split(',') }} {{ ''.split() }}`, `{{ lines.splitlines() }} {{ "a\nb\n".splitlines(true) }}`,
	`{{ name.startswith('init') }} {{ name.endswith('box') }} {{ name.endswith(('a', 'x')) }}`, `{{ 'aaa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }}`, `{{ ','.join(['a', 'b']) }}`, `{{ ','.join([1]) }}`, `{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('z') }} {{ 'hello'.count('l') }} {{ 'añb'.find('b') }}`, `{{ 'hello'.index('z') }}`,
	`{{ 'a'.center(5) }}|{{ 'a'.center(4) }}|{{ 'ab'.center(5) }}|{{ 'a'.ljust(3, '.') }}|{{ 'a'.rjust(3) }}|{{ '-5'.zfill(4) }}`, `{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ 'ab'.isalpha() }}{{ ' '.isspace() }}{{ ''.isdigit() }}{{ 'A'.isupper() }}{{ 'a'.islower() }}`, `{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'a'.partition('=') }} {{ 'a'.rpartition('=') }}`, `{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }}`,
	`{{ 'x'.nope() }}`, `{{ db.get('host') }} {{ db.get('nope') }} {{ db.get('nope', 'd') }}`, `{% set d = {'a': 1} %}{% do d.update({'b': 2}) %}{{ d }}{% do d.update(c=3) %}{{ d }} {{ d.pop('a') }} {{ d }} {{ d.setdefault('z', 9) }} {{ d }}`, `{% set l = [1] %}{% do l.append(2) %}{% do l.extend([3, 4]) %}{% do l.insert(0, 0) %}{{ l }} {{ l.pop() }} {{ l.pop(0) }} {{ l }} {{ l.index(2) }} {{ l.count(3) }}`, `{% set l = [3, 1, 2] %}{% do l.sort() %}{{ l }}{% do l.reverse() %}{{ l }}{% do l.remove(2) %}{{ l }}`, `{{ db.copy() == db }}`,
	// formats
	`{{ '%s is %d' % ('x', 5) }} {{ '%5.2f|%-5s|%05d|%x|%X|%o|%e|%g|%%|%r|%c' % (3.14159, 'a', 42, 255, 255, 8, 12345.678, 0.0001, 'q', 'z') }}`, `{{ '%(a)s-%(b)03d' % {'a': 'x', 'b': 7} }}`, `{{ '%s' % name }} {{ '%s' % [1, 2] }} {{ '%d' % 3.7 }} {{ '%+d % d' % (1, 2) }} {{ '%.2s' % 'abc' }} {{ '%*d' % (5, 1) }} {{ '%#x' % 255 }}`, `{{ '%s %s' % 'a' }}`, `{{ '%d' % 'a' }}`, `{{ 'a' % 'b' }}`, `{{ '%s' % none }}`,
	`{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format(1, 2) }} {{ '{a}'.format(a=1) }} {{ '{{}}'.format() }} {{ '{0[0]} {1[host]}'.format(nums, db) }}`, `{{ '{:>5}|{:<5}|{:^5}|{:*^5}|{:05d}|{:,}|{:.2f}|{:x}|{:#x}|{:b}|{:%}|{:+}|{:e}'.format('a', 'b', 'c', 'd', 42, 1234567, 3.14159, 255, 255, 5, 0.25, 3, 1234.5) }}`, `{{ '{!r} {!s}'.format('a', 'b') }} {{ '{:{}}|'.format('a', 4) }} {{ '{:5}|{:5}|'.format(1, 'a') }} {{ '{:g} {:.3}'.format(0.1, 3.14159) }}`, `{{ '{}'.format() }}`, `{{ '{'.format(1) }}`,
	// Functions
	`{{ range(3)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }}`, `{{ range(1, 2, 0) }}`, `{{ dict(a=1, b='x') }} {{ dict([['a', 1]]) }} {{ dict({'z': 1}, y=2) }}`, `{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% do c.reset() %}{{ c.current }}`, `{% set j = joiner(', ') %}{% for i in nums %}{{ j() }}{{ i }}{% endfor %}`, `{% set j = joiner() %}{{ j() }}a{{ j() }}b`, `{{ nope(1) }}`, `{{ name(1) }}`,
	// Filters, by name
	`{{ -3|abs }} {{ (-3)|abs }} {{ (-3.5)|abs }}`, `{{ nums|batch(2)|list }} {{ nums|batch(3, 'x')|list }}`, `{{ 'hELLO wORLD'|capitalize }} {{ ''|capitalize }}`, `[{{ 'a'|center(6) }}]`, `{{ missing|default('d') }} {{ empty|default('d') }} {{ empty|default('d', true) }} {{ missing|d }} {{ nothing|default('d') }} {{ db.nope|default(db.host) }}`,
	`{{ {'b': 1, 'A': 2, 'c': 0}|dictsort }} {{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }} {{ {'b': 1, 'a': 2}|dictsort(false, 'key', true) }}`, `{{ html|escape }} {{ html|e }} {{ html|e|e }} {{ html|forceescape }}`, `{{ 100|filesizeformat }} {{ 1000|filesizeformat }} {{ 13000000|filesizeformat }} {{ 1|filesizeformat }} {{ 4096|filesizeformat(true) }} {{ '300'|filesizeformat }}`,
	`{{ nums|first }} {{ nums|last }} {{ name|first }} {{ name|last }}`, `{{ none_list|first }}`, `{{ none_list|first|default('d') }}`, `{{ '3.5'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 3|float }} {{ '1e3'|float }}`, `{{ '%s-%s'|format('a', 1) }} {{ '%(x)s'|format(x=2) }}`, `{% for g, l in users|groupby('age') %}{{ g }}:{{ l|map(attribute='name')|join(',') }} {% endfor %}`, `{% for g in users|groupby('admin') %}{{ g.grouper }}{{ g.list|length }} {% endfor %}`,
	"{{ lines|indent }}", "{{ lines|indent(2, true) }}", "{{ lines|indent(2, false, true) }}", "{{ lines|indent('> ') }}", `{{ "a\n"|indent(2) }}|`, `{{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(9) }} {{ 3.9|int }} {{ '0x1f'|int(0, 16) }} {{ '11'|int(base=2) }} {{ -3.9|int }} {{ yes|int }} {{ ' 5 '|int }}`, `{{ db|items|list }}`, `{{ nums|join }} {{ nums|join('-') }} {{ users|join(', ', attribute='name') }} {{ 'abc'|join('.') }}`, `{{ nums|length }} {{ name|count }} {{ db|length }} {{ uni|length }}`, `{{ 5|length }}`,
	`{{ 'abc'|list }} {{ db|list }}`, `{{ 'ÀB'|lower }}`, `{{ users|map(attribute='name')|join(',') }} {{ letters|map('upper')|list }} {{ users|map(attribute='x', default='-')|list }} {{ nums|map('string')|join }} {{ ['a b']|map('replace', ' ', '_')|first }}`, `{{ nums|max }} {{ nums|min }} {{ letters|max }} {{ letters|min }} {{ letters|min(true) }} {{ (users|max(attribute='age')).name }}`, `{{ none_list|max }}`, `{{ nums|reject('odd')|list }} {{ nums|select('odd')|list }} {{ nums|select('gt', 2)|list }} {{ [0, 1, '', 'a']|select|list }} {{ [0, 1]|reject|list }}`,
	`{{ users|selectattr('admin')|map(attribute='name')|list }} {{ users|rejectattr('admin')|map(attribute='name')|list }} {{ users|selectattr('age', 'eq', 30)|map(attribute='name')|list }} {{ users|selectattr('nope', 'defined')|list }}`, `{{ 'aXbX'|replace('X', '-') }} {{ 'aaa'|replace('a', 'b', 1) }} {{ 123|replace(2, 'x') }}`, `{{ name|reverse }} {{ nums|reverse|list }}`, `{{ 42.55|round }} {{ 42.55|round(1, 'floor') }} {{ 42.4|round(0, 'ceil') }} {{ 2.5|round }} {{ 3.5|round }} {{ 42|round }} {{ 1234.5678|round(2) }} {{ 42.55|round|int }} {{ 1234|round(-2) }}`, `{{ html|safe }}`,
	`{{ nums|slice(3)|list }} {{ nums|slice(3, 'x')|list }}`, `{{ nums|sort }} {{ nums|sort(true) }} {{ letters|sort }} {{ letters|sort(case_sensitive=true) }} {{ users|sort(attribute='name')|map(attribute='name')|list }} {{ users|sort(attribute='age,name')|map(attribute='name')|list }} {{ nums|sort(reverse=true) }}`, `{{ [1, 'a']|sort }}`, `{{ 5|string + '5' }} {{ nothing|string }} {{ 1.0|string }}`, `{{ '<p>Hello  <b>World</b></p> &amp; x'|striptags }}`, `{{ nums|sum }} {{ users|sum(attribute='age') }} {{ nums|sum(start=10) }} {{ [0.1, 0.2]|sum }} {{ [[1], [2]]|sum(start=[]) }}`,
	`{{ "hello wORLD it's (foo) a-b [c]"|title }}`, `{{ db|tojson }} {{ html|tojson }} {{ [1, 1.5, none, true, 'ä']|tojson }} {{ {'b': 1, 'a': [2]}|tojson(2) }} {{ []|tojson }} {{ {}|tojson(indent=2) }}`, `[{{ text|trim }}] {{ 'xxaxx'|trim('x') }}`, `{{ words|truncate(20) }} {{ words|truncate(20, true) }} {{ words|truncate(20, false, '…') }} {{ words|truncate(41, leeway=0) }} {{ 'short'|truncate(3, leeway=5) }} {{ words|truncate(20, true, leeway=0) }}`, `{{ nums|unique|list }} {{ ['a', 'A', 'b']|unique|list }} {{ ['a', 'A']|unique(true)|list }} {{ users|unique(attribute='age')|map(attribute='name')|list }}`, `{{ 'straße'|upper }}`[:0] + `{{ 'é'|upper }}`, `{{ 'a b/c?d&e=ü'|urlencode }} {{ {'a': 'x y', 'b': 1}|urlencode }} {{ [['q', '/']]|urlencode }}`, `{{ words|wordcount }} {{ 'a-b c'|wordcount }}`,
	`{{ words|wordwrap(15) }}`, `{{ 'abcdefghij kl'|wordwrap(4) }}`, `{{ 'abcdefghij kl'|wordwrap(4, false) }}`, `{{ lines|wordwrap(3) }}`, `{{ 'well-known long-running'|wordwrap(8) }}`, `{{ words|wordwrap(12, wrapstring=' / ') }}`, `<a{{ {'class': 'x', 'id': none, 'title': '"q"'}|xmlattr }}>{{ {'a': 1}|xmlattr(false) }}`, `{{ db|attr('nope')|default('n') }}`, `{{ nums|pprint }} {{ name|pprint }}`, `{{ [3]|random }}`,
	// autoescape, on request
	`{% autoescape true %}{{ html }}{{ html|safe }}{{ '<b>'|safe }}{% endautoescape %}{{ html }}`, `{% autoescape false %}{{ html }}{% endautoescape %}`,
	// do
	`{% do nums.append(9) %}{{ nums }}`, `{% do 1 %}`[:0] + `{% set l = [] %}{% for i in nums %}{% do l.append(i * 2) %}{% endfor %}{{ l }}`,
	// errors of syntax
	`{{ `, `{{ 1 + }}`, `{% for %}`, `{% endfor %}`, `{% if yes %}{% endfor %}`, `{{ 'a }}`, `{% nope %}`, `{{ a b }}`, `{{ (1 }}`, `{% block a %}`, `{# open`, `{{ [1, }}`,
	// as in configuration files
	"upstream {{ name }} {\n{% for u in users %}  server {{ u.name|lower }}:{{ db.port }};\n{% endfor %}}\n",
	"{% for k, v in db|dictsort if v is not iterable or v is string %}{{ k|upper }}={{ v }}\n{% endfor %}",
	"server:\n  tags: {{ db.tags|tojson }}\n{%- if yes %}\n  enabled: {{ yes|lower }}\n{%- endif %}\n",
	"{{ users|map(attribute='name')|map('lower')|sort|join(', ') }}", "{{ (db.port|int) + 1 }} {{ db.port|string|length }}", "{%- set hosts = [] -%}{%- for u in users -%}{%- do hosts.append(u.name ~ ':' ~ u.age) -%}{%- endfor -%}{{ hosts|join(',') }}",
}

// mismatches are what is rendered otherwise, and why.
var mismatches = []struct{ snippet, why string }{
	{`{{ missing is none }}`, "a missing value is reported in every test but defined and undefined"},
	{`{{ missing is string }}`, "the same"},
	{`{{ nope is mapping }}`, "the same"},
	{`{{ nope is sameas nope }}`, "the same"},
	{`{{ [nope] }}`, "a missing value is never written"},
	{`{{ {'a': nope} }}`, "the same"},
	{`{{ nums|map('string') }}`, "filters make lists, where jinja2 makes generators"},
	{`{{ nums|select('odd') }}`, "the same"},
	{`{{ {'a': 1}.items() }}`, "a list, as it is used in loops"},
	{`{{ range(3) }}`, "the same"},
	{`{{ db.items }}`, "without parentheses it is not a method but a key"},
	{`{{ 'a'.upper }}`, "the same"},
	{`{{ ''.__class__ }}`, "there are no attributes of Python's objects"},
	{`{{ name.encode() }}`, "there are no bytes"},
	{`{{ 'ß'|upper }}`, "one character stays one"},
	{`{{ uni.title() }}`, "the same"},
	{`{{ 'x'|urlize }}`, "not for configuration"},
	{`{{ lipsum(n=1)|length > 10 }}`, "not for configuration"},
}

// more go through corners.
var more = []string{
	`{% macro m(a, b) %}{% endmacro %}{{ m.arguments }}`,
	`{% for i in nums %}{% block b %}{{ i }}{% endblock %}{% endfor %}`,
	`{% include "hello.j2" without context %}`,
	`{% set x = 1 %}{% import "loop.j2" as l %}{{ l }}`,
	`{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, a=2) }}`,
	`{{ {1: 'a'}[1] }} {{ {'a': {'b': [1, 2]}}.a.b[1] }}`, `{{ namespace(a=1) }}`, `{{ 'a' is sameas 'a' }}`, `{{ [] is sameas [] }}`,
	`{{ nothing|default('x', true) }}`, `{{ db.a.b|default('x') }}`, `{{ not 1 == 2 }}`, `{{ 1 if 0 else 2 ~ 'x' }}`, `{% for n in tree recursive %}{{ loop.depth }}{{ loop.depth0 }}{{ loop(n.kids) }}{% endfor %}`,
	`{% set a, b = 1, 2 %}{{ a }}{{ b }}`, `{% set t = 1, 2 %}{{ t }}`,
	`{% import "loop.j2" as l %}{{ l }}`, `{% set x = 1 %}{% import "loop.j2" as l with context %}{{ l }}`, `{% for i in nums %}{% block b scoped %}{{ i }}{% endblock %}{% endfor %}`,
	`{{ 1.5|string|float * 2 }}`, `{{ '%.0f' % 2.5 }} {{ '%.3g' % 1234567 }} {{ '%g' % 1e20 }} {{ '%e' % 0 }} {{ '%5s|%-5d|%+.1f' % ('ä', 3, 2) }}`, `{{ '{:>{w}}'.format('a', w=3) }} {{ '{:_}'.format(1234567) }} {{ '{:,.2f}'.format(1234567.891) }} {{ '{:08.3f}'.format(-3.14159) }} {{ '{:+d}'.format(-5) }} {{ '{:c}'.format(65) }} {{ '{:s}'.format('a') }} {{ '{:d}'.format('a') }}`, `{{ '{:5}'.format(true) }}`, `{{ '{}'.format(none) }} {{ '{}'.format([1]) }} {{ '{:10}|'.format('a') }}`,
	`{{ 'abc'[0] }}{{ 'abc'[-1] }}`, `{{ 'abc'[5] }}`, `{{ 'a' in {'a': 1} }} {{ 1 in {1: 2} }} {{ 'x' in none_list }}`, `{{ none in [none] }}`, `{{ 1 in 'abc' }}`, `{{ nums.0 }}`, `{{ (1, 2) + (3,) }} {{ (1, 2) == [1, 2] }}`, `{{ [1] + (2,) }}`, `{{ 5 // 0.5 }} {{ 5 % 0.3 }} {{ 1e308 * 10 }} {{ -1e308 * 10 }}`, `{{ 0.1 * 3 }} {{ 1 / 3 }} {{ 100 / 10 }} {{ 1e15 }} {{ 1e15 * 10 }} {{ -0.0 }} {{ 5e-324 }}`,
	`{{ true + true }} {{ true * 'a' }} {{ -true }} {{ true / 2 }}`, `{{ 'a' < 'B' }} {{ [1] < [1, 2] }} {{ (1, 2) < (1, 3) }}`, `{{ true < 2 }} {{ 1.5 > 1 }}`, `{{ {} == {} }} {{ [] == () }} {{ '' == none }}`, `{{ [3, 1] | sort | first }}`, `{{ 'b,a' .split(',') | sort | join }}`, `{{ nums | sort | reverse | list }}`, `{{ 'a-b_c' | replace('-', '_') | upper }}`,
	`{%- set x = {'a': 1, 'b': {'c': 2}} -%}{{ x.b.c }}{{ x['b']['c'] }}{{ x.get('b').c }}`, `{% set x = [1, 2, 3] %}{{ x[1:] | join }}{{ x | length }}`, `{% if name and name|length > 3 and name.startswith('i') %}ok{% endif %}`, `{% if port|int > 1024 and port is number %}high{% endif %}`, `{% if 'a' == 'a' == 'a' %}y{% endif %}`, `{{ nums | map('multiply', 2) | list }}`, `{{ users | map(attribute='tags.0', default='x') | list }}`, `{{ [[1, 2], [3]] | map('sum') | list }}`, `{{ ['1', '2'] | map('int') | sum }}`, `{{ users | sum('age') }}`, `{{ users | selectattr('name', 'in', ['zoe', 'amy']) | list | length }}`, `{{ ['a', none, ''] | select | list }}`, `{{ [1, 2, 3, 4] | select('divisibleby', 2) | list }}`, `{{ nums | rejectattr('x') | list }}`, `{{ users | groupby('age') | list | length }}`, `{{ users | groupby('nope', default='n') | map('first') | list }}`, `{{ users|groupby('name')|map(attribute='grouper')|list }} {{ users|groupby('name', case_sensitive=true)|map(attribute='grouper')|list }}`, `{{ (users|groupby('age'))[0] | length }}`, `{{ db | dictsort | first }}`, `{{ db.tags | join(', ') | upper }}`,
	"{{ \"multi\nline\" }}", `{{ "tab\tquote\"" }} {{ '\x41\u00e9\'' }}`, `{{ 'a\\nb' }}`, `a{{ '' }}b`, "{{\n  name\n}}", "{% set x = [\n 1,\n 2,\n] %}{{ x }}", `{{ {'a': 1,} }}`, `{{ [1,] }} {{ (1, 2,) }}`, "{{ lines }}\n", "{#- a -#}\n{{ name }}", "  {% set x = 1 %}  \n  {{ x }}\n", "{% if yes %}a{% else %}b{% endif %}\n\n\n",
	`{{ 'x' * 3 ~ 'y' }}`, `{{ 2 + 3 ~ 4 }}`, `{{ 'a' ~ 'b' | upper }}`, `{{ ('a' ~ 'b') | upper }}`, `{{ nums | first + 1 }}`, `{{ -nums[0] }}`, `{{ not none_list }}`, `{{ not yes or yes }}`, `{{ yes is true and no is false }}`, `{{ 4 is not odd }}`, `{{ name is not none }}`, `{{ one in nums }} {{ one not in nums }}`, `{{ name if name is defined else 'x' }}`, `{{ nope.x if nope is defined else 'x' }}`, `{{ (nope | default({})).x | default('y') }}`, `{{ nope | default(nope2) | default('z') }}`, `{{ nope | default(nope2) }}`, `{{ nope or 'x' }}`, `{{ 'x' or nope }}`, `{{ [1, nope | default(2)] }}`, `{% set x = nope %}ok`, `{% set x = nope %}{{ x }}`, `{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m(nope) }}`, `{{ nope() }}`, `{{ db.nope() }}`, `{{ nope.x() }}`, `{{ nope['x'] }}`, `{{ nums[nope] }}`, `{{ nope[0:1] }}`, `{{ dict(a=nope) | length }}`, `{{ nope | length }}`, `{{ nope | list }}`, `{{ nope | join }}`, `{{ nope | tojson }}`, `{{ [nope] | tojson }}`, `{{ [nope] | join }}`, `{{ nope is iterable }}`, `{{ nope is in [1] }}`, `{{ nope is eq 1 }}`, `{{ nope == nope }}`, `{{ users | map(attribute='nope') | list | length }}`, `{{ users | map(attribute='nope') | join }}`, `{{ users | sort(attribute='nope') }}`, `{{ users | selectattr('nope') | list }}`, `{{ '%s' % nope }}`, `{{ '{}'.format(nope) }}`, `{% include nope %}`, `{% for x in nums if nope %}{% endfor %}`, `{% with a = nope %}{{ a }}{% endwith %}`, `{% filter replace(nope, 'x') %}a{% endfilter %}`, `{{ range(nope) }}`, `{{ nope.a.b.c is defined }}`, `{{ nope ~ nope }}`, `{{ -nope }}`,
	`{{ [1, 2, 3][1] }}`, `{{ 'x'.join('abc') }}`, `{{ "Hello"|lower|first }}`, `{{ 3.0 }} {{ 3.0|int }} {{ 7 // 2 }} {{ 7.0 // 2 }}`, `{{ 1000000 * 1000000 }} {{ 9223372036854775807 }}`, `{{ caller is defined }}`, `{{ self is defined }}`, `{{ loop is defined }}`, `{% for i in nums %}{{ loop is defined }}{% endfor %}`, `{% call nope() %}{% endcall %}`, `{{ nums.append(1) }}`, `{% set _ = nums.append(1) %}{{ nums }}`, `{{ nums.sort() }}{{ nums }}`, `{{ [1, 2] | zip([3]) }}`[:0] + `{{ 'a' | center(5) | length }}`, `{{ 'a\u2028b'.splitlines() }}`, `{{ 'é'.encode('utf-8') | length }}`[:0] + `{{ '😀' | tojson }} {{ ['😀', '\x00'] }}`,
}
