package attributes

import (
	"strings"

	"initbox/clone/wildmatch"
)

// maxLine is the length from which git ignores a line (ATTR_MAX_LINE_LENGTH).
const maxLine = 2048

const (
	blank       = " \t\r\n"
	macroPrefix = "[attr]"
)

// parse parses a line. It returns nil for one without effect, or a malformed one, which git skips with a warning. With
// define, it keeps the definition of a macro.
func (s *Set) parse(line string, atTop, define bool) (r *rule, macro bool) {
	where, states, ok := cutLine(line)
	if !ok {
		return nil, false
	}
	name, macro := macroName(line)
	if len(where) > len(macroPrefix) && strings.HasPrefix(where, macroPrefix) && (!macro || !atTop) {
		return nil, true
	}
	var said []state
	for _, field := range strings.FieldsFunc(states, isBlank) {
		st, valid := s.state(field)
		if !valid {
			return nil, macro
		}
		if st.attr >= 0 {
			said = append(said, st)
		}
	}
	if macro && !define {
		return nil, true
	}
	if !macro {
		p, ok := parsePattern(where)
		if !ok || len(said) == 0 {
			return nil, false
		}
		s.note(said)
		return &rule{p, said}, false
	}
	if _, known := s.index[name]; !known {
		s.index[name] = len(s.index)
	}
	s.note(said)
	s.macros[s.index[name]] = said
	return nil, true
}

func isBlank(r rune) bool { return strings.ContainsRune(blank, r) }

// cutLine splits a line into the pattern and the attributes.
func cutLine(line string) (where, states string, ok bool) {
	line = strings.TrimLeft(line, blank)
	if line == "" || line[0] == '#' || len(line) >= maxLine {
		return "", "", false
	}
	if where, states, ok := unquote(line); ok {
		where, _, _ = strings.Cut(where, "\x00")
		return where, states, true
	}
	end := strings.IndexAny(line, blank)
	if end < 0 {
		end = len(line)
	}
	return line[:end], line[end:], true
}

// macroName returns the name of the macro that a line defines.
func macroName(line string) (string, bool) {
	where, _, ok := cutLine(line)
	name, prefixed := strings.CutPrefix(where, macroPrefix)
	name = strings.TrimLeft(name, blank)
	if end := strings.IndexAny(name, blank); end >= 0 {
		name = name[:end]
	}
	return name, ok && prefixed && validName(name)
}

// state parses ATTR, -ATTR, !ATTR or ATTR=VALUE. The index of attributes that do not matter is -1. It returns false for
// a malformed name, which invalidates the whole line.
func (s *Set) state(field string) (st state, valid bool) {
	name, value, hasValue := strings.Cut(field, "=")
	st = state{kind: set}
	switch {
	case field[0] == '-':
		st.kind, name = unset, name[1:]
	case field[0] == '!':
		st.kind, name = unspecified, name[1:]
	case hasValue:
		st.kind, st.value = valued, value
	}
	if !validName(name) {
		return st, false
	}
	index, known := s.index[name]
	if !known {
		index = -1
	}
	st.attr = index
	return st, true
}

// validName implements git's attr_name_valid.
func validName(name string) bool {
	if name == "" || name[0] == '-' {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return true
}

// parsePattern parses a pattern. It ignores one that begins with !, which is invalid here, and one that ends with a
// slash, which matches directories.
func parsePattern(text string) (p pattern, ok bool) {
	if strings.HasPrefix(text, "!") || strings.HasSuffix(text, "/") {
		return p, false
	}
	p.name = !strings.Contains(text, "/")
	p.text = strings.TrimPrefix(text, "/")
	p.literal = literal(p.text)
	p.suffix = p.name && strings.HasPrefix(text, "*") && literal(text[1:]) == len(text)-1
	return p, true
}

func literal(text string) int {
	if i := strings.IndexAny(text, wildmatch.Special); i >= 0 {
		return i
	}
	return len(text)
}

// unquote parses a pattern quoted like a string in C (git's unquote_c_style), and returns the rest of the line.
func unquote(line string) (text, rest string, ok bool) {
	if line[0] != '"' {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		c := line[i]
		if c == '"' {
			return b.String(), line[i+1:], true
		}
		if c != '\\' {
			b.WriteByte(c)
			continue
		}
		if i++; i >= len(line) {
			break
		}
		if at := strings.IndexByte(`abfnrtv\"`, line[i]); at >= 0 {
			b.WriteByte("\a\b\f\n\r\t\v\\\""[at])
			continue
		}
		if i+2 >= len(line) || line[i] > '3' || !octal(line[i]) || !octal(line[i+1]) || !octal(line[i+2]) {
			break
		}
		b.WriteByte((line[i]-'0')<<6 | (line[i+1]-'0')<<3 | (line[i+2] - '0'))
		i += 2
	}
	return "", "", false
}

func octal(c byte) bool { return '0' <= c && c <= '7' }
