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
	"unicode"
	"unicode/utf8"
)

// proseWidth is the column at which prose in Markdown and comments in Go are wrapped.
const proseWidth = 120

// phrases are what a technical editor would write otherwise. A pattern is in lower case, and matches whole words in
// either case.
var phrases = []struct{ pattern, instead string }{
	{`what it is of`, "name the thing that it belongs to"},
	{`who asks|who is asking`, "the client, the caller; credentials"},
	{`(that|which|what|it|url|name|answer|header) (is|are|was) none`, "there is no …, is not a …"},
	{`nobody|no one's|somebody|someone's|anybody|everybody`, "name the subject: no server, no client, another process"},
	{`whoever|whomever`, "the client, the user, any process that …"},
	{`(for|to|by|of|with|from) who`, "the user who, the program that"},
	{`that (is|are) no`, "that is not a …"},
	{`knows? no`, "does not know, does not support"},
	{`(can|cannot|could|to) be had`, "is available, can be read"},
	{`what (came|comes|become|becomes|became) of`, "the result of, what happens to"},
	{`(is|are|was) (told|said) (of|so)`, "is documented for, is reported"},
	{`(is|are) spoken to`, "is contacted"},
	{`brings? (it|them|files|all|the \w+|a \w+)( \w+)? to the disk`, "flush, sync"},
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
	{`put in the place of|takes? the place of|in the place of`, "replaces, instead of"},
	{`as far as (they|it) (can|may) be`, "where possible"},
	{`what (is|are) still want(ed|ing)|still wants?`, "is missing, still needs"},
	{`of (nobody|somebody|whoever)`, "name the owner"},
	{`want(s|ed)? (root|a registry|a login|a password)`, "needs, requires"},
	{`whatever (becomes|became) of`, "regardless of, even if … fails"},
	{`last words`, "the end of its output or log"},
	{`(is|are) left to chance`, "is fixed, is reproducible"},
	{`in another way than`, "differently from"},
	{`taken? for (done|ready|success|granted|one)`, "treated as, counts as"},
}

// TestPhrases pins that phrases which were edited out of pages, comments and messages do not come back.
func TestPhrases(t *testing.T) {
	patterns := make([]string, len(phrases))
	for i, p := range phrases {
		patterns[i] = p.pattern
	}
	any := phrase(strings.Join(patterns, "|"))
	for _, path := range sources(t, `\.(md|go|sh|ya?ml|txtar)$|(^|/)(Makefile|Dockerfile|run|kubectl)$`) {
		if path == "internal/arch/prose_test.go" {
			continue
		}
		text := strings.ToLower(proseOf(path, readSource(t, path)))
		if !any.MatchString(text) { // ten times as fast as one after the other
			continue
		}
		for _, p := range phrases {
			for _, at := range phrase(p.pattern).FindAllStringIndex(text, -1) {
				found := strings.Join(strings.FieldsFunc(text[at[0]:at[1]], notInWord), " ")
				t.Errorf("%s:%d: %s → %s", path, 1+strings.Count(text[:at[0]], "\n"), found, p.instead)
			}
		}
	}
}

// phrase compiles a pattern of phrases. A phrase may go on in the next line, which starts with // or # in a comment.
func phrase(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`\b(?:` + strings.ReplaceAll(pattern, " ", `[\s/#]+`) + `)\b`)
}

func notInWord(r rune) bool { return unicode.IsSpace(r) || r == '/' || r == '#' }

// proseOf returns what is prose in a file, line for line. In scripts and manifests, it is everything.
func proseOf(path string, content []byte) string {
	switch filepath.Ext(path) {
	case ".md":
		return prose(string(content))
	case ".go":
		return goProse(content)
	}
	return string(content)
}

// TestProseIsWrapped pins that lines of prose in Markdown end at column 120. What cannot be wrapped may be longer:
// tables, code, headings, comments, definitions of links, and a line that is one word, such as a URL.
func TestProseIsWrapped(t *testing.T) {
	exempt := regexp.MustCompile(`^\s*(\||#|<|!\[|\[[^\]]*\]:|([-*>] +|\d+\. +)?\S+$)`)
	for _, path := range sources(t, `\.md$`) {
		blank := withoutFences(string(readSource(t, path)))
		for i, line := range strings.Split(blank, "\n") {
			if n := utf8.RuneCountInString(line); n > proseWidth && !exempt.MatchString(line) {
				t.Errorf("%s:%d: %d columns of prose: wrap at %d", path, i+1, n, proseWidth)
			}
		}
	}
}

// TestCommentsAreWrapped pins that lines of comments in Go end at column 120, unless they are one word, such as a URL.
// Comments behind code, preformatted text and what an example prints may be longer.
func TestCommentsAreWrapped(t *testing.T) {
	words := regexp.MustCompile(`^\s*// \S+\s`)
	for _, path := range sources(t, `\.go$`) {
		output := false
		for i, line := range strings.Split(string(readSource(t, path)), "\n") {
			comment := strings.HasPrefix(strings.TrimSpace(line), "//")
			output = comment && (output || strings.Contains(line, "// Output:"))
			if n := utf8.RuneCountInString(line); n > proseWidth && words.MatchString(line) && !output {
				t.Errorf("%s:%d: %d columns of comment: wrap at %d", path, i+1, n, proseWidth)
			}
		}
	}
}

// sources returns the paths, from the root of the module, of the files whose path matches pattern.
func sources(t *testing.T, pattern string) (paths []string) {
	t.Helper()
	matching := regexp.MustCompile(pattern)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "peers", "fuzz"}, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if rel = filepath.ToSlash(rel); matching.MatchString(rel) {
			paths = append(paths, rel)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files match %s: %v", len(paths), pattern, err)
	}
	return paths
}

var codeSpan = regexp.MustCompile("`[^`\n]*`")

// code takes the place of code in a text: no phrase goes on across it.
const code = "\x00"

// prose returns a page without its code, line for line: that quotes what programs print and read.
func prose(page string) string {
	return codeSpan.ReplaceAllString(withoutFences(page), code)
}

// withoutFences returns a page without its blocks of code, line for line.
func withoutFences(page string) string {
	lines := strings.Split(page, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || fenced {
			lines[i] = code
		}
		if fence {
			fenced = !fenced
		}
	}
	return strings.Join(lines, "\n")
}

// goProse returns the comments and strings of a Go file, line for line.
func goProse(src []byte) string {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	var text strings.Builder
	line := 1
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return text.String()
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // the end of a line, not code
		}
		for ; line < file.Line(pos); line++ {
			text.WriteByte('\n')
		}
		if tok != token.COMMENT && tok != token.STRING {
			if strings.HasSuffix(text.String(), code) {
				continue
			}
			literal = code
		}
		text.WriteString(literal)
		line += strings.Count(literal, "\n")
	}
}
