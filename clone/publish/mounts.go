package publish

import (
	"slices"
	"strings"

	"initbox/internal/dirfd"
)

// mountsBelow returns the names of the mounts right in a folder, and the path of
// one that is further down, which would go with its folder.
func mountsBelow(points []dirfd.MountPoint, path string) (direct []string, deep string) {
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
	// What is mounted in a mount stays with that.
	if top, _, ok := strings.Cut(strings.TrimPrefix(deep, prefix), "/"); ok && slices.Contains(direct, top) {
		deep = ""
	}
	return direct, deep
}
