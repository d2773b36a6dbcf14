package format

import "strings"

// checkNginx checks what every configuration in nginx's language has: directives
// that end in ; or a block in braces, quotes that close, comments. It does not know the
// directives, except that blocks such as content_by_lua_block contain another language.
func checkNginx(data []byte) error {
	if err := checkText(data); err != nil {
		return err
	}
	var open []int // where the open blocks begin
	var words int  // of the directive so far
	var first, begin = "", 0
	s := string(data)
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
			continue
		case c == '#':
			line, _, _ := strings.Cut(s[i:], "\n")
			i += len(line)
			continue
		case c == ';' || c == '{':
			if words == 0 {
				return at(data, i, "a %c without a directive before it", c)
			}
			if c == '{' && strings.HasSuffix(first, "_by_lua_block") {
				n := luaBlock(s[i:])
				if n < 0 {
					return at(data, i, "the block that begins here is not closed")
				}
				i += n
				words = 0
				continue
			}
			if c == '{' {
				open = append(open, i)
			}
			words = 0
			i++
			continue
		case c == '}':
			if words > 0 {
				return at(data, begin, "the directive that begins here does not end in ;")
			}
			if len(open) == 0 {
				return at(data, i, "a } without its {")
			}
			open = open[:len(open)-1]
			i++
			continue
		}
		n, text := nginxWord(s[i:])
		if text != "" {
			return at(data, i+n, "%s", text)
		}
		if words == 0 {
			first, begin = s[i:i+n], i
		}
		words++
		i += n
	}
	switch {
	case words > 0:
		return at(data, begin, "the directive that begins here does not end in ;")
	case len(open) > 0:
		return at(data, open[len(open)-1], "the { is not closed")
	}
	return nil
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
