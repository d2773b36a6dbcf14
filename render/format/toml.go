package format

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// maxKeyParts bounds dotted keys: the library takes time that grows with their square.
const maxKeyParts = 100

// checkTOML finds what parseTOML does, and makes no values.
func checkTOML(data []byte) error {
	_, err := decodeTOML(data, &struct{}{})
	return err
}

// parseTOML returns dates and times as their text in TOML.
func parseTOML(data []byte) (any, error) {
	return readTOML(data, func(date string) any { return date })
}

func datedTOML(data []byte) (any, error) {
	return readTOML(data, func(date string) any { return Date(date) })
}

func readTOML(data []byte, dated func(string) any) (any, error) {
	var m map[string]any
	meta, err := decodeTOML(data, &m)
	if err != nil {
		return nil, err
	}
	first := map[string]int{} // by the path of a key, where it first is among the keys
	for n, k := range meta.Keys() {
		path := strings.Join(k, "\x00")
		for end := range len(path) + 1 { // of a.b.c, the library lists neither a nor a.b
			if end < len(path) && path[end] != 0 {
				continue
			}
			if _, found := first[path[:end]]; !found {
				first[path[:end]] = n
			}
		}
	}
	return tomlPlain(m, "", first, dated), nil
}

func decodeTOML(data []byte, to any) (toml.MetaData, error) {
	if err := checkText(data); err != nil {
		return toml.MetaData{}, err
	}
	if err := checkTOMLDepth(data); err != nil {
		return toml.MetaData{}, err
	}
	meta, err := toml.Decode(string(data), to)
	if err != nil {
		return meta, tomlError(err)
	}
	return meta, nil
}

// checkTOMLDepth bounds the library's recursion. It skips strings and comments, and leaves
// errors in them to the library.
func checkTOMLDepth(data []byte) error {
	s := string(data)
	depth, parts := 0, 0
	for i := 0; i < len(s); {
		switch c := s[i]; c {
		case '#':
			i += len(s[i:]) - len(strings.TrimLeftFunc(s[i:], func(r rune) bool { return r != '\n' }))
			continue
		case '"', '\'':
			i += tomlString(s[i:])
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '.':
			parts++
		}
		if strings.IndexByte("=,[]{}\n", s[i]) >= 0 {
			parts = 0
		}
		if depth > MaxDepth {
			return tooDeep()
		}
		if parts > maxKeyParts {
			return at(data, i, "a key of more than %d parts", maxKeyParts)
		}
		i++
	}
	return nil
}

// tomlString is the length of the string that s begins with.
func tomlString(s string) int {
	quote := s[:1]
	if strings.HasPrefix(s[1:], quote+quote) {
		quote = s[:3]
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote[0] == '"':
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		case s[i] == '\n' && len(quote) == 1: // not closed
			return i
		}
	}
	return len(s)
}

// tomlPlain returns v, which is at path, with plain types. First has the place of each path in the file.
func tomlPlain(v any, path string, first map[string]int, dated func(string) any) any {
	switch v := v.(type) {
	case map[string]any:
		if path != "" {
			path += "\x00"
		}
		for k, e := range v {
			v[k] = tomlPlain(e, path+k, first, dated)
		}
		return newMap(v, slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			return cmp.Or(first[path+a]-first[path+b], strings.Compare(a, b))
		}))
	case []any:
		for i, e := range v {
			v[i] = tomlPlain(e, path, first, dated)
		}
	case []map[string]any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = tomlPlain(e, path, first, dated)
		}
		return list
	case time.Time:
		// The library distinguishes the local kinds by the names of their zones.
		switch v.Location().String() {
		case "datetime-local":
			return dated(v.Format("2006-01-02T15:04:05.999999999"))
		case "date-local":
			return dated(v.Format("2006-01-02"))
		case "time-local":
			return dated(v.Format("15:04:05.999999999"))
		}
		return dated(v.Format(time.RFC3339Nano))
	}
	return v
}

// tomlCauses translates the messages of the TOML library.
var tomlCauses = causes{
	{"expected value but found", "not a value: text needs quotes"},
	{"expected value", "a value is expected here"},
	{"cannot contain newlines", "a string is not closed on its line"},
	{"already been defined", "duplicate key"},
	{"already created", "the key already exists, with another type"},
	{"is not a table", "the key already exists, and is not a table"},
	{"to end table name", "a ] that ends the name of a table is missing"},
	{"table array name", "]] that end the name of a table are missing"},
	{"table names cannot be empty", "the name of a table is empty"},
	{"array terminator", "a comma or ] is expected here"},
	{"inline table terminator", "a comma or } is expected here"},
	{"out of range", "a number is too large"},
	{"datetime", "not a date or time"},
	{"escape", "an unknown escape in a string"},
	{"hexadecimal digits", "an escape needs more hexadecimal digits"},
	{"blank", "a key is missing before ="},
	{"keys cannot start", "a key begins with a dot"},
	{"expected '.' or '='", "a = is expected here: a key with spaces needs quotes"},
	{"key separator", "a = is expected here"},
	{"end with a newline", "something follows the value on its line"},
	{"unexpected EOF; expected", "a string is not closed"},
	{"leading zero", "a number with leading zeros"},
	{"underscores", "an underscore in a number that is not between digits"},
	{"must be followed by one or more digits", "a number that ends in a dot"},
	{"must start with a digit", "a number that begins with a dot"},
	{"not a binary number", "not a number"},
	{"not an octal number", "not a number"},
	{"not a hexadecimal number", "not a number"},
	{"expected a digit", "not a number"},
	{"nvalid float", "not a number"},
	{"nvalid integer", "not a number"},
	{"control characters", "a control character"},
	{"unexpected comma", "a comma too many"},
	{"newlines not allowed", "a line break in an inline table"},
}

func tomlError(err error) error {
	pe := toml.ParseError{}
	if !errors.As(err, &pe) {
		return &Error{Text: "not TOML"}
	}
	text := tomlCauses.text(pe.Message, "not TOML")
	if pe.LastKey != "" && pe.LastKey != "." {
		return (&Error{Line: pe.Position.Line, Column: pe.Position.Col, Text: "key KEY: " + text}).about(strconv.Quote(pe.LastKey))
	}
	return &Error{Line: pe.Position.Line, Column: pe.Position.Col, Text: text}
}
