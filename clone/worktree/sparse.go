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

// Sparse says which part of a tree is placed, as git sparse-checkout does. A nil
// Sparse is all of it.
type Sparse struct {
	// Cone mode: paths of folders with a slash before them, and "" for the top.
	whole  map[string]bool // with all that is in them
	partly map[string]bool // with the files in them, since a whole one is further down

	patterns []pattern // the other mode, if whole is nil
	lines    []string  // that they came from
}

// Cone places whole folders, the files (but not the folders) that are in those on
// the way there, and those at the top.
func Cone(folders []string) (*Sparse, error) {
	s := &Sparse{whole: make(map[string]bool), partly: map[string]bool{"": true}}
	for _, f := range folders {
		clean := path.Clean("/" + f)
		if strings.Contains("/"+f+"/", "/../") || strings.ContainsAny(f, "\n\x00") {
			return nil, fmt.Errorf("%s is no folder of a tree", failure.Printable(f))
		}
		if clean == "/" {
			continue // its files are placed anyway
		}
		s.whole[clean] = true
		for up := path.Dir(clean); up != "/"; up = path.Dir(up) {
			s.partly[up] = true
		}
	}
	return s, nil
}

// Patterns places what the last matching line of those says, each in the form of
// gitignore(5), where "!" leaves out; what none matches goes with its folder.
func Patterns(lines []string) (*Sparse, error) {
	s := &Sparse{lines: lines}
	for _, line := range lines {
		if strings.ContainsAny(line, "\n\x00") {
			return nil, fmt.Errorf("%s is no pattern: it has a line break or a NUL", failure.Printable(line))
		}
		if p, ok := parsePattern(line); ok {
			s.patterns = append(s.patterns, p)
		}
	}
	return s, nil
}

// File returns the content of Git's file info/sparse-checkout that means the same.
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

// escape makes a pattern that matches a path alone.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// inWhole reports whether a folder, or one that it is in, is placed whole.
func (s *Sparse) inWhole(f string) bool {
	for ; f != "/" && f != ""; f = path.Dir(f) {
		if s.whole[f] {
			return true
		}
	}
	return false
}

// verdict is what becomes of a path: of a file, or of what is in a folder unless
// its own path says otherwise.
type verdict uint8

const (
	none      verdict = 0 // not placed, but something in the folder may be
	all       verdict = 1 // placed, but something in the folder may not be
	noneBelow verdict = 2 // nothing in the folder is placed
	allBelow  verdict = 3 // all in the folder is placed
)

func (v verdict) placed() bool { return v == all || v == allBelow }
func (v verdict) final() bool  { return v >= noneBelow }

// top is the verdict on the top of the tree.
func (s *Sparse) top() verdict {
	switch {
	case s == nil:
		return allBelow
	case s.whole != nil:
		return all // the files there
	}
	return none
}

// verdict judges a path from the top of the tree, with no slash before it, whose
// folder has been judged.
func (s *Sparse) verdict(path string, mode filemode.FileMode, in verdict) verdict {
	if in.final() {
		return in
	}
	if s.whole != nil {
		switch path = "/" + path; {
		case s.whole[path]:
			return allBelow
		case mode != filemode.Dir || s.partly[path]: // submodules are files here
			return all
		}
		return noneBelow
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	for _, p := range slices.Backward(s.patterns) {
		if p.matches(path, base, mode == filemode.Dir) { // to Git a submodule is none until it is there
			if p.negated {
				return none
			}
			return all
		}
	}
	return in
}
