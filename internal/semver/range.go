package semver

import (
	"errors"
	"fmt"
	"strings"

	"initbox/internal/lazy"
)

// Constraints is a range of versions; [NewConstraint] returns one. A version is in it if it meets all terms of a group.
type Constraints struct{ groups []group }

type group struct {
	terms      []term
	prerelease bool // a term names one, so that others may be in the range
}

// term is an operator with a version of which only the first numbers may be given.
type term struct {
	operator string
	version  *Version
	given    int // 3 for 1.2.3, 2 for 1.2 and 1.2.x, 1 for 1 and 1.x, 0 for *
}

const (
	maxRange  = 512 // bytes
	maxGroups = 32

	operators = `(?:=||!=|>|<|>=|=>|<=|=<|~|~>|\^)`
	number    = `[0-9xX*|]+`
	words     = `[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*`
	partial   = `v?` + number + `(?:\.` + number + `)?(?:\.` + number + `)?(?:-` + words + `)?(?:\+` + words + `)?`
)

var (
	hyphened   = lazy.Regexp(`\s*(` + partial + `)\s+-\s+(` + partial + `)\s*`)
	wholeGroup = lazy.Regexp(`^\s*` + operators + `\s*` + partial + `\s*(?:(?:\s+|,\s*)` + operators + `\s*` + partial + `\s*)*$`)
	oneTerm    = lazy.Regexp(operators + `\s*` + partial)
	wholeTerm  = lazy.Regexp(`^\s*(` + operators + `)\s*v?(` + number + `)(?:\.(` + number + `))?(?:\.(` + number + `))?((?:-` + words + `)?)((?:\+` + words + `)?)\s*$`)
)

// NewConstraint reads a range: groups joined by ||, each of terms joined by spaces or commas, such as
// ">=1.2 <3, !=2.5.x" or "1.2 - 1.4".
func NewConstraint(text string) (*Constraints, error) {
	if len(text) > maxRange {
		return nil, fmt.Errorf("constraint string is too long (max %d bytes)", maxRange)
	}
	for _, m := range hyphened().FindAllStringSubmatch(text, -1) {
		text = strings.Replace(text, m[0], fmt.Sprintf(">= %s, <= %s ", m[1], m[2]), 1)
	}
	parts := strings.Split(text, "||")
	if len(parts) > maxGroups {
		return nil, fmt.Errorf("too many constraint groups (max %d)", maxGroups)
	}
	c := &Constraints{}
	for _, part := range parts {
		if !wholeGroup().MatchString(part) {
			return nil, fmt.Errorf("improper constraint: %q", part)
		}
		g := group{}
		for _, one := range oneTerm().FindAllString(part, -1) {
			t, err := newTerm(one)
			if err != nil {
				return nil, err
			}
			g.terms = append(g.terms, t)
			g.prerelease = g.prerelease || t.version.pre != ""
		}
		c.groups = append(c.groups, g)
	}
	return c, nil
}

func newTerm(text string) (term, error) {
	m := wholeTerm().FindStringSubmatch(text)
	if m == nil {
		return term{}, fmt.Errorf("improper constraint: %q", text)
	}
	t := term{operator: m[1]}
	numbers := m[2:5]
	for t.given < 3 && numbers[t.given] != "" && !anyNumber(numbers[t.given]) {
		t.given++
	}
	version := strings.Join(append(numbers[:t.given:t.given], "0", "0", "0")[:3], ".") + m[5]
	if t.given == 3 {
		version += m[6]
	}
	var err error
	if t.version, err = NewVersion(version); err != nil {
		return term{}, errors.New("constraint parser error")
	}
	return t, nil
}

func anyNumber(text string) bool { return text == "x" || text == "X" || text == "*" }

// Check returns whether v is in the range. A pre-release is only in one that names a pre-release.
func (c Constraints) Check(v *Version) bool {
	for _, g := range c.groups {
		if g.has(v) {
			return true
		}
	}
	return false
}

func (g group) has(v *Version) bool {
	if v.pre != "" && !g.prerelease {
		return false
	}
	for _, t := range g.terms {
		if !t.has(v) {
			return false
		}
	}
	return true
}

func (t term) has(v *Version) bool {
	of := t.version
	switch t.operator {
	case "!=":
		switch t.given {
		case 1:
			return v.major != of.major
		case 2:
			return v.major != of.major || v.minor != of.minor || comparePrerelease(v.pre, of.pre) != 0
		}
		return !v.Equal(of)
	case ">":
		switch t.given {
		case 1:
			return v.major > of.major
		case 2:
			return v.major > of.major || v.major == of.major && v.minor > of.minor
		}
		return v.GreaterThan(of)
	case "<":
		return v.LessThan(of)
	case ">=", "=>":
		return v.GreaterThanEqual(of)
	case "<=", "=<":
		if t.given == 3 {
			return v.LessThanEqual(of)
		}
		return v.major < of.major || v.major == of.major && (t.given == 1 || v.minor <= of.minor)
	case "^":
		return t.compatible(v)
	case "~", "~>":
		return t.near(v)
	}
	if t.given == 3 {
		return v.Equal(of)
	}
	return t.near(v)
}

// near returns whether v differs from the term's version only in numbers after the second.
func (t term) near(v *Version) bool {
	of := t.version
	if v.LessThan(of) {
		return false
	}
	if of.major == 0 && of.minor == 0 && of.patch == 0 && (t.given == 0 || t.given == 3) {
		return true
	}
	return v.major == of.major && (v.minor == of.minor || t.given == 1)
}

// compatible returns whether v differs from the term's version only in numbers after the first that is not 0.
func (t term) compatible(v *Version) bool {
	of := t.version
	switch {
	case v.LessThan(of):
		return false
	case of.major > 0 || t.given == 1:
		return v.major == of.major
	case v.major > 0:
		return false
	case of.minor > 0 || t.given == 2:
		return v.minor == of.minor
	}
	return v.minor == 0 && v.patch == of.patch
}
