package gotemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"
	"unicode/utf8"

	"initbox/render/engine"
)

// unit is a text that is parsed: a file, a partial, or the argument of tpl.
type unit struct {
	name, text  string
	right       string             // the delimiter that ends an action
	given       *site              // the call of tpl
	number      int64              // of the unit among those of a run; the file's is 0
	main        *parse.Tree        // nil if the text has only definitions
	definitions []*parse.Tree      // by define and block
	sites       []*site            // by the number that the tree has
	bodies      map[string][]*site // of each template, in the order of its text
	functions   []string           // the names of those it calls
	unsteady    []string           // likewise
	callsTpl    bool               // whose texts may call any
	mutates     bool               // may change a map
	composes    bool               // includes others or uses tpl
}

// parse reads a text and prepares it for execution.
func (e *goEngine) parse(name, text string, number int64) (*unit, error) {
	left, right := "{{", "}}"
	if len(e.options.Delims) == 2 {
		left, right = e.options.Delims[0], e.options.Delims[1]
	}
	u := &unit{name: name, text: text, right: right, number: number, bodies: map[string][]*site{}}
	if int64(len(text)) > e.options.Limits.Bytes {
		return nil, &engine.Error{Position: engine.Position{File: name}, Text: fmt.Sprintf("the template is longer than %d bytes", e.options.Limits.Bytes)}
	}
	if at := deepBlocks(text, left, right); at >= 0 {
		return nil, &engine.Error{Position: u.position(at), Text: fmt.Sprintf("blocks are nested deeper than %d", maxBlocks)}
	}
	tree, trees := parse.New(name), map[string]*parse.Tree{}
	tree.Mode = parse.SkipFuncCheck // rewrite reports the position too
	if _, err := tree.Parse(text, left, right, trees); err != nil {
		return nil, u.syntaxError(err, left)
	}
	for _, t := range slices.SortedFunc(maps.Values(trees), func(a, b *parse.Tree) int { return int(a.Root.Pos - b.Root.Pos) }) {
		if t == tree {
			u.main = t
		} else {
			u.definitions = append(u.definitions, t)
		}
		if err := u.rewrite(e, t); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// maxBlocks bounds the recursion of the parser, and of functions that walk its tree: a stack overflow ends the process.
const maxBlocks = 10_000

// deepBlocks returns where the blocks are nested too deeply, or -1.
func deepBlocks(text, left, right string) int {
	if strings.Count(text, left) <= maxBlocks {
		return -1
	}
	var open []int // how deep each block that is open is, with its {{else if}}s
	depth, at := 0, 0
	for {
		i := strings.Index(text[at:], left)
		if i < 0 {
			return -1
		}
		at += i + len(left)
		first, second, length := tag(text[at:], right)
		at += length
		switch first {
		case "if", "range", "with", "block", "define":
			depth++
			open = append(open, 1)
		case "else":
			if len(open) > 0 && (second == "if" || second == "with") {
				depth++
				open[len(open)-1]++
			}
		case "end":
			if len(open) > 0 {
				depth -= open[len(open)-1]
				open = open[:len(open)-1]
			}
		}
		if depth > maxBlocks {
			return at
		}
	}
}

// tag returns the first two words of an action, or "" for a comment, and the
// action's length up to its right delimiter, as text/template's lexer sees it.
func tag(text, right string) (first, second string, length int) {
	const blanks = " \t\r\n"
	rest := text
	if len(rest) > 1 && rest[0] == '-' && strings.IndexByte(blanks, rest[1]) >= 0 {
		rest = rest[2:]
	}
	if strings.HasPrefix(rest, "/*") {
		if i := strings.Index(rest, "*/"); i >= 0 {
			return "", "", len(text) - len(rest) + i
		}
		return "", "", len(text)
	}
	word := func() string {
		rest = strings.TrimLeft(rest, blanks)
		n := strings.IndexFunc(rest, func(r rune) bool { return r < 'a' || r > 'z' })
		if n < 0 {
			n = len(rest)
		}
		w := rest[:n]
		rest = rest[n:]
		return w
	}
	first, second = word(), word()
	for rest != "" && !strings.HasPrefix(rest, right) {
		rest = rest[literal(rest):]
	}
	return first, second, len(text) - len(rest)
}

// literal returns the length of the quoted text that begins here, or 1.
func literal(text string) int {
	quote := text[0]
	if quote != '"' && quote != '\'' && quote != '`' {
		return 1
	}
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return i + 1
		case text[i] == '\\' && quote != '`':
			i++
		}
	}
	return len(text)
}

// position returns the place of a byte of the text.
func (u *unit) position(at int) engine.Position {
	before := u.text[:min(max(at, 0), len(u.text))]
	return engine.Position{
		File:   u.name,
		Line:   1 + strings.Count(before, "\n"),
		Column: 1 + utf8.RuneCountInString(before[1+strings.LastIndexByte(before, '\n'):]),
	}
}
