// Package expect has the expectations that a target may have of an answer: of text, a text or a /REGEX/; of a JSON
// document, a path and optionally a value.
//
//	e, err := expect.ParseJSON(".status==UP")
//	err = e.Check(body) // why the document does not meet the expectation, or nil
package expect

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Matcher compares text with an expected text or a regular expression.
type Matcher struct {
	Text   string
	Regexp *regexp.Regexp // nil: Text is literal
}

// ParseMatcher reads a text, or a regular expression between slashes.
func ParseMatcher(text string) (Matcher, error) {
	m := Matcher{Text: text}
	if len(text) >= 2 && text[0] == '/' && text[len(text)-1] == '/' {
		re, err := regexp.Compile("(?m)" + text[1:len(text)-1]) // ^ and $ match at lines, as in grep
		if err != nil {
			return m, notRegexp(err)
		}
		m.Regexp = re
	}
	return m, nil
}

// notRegexp returns the error without the expression, which may be the value of a secret.
func notRegexp(err error) error {
	var mistake *syntax.Error
	if errors.As(err, &mistake) {
		return fmt.Errorf("not a regular expression: %s", mistake.Code)
	}
	return errors.New("not a regular expression")
}

// Within reports whether s contains the text or a match.
func (m Matcher) Within(s string) bool {
	if m.Regexp != nil {
		return m.Regexp.MatchString(s)
	}
	return strings.Contains(s, m.Text)
}

// Whole reports whether s is the text, or contains a match of the regular expression.
func (m Matcher) Whole(s string) bool {
	if m.Regexp != nil {
		return m.Regexp.MatchString(s)
	}
	return s == m.Text
}
