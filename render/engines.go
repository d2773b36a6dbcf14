package render

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"initbox/internal/readfile"
	"initbox/render/engine"
	"initbox/render/envsubst"
	"initbox/render/gotemplate"
	"initbox/render/jinja"
	"initbox/render/values"
)

// The template languages.
const (
	GoTemplate = "gotemplate"
	Jinja      = "jinja"
	Envsubst   = "envsubst"
)

// Engines lists them. The first one is for files whose extension names no language.
var Engines = []string{GoTemplate, Jinja, Envsubst}

// newEngine returns an engine that renders templates with data.
func newEngine(language string, data *engine.Data, o engine.Options) engine.Engine {
	switch language {
	case Jinja:
		return jinja.New(data, o)
	case Envsubst:
		return envsubst.New(data, o)
	}
	return gotemplate.New(data, o)
}

// marks are the texts that make a name a template.
var marks = map[string][]string{GoTemplate: {"{{"}, Jinja: {"{{", "{%"}, Envsubst: {"$"}}

// engines creates engines when they are needed: most runs need one. Each is a pair; the second has other secrets.
type engines struct {
	o        Options
	in       *inputs
	partials []partial

	mu    sync.Mutex
	pairs map[string]func() (*pair, error)
}

type pair struct{ real, shadow engine.Engine }

// partial is a template that others can include.
type partial struct {
	language, name, text string
	secret               bool // the file is
}

func newEngines(o Options, in *inputs) *engines {
	return &engines{o: o, in: in, pairs: map[string]func() (*pair, error){}}
}

// get returns the engine of a language. All partials have to be added before.
func (e *engines) get(language string) (*pair, error) {
	e.mu.Lock()
	once := e.pairs[language]
	if once == nil {
		once = sync.OnceValues(func() (*pair, error) { return e.make(language) })
		e.pairs[language] = once
	}
	e.mu.Unlock()
	return once()
}

// forget makes get return engines with the current data.
func (e *engines) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.pairs)
}

func (e *engines) make(language string) (*pair, error) {
	p := &pair{real: newEngine(language, e.in.data(e.o), e.o.Options)}
	if e.in.secret() || slices.ContainsFunc(e.partials, func(p partial) bool { return p.secret }) {
		p.shadow = newEngine(language, e.in.shadow(e.o), e.o.Options)
	}
	for _, part := range e.partials {
		if part.language != language {
			continue
		}
		for _, eng := range []engine.Engine{p.real, p.shadow} {
			if eng == nil || eng == p.shadow && part.secret { // what includes it fails there, and so is secret
				continue
			}
			if err := eng.AddPartial(part.name, part.text); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// languageOf returns the language of a template, by its extension if that names one.
func (o Options) languageOf(extension string) string {
	switch {
	case o.Engine != "":
		return o.Engine
	case extension != "":
		return extension
	}
	return Engines[0]
}

// addPartials reads the files and directories of --partials.
func (e *engines) addPartials(name string) error {
	return filepath.WalkDir(name, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), "..") && file != name {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		stat, err := os.Stat(file) // a ConfigMap's files are links
		if err != nil || stat.IsDir() {
			return err
		}
		text, err := readfile.All(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(name, file)
		if err != nil || rel == "." {
			rel = filepath.Base(file)
		}
		e.addPartial(filepath.ToSlash(rel), string(text), values.Private(stat.Mode()) || values.OnSecretMount(file))
		return nil
	})
}

func (e *engines) addPartial(name, text string, secret bool) {
	_, extension := e.o.cut(path.Base(name))
	e.partials = append(e.partials, partial{e.o.languageOf(extension), name, text, secret})
}
