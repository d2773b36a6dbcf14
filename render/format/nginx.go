package format

import "strings"

// checkNginx checks what every configuration in nginx's language has: directives
// that end in ; or a block in braces, quotes that close, comments. It does not know the
// directives, except that blocks such as content_by_lua_block contain another language.
func checkNginx(data []byte) error {
	if err := checkText(data); err != nil {
		return err
	}
	n := nginx{data: data, text: string(data)}
	for i := 0; i < len(data); {
		size, err := n.token(i)
		if err != nil {
			return err
		}
		i += size
	}
	switch {
	case n.words > 0:
		return n.unfinished()
	case len(n.open) > 0:
		return at(data, n.open[len(n.open)-1], "the { is not closed")
	}
	return nil
}

// nginx is a configuration that is being checked.
type nginx struct {
	data  []byte
	text  string
	open  []int  // where the open blocks begin
	words int    // of the directive so far
	first string // the first of these words
	begin int    // where first begins
}

func (n *nginx) unfinished() error {
	return at(n.data, n.begin, "the directive that begins here does not end in ;")
}

// token returns the length of the token, the comment or the block of Lua at i.
func (n *nginx) token(i int) (size int, err error) {
	switch c := n.text[i]; {
	case strings.IndexByte(" \t\r\n", c) >= 0:
		return 1, nil
	case c == '#':
		line, _, _ := strings.Cut(n.text[i:], "\n")
		return len(line), nil
	case c == '}' && n.words > 0:
		return 0, n.unfinished()
	case c == '}' && len(n.open) == 0:
		return 0, at(n.data, i, "a } without its {")
	case c == '}':
		n.open = n.open[:len(n.open)-1]
		return 1, nil
	case (c == ';' || c == '{') && n.words == 0:
		return 0, at(n.data, i, "a %c without a directive before it", c)
	case c == '{' && strings.HasSuffix(n.first, "_by_lua_block"):
		if size = luaBlock(n.text[i:]); size < 0 {
			return 0, at(n.data, i, "the block that begins here is not closed")
		}
		n.words = 0
		return size, nil
	case c == '{':
		n.open = append(n.open, i)
		fallthrough
	case c == ';':
		n.words = 0
		return 1, nil
	}
	size, wrong := nginxWord(n.text[i:])
	if wrong != "" {
		return 0, at(n.data, i+size, "%s", wrong)
	}
	if n.words == 0 {
		n.first, n.begin = n.text[i:i+size], i
	}
	n.words++
	return size, nil
}

// nginxWord returns the length of the word that s begins with, or the offset and text of an error.
func nginxWord(s string) (n int, wrong string) {
	if s[0] == '"' || s[0] == '\'' {
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case s[0]:
				i++
				if i < len(s) && strings.IndexByte(" \t\r\n;{)", s[i]) < 0 {
					return i, "a blank or ; is expected after the closing quote"
				}
				return i, ""
			}
		}
		return 0, "the quote is not closed"
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '$' && i+1 < len(s) && s[i+1] == '{': // ${name}
			i++
		case i > 0 && strings.IndexByte(" \t\r\n;{", c) >= 0:
			return i, ""
		}
	}
	return len(s), ""
}

// luaBlock returns the length of the block of Lua that s begins with, or -1. Braces
// in its strings and comments do not count.
func luaBlock(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case c == '"' || c == '\'':
			for i++; i < len(s) && s[i] != c && s[i] != '\n'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case strings.HasPrefix(s[i:], "--[["), strings.HasPrefix(s[i:], "[["):
			end := strings.Index(s[i:], "]]")
			if end < 0 {
				return -1
			}
			i += end + 1
		case strings.HasPrefix(s[i:], "--"):
			line, _, _ := strings.Cut(s[i:], "\n")
			i += len(line)
		}
	}
	return -1
}
