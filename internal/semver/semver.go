// Package semver has versions by https://semver.org and ranges of them, as Masterminds/semver reads them: templates
// that call semver or semverCompare, and git-clone with a range of tags, mean the same here as in Helm. That library
// compiles its regular expressions at each start of a program, which takes longer than the rest of a short one.
//
//	v, err := semver.NewVersion("v1.4.2")
//	in, err := semver.NewConstraint("^1.2, != 1.3.0")
//	in.Check(v) // true
package semver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Version is a version; [NewVersion] returns one.
type Version struct {
	major, minor, patch uint64
	pre                 string
	metadata            string
	original            string
}

const maxVersion = 256 // bytes

var (
	errInvalid    = errors.New("invalid semantic version")
	errTooLong    = errors.New("version string is too long (max 256 bytes)")
	errLeading0   = errors.New("version segment starts with 0")
	errPrerelease = errors.New("invalid prerelease string")
	errMetadata   = errors.New("invalid metadata string")
)

// NewVersion reads a version, which may begin with v, and lack its patch and its minor number.
func NewVersion(text string) (*Version, error) {
	if len(text) > maxVersion {
		return nil, errTooLong
	}
	v := &Version{original: text}
	rest := strings.TrimPrefix(text, "v")
	var numbers [3]string
	for i := range numbers {
		digits, isNext := rest, true
		if i > 0 {
			digits, isNext = strings.CutPrefix(rest, ".")
		}
		n := len(digits) - len(strings.TrimLeft(digits, "0123456789"))
		if !isNext || n == 0 {
			break
		}
		numbers[i], rest = digits[:n], digits[n:]
	}
	var pre, metadata bool
	if rest, pre = strings.CutPrefix(rest, "-"); pre {
		v.pre, rest = identifiers(rest)
	}
	if rest, metadata = strings.CutPrefix(rest, "+"); metadata {
		v.metadata, rest = identifiers(rest)
	}
	if numbers[0] == "" || rest != "" || pre && v.pre == "" || metadata && v.metadata == "" {
		return nil, errInvalid
	}
	for i, to := range []*uint64{&v.major, &v.minor, &v.patch} {
		var err error
		if *to, err = strconv.ParseUint(cmp.Or(numbers[i], "0"), 10, 64); err != nil {
			return nil, fmt.Errorf("error parsing version segment: %w", err)
		}
	}
	if pre && !canonical(v.pre) {
		return nil, errLeading0
	}
	return v, nil
}

const identifierCharacters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"

// identifiers returns the identifiers at the beginning of a text, joined by dots, or "" if one of them is empty, and
// what follows.
func identifiers(text string) (found, rest string) {
	rest = strings.TrimLeft(text, identifierCharacters+".")
	found = strings.TrimSuffix(text, rest)
	if !wellFormed(found) {
		return "", rest
	}
	return found, rest
}

func wellFormed(identifiers string) bool {
	for part := range strings.SplitSeq(identifiers, ".") {
		if part == "" || strings.Trim(part, identifierCharacters) != "" {
			return false
		}
	}
	return true
}

// canonical returns whether no number in a pre-release begins with 0.
func canonical(pre string) bool {
	for part := range strings.SplitSeq(pre, ".") {
		if len(part) > 1 && part[0] == '0' && strings.Trim(part, "0123456789") == "" {
			return false
		}
	}
	return true
}

// String returns the version with all three numbers, and without v.
func (v Version) String() string {
	text := fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
	if v.pre != "" {
		text += "-" + v.pre
	}
	if v.metadata != "" {
		text += "+" + v.metadata
	}
	return text
}

// MarshalText returns what String does.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// MarshalJSON returns what String does, as a string in JSON.
func (v Version) MarshalJSON() ([]byte, error) { return json.Marshal(v.String()) }

// Original returns the text that was read.
func (v *Version) Original() string { return v.original }

// Major returns the first number.
func (v Version) Major() uint64 { return v.major }

// Minor returns the second number.
func (v Version) Minor() uint64 { return v.minor }

// Patch returns the third number.
func (v Version) Patch() uint64 { return v.patch }

// Prerelease returns what follows the hyphen.
func (v Version) Prerelease() string { return v.pre }

// Metadata returns what follows the plus sign.
func (v Version) Metadata() string { return v.metadata }

// IncPatch returns the next patch, which is the release itself after a pre-release.
func (v Version) IncPatch() Version {
	if v.pre != "" {
		return v.next(v.major, v.minor, v.patch)
	}
	return v.next(v.major, v.minor, increment(v.patch, "patch"))
}

// IncMinor returns the next minor version.
func (v Version) IncMinor() Version { return v.next(v.major, increment(v.minor, "minor"), 0) }

// IncMajor returns the next major version.
func (v Version) IncMajor() Version { return v.next(increment(v.major, "major"), 0, 0) }

func increment(n uint64, what string) uint64 {
	if n == math.MaxUint64 {
		panic(what + " version increment would overflow uint64")
	}
	return n + 1
}

func (v Version) next(major, minor, patch uint64) Version {
	return Version{major: major, minor: minor, patch: patch, original: v.original}.rewritten()
}

// rewritten returns v with the original that would be read as v.
func (v Version) rewritten() Version {
	prefix := ""
	if strings.HasPrefix(v.original, "v") {
		prefix = "v"
	}
	v.original = prefix + v.String()
	return v
}

// SetPrerelease returns the version with another pre-release.
func (v Version) SetPrerelease(pre string) (Version, error) {
	switch {
	case pre != "" && !wellFormed(pre):
		return v, errPrerelease
	case !canonical(pre):
		return v, errLeading0
	}
	v.pre = pre
	return v.rewritten(), nil
}

// SetMetadata returns the version with other metadata.
func (v Version) SetMetadata(metadata string) (Version, error) {
	if metadata != "" && !wellFormed(metadata) {
		return v, errMetadata
	}
	v.metadata = metadata
	return v.rewritten(), nil
}

// LessThan returns whether v comes before o.
func (v *Version) LessThan(o *Version) bool { return v.Compare(o) < 0 }

// LessThanEqual returns whether v comes before o, or is as high.
func (v *Version) LessThanEqual(o *Version) bool { return v.Compare(o) <= 0 }

// GreaterThan returns whether v comes after o.
func (v *Version) GreaterThan(o *Version) bool { return v.Compare(o) > 0 }

// GreaterThanEqual returns whether v comes after o, or is as high.
func (v *Version) GreaterThanEqual(o *Version) bool { return v.Compare(o) >= 0 }

// Equal returns whether v is as high as o; metadata does not count.
func (v *Version) Equal(o *Version) bool {
	if v == nil || o == nil {
		return v == o
	}
	return v.Compare(o) == 0
}

// Compare returns -1 if v comes before o by https://semver.org/#spec-item-11, 1 if it comes after o, or 0.
func (v *Version) Compare(o *Version) int {
	return cmp.Or(cmp.Compare(v.major, o.major), cmp.Compare(v.minor, o.minor), cmp.Compare(v.patch, o.patch), comparePrerelease(v.pre, o.pre))
}

func comparePrerelease(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	left, right := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(left), len(right)) {
		if c := compareIdentifiers(left[i], right[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(left), len(right))
}

// compareIdentifiers returns a number below 0 if a comes before b: numbers come before words.
func compareIdentifiers(a, b string) int {
	m, isWord := strconv.ParseUint(a, 10, 64)
	n, other := strconv.ParseUint(b, 10, 64)
	switch {
	case isWord != nil && other != nil:
		return cmp.Compare(a, b)
	case isWord != nil:
		return 1
	case other != nil:
		return -1
	}
	return cmp.Compare(m, n)
}
