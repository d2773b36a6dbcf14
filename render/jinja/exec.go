package jinja

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"initbox/render/engine"
)

// flow is how a statement ends: on to the next one, or out of a loop's round.
type flow int

const (
	normal flow = iota
	continued
	broken
)

// frame is a scope: what names stand for in a body, and where its text goes.
type frame struct {
	*run
	ctx    *templateContext
	page   *page // nil: the text is written in any case
	out    io.StringWriter
	escape bool   // {% autoescape true %}
	outer  *frame // nil at the top level of a template, and of a block
	top    bool   // names are set in ctx
	vars   []binding
}

type binding struct {
	name string
	v    any
}

// unset is the value of a macro's parameter without one.
var unset any = &missing{}

// templateContext is what Jinja calls the context: the names that a template, the
// templates that it extends and all their blocks share.
type templateContext struct {
	vars    map[string]any  // set at the top level
	private map[string]bool // those of vars that an import does not see
	outer   map[string]any  // what was visible where the template is included
	data    bool            // the values are visible
	blocks  map[string][]*block
}

// page is the rendering of one template, which may turn out to extend another.
type page struct{ parent *template }

// blocks is what self stands for.
type blocks struct {
	*run
	ctx *templateContext
}

// context makes one for t. It sees what is visible in f, unless that is nil.
func (t *template) context(f *frame) *templateContext {
	ctx := &templateContext{vars: map[string]any{}, private: map[string]bool{}, blocks: map[string][]*block{}}
	for name, b := range t.blocks {
		ctx.blocks[name] = []*block{b}
	}
	if f != nil {
		ctx.outer, ctx.data = f.visible(), f.ctx.data
	}
	return ctx
}

// visible returns the names that are set in f and around it.
func (f *frame) visible() map[string]any {
	all := map[string]any{}
	maps.Copy(all, f.ctx.outer)
	maps.Copy(all, f.ctx.vars)
	var frames []*frame
	for s := f; s != nil; s = s.outer {
		frames = append(frames, s)
	}
	for _, s := range slices.Backward(frames) {
		for _, b := range s.vars {
			if b.v != unset {
				all[b.name] = b.v
			}
		}
	}
	f.step(len(all) / 8)
	return all
}

func (f *frame) lookup(name string) (any, bool) {
	for s := f; s != nil; s = s.outer {
		for i := range s.vars {
			if s.vars[i].name == name {
				return s.vars[i].v, true
			}
		}
	}
	if v, ok := f.ctx.vars[name]; ok {
		return v, true
	}
	v, ok := f.ctx.outer[name]
	return v, ok
}

// global finds a name in the data. Values, Env and Pod are visible everywhere.
func (ctx *templateContext) global(r *run, name string) (any, bool) {
	if d := r.data[name]; d != nil {
		return d, true
	}
	if !ctx.data {
		return nil, false
	}
	return r.data["Values"].get(name)
}

func (f *frame) set(name string, v any) {
	i := slices.IndexFunc(f.vars, func(b binding) bool { return b.name == name })
	switch {
	case f.top:
		f.ctx.vars[name] = v
		f.ctx.private[name] = strings.HasPrefix(name, "_")
	case i >= 0:
		f.vars[i].v = v
	default:
		f.vars = append(f.vars, binding{name, v})
	}
}

func (f *frame) inner() *frame {
	g := *f
	g.outer, g.vars, g.top = f, nil, false
	return &g
}

func (f *frame) execute(body []stmt) flow {
	for _, s := range body {
		if how := s.exec(f); how != normal {
			return how
		}
	}
	return normal
}

// write writes text, unless it is outside of the blocks of a template that extends another.
func (f *frame) write(s string) {
	if f.page == nil || f.page.parent == nil {
		f.put(s)
	}
}

func (f *frame) put(s string) {
	f.emit(len(s))
	_, err := f.out.WriteString(s)
	check(err)
}

func (f *frame) capture(do func(f *frame)) any {
	var b strings.Builder
	g := *f
	g.out = &b
	do(&g)
	if f.escape {
		return safe(b.String())
	}
	return b.String()
}

// enter bounds how deep templates, macros and blocks call each other.
func (r *run) enter(at position) {
	r.at = at
	r.depth++
	require(r.depth <= r.e.o.Depth, errTooDeep)
	r.step(1)
}

// render writes a template, or the one that it extends.
func (r *run) render(t *template, ctx *templateContext, out io.StringWriter) {
	depth := r.depth
	for t != nil {
		f := &frame{run: r, ctx: ctx, page: &page{}, out: out, top: true}
		f.execute(t.body)
		t = f.page.parent
	}
	r.depth = depth
}

func (t text) exec(f *frame) flow { f.write(string(t)); return normal }

func (o *output) exec(f *frame) flow {
	v := o.of.eval(f)
	f.at = o.at
	f.step(1)
	switch {
	case o.tag:
		f.put(str(v))
	case f.escape:
		f.write(escaped(v))
	default:
		f.write(str(v))
	}
	return normal
}

func (s *ifStmt) exec(f *frame) flow {
	for _, b := range s.branches {
		if isTrue(b.test.eval(f)) {
			return f.execute(b.body)
		}
	}
	return f.execute(s.orElse)
}

func (s *withStmt) exec(f *frame) flow {
	g := f.inner()
	for _, a := range s.assignments {
		f.at = a.at
		a.target.assign(g, a.value.eval(f))
	}
	return g.execute(s.body)
}

func (a *assignment) exec(f *frame) flow {
	v := a.value.eval(f)
	f.at = a.at
	a.target.assign(f, v)
	return normal
}

func (s *doStmt) exec(f *frame) flow { s.of.eval(f); return normal }

func (s *autoescape) exec(f *frame) flow {
	g := f.inner()
	g.escape = isTrue(s.enabled.eval(f))
	return g.execute(s.body)
}

// exec makes {% continue %} and {% break %} statements.
func (how flow) exec(*frame) flow { return how }

func (n nameTarget) assign(f *frame, v any) { f.set(string(n), v) }

func (t *attributeTarget) assign(f *frame, v any) {
	n, ok := t.of.eval(f).(*namespace)
	if !ok {
		f.at = t.at
		failf("only attributes of a namespace() can be set")
	}
	check(n.attributes.set(t.name, v))
}

func (t *tupleTarget) assign(f *frame, v any) {
	items := must(iterate(v))
	if _, absent := v.(*missing); absent {
		items = slices.Repeat([]any{v}, len(t.items))
	}
	failIf(len(items) != len(t.items), "there are %d items for %d names", len(items), len(t.items))
	for i, to := range t.items {
		to.assign(f, items[i])
	}
}

// A block is written where it stands, unless the template turned out to extend another.
func (b *block) exec(f *frame) flow {
	if f.top && f.page != nil && f.page.parent != nil {
		return normal
	}
	ctx := f.ctx
	if b.required && len(ctx.blocks[b.name]) == 1 {
		f.at = b.at
		failf("the block %s is required: a template that extends this one must define it", b.name)
	}
	if b.scoped {
		derived := *ctx
		derived.vars, derived.outer = map[string]any{}, f.visible()
		ctx = &derived
	}
	(&blockReference{f.run, ctx, b.name, 0}).write(b.at, f.out)
	return normal
}

// blockReference is a block that can be called, as super() or self.name().
type blockReference struct {
	*run
	ctx   *templateContext
	name  string
	level int // 0 belongs to the template that is rendered
}

func (b *blockReference) write(at position, out io.StringWriter) {
	b.enter(at)
	f := &frame{run: b.run, ctx: b.ctx, out: out}
	if parent, ok := b.attr("super"); ok {
		f.set("super", parent)
	}
	f.execute(b.ctx.blocks[b.name][b.level].body)
	b.depth--
}

func (b *blockReference) attr(name string) (any, bool) {
	if name != "super" || b.level+1 >= len(b.ctx.blocks[b.name]) {
		return nil, false
	}
	return &blockReference{b.run, b.ctx, b.name, b.level + 1}, true
}

func (b *blockReference) call(c *call) any {
	var text strings.Builder
	b.write(c.op.at, &text)
	return text.String()
}

func (b *blocks) attr(name string) (any, bool) {
	_, ok := b.ctx.blocks[name]
	return &blockReference{b.run, b.ctx, name, 0}, ok
}

// find returns the template that r names, nil if it is optional and not there, and the context to render it in.
func (r *reference) find(f *frame) (*template, *templateContext) {
	v := r.name.eval(f)
	f.enter(r.at)
	if m, ok := v.(*missing); ok {
		m.report()
		return nil, &templateContext{}
	}
	choices := []any{v}
	if _, ok := asString(v); !ok {
		failIf(!r.choice, "want the name of a template, got a %s", typeName(v))
		choices = must(iterate(v))
	}
	for _, name := range choices {
		switch t := f.e.partials[str(name)]; {
		case t != nil && r.context:
			return t, t.context(f)
		case t != nil:
			return t, t.context(nil)
		}
	}
	failIf(!r.optional && len(choices) == 0, "the list of templates to include is empty")
	if !r.optional {
		text := fmt.Sprintf("there is no template %s to include", str(choices[len(choices)-1]))
		check(&engine.Error{Position: r.at, Text: text, Fix: similarTo(str(choices[0]), f.e.partials)})
	}
	return nil, &templateContext{}
}

func (i *include) exec(f *frame) flow {
	t, ctx := i.find(f)
	f.render(t, ctx, f.out)
	f.depth--
	return normal
}

func (e *extends) exec(f *frame) flow {
	t, _ := e.find(f) // whose depth counts until the page is rendered
	failIf(f.page.parent != nil, "the template extends another already")
	if f.page.parent = t; t != nil {
		for name, b := range t.blocks {
			f.ctx.blocks[name] = append(f.ctx.blocks[name], b)
		}
	}
	return normal
}

// module is an imported template.
type module struct {
	ctx  *templateContext
	text string
}

func (m *module) String() string { return m.text }

func (m *module) attr(name string) (any, bool) {
	v, ok := m.ctx.vars[name]
	return v, ok && !m.ctx.private[name]
}

// load renders a template for what it defines.
func (r *reference) load(f *frame) *module {
	var text strings.Builder
	t, ctx := r.find(f)
	f.render(t, ctx, &text)
	f.depth--
	return &module{ctx, text.String()}
}

func (i *importAs) exec(f *frame) flow {
	m := i.load(f)
	i.target.assign(f, m)
	f.hide(names(i.target)...)
	return normal
}

func (i *importFrom) exec(f *frame) flow {
	m := i.load(f)
	for _, n := range i.names {
		v, ok := m.attr(n.name)
		if !ok {
			v = &missing{r: f.run, name: n.name, at: i.at, why: "the imported template does not define it"}
		}
		f.set(n.as, v)
		f.hide(n.as)
	}
	return normal
}

// hide makes imported names private: a template that imports this one does not see them.
func (f *frame) hide(names ...string) {
	for _, n := range names {
		f.ctx.private[n] = f.ctx.private[n] || f.top
	}
}
