package format

import (
	"bytes"
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
	section := root
	for _, entry := range iniEntries(string(data)) {
		if entry[0] == '[' {
			name := strings.TrimSpace(entry[1:strings.IndexByte(entry, ']')])
			if root.Values[name] == nil {
				root.Set(name, &Map{Values: map[string]any{}})
			}
			is := false
			if section, is = root.Values[name].(*Map); !is {
				return nil, (&Error{Text: "the section KEY has the name of a key"}).about(name)
			}
			continue
		}
		key, value := iniValue(entry)
		if old, several := section.Values[key]; several {
			list, is := old.([]any)
			if !is {
				list = []any{old}
			}
			value = append(list, value)
		}
		section.Set(key, value)
	}
	return root, nil
}

// iniEntries returns the lines that begin a section or a key, each with those that continue it.
func iniEntries(text string) (entries []string) {
	key, indent := false, 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		text := strings.TrimSpace(line)
		in := len(line) - len(strings.TrimLeft(line, " \t"))
		switch {
		case text == "" || text[0] == ';' || text[0] == '#':
		case key && in > indent:
			entries[len(entries)-1] += "\n" + text
		default:
			entries = append(entries, text)
			key, indent = text[0] != '[', in
		}
	}
	return entries
}

// iniValue returns the key and the value of an entry: nil without a =.
func iniValue(entry string) (key string, value any) {
	first, _, more := strings.Cut(entry, "\n")
	end := strings.IndexByte(first, '=')
	if colon := strings.Index(first+" ", ": "); colon > 0 && (end < 0 || colon < end) {
		end = colon
	}
	switch {
	case more && end < 0:
		return first, folded(entry[len(first):])
	case more:
		return strings.TrimSpace(first[:end]), folded(strings.TrimLeft(entry[end+1:], " \t"))
	case end < 0:
		return first, nil
	}
	return strings.TrimSpace(first[:end]), strings.TrimSpace(first[end+1:])
}

// folded is a value of several lines. A string with a line break is not one: not every reader of INI files would take
// its next lines for a part of the value.
type folded string
