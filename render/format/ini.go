package format

import (
	"bytes"
	"fmt"
	"strings"
)

// checkINI finds what no reader of INI files accepts: a section that is not closed, and a value without a key. Readers
// differ in the rest: what a value may be, whether a key needs a value (not in my.cnf) or may be repeated (php.ini),
// and how a value continues in the next line.
func checkINI(data []byte) error {
	if err := checkText(data); err != nil {
		return err
	}
	offset := 0
	for line := range bytes.Lines(data) {
		text := bytes.TrimSpace(line)
		start := offset + bytes.Index(line, text)
		offset += len(line)
		switch {
		case len(text) == 0 || text[0] == ';' || text[0] == '#':
		case text[0] == '[':
			end := bytes.IndexByte(text, ']')
			if end < 0 {
				return at(data, start, "a section whose ] is missing")
			}
			if len(bytes.TrimSpace(text[1:end])) == 0 {
				return at(data, start, "a section without a name")
			}
			rest := bytes.TrimSpace(text[end+1:])
			// A list that continues from the previous line may begin with [ too.
			if len(rest) > 0 && rest[0] != ';' && rest[0] != '#' && start == offset-len(line) {
				return at(data, start+end+1, "something follows the section's name")
			}
		case text[0] == '=' || text[0] == ':' && !bytes.HasPrefix(text, []byte("::")):
			return at(data, start, "a value without a key")
		}
	}
	return nil
}

// parseINI returns the keys before the first section, and each section as a map. A line that is indented further than
// the key before it continues its value, as in Python's configparser, and so in airflow.cfg. Quotes, and what may be a
// comment after a value, belong to it: readers differ.
func parseINI(data []byte) (any, error) {
	if err := checkINI(data); err != nil {
		return nil, err
	}
	root := &Map{Values: map[string]any{}}
	section, key, indent, number := root, "", 0, 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		number++
		text := strings.TrimSpace(line)
		in := len(line) - len(strings.TrimLeft(line, " \t"))
		switch {
		case text == "" || text[0] == ';' || text[0] == '#':
		case key != "" && in > indent:
			section.change(key, func(old any) any {
				if old == nil {
					old = ""
				}
				return folded(fmt.Sprint(old) + "\n" + text)
			})
		case text[0] == '[':
			name := strings.TrimSpace(text[1:strings.IndexByte(text, ']')])
			there := false
			if section, there = root.Values[name].(*Map); !there {
				section = &Map{Values: map[string]any{}}
				if _, there = root.Values[name]; there {
					return nil, (&Error{Line: number, Text: "the section KEY has the name of a key"}).about(name)
				}
				root.Set(name, section)
			}
			key = ""
		default:
			end := strings.IndexByte(text, '=')
			if colon := strings.Index(text, ": "); colon > 0 && (end < 0 || colon < end) {
				end = colon
			}
			var value any
			if key, indent = text, in; end >= 0 {
				key, value = strings.TrimSpace(text[:end]), strings.TrimSpace(text[end+1:])
			}
			if old, several := section.Values[key]; several {
				list, is := old.([]any)
				if !is {
					list = []any{old}
				}
				value = append(list, value)
			}
			section.Set(key, value)
		}
	}
	return root, nil
}

// folded is a value of several lines. A string with a line break is none: not every reader of INI files would take its
// next lines for a part of the value.
type folded string

// change replaces a value, or the last item of a list.
func (m *Map) change(key string, by func(old any) any) {
	if list, is := m.Values[key].([]any); is {
		list[len(list)-1] = by(list[len(list)-1])
	} else {
		m.Values[key] = by(m.Values[key])
	}
}
