// Package gitconfig reads and writes files in the format of git-config(1), such as .git/config, .gitmodules and
// .lfsconfig:
//
//	for entry, err := range gitconfig.Parse(content) { ... }
//
//	var w gitconfig.Writer
//	w.Section("remote", "origin")
//	w.Set("url", "https://example.com/repo.git")
//	content, err := w.Bytes()
//
// The decoder of go-git requires UTF-8, refuses some files that git accepts (a setting on the line of its section,
// names that are not UTF-8), and takes quadratic time in the number of sections, which a hostile .gitmodules chooses.
package gitconfig

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
)

// Entry is a setting. Section and Key are in lower case.
type Entry struct {
	Section, Subsection, Key, Value string
	Bare                            bool // a key without "=", which means true
}

// Parse parses the settings in their order: if a key is repeated, git uses the last one. An error ends the sequence,
// and names the line.
func Parse(content []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		p := &parser{rest: bytes.TrimPrefix(content, []byte("\ufeff")), line: 1}
		for {
			more, err := p.next()
			if err != "" {
				yield(Entry{}, fmt.Errorf("line %d: %s", p.line, err))
				return
			}
			if !more || !yield(p.Entry, nil) {
				return
			}
		}
	}
}

type parser struct {
	Entry
	rest  []byte
	line  int
	last  bool // the last byte read ended a line
	begun bool // a section, whose name may be empty
}

// read returns the next byte: a line feed for CR LF, and at the end of the file.
func (p *parser) read() (c byte) {
	if p.last {
		p.line++
		p.last = false
	}
	if len(p.rest) == 0 {
		return '\n'
	}
	c, p.rest = p.rest[0], p.rest[1:]
	if c == '\r' && len(p.rest) > 0 && p.rest[0] == '\n' {
		c, p.rest = '\n', p.rest[1:]
	}
	p.last = c == '\n'
	return c
}

// next parses up to the next setting, and returns what is wrong.
func (p *parser) next() (more bool, problem string) {
	for len(p.rest) > 0 {
		switch c := p.read(); {
		case isSpace(c):
		case c == '#' || c == ';':
			for c != '\n' {
				c = p.read()
			}
		case c == '[':
			if problem := p.section(); problem != "" {
				return false, problem
			}
		case isLetter(c):
			if !p.begun {
				return false, "a setting before the first section"
			}
			return true, p.setting(c)
		default:
			return false, "neither a section nor a setting"
		}
	}
	return false, ""
}

// section parses what follows a bracket: name], or name "subsection"]. The name may be empty if there is a subsection.
func (p *parser) section() (problem string) {
	var name []byte
	p.Subsection, p.begun = "", true
	for {
		switch c := p.read(); {
		case c == ']' && len(name) > 0:
			p.Section = strings.ToLower(string(name))
			// [section.subsection] is obsolete
			p.Section, p.Subsection, _ = strings.Cut(p.Section, ".")
			return ""
		case isLetter(c), isDigit(c), c == '-', c == '.':
			name = append(name, c)
		case c != '\n' && isSpace(c):
			p.Section = strings.ToLower(string(name))
			return p.subsection()
		default:
			return "malformed section"
		}
	}
}

func (p *parser) subsection() (problem string) {
	c := p.read()
	for c != '\n' && isSpace(c) {
		c = p.read()
	}
	if c != '"' {
		return "malformed section"
	}
	var name []byte
	for {
		switch c = p.read(); c {
		case '"':
			p.Subsection = string(name)
			if p.read() != ']' {
				return "malformed section"
			}
			return ""
		case '\\':
			c = p.read()
		}
		if c == '\n' {
			return "unterminated section name"
		}
		name = append(name, c)
	}
}

// setting parses the key that begins with c, and its value.
func (p *parser) setting(c byte) (problem string) {
	key := []byte{c}
	for c = p.read(); isLetter(c) || isDigit(c) || c == '-'; c = p.read() {
		key = append(key, c)
	}
	for c == ' ' || c == '\t' {
		c = p.read()
	}
	p.Key = strings.ToLower(string(key))
	p.Value, p.Bare = "", c == '\n'
	switch c {
	case '\n':
		return ""
	case '=':
		return p.value()
	}
	return "malformed setting"
}

var escapes = map[byte]byte{'t': '\t', 'b': '\b', 'n': '\n', '\\': '\\', '"': '"'}

func (p *parser) value() (problem string) {
	var value []byte
	quoted, end := false, 0 // end of the value without trailing unquoted spaces
	for {
		c := p.read()
		switch {
		case c == '\n' && quoted:
			return "unterminated quote"
		case c == '\n':
			p.Value = string(value[:end])
			return ""
		case !quoted && isSpace(c):
			if len(value) > 0 {
				value = append(value, c)
			}
			continue
		case !quoted && (c == '#' || c == ';'):
			for c != '\n' {
				c = p.read()
			}
			p.Value = string(value[:end])
			return ""
		case c == '"':
			quoted = !quoted
		case c == '\\':
			if c = p.read(); c == '\n' {
				continue // the value continues on the next line
			}
			plain, ok := escapes[c]
			if !ok {
				return "unknown escape sequence"
			}
			value = append(value, plain)
		default:
			value = append(value, c)
		}
		end = len(value)
	}
}

func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// A Writer writes a file of settings.
type Writer struct {
	buf bytes.Buffer
	err error
}

// Section starts a section; subsection may be "".
func (w *Writer) Section(name, subsection string) {
	w.check(subsection)
	if subsection == "" && name != "" {
		fmt.Fprintf(&w.buf, "[%s]\n", name)
		return
	}
	fmt.Fprintf(&w.buf, "[%s \"%s\"]\n", name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(subsection))
}

// Set adds a setting to the current section.
func (w *Writer) Set(key, value string) {
	w.check(value)
	value = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value)
	if strings.ContainsAny(value, "#;") || value != strings.TrimSpace(value) {
		value = `"` + value + `"`
	}
	fmt.Fprintf(&w.buf, "\t%s = %s\n", key, value)
}

// check refuses control characters: initbox never needs them, and they could start a new line.
func (w *Writer) check(text string) {
	for _, c := range []byte(text) {
		if (c < ' ' || c == 0x7f) && w.err == nil {
			w.err = fmt.Errorf("%q contains control characters", text)
		}
	}
}

// Bytes returns the content of the file.
func (w *Writer) Bytes() ([]byte, error) { return w.buf.Bytes(), w.err }
