package remote

import "strings"

// netrcLogin returns the first entry of a netrc file that is for the host, or default, has a password, and is for the
// user, if one is given. The format is that of curl, and therefore of git.
func netrcLogin(text, host, user string) *login {
	for _, e := range parseNetrc(text) {
		switch {
		case e.password == "", e.machine != "" && !strings.EqualFold(e.machine, host):
		case user == "" || e.user == "" || e.user == user:
			if e.user == "" {
				e.user = user
			}
			return &e.login
		}
	}
	return nil
}

// netrcEntry is the entry of a machine; for default, machine is "".
type netrcEntry struct {
	machine string
	login
}

func parseNetrc(text string) []netrcEntry {
	var entries []netrcEntry
	t := netrcTokens{text}
	for {
		keyword, ok := t.keyword()
		if !ok {
			return entries
		}
		switch keyword {
		case "machine":
			if name := t.value(); name != "" {
				entries = append(entries, netrcEntry{machine: name})
			}
		case "default":
			entries = append(entries, netrcEntry{})
		case "macdef":
			t.skipMacro()
		case "login", "password", "account":
			value := t.value()
			if len(entries) == 0 {
				continue
			}
			switch e := &entries[len(entries)-1]; keyword {
			case "login":
				e.user = value
			case "password":
				e.password = value
			}
		}
	}
}

// netrcTokens splits a netrc file into words; rest has not been read.
type netrcTokens struct{ rest string }

const netrcBlanks = " \t\r\n"

// keyword returns the next word. A word that begins with # is a comment to the end of the line.
func (t *netrcTokens) keyword() (string, bool) {
	t.rest = strings.TrimLeft(t.rest, netrcBlanks)
	for strings.HasPrefix(t.rest, "#") {
		_, t.rest, _ = strings.Cut(t.rest, "\n")
		t.rest = strings.TrimLeft(t.rest, netrcBlanks)
	}
	if t.rest == "" {
		return "", false
	}
	return t.value(), true
}

// value returns the next word, which may be quoted and may begin with #.
func (t *netrcTokens) value() string {
	t.rest = strings.TrimLeft(t.rest, netrcBlanks)
	if quoted, ok := strings.CutPrefix(t.rest, `"`); ok {
		return t.quoted(quoted)
	}
	end := strings.IndexAny(t.rest, netrcBlanks)
	if end < 0 {
		end = len(t.rest)
	}
	word := t.rest[:end]
	t.rest = t.rest[end:]
	return word
}

// quoted returns the text up to the next quote. \n, \r and \t are control characters; any other character after a
// backslash stands for itself.
func (t *netrcTokens) quoted(rest string) string {
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
func (t *netrcTokens) skipMacro() {
	for t.rest != "" {
		var line string
		line, t.rest, _ = strings.Cut(t.rest, "\n")
		if strings.Trim(line, netrcBlanks) == "" {
			return
		}
	}
}
