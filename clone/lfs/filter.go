package lfs

import (
	"strings"

	"initbox/clone/gitconfig"
	"initbox/clone/wildmatch"
	"initbox/internal/failure"
)

// Filter says of which files .lfsconfig wants the pointers replaced:
// lfs.fetchinclude and lfs.fetchexclude (git-lfs-fetch(1), INCLUDE AND EXCLUDE).
// The zero value wants all.
type Filter struct{ include, exclude []string }

// ReadFilter reads the content of .lfsconfig; nil is none.
func ReadFilter(config []byte) (Filter, error) {
	var f Filter
	for e, err := range gitconfig.Parse(config) {
		if err != nil {
			return Filter{}, badConfig(err)
		}
		switch {
		case e.Section != "lfs" || e.Subsection != "":
		case e.Key == "fetchinclude":
			f.include = patterns(e.Value)
		case e.Key == "fetchexclude":
			f.exclude = patterns(e.Value)
		}
	}
	return f, nil
}

func badConfig(err error) error {
	f := failure.New(failure.Unexpected, "read %s of the repository: %v", ConfigFile, err)
	return permanent(f, "correct the file in the repository, or do without --lfs")
}

// patterns splits a list at its commas.
func patterns(list string) (found []string) {
	for pattern := range strings.SplitSeq(list, ",") {
		if pattern = strings.TrimSpace(pattern); pattern != "" {
			found = append(found, pattern)
		}
	}
	return found
}

// Wants reports whether the pointer at a path is to be replaced.
func (f Filter) Wants(path string) bool {
	return (len(f.include) == 0 || matchesAny(f.include, path)) && !matchesAny(f.exclude, path)
}

// matchesAny reports whether a pattern is of the file or of a folder that it is in.
func matchesAny(patterns []string, path string) bool {
	for _, pattern := range patterns {
		for end := range len(path) + 1 {
			if end < len(path) && path[end] != '/' {
				continue
			}
			if matchesOne(pattern, path[:end]) {
				return true
			}
		}
	}
	return false
}

// matchesOne matches as in .gitignore, but knows no negation, and a slash at the
// end says nothing.
func matchesOne(pattern, path string) bool {
	pattern = strings.TrimSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	return wildmatch.Match(strings.TrimPrefix(pattern, "/"), path, true)
}
