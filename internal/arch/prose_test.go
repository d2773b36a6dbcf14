package arch_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// proseWidth is the column at which prose in Markdown is wrapped.
const proseWidth = 120

// phrases are what a technical editor would write otherwise. A pattern matches whole words, in upper or lower case.
var phrases = []struct{ pattern, instead string }{
	{`what it is of`, "name the thing that it belongs to"},
	{`who asks|who is asking`, "the client, the caller; credentials"},
	{`(is|are|was) none|that is none`, "there is no …, is not a …"},
	{`nobody|no one's|somebody|someone's|anybody`, "name the subject: no server, no client, another process"},
	{`whoever|whomever`, "the client, the user, any process that …"},
	{`who one is|who it is`, "the identity, the login"},
	{`as of`, "as in, since, from"},
	{`anew`, "again; newly created"},
	{`tak(e|es|en|ing) away|takes it away|took away`, "deregister, remove, delete"},
	{`(stands?|is) there twice`, "duplicate, appears twice"},
	{`what proves( who| to)?`, "credentials"},
	{`proves? nothing`, "is not conclusive, does not show that …"},
	{`for ever`, "forever, without limit"},
	{`mend(s|ed|ing)?`, "fix, repair"},
	{`that which|those which`, "what, the one that"},
	{`is that of the|are those of the`, "is the same as the …'s, belongs to the …"},
	{`in the midst`, "in the middle of, during"},
	{`but not who`, "name what is unknown: the identity"},
	{`whom to`, "which server"},
	{`has to be told|is told with|nothing is told|unless told`, "set, configured, logged"},
	{`he|him|his`, "they, or name the program"},
	{`what (speaks|spoke) against`, "the drawback of …"},
	{`not a comfort`, "say the consequence"},
	{`thereof|therein|hitherto|wherefore`, "a plain sentence"},
	{`stays so|stay so`, "a permanent error; retrying cannot help"},
	{`will do`, "is enough, counts, works"},
	{`lets? (it|him|her|nobody|the user|everyone|somebody) in`, "accepts the login"},
	{`calls? (itself|themselves)`, "reports that it is"},
	{`give or take`, "±, about"},
	{`(is|are|was|were|be) of before`, "predates"},
	{`without end`, "endlessly"},
	{`any ?more`, "no longer"},
	{`as \S+( \S+){0,3} (has|have) it`, "as X does, as defined by X"},
	{`in the words of`, "as X reports it"},
	{`talks? without end|does not stop talking`, "sends an endless answer"},
	{`begins? the conversation`, "starts the handshake"},
	{`bring(s|ing)? (it|him) back`, "restore, register it again"},
	{`(are|is|were|was) thought of as`, "usually …"},
	{`is to have`, "should have, is expected to have"},
	{`reckon(s|ed|ing)?`, "take into account, expect"},
	{`(is|are) another matter`, "differs: say how"},
	{`but for`, "except, without"},
	{`put in the place of|takes? the place of|in the place of`, "replaces, instead of"},
	{`as far as (they|it) (can|may) be`, "where possible"},
	{`what (is|are) still want(ed|ing)|still wants?`, "is missing, still needs"},
	{`of (nobody|somebody|whoever)`, "name the owner"},
	{`want(s|ed)? (root|a registry|a login|a password)`, "needs, requires"},
	{`whatever (becomes|became) of`, "regardless of, even if … fails"},
	{`taken? for (done|ready|success|granted|one)`, "treated as, counts as"},
}

// cleanDirs are the directories whose Go files, with those below, have none of the phrases. It grows until it is the
// whole repository.
var cleanDirs = []string{"internal/arch"}

// TestPhrases pins that phrases which were edited out of pages, comments and messages do not come back.
func TestPhrases(t *testing.T) {
	patterns := make([]*regexp.Regexp, len(phrases))
	for i, p := range phrases {
		patterns[i] = regexp.MustCompile(`(?i)\b(?:` + p.pattern + `)\b`)
	}
	check := func(path string, line int, text string) {
		for i, pattern := range patterns {
			if found := pattern.FindString(text); found != "" {
				t.Errorf("%s:%d: %s → %s", path, line, found, phrases[i].instead)
			}
		}
	}
	for _, path := range sources(t, ".md") {
		for i, line := range strings.Split(prose(string(readSource(t, path))), "\n") {
			check(path, i+1, line)
		}
	}
	for _, path := range sources(t, ".go") {
		clean := slices.ContainsFunc(cleanDirs, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
		if clean && path != "internal/arch/prose_test.go" {
			eachText(readSource(t, path), func(line int, text string) { check(path, line, text) })
		}
	}
}

// TestProseIsWrapped pins that lines of prose in Markdown end at column 120. What cannot be wrapped may be longer:
// tables, code, headings, comments, definitions of links, and a line that is one word, such as a URL.
func TestProseIsWrapped(t *testing.T) {
	exempt := regexp.MustCompile(`^\s*(\||#|<|!\[|\[[^\]]*\]:|([-*>] +|\d+\. +)?\S+$)`)
	for _, path := range sources(t, ".md") {
		blank := withoutFences(string(readSource(t, path)))
		for i, line := range strings.Split(blank, "\n") {
			if n := utf8.RuneCountInString(line); n > proseWidth && !exempt.MatchString(line) {
				t.Errorf("%s:%d: %d columns of prose: wrap at %d", path, i+1, n, proseWidth)
			}
		}
	}
}

// sources returns the paths, from the root of the module, of the files with the extension ext.
func sources(t *testing.T, ext string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ext:
			return nil
		}
		rel, err := filepath.Rel(root, path)
		paths = append(paths, filepath.ToSlash(rel))
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files %s: %v", len(paths), ext, err)
	}
	return paths
}

var codeSpan = regexp.MustCompile("`[^`\n]*`")

// prose returns a page without its code, line for line: that quotes what programs print and read.
func prose(page string) string {
	return codeSpan.ReplaceAllString(withoutFences(page), "")
}

// withoutFences returns a page with empty lines where its blocks of code are.
func withoutFences(page string) string {
	lines := strings.Split(page, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || fenced {
			lines[i] = ""
		}
		if fence {
			fenced = !fenced
		}
	}
	return strings.Join(lines, "\n")
}

// eachText calls f for each line of the comments and string literals of a Go file.
func eachText(src []byte, f func(line int, text string)) {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return
		case token.COMMENT, token.STRING:
			for i, line := range strings.Split(text, "\n") {
				f(file.Line(pos)+i, line)
			}
		}
	}
}
