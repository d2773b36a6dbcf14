package convert

import (
	"slices"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
)

// options are the flags of a call by their short name, with the values given to each; a switch has an empty word.
type options map[string][]shell.Word

// has reports whether one of the flags is given.
func (o options) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return o[name] != nil })
}

// last returns the last value of a flag, or nil.
func (o options) last(name string) shell.Word {
	if values := o[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return nil
}

// readOptions reads the flags of a call, which may stand anywhere before --, and returns the other words. The syntax
// names the flags that there are, separated by white space: p is -p, p=parents also --parents, max-time only
// --max-time, and each with a colon at its end, such as m=mode:, takes a value.
func readOptions(words []shell.Word, syntax string) (options, []shell.Word, error) {
	o, rest := options{}, []shell.Word(nil)
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		text, more := literalStart(word)
		if !strings.HasPrefix(text, "-") || text == "-" {
			rest = append(rest, word)
			continue
		}
		if text == "--" && len(more) == 0 {
			return o, append(rest, words...), nil
		}
		var err error
		if words, err = o.read(word, text, more, words, syntax); err != nil {
			return nil, nil, err
		}
	}
	return o, rest, nil
}

// read reads the flags of one word, whose literal start is text, and returns the words after their values.
func (o options) read(word shell.Word, text string, more shell.Word, words []shell.Word, syntax string) ([]shell.Word, error) {
	if long, isLong := strings.CutPrefix(text, "--"); isLong {
		long, value, valued := strings.Cut(long, "=")
		name, takes := flagOf(syntax, long)
		switch {
		case name == "" || valued && !takes || !valued && len(more) > 0:
			return nil, stop(word, "a flag that is not understood")
		case takes && !valued && len(words) == 0:
			return nil, stop(word, "a flag without its value")
		case takes && !valued:
			o[name] = append(o[name], words[0])
			return words[1:], nil
		}
		o[name] = append(o[name], joined(value, more))
		return words, nil
	}
	for i := 1; i < len(text); i++ {
		name, takes := flagOf(syntax, text[i:i+1])
		switch last := i+1 == len(text); {
		case name == "" || !takes && last && len(more) > 0:
			return nil, stop(word, "a flag that is not understood")
		case !takes:
			o[name] = append(o[name], shell.Word{})
		case !last || len(more) > 0:
			o[name] = append(o[name], joined(text[i+1:], more))
			return words, nil
		case len(words) == 0:
			return nil, stop(word, "a flag without its value")
		default:
			o[name] = append(o[name], words[0])
			return words[1:], nil
		}
	}
	return words, nil
}

// flagOf returns the short name of a flag in the syntax, or its only one, and whether it takes a value.
func flagOf(syntax, name string) (short string, takes bool) {
	for _, f := range strings.Fields(syntax) {
		f, takes = strings.CutSuffix(f, ":")
		short, long, _ := strings.Cut(f, "=")
		if name == short || name == long && long != "" {
			return short, takes
		}
	}
	return "", false
}

// literalStart returns the text that a word begins with, and the parts after it.
func literalStart(w shell.Word) (text string, more shell.Word) {
	for i, p := range w {
		if p.Env != "" || p.Glob {
			return text, w[i:]
		}
		text += p.Text
	}
	return text, nil
}

func joined(text string, more shell.Word) shell.Word {
	if text == "" && len(more) > 0 {
		return more
	}
	return append(shell.Word{{Text: text}}, more...)
}
