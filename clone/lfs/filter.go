package lfs

import (
	"strings"

	"initbox/clone/gitconfig"
	"initbox/clone/wildmatch"
	"initbox/internal/failure"
)

// Filter says which pointers to replace, according to lfs.fetchinclude and lfs.fetchexclude in .lfsconfig
// (git-lfs-fetch(1), INCLUDE AND EXCLUDE). The zero value replaces all.
type Filter struct{ include, exclude []string }

// ReadFilter parses the content of .lfsconfig, which may be nil.
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
	return permanent(f, "fix the file in the repository, or omit --lfs")
}

// patterns splits a list at commas.
func patterns(list string) (found []string) {
	for pattern := range strings.SplitSeq(list, ",") {
		if pattern = strings.TrimSpace(pattern); pattern != "" {
			found = append(found, pattern)
		}
	}
	return found
}

// Wants reports whether to replace the pointer at a path.
func (f Filter) Wants(path string) bool {
	return (len(f.include) == 0 || matchesAny(f.include, path)) && !matchesAny(f.exclude, path)
}

// matchesAny reports whether a pattern matches the file or a directory that contains it.
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

// matchesOne matches as in .gitignore, but without negation, and regardless of a slash at the end.
func matchesOne(pattern, path string) bool {
	pattern = strings.TrimSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	return wildmatch.Match(strings.TrimPrefix(pattern, "/"), path, true)
}
