package format

import (
	"bytes"
	"strings"

	"initbox/internal/lazy"
)

var envKey = lazy.Regexp(`^(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*`)

// parseEnv reads what the readers of .env files agree on: lines of KEY=value or export KEY=value, blank lines, and
// comments from a # that begins the line or follows a space. In single quotes everything stands for itself; in double
// quotes \n, \r, \t, \", \\ and \$ are what they are in a shell, and other backslashes stand for themselves; both may
// span lines. Nothing is expanded: $HOME stays. The last of duplicate keys counts.
func parseEnv(data []byte) (any, error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	s := strings.TrimPrefix(string(data), "\ufeff")
	data = []byte(s)
	values := &Map{Values: map[string]any{}}
	for i := 0; i < len(s); {
		i += len(s[i:]) - len(strings.TrimLeft(s[i:], " \t\r\n"))
		line, _, _ := strings.Cut(s[i:], "\n")
		if line == "" || line[0] == '#' {
			i += len(line)
			continue
		}
		m := envKey().FindStringSubmatch(line)
		if m == nil {
			return nil, at(data, i, "not KEY=value")
		}
		i += len(m[0])
		rest := line[len(m[0]):]
		if rest == "" || rest[0] != '\'' && rest[0] != '"' {
			i += len(rest)
			values.Set(m[1], envUnquoted(rest, m[0]))
			continue
		}
		value, n := envQuoted(s[i:])
		if n < 0 {
			return nil, at(data, i, "the quote of KEY is not closed").about(m[1])
		}
		i += n
		rest, _, _ = strings.Cut(s[i:], "\n")
		if after := strings.TrimSpace(rest); after != "" && after[0] != '#' {
			return nil, at(data, i, "something follows the closing quote of KEY").about(m[1])
		}
		i += len(rest)
		values.Set(m[1], value)
	}
	return values, nil
}

// envUnquoted returns the value that follows before, up to a comment.
func envUnquoted(s, before string) string {
	for i := range s {
		if s[i] == '#' && strings.IndexByte(" \t", (before + s)[len(before)+i-1]) >= 0 {
			s = s[:i]
			break
		}
	}
	return strings.TrimSpace(s)
}

// envQuoted is the string that s begins with, and its length with its quotes, or -1 if it has no end.
func envQuoted(s string) (string, int) {
	quote := s[0]
	var b bytes.Buffer
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return b.String(), i + 1
		case s[i] == '\\' && quote == '"' && i+1 < len(s):
			i++
			if j := strings.IndexByte(`nrt"\$`, s[i]); j >= 0 {
				b.WriteByte("\n\r\t\"\\$"[j])
			} else {
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return "", -1
}
