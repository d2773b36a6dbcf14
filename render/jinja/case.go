package jinja

import (
	"strings"
	"unicode"
)

// Python's cases are Unicode's full ones, in which one character may become several; Go's are the simple ones.

// uppers are the capitals of several characters, and titles the first letters of words, where they are not the same.
var (
	uppers = map[rune]string{'ß': "SS", 'ŉ': "ʼN", 'ǰ': "J̌", 'և': "ԵՒ", 'ﬀ': "FF", 'ﬁ': "FI", 'ﬂ': "FL", 'ﬃ': "FFI", 'ﬄ': "FFL", 'ﬅ': "ST", 'ﬆ': "ST"}
	titles = map[rune]string{'ß': "Ss", 'և': "Եւ", 'ﬀ': "Ff", 'ﬁ': "Fi", 'ﬂ': "Fl", 'ﬃ': "Ffi", 'ﬄ': "Ffl", 'ﬅ': "St", 'ﬆ': "St"}
)

// unknownUppers are the other characters that become several: of polytonic Greek, Armenian ligatures and rare letters.
var unknownUppers = &unicode.RangeTable{R16: []unicode.Range16{
	{0x0390, 0x0390, 1}, {0x03b0, 0x03b0, 1}, {0x1e96, 0x1e9a, 1}, {0x1f50, 0x1f56, 2}, {0x1f80, 0x1faf, 1}, {0x1fb2, 0x1fb4, 1},
	{0x1fb6, 0x1fb7, 1}, {0x1fbc, 0x1fbc, 1}, {0x1fc2, 0x1fc4, 1}, {0x1fc6, 0x1fc7, 1}, {0x1fcc, 0x1fcc, 1}, {0x1fd2, 0x1fd3, 1},
	{0x1fd6, 0x1fd7, 1}, {0x1fe2, 0x1fe4, 1}, {0x1fe6, 0x1fe7, 1}, {0x1ff2, 0x1ff4, 1}, {0x1ff6, 0x1ff7, 1}, {0x1ffc, 0x1ffc, 1}, {0xfb13, 0xfb17, 1},
}}

// otherDigits are those that Python's isdigit accepts in addition to decimal digits.
var otherDigits = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00b2, 0x00b3, 1}, {0x00b9, 0x00b9, 1}, {0x1369, 0x1371, 1}, {0x19da, 0x19da, 1}, {0x2070, 0x2070, 1}, {0x2074, 0x2079, 1}, {0x2080, 0x2089, 1},
		{0x2460, 0x2468, 1}, {0x2474, 0x247c, 1}, {0x2488, 0x2490, 1}, {0x24ea, 0x24ea, 1}, {0x24f5, 0x24fd, 1}, {0x24ff, 0x24ff, 1},
		{0x2776, 0x277e, 1}, {0x2780, 0x2788, 1}, {0x278a, 0x2792, 1},
	},
	R32: []unicode.Range32{{0x10a40, 0x10a43, 1}, {0x10e60, 0x10e68, 1}, {0x11052, 0x1105a, 1}, {0x1f100, 0x1f10a, 1}},
}

func upper(s string) string {
	return inCase(s, func(_ []rune, i int, r rune) string { return upperOf(r) })
}

func upperOf(r rune) string {
	if s, ok := uppers[r]; ok {
		return s
	}
	failIf(unicode.Is(unknownUppers, r), "there is no capital of %q here", r)
	return string(unicode.ToUpper(r))
}

// titleOf is r at the beginning of a word.
func titleOf(r rune) string {
	if s, ok := titles[r]; ok {
		return s
	}
	if _, ok := uppers[r]; ok || unicode.Is(unknownUppers, r) {
		return upperOf(r)
	}
	return string(unicode.ToTitle(r))
}

func lower(s string) string { return inCase(s, lowerOf) }

// lowerOf is all[i], which is r. The Greek sigma differs at the end of a word.
func lowerOf(all []rune, i int, r rune) string {
	switch {
	case r == 'İ':
		return "i̇"
	case r == 'Σ' && i > 0 && unicode.IsLetter(all[i-1]) && (i+1 == len(all) || !unicode.IsLetter(all[i+1])):
		return "ς"
	}
	return string(unicode.ToLower(r))
}

// inCase converts each character.
func inCase(s string, to func(all []rune, i int, r rune) string) string {
	all := []rune(s)
	var b strings.Builder
	for i, r := range all {
		if r < 0x80 {
			r = []rune(to(all, i, r))[0]
			b.WriteByte(byte(r))
			continue
		}
		b.WriteString(to(all, i, r))
	}
	return b.String()
}

// caseFold is lower for comparisons.
func caseFold(s string) string {
	return strings.NewReplacer("ß", "ss", "ẞ", "ss", "ς", "σ", "ſ", "s", "ŉ", "ʼn", "ﬁ", "fi", "ﬂ", "fl", "ﬀ", "ff").Replace(strings.ToLower(s))
}

func swapCase(s string) string {
	return inCase(s, func(all []rune, i int, r rune) string {
		if unicode.IsUpper(r) {
			return lowerOf(all, i, r)
		}
		return upperOf(r)
	})
}

// pythonTitle is the method title, for which everything but a letter ends a word. Jinja's filter of that name differs.
func pythonTitle(s string) string {
	return inCase(s, func(all []rune, i int, r rune) string {
		if i > 0 && isCased(all[i-1]) {
			return lowerOf(all, i, r)
		}
		return titleOf(r)
	})
}

func isCased(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) }

func isLower(s string) bool {
	return strings.ContainsFunc(s, unicode.IsLower) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsTitle(r) })
}

func isUpper(s string) bool {
	return strings.ContainsFunc(s, unicode.IsUpper) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLower(r) || unicode.IsTitle(r) })
}
