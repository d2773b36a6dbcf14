// Package expect has what a target may expect of a text, a text or a /REGEX/, and of a JSON document, a path and
// perhaps a value.
//
//	e, err := expect.ParseJSON(".status==UP")
//	err = e.Check(body) // why the document is not what was expected, or nil
package expect

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Matcher says whether a text is what was expected: it contains the given one, or a match of the regular expression
// between slashes.
type Matcher struct {
	Text   string
	Regexp *regexp.Regexp // nil: text is meant literally
}

// ParseMatcher reads a text, or a regular expression between slashes.
func ParseMatcher(text string) (Matcher, error) {
	m := Matcher{Text: text}
	if len(text) >= 2 && text[0] == '/' && text[len(text)-1] == '/' {
		re, err := regexp.Compile("(?m)" + text[1:len(text)-1]) // ^ and $ are those of lines, as grep has them
		if err != nil {
			return m, notRegexp(err)
		}
		m.Regexp = re
	}
	return m, nil
}

// notRegexp says what is wrong without the expression, which is not for the log: it may be the value of a secret.
func notRegexp(err error) error {
	var mistake *syntax.Error
	if errors.As(err, &mistake) {
		return fmt.Errorf("not a regular expression: %s", mistake.Code)
	}
	return errors.New("not a regular expression")
}

// Within reports whether s contains what is expected.
func (m Matcher) Within(s string) bool {
	if m.Regexp != nil {
		return m.Regexp.MatchString(s)
	}
	return strings.Contains(s, m.Text)
}

// Whole reports whether s is what is expected; a regular expression need match a part only.
func (m Matcher) Whole(s string) bool {
	if m.Regexp != nil {
		return m.Regexp.MatchString(s)
	}
	return s == m.Text
}
