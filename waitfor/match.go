package waitfor

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// matcher says whether a text is what was expected: it contains the given one,
// or a match of the regular expression between slashes.
type matcher struct {
	text string
	re   *regexp.Regexp // nil: text is meant literally
}

func parseMatcher(text string) (matcher, error) {
	m := matcher{text: text}
	if len(text) >= 2 && text[0] == '/' && text[len(text)-1] == '/' {
		re, err := regexp.Compile("(?m)" + text[1:len(text)-1]) // ^ and $ are those of lines, as grep has them
		if err != nil {
			return m, notRegexp(err)
		}
		m.re = re
	}
	return m, nil
}

// notRegexp says what is wrong without the expression, which is not for the
// log: it may be the value of a secret.
func notRegexp(err error) error {
	var mistake *syntax.Error
	if errors.As(err, &mistake) {
		return fmt.Errorf("not a regular expression: %s", mistake.Code)
	}
	return errors.New("not a regular expression")
}

// within reports whether s contains what is expected.
func (m matcher) within(s string) bool {
	if m.re != nil {
		return m.re.MatchString(s)
	}
	return strings.Contains(s, m.text)
}

// whole reports whether s is what is expected; a regular expression need match
// a part only.
func (m matcher) whole(s string) bool {
	if m.re != nil {
		return m.re.MatchString(s)
	}
	return s == m.text
}
