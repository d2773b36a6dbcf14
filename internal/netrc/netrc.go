// Package netrc reads logins from netrc files, in the format of curl, and therefore of git.
package netrc

import "strings"

// Login is a user and a password.
type Login struct{ User, Password string }

// Find returns the first entry of the text of a netrc file that is for the host, or default, has a password, and is for
// the user, if one is given; or nil.
func Find(text, host, user string) *Login {
	for _, e := range parse(text) {
		switch {
		case e.Password == "", e.machine != "" && !strings.EqualFold(e.machine, host):
		case user == "" || e.User == "" || e.User == user:
			if e.User == "" {
				e.User = user
			}
			return &e.Login
		}
	}
	return nil
}

// entry is the entry of a machine; for default, machine is "".
type entry struct {
	machine string
	Login
}

func parse(text string) []entry {
	var entries []entry
	t := tokens{text}
	for {
		keyword, ok := t.keyword()
		if !ok {
			return entries
		}
		switch keyword {
		case "machine":
			if name := t.value(); name != "" {
				entries = append(entries, entry{machine: name})
			}
		case "default":
			entries = append(entries, entry{})
		case "macdef":
			t.skipMacro()
		case "login", "password", "account":
			value := t.value()
			if len(entries) == 0 {
				continue
			}
			switch e := &entries[len(entries)-1]; keyword {
			case "login":
				e.User = value
			case "password":
				e.Password = value
			}
		}
	}
}

// tokens splits a netrc file into words; rest has not been read.
type tokens struct{ rest string }

const blanks = " \t\r\n"

// keyword returns the next word. A word that begins with # is a comment to the end of the line.
func (t *tokens) keyword() (string, bool) {
	t.rest = strings.TrimLeft(t.rest, blanks)
	for strings.HasPrefix(t.rest, "#") {
		_, t.rest, _ = strings.Cut(t.rest, "\n")
		t.rest = strings.TrimLeft(t.rest, blanks)
	}
	if t.rest == "" {
		return "", false
	}
	return t.value(), true
}

// value returns the next word, which may be quoted and may begin with #.
func (t *tokens) value() string {
	t.rest = strings.TrimLeft(t.rest, blanks)
	if quoted, ok := strings.CutPrefix(t.rest, `"`); ok {
		return t.quoted(quoted)
	}
	end := strings.IndexAny(t.rest, blanks)
	if end < 0 {
		end = len(t.rest)
	}
	word := t.rest[:end]
	t.rest = t.rest[end:]
	return word
}

// quoted returns the text up to the next quote. \n, \r and \t are control characters; any other character after a
// backslash stands for itself.
func (t *tokens) quoted(rest string) string {
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			t.rest = rest[i+1:]
			return b.String()
		case c == '\\' && i+1 < len(rest):
			i++
			switch rest[i] {
			case 'n':
				b.WriteByte('\n')
			case 'r':
				b.WriteByte('\r')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	t.rest = "" // the quote is not closed
	return b.String()
}

// skipMacro skips the definition after macdef: a name, and lines up to an empty one.
func (t *tokens) skipMacro() {
	for t.rest != "" {
		var line string
		line, t.rest, _ = strings.Cut(t.rest, "\n")
		if strings.Trim(line, blanks) == "" {
			return
		}
	}
}
