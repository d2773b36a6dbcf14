// Package wildmatch matches the patterns of .gitattributes, .gitignore and sparse checkouts, exactly like git's
// wildmatch.c:
//
//	wildmatch.Match("docs/**/*.md", "docs/a/b/index.md", true) // true
package wildmatch

import "strings"

// Special holds the bytes with a special meaning in a pattern.
const Special = `*?[\`

// maxSteps limits the work of a match: with several ** it grows as a power of the lengths, which a hostile repository
// chooses.
const maxSteps = 1 << 16

// Match reports whether the whole text matches. With path, * and ? do not match a slash, but ** between slashes does. A
// pattern that takes more than 65 536 steps does not match.
func Match(pattern, text string, path bool) bool {
	m := matcher{pattern: pattern, text: text, path: path, left: maxSteps}
	return m.match(0, 0) == matched
}

type outcome int

const (
	matched outcome = iota
	noMatch
	abortAll      // no other part of the text can match
	abortStarStar // as above, unless for a ** before
)

type matcher struct {
	pattern, text string
	path          bool
	left          int // steps
}

// at returns the byte at i, or 0 at the end, as in C. Git never passes on a NUL in a name or a pattern.
func at(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

// match matches the pattern from start with the text from t.
func (m *matcher) match(start, t int) outcome {
	for p := start; p < len(m.pattern); p, t = p+1, t+1 {
		if m.left--; m.left < 0 {
			return abortAll
		}
		c := m.pattern[p]
		if t >= len(m.text) && c != '*' {
			return abortAll
		}
		switch c {
		case '*':
			result, next, slash := m.star(start, p, t)
			if next < 0 {
				return result
			}
			p, t = next, slash
		case '?':
			if m.path && m.text[t] == '/' {
				return noMatch
			}
		case '[':
			end, in, ok := m.class(p, m.text[t])
			if !ok {
				return abortAll
			}
			if !in || m.path && m.text[t] == '/' {
				return noMatch
			}
			p = end
		default:
			if c == '\\' {
				p++
			}
			if at(m.pattern, p) != m.text[t] {
				return noMatch
			}
		}
	}
	if t < len(m.text) {
		return noMatch
	}
	return matched
}

// star matches the rest of the pattern, from the star at p. If the match continues after a slash, it returns the index
// of the slash in the pattern and in the text; otherwise next is -1.
func (m *matcher) star(start, p, t int) (result outcome, next, slash int) {
	first := p
	for p++; at(m.pattern, p) == '*'; p++ {
	}
	slashes := !m.path
	if p-first > 1 && m.path && (first == start || m.pattern[first-1] == '/') && m.endsName(p) {
		if at(m.pattern, p) == '/' && m.match(p+1, t) == matched { // a/**/b matches a/b
			return matched, -1, 0
		}
		slashes = true
	}
	if p >= len(m.pattern) {
		if !slashes && strings.IndexByte(m.text[t:], '/') >= 0 {
			return noMatch, -1, 0
		}
		return matched, -1, 0
	}
	if !slashes && m.pattern[p] == '/' {
		i := strings.IndexByte(m.text[t:], '/')
		if i < 0 {
			return noMatch, -1, 0
		}
		return 0, p, t + i
	}
	return m.after(p, t, slashes), -1, 0
}

// endsName reports whether a name in the pattern ends at p.
func (m *matcher) endsName(p int) bool {
	c := at(m.pattern, p)
	return p >= len(m.pattern) || c == '/' || c == '\\' && at(m.pattern, p+1) == '/'
}

// after matches the pattern after a star, from p, with every suffix of the text.
func (m *matcher) after(p, t int, slashes bool) outcome {
	literal := strings.IndexByte(Special, m.pattern[p]) < 0
	for ; t < len(m.text); t++ {
		if literal {
			for t < len(m.text) && m.text[t] != m.pattern[p] && (slashes || m.text[t] != '/') {
				t++
			}
			if at(m.text, t) != m.pattern[p] {
				return noMatch
			}
		}
		result := m.match(p, t)
		switch {
		case m.left < 0:
			return abortAll
		case result != noMatch:
			if !slashes || result != abortStarStar {
				return result
			}
		case !slashes && m.text[t] == '/':
			return abortStarStar
		}
	}
	return abortAll
}

// class matches c with the set that begins at p, and returns where the set ends; ok is false if it does not end.
func (m *matcher) class(p int, c byte) (end int, in, ok bool) {
	p++
	negated := at(m.pattern, p) == '!' || at(m.pattern, p) == '^'
	if negated {
		p++
	}
	var previous byte
	for first := true; first || at(m.pattern, p) != ']'; p++ {
		first = false
		current := at(m.pattern, p)
		if m.left--; current == 0 || m.left < 0 {
			return 0, false, false
		}
		next := at(m.pattern, p+1)
		switch {
		case current == '\\':
			p++
			if current = next; current == 0 {
				return 0, false, false
			}
			in = in || c == current
		case current == '-' && previous != 0 && next != 0 && next != ']':
			p++
			if next == '\\' {
				p++
				if next = at(m.pattern, p); next == 0 {
					return 0, false, false
				}
			}
			in = in || previous <= c && c <= next
			current = 0
		case current == '[' && next == ':':
			name, _, ended := strings.Cut(m.pattern[p+2:], "]")
			if !ended {
				return 0, false, false
			}
			class, ended := strings.CutSuffix(name, ":")
			if !ended { // an ordinary [
				in = in || c == '['
				break
			}
			is, known := named[class]
			if !known {
				return 0, false, false
			}
			in = in || is(c)
			p, current = p+2+len(name), 0
		default:
			in = in || c == current
		}
		previous = current
	}
	return p, in != negated, true
}

// named are the character classes, for ASCII.
var named = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return letter(c) || digit(c) },
	"alpha":  letter,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  digit,
	"graph":  graph,
	"lower":  lower,
	"print":  func(c byte) bool { return c == ' ' || graph(c) },
	"punct":  func(c byte) bool { return graph(c) && !letter(c) && !digit(c) },
	"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	"upper":  upper,
	"xdigit": func(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
}

func lower(c byte) bool  { return 'a' <= c && c <= 'z' }
func upper(c byte) bool  { return 'A' <= c && c <= 'Z' }
func letter(c byte) bool { return lower(c) || upper(c) }
func digit(c byte) bool  { return '0' <= c && c <= '9' }
func graph(c byte) bool  { return '!' <= c && c <= '~' }
