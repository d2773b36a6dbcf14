package completion

import "strings"

// Complete returns what may stand in place of the last word of a command line, without the program, each with a tab and
// what it is for where that is known. It is for shells that ask a program for completions; the last word may be empty.
// Paths reports whether names of files may stand there, too.
func (p *Program) Complete(words []string) (offers []string, paths bool) {
	if len(words) == 0 {
		words = []string{""}
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	if len(before) == 0 || before[0] == "help" {
		for _, c := range p.Commands {
			offers = append(offers, c.Name+"\t"+c.Usage)
		}
		if len(before) == 0 {
			offers = append(offers, p.start...)
		}
		return beginningWith(last, "", offers), false
	}
	for _, c := range p.Commands {
		if c.Name == before[0] {
			return c.complete(before[1:], last)
		}
	}
	return nil, false
}

func (c Command) complete(before []string, last string) (offers []string, paths bool) {
	previous := ""
	for _, previous = range before {
		if previous == "--" {
			return nil, true
		}
	}
	name, value, valued := strings.Cut(last, "=")
	for _, f := range c.Flags {
		switch dashed := "--" + f.Name; {
		case !f.Switch && !f.Optional && (previous == dashed || f.Short != "" && previous == "-"+f.Short):
			return offered(f.values, last, "")
		case valued && name == dashed:
			return offered(f.values, value, name+"=")
		}
	}
	if strings.HasPrefix(last, "-") {
		return beginningWith(last, "", flagLines(c)), false
	}
	return offered(c.arguments, last, "")
}

// offered returns those of the values that begin with word, with prefix before them.
func offered(values []string, word, prefix string) (offers []string, paths bool) {
	var known []string
	for _, v := range values {
		if strings.HasPrefix(v, "@") {
			paths = paths || v != anyText && v != commands && v != settings
		} else {
			known = append(known, v)
		}
	}
	return beginningWith(word, prefix, known), paths
}

func beginningWith(word, prefix string, lines []string) (found []string) {
	for _, line := range lines {
		if strings.HasPrefix(line, word) {
			found = append(found, prefix+line)
		}
	}
	return found
}
