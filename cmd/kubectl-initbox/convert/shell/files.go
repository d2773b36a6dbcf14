package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// filesLoop returns the statements that do what a loop over the files of a pattern does, if it adds each of them to
// one file, or to a store of certificates: cat of all, and what adds a line break after each, or keytool with the
// pattern as -file and as -alias, which no other call has. Other loops over files have none.
func (p *parser) filesLoop(clause *syntax.ForClause, iter *syntax.WordIter) (list []*syntax.Stmt) {
	if len(iter.Items) != 1 || p.functions["cat"] != nil || p.functions["echo"] != nil || p.functions["keytool"] != nil {
		return nil
	}
	name := regexp.QuoteMeta(iter.Name.Value)
	file := `("\$` + name + `"|"\$\{` + name + `\}"|\$` + name + `|\$\{` + name + `\})`
	guard := regexp.MustCompile(`^(\[ -[efrs] ` + file + ` \]|test -[efrs] ` + file + `) \|\| continue;?$`)
	fileOnly := regexp.MustCompile(`^` + file + `$`)
	cat := regexp.MustCompile(`^cat ` + file + ` >>`)
	alias := regexp.MustCompile(`^"?[\w-]*(` + file + `|\$\(basename ` + file + `( "?\.\w+"?)?\)|\$\{` + name + `##\*/\})"?$`)
	target := ""
	for _, s := range clause.Do {
		text := source(s)
		call, _ := s.Cmd.(*syntax.CallExpr)
		adds := call != nil && !s.Background && len(s.Redirs) == 1 && s.Redirs[0].Op == syntax.AppOut && s.Redirs[0].N == nil
		switch {
		case guard.MatchString(text) && len(list) == 0: // cat of what a pattern matches is the same
		case strings.HasPrefix(text, "echo ") && call != nil && len(s.Redirs) == 0 && !strings.ContainsAny(text, "`&") && !strings.Contains(text, "$("): // to the log
		case adds && cat.MatchString(text) && len(list) == 0:
			target = source(s.Redirs[0].Word)
			list = append(list, &syntax.Stmt{Position: s.Position, Redirs: s.Redirs, Cmd: &syntax.CallExpr{Args: []*syntax.Word{call.Args[0], iter.Items[0]}}})
		case call != nil && len(call.Args) > 0 && len(call.Assigns) == 0 && !s.Negated && !s.Background && len(list) == 0 && strings.HasSuffix(strings.Trim(source(call.Args[0]), `"`), "keytool"):
			words := slices.Clone(call.Args)
			for i, w := range words[1:] {
				if before := source(words[i]); before == "-file" && fileOnly.MatchString(source(w)) || before == "-alias" && alias.MatchString(source(w)) {
					words[i+1] = iter.Items[0]
				}
			}
			list = append(list, &syntax.Stmt{Position: s.Position, Redirs: s.Redirs, Cmd: &syntax.CallExpr{Args: words}})
		case adds && target != "" && source(s.Redirs[0].Word) == target && (strings.HasPrefix(text, "echo >>") || strings.HasPrefix(text, `echo "" >>`) || strings.HasPrefix(text, `echo '' >>`)):
			list = append(list, s)
		default:
			return nil
		}
	}
	return list
}

// source returns a node as it is written, in one line.
func source(n syntax.Node) string {
	var b strings.Builder
	if syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n) != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}
