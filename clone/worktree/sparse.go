package worktree

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"initbox/internal/failure"
)

// Sparse selects the part of a tree that is placed, as git sparse-checkout does. A nil Sparse selects all of it.
type Sparse struct {
	// Cone mode: paths of directories with a slash before them, and "" for the top.
	whole  map[string]bool // with their whole content
	partly map[string]bool // only with the files in them, because a whole one is below

	patterns []pattern // the other mode, if whole is nil
	lines    []string  // that they came from
}

// Cone places whole directories, and the files (not the directories) in their parents and at the top.
func Cone(directories []string) (*Sparse, error) {
	s := &Sparse{whole: make(map[string]bool), partly: map[string]bool{"": true}}
	for _, f := range directories {
		clean := path.Clean("/" + f)
		if strings.Contains("/"+f+"/", "/../") || strings.ContainsAny(f, "\n\x00") {
			return nil, fmt.Errorf("%s is not a directory of a tree", failure.Printable(f))
		}
		if clean == "/" {
			continue // its files are always placed
		}
		s.whole[clean] = true
		for up := path.Dir(clean); up != "/"; up = path.Dir(up) {
			s.partly[up] = true
		}
	}
	return s, nil
}

// Patterns selects by lines in the form of gitignore(5). The last line that matches a path decides: with "!" it is left
// out, otherwise placed. A path that no line matches is treated like its directory.
func Patterns(lines []string) (*Sparse, error) {
	s := &Sparse{lines: lines}
	for _, line := range lines {
		if strings.ContainsAny(line, "\n\x00") {
			return nil, fmt.Errorf("%s is not a pattern: it has a line break or a NUL", failure.Printable(line))
		}
		if p, ok := parsePattern(line); ok {
			s.patterns = append(s.patterns, p)
		}
	}
	return s, nil
}

// File returns the equivalent content of Git's file info/sparse-checkout.
func (s *Sparse) File() string {
	if s.whole == nil {
		return strings.Join(s.lines, "\n") + "\n"
	}
	var b strings.Builder
	b.WriteString("/*\n!/*/\n")
	for _, f := range slices.Sorted(maps.Keys(s.partly)) {
		if f != "" && !s.inWhole(f) {
			fmt.Fprintf(&b, "%[1]s/\n!%[1]s/*/\n", escape(f))
		}
	}
	for _, f := range slices.Sorted(maps.Keys(s.whole)) {
		if !s.inWhole(path.Dir(f)) {
			fmt.Fprintf(&b, "%s/\n", escape(f))
		}
	}
	return b.String()
}

// escape returns a pattern that matches only that path.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// inWhole returns whether a directory, or one of its parents, is placed whole.
func (s *Sparse) inWhole(f string) bool {
	for ; f != "/" && f != ""; f = path.Dir(f) {
		if s.whole[f] {
			return true
		}
	}
	return false
}

// verdict says whether a path is placed: a file, or the entries of a directory unless their own paths decide otherwise.
type verdict uint8

const (
	none      verdict = 0 // not placed, but entries of the directory may be
	all       verdict = 1 // placed, but entries of the directory may not be
	noneBelow verdict = 2 // nothing in the directory is placed
	allBelow  verdict = 3 // everything in the directory is placed
)

func (v verdict) placed() bool { return v == all || v == allBelow }
func (v verdict) final() bool  { return v >= noneBelow }

// top returns the verdict on the top of the tree.
func (s *Sparse) top() verdict {
	switch {
	case s == nil:
		return allBelow
	case s.whole != nil:
		return all // the files there
	}
	return none
}

// verdict judges a path from the top of the tree, without a leading slash. in is the verdict on its directory.
func (s *Sparse) verdict(path string, mode filemode.FileMode, in verdict) verdict {
	if in.final() {
		return in
	}
	if s.whole != nil {
		switch path = "/" + path; {
		case s.whole[path]:
			return allBelow
		case mode != filemode.Dir || s.partly[path]: // submodules count as files
			return all
		}
		return noneBelow
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	for _, p := range slices.Backward(s.patterns) {
		if p.matches(path, base, mode == filemode.Dir) { // Git treats a submodule as a directory only once it is cloned
			if p.negated {
				return none
			}
			return all
		}
	}
	return in
}
