package render

import (
	"cmp"
	"context"
	"slices"

	"initbox/render/engine"
	"initbox/render/values"
)

// ListInputs returns the inputs that the templates of o read, with name and position, as far
// as their text shows that. It renders and writes nothing.
func ListInputs(ctx context.Context, o Options) ([]engine.Input, error) {
	o.DryRun = true
	r, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.walk(ctx); err != nil {
		return nil, r.redacted(err)
	}
	var all []engine.Input
	for _, it := range r.items {
		inputs, err := r.inputsOf(it)
		r.failures.add(err)
		all = append(all, inputs...)
	}
	if err := r.failures.err(r.data); err != nil {
		return nil, r.redacted(err)
	}
	slices.SortStableFunc(all, func(a, b engine.Input) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(all), nil
}

// inputsOf returns what an item's template and its name read.
func (r *run) inputsOf(it *item) (all []engine.Input, err error) {
	parse := func(language, name, text string) error {
		engines, err := r.engines.get(language)
		if err != nil {
			return err
		}
		t, err := engines.real.Parse(name, text)
		if err == nil {
			all = append(all, t.Inputs()...)
		}
		return err
	}
	for _, directory := range it.directories {
		if mayBeTemplate(r.languageOf(""), directory) {
			if err := parse(r.languageOf(""), "the name "+it.shown, directory); err != nil {
				return nil, err
			}
		}
	}
	if language := r.languageOf(it.language); !it.named && mayBeTemplate(language, it.base) {
		if err := parse(language, "the name "+it.shown, it.base); err != nil {
			return nil, err
		}
	}
	if it.language == "" {
		return all, nil
	}
	text, err := it.read(r.Stdin)
	if err != nil {
		return nil, err
	}
	return all, parse(it.language, it.shown, string(text))
}

// Explain returns where the value of a key came from: every source that set it, in order;
// the last one wins. It hides secret values.
func Explain(ctx context.Context, o Options, key string) ([]values.Origin, error) {
	v, err := values.Load(ctx, o.Values, values.Options{Stdin: o.Stdin, Fetch: o.Fetch})
	if err != nil {
		return nil, err
	}
	return v.Explain(key)
}
