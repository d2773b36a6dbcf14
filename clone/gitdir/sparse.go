package gitdir

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// sparse writes info/sparse-checkout, which says which files are in the work tree (git-sparse-checkout(1)).
func (w *writer) sparse(o Options) {
	lines := o.Sparse
	if o.Cone {
		lines = cone(o.Sparse)
	}
	for _, line := range lines {
		if strings.ContainsAny(line, "\n\r\x00") {
			w.check(fmt.Errorf("the sparse pattern %q contains control characters", line))
			return
		}
	}
	w.file("info/sparse-checkout", []byte(strings.Join(lines, "\n")+"\n"))
}

// cone returns the patterns of cone mode for directories: everything in a directory, and only the files in its parents.
// See git-sparse-checkout(1), "INTERNALS - CONE PATTERN SET".
func cone(directories []string) []string {
	whole, parents := make(map[string]bool), make(map[string]bool)
	for _, f := range directories {
		if f = path.Clean("/" + f); f == "/" {
			return []string{"/*"} // all of it
		}
		whole[f] = true
	}
	for f := range whole {
		for f = path.Dir(f); f != "/"; f = path.Dir(f) {
			parents[f] = true
		}
	}
	lines := []string{"/*", "!/*/"}
	for _, f := range slices.Sorted(maps.Keys(parents)) {
		if !within(whole, f) {
			lines = append(lines, escapePattern(f)+"/", "!"+escapePattern(f)+"/*/")
		}
	}
	for _, f := range slices.Sorted(maps.Keys(whole)) {
		if !within(whole, path.Dir(f)) {
			lines = append(lines, escapePattern(f)+"/")
		}
	}
	return lines
}

// within reports whether f or one of its parents is in the set.
func within(set map[string]bool, f string) bool {
	for ; f != "/"; f = path.Dir(f) {
		if set[f] {
			return true
		}
	}
	return false
}

func escapePattern(f string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(f)
}
