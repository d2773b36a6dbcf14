package archive

import (
	"path"
	"strings"
)

// nameOf returns the name of an entry as patterns see it, and the one that it gets, without the first directories.
// Either is empty if nothing is left. Names are bytes: whatever else Linux allows in them stays.
func (o *Options) nameOf(name string) (full, stripped string, err error) {
	switch {
	case strings.HasPrefix(name, "/"):
		return "", "", permanent("%s is an absolute path", printable(name))
	case strings.Contains(name, "\x00"):
		return "", "", permanent("%s has a zero byte in its name", printable(name))
	case len(name) > maxName:
		return "", "", permanent("%s has a name of %d bytes", printable(name), len(name))
	case strings.Contains("/"+name+"/", "/../"):
		return "", "", permanent("%s leads out of the directory, or may do so", printable(name))
	}
	if full = path.Clean(name); full == "." {
		return "", "", nil
	}
	stripped = full
	for range o.Strip {
		_, stripped, _ = strings.Cut(stripped, "/")
	}
	return full, stripped, nil
}

// selects returns whether an entry is unpacked.
func (o *Options) selects(full string) bool {
	return (len(o.Include) == 0 || matches(o.Include, full)) && !matches(o.Exclude, full)
}

// matches returns whether a pattern matches a name, or a directory that it lies in.
func matches(patterns []string, name string) bool {
	for _, pattern := range patterns {
		parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/"), "/")
		if len(parts) == 1 {
			parts = []string{"**", parts[0]}
		}
		if match(append(parts, "**"), strings.Split(name, "/")) {
			return true
		}
	}
	return false
}

// match compares a name with a pattern, part by part.
func match(pattern, name []string) bool {
	for len(pattern) > 0 && pattern[0] != "**" {
		if len(name) == 0 {
			return false
		}
		if ok, _ := path.Match(pattern[0], name[0]); !ok {
			return false
		}
		pattern, name = pattern[1:], name[1:]
	}
	if len(pattern) < 2 { // nothing, or ** at the end
		return len(pattern) == 1 || len(name) == 0
	}
	return match(pattern[1:], name) || len(name) > 0 && match(pattern, name[1:])
}
