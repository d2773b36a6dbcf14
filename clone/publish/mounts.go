package publish

import (
	"slices"
	"strings"

	"initbox/internal/mounts"
)

// mountsBelow returns the names of the mount points directly in a directory, and the path of
// one further down, which would move with its parent directory.
func mountsBelow(points []mounts.Point, path string) (direct []string, deep string) {
	prefix := strings.TrimSuffix(path, "/") + "/"
	for _, p := range points {
		below, ok := strings.CutPrefix(p.Path, prefix)
		if !ok || below == "" {
			continue
		}
		if strings.Contains(below, "/") {
			deep = p.Path
		} else if !slices.Contains(direct, below) {
			direct = append(direct, below)
		}
	}
	// A mount point below another mount point stays with that.
	if top, _, ok := strings.Cut(strings.TrimPrefix(deep, prefix), "/"); ok && slices.Contains(direct, top) {
		deep = ""
	}
	return direct, deep
}
