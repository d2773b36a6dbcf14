package convert

import (
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
)

// options are the options that a program is known to take, by all of their names. Those of one group mean the same.
type options map[string]option

type option struct {
	name     string // the first of its names
	valued   bool
	attached bool // its value is in the same word, or it has none
}

// optionsOf reads a list such as "q quiet; h host=": groups of names between semicolons, with = if there is a value,
// with ? if it may be in the same word.
// Names of one letter stand behind one dash, longer ones behind two.
func optionsOf(list string) options {
	o := options{}
	for group := range strings.SplitSeq(list, ";") {
		names := strings.Fields(strings.NewReplacer("=", "", "?", "").Replace(group))
		for _, name := range names {
			o[name] = option{names[0], strings.Contains(group, "="), strings.Contains(group, "?")}
		}
	}
	return o
}

// given are the options of a call by their first names, and its arguments.
type given struct {
	options map[string][]shell.Word
	args    []shell.Word
}

// has reports whether an option was given.
func (g given) has(name string) bool { return len(g.options[name]) > 0 }

// get returns the value of an option that was given last, or nil.
func (g given) get(name string) shell.Word {
	if values := g.options[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return nil
}

// read reads the words behind a program's name. An option that is not known is an error.
func (o options) read(list []shell.Word) (given, error) { return o.readDashes(list, "--") }

// readGo is like read, for programs whose long options may also stand behind one dash, as Go's do.
func (o options) readGo(list []shell.Word) (given, error) { return o.readDashes(list, "-") }

func (o options) readDashes(list []shell.Word, long string) (given, error) {
	g := given{options: map[string][]shell.Word{}}
	for len(list) > 0 {
		w := list[0]
		list = list[1:]
		text := leading(w)
		var err error
		switch {
		case text == "--":
			g.args = append(g.args, list...)
			return g, nil
		case strings.HasPrefix(text, "--") || long == "-" && len(text) > 1 && text[0] == '-':
			list, err = o.long(g, w, list)
		case len(text) > 1 && text[0] == '-':
			list, err = o.short(g, w, list)
		default:
			g.args = append(g.args, w)
		}
		if err != nil {
			return g, err
		}
	}
	return g, nil
}

// long reads --NAME, --NAME=VALUE or --NAME VALUE.
func (o options) long(g given, w shell.Word, list []shell.Word) ([]shell.Word, error) {
	text := leading(w)
	name, _, valued := strings.Cut(strings.TrimLeft(text, "-"), "=")
	option, ok := o[name]
	if !ok || len(name) == 1 && strings.HasPrefix(text, "--") {
		return nil, unknownOption(text)
	}
	value := w
	switch {
	case valued:
		value = behind(w, strings.Index(text, "=")+1)
		if !option.valued && !option.attached {
			return nil, stop(w, "an option without a value")
		}
	case option.attached && len(w) == 1:
		value = nil
	case len(w) > 1:
		return nil, stop(w, "a variable in the name of an option")
	case option.valued && len(list) == 0:
		return nil, stop(w, "its value is missing")
	case option.valued:
		value, list = list[0], list[1:]
	}
	g.options[option.name] = append(g.options[option.name], value)
	return list, nil
}

// short reads letters behind one dash, the last of which may have a value.
func (o options) short(g given, w shell.Word, list []shell.Word) ([]shell.Word, error) {
	text := leading(w)
	for i := 1; i < len(text); i++ {
		option, ok := o[text[i:i+1]]
		if !ok {
			return nil, unknownOption("-" + text[i:i+1])
		}
		if !option.valued && !option.attached {
			g.options[option.name] = append(g.options[option.name], w)
			continue
		}
		value := behind(w, i+1)
		if len(value) == 0 && option.valued {
			if len(list) == 0 {
				return nil, stop(w, "its value is missing")
			}
			value, list = list[0], list[1:]
		}
		g.options[option.name] = append(g.options[option.name], value)
		return list, nil
	}
	if len(w) > 1 {
		return nil, stop(w, "a variable in the name of an option")
	}
	return list, nil
}

// unknownOption names the option without its value, which may be a password.
func unknownOption(text string) error {
	name, _, _ := strings.Cut(text, "=")
	return stop(shell.Word{{Text: name}}, "an option that is not known to mean the same here")
}

// leading returns the literal text at the beginning of a word.
func leading(w shell.Word) string {
	text := ""
	for _, p := range w {
		if p.Env != "" || p.Glob {
			break
		}
		text += p.Text
	}
	return text
}

// behind returns what follows the first n bytes of a word, which are literal.
func behind(w shell.Word, n int) shell.Word {
	for i, p := range w {
		if p.Env != "" || n < len(p.Text) {
			rest := append(shell.Word{}, w[i:]...)
			if p.Env == "" {
				rest[0].Text = p.Text[n:]
			}
			return rest
		}
		n -= len(p.Text)
	}
	return nil
}

// set returns the words of a list.
func set(list string) map[string]bool {
	m := map[string]bool{}
	for _, word := range strings.Fields(list) {
		m[word] = true
	}
	return m
}
