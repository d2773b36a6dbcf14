package gitdir

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"initbox/clone/gitconfig"
	"initbox/internal/failure"
)

// Module is an entry of .gitmodules (gitmodules(5)). Its content is not trusted.
type Module struct {
	Name    string // of the directory in .git/modules; may have slashes
	Path    string // of the directory in the tree
	URL     string // may be relative to that of the repository: ./ or ../
	Branch  string // for git submodule update --remote
	Shallow bool   // recommended by the repository
	Update  string // "none" not to clone it; other values say how git updates it

	// Err says why this submodule cannot be cloned, though others can. Git, too, reports it only when it reaches the
	// submodule.
	Err error
}

// Modules are submodules in the order in which .gitmodules first mentions them.
type Modules []Module

// Select returns the submodules at these paths, which are the entries of the tree with mode 160000, in the same order.
// It omits those that are not to be cloned (update = none).
func (m Modules) Select(paths []string) (Modules, error) {
	byPath := make(map[string]Module, len(m))
	for _, module := range m {
		byPath[module.Path] = module // of several, git uses the last
	}
	var selected Modules
	names := make(map[string]bool)
	for _, p := range paths {
		module, ok := byPath[p]
		switch {
		case !ok:
			return nil, fmt.Errorf("the submodule at %s is not in .gitmodules", quote(p))
		case module.Err != nil:
			return nil, module.Err
		case module.Update != "none":
			selected = append(selected, module)
			names[module.Name] = true
		}
	}
	for _, module := range selected {
		for outer := path.Dir(module.Name); outer != "."; outer = path.Dir(outer) {
			if names[outer] {
				return nil, module.errorf("its repository would be inside that of the submodule %s", quote(outer))
			}
		}
	}
	return selected, nil
}

// Dir returns the directory of the submodule's repository, relative to the .git of its parent.
func (m Module) Dir() string { return "modules/" + m.Name }

const (
	maxModules     = 100_000  // of .gitmodules; the largest known has 25 000
	maxModulesFile = 16 << 20 // bytes
)

// ParseModules parses the content of .gitmodules. It records errors of a submodule in its Err, and returns errors of
// the file.
func ParseModules(content []byte) (Modules, error) {
	if len(content) > maxModulesFile {
		return nil, fmt.Errorf("read .gitmodules: larger than %d bytes", maxModulesFile)
	}
	var modules Modules
	index := make(map[string]int)
	for e, err := range gitconfig.Parse(content) {
		if err != nil {
			return nil, fmt.Errorf("read .gitmodules: %w", err)
		}
		if e.Section != "submodule" || e.Subsection == "" {
			continue
		}
		i, known := index[e.Subsection]
		if !known {
			if i = len(modules); i == maxModules {
				return nil, fmt.Errorf("read .gitmodules: more than %d submodules", maxModules)
			}
			index[e.Subsection] = i
			modules = append(modules, Module{Name: e.Subsection})
		}
		modules[i].set(e)
	}
	for i := range modules {
		modules[i].Err = modules[i].check()
	}
	return modules, nil
}

func (m *Module) set(e gitconfig.Entry) {
	switch e.Key {
	case "path":
		m.Path = e.Value
	case "url":
		m.URL = e.Value
	case "branch":
		m.Branch = e.Value
	case "shallow":
		m.Shallow = e.Bare || isTrue(e.Value)
	case "update":
		m.Update = e.Value
	}
}

func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}

// check refuses what git refuses (CVE-2018-11235, CVE-2018-17456, CVE-2019-19604), and names that are invalid on some
// file systems.
func (m Module) check() error {
	switch {
	case hasControl(m.Name) || hasControl(m.Path) || hasControl(m.URL) || hasControl(m.Branch):
		return m.errorf("control characters in .gitmodules")
	case !isRelative(m.Name) || len(m.Name) > 1<<10 || strings.HasPrefix(m.Name, "-"):
		return m.errorf("its name leads out of .git/modules, or is not a valid directory name")
	case m.Path == "":
		return m.errorf("it has no path in .gitmodules")
	case !isRelative(m.Path) || strings.HasPrefix(m.Path, "-"):
		return m.errorf("its path leads out of the repository, or is invalid")
	case m.URL == "":
		return m.errorf("it has no URL in .gitmodules")
	case strings.HasPrefix(m.URL, "-"):
		return m.errorf("its URL looks like an option")
	case strings.HasPrefix(m.Update, "!"):
		return m.errorf("it would run a command when it is updated")
	}
	return nil
}

func (m Module) errorf(format string, args ...any) error {
	return errors.New("the submodule " + quote(m.Name) + ": " + fmt.Sprintf(format, args...))
}

func quote(text string) string { return `"` + failure.Printable(text) + `"` }

// isRelative reports whether the name is a harmless relative path: without empty parts, ., .. and .git, also as the
// file systems of other operating systems interpret them.
func isRelative(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		plain := strings.TrimRight(part, ". ")
		if plain == "" || strings.EqualFold(plain, ".git") || len(part) > 255 || strings.ContainsRune(part, '\\') {
			return false
		}
	}
	return true
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
