package format

import (
	"bytes"
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
