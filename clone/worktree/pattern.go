package worktree

import (
	"strings"

	"initbox/clone/wildmatch"
)

// pattern is a line in the form of gitignore(5).
type pattern struct {
	glob        string // without the parts that the other fields record
	negated     bool   // had "!" before it
	directories bool   // had "/" after it: matches directories alone
	rooted      bool   // had another "/": matches paths, not names
}

// parsePattern reads a line (parse_path_pattern of Git's dir.c), or returns false if it is empty or a comment.
func parsePattern(line string) (p pattern, ok bool) {
	line = trimSpaces(strings.TrimSuffix(line, "\r"))
	if line == "" || line[0] == '#' {
		return p, false
	}
	line, p.negated = strings.CutPrefix(line, "!")
	line, p.directories = strings.CutSuffix(line, "/")
	p.rooted = strings.Contains(line, "/")
	p.glob = strings.TrimPrefix(line, "/")
	return p, p.glob != "" || p.rooted
}

// trimSpaces removes trailing spaces, except an escaped one.
func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	slashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if slashes%2 == 1 && len(trimmed) < len(line) {
		return line[:len(trimmed)+1]
	}
	return trimmed
}

// matches returns whether the pattern matches a path, which ends in base.
func (p *pattern) matches(path, base string, directory bool) bool {
	if p.directories && !directory {
		return false
	}
	if p.rooted {
		return wildmatch.Match(p.glob, path, true)
	}
	return wildmatch.Match(p.glob, base, false)
}
