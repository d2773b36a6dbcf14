package prepare

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"initbox/internal/lazy"
	"initbox/internal/perm"
	"initbox/internal/setting"
)

// Settings are those of a path. Each is also a flag of the same name.
var Settings = setting.List{
	{Name: "file", Usage: "make an empty file, unless the file exists; its content is left alone", Excludes: []string{"absent", "empty", "link", "dir-mode", "recursive", "children", "exclude", "name", "older-than"}},
	{Name: "absent", Value: "file", Optional: true, Usage: "remove it, whatever it is; absent=file: unless it is a directory", Excludes: []string{"empty", "link", "owner", "mode", "dir-mode", "file-mode", "selinux", "recursive", "children", "exclude", "name", "older-than"}},
	{Name: "empty", Usage: "remove what is in the directory, except lost+found, .snapshot and mount points; with name, exclude and older-than only what they say", Excludes: []string{"link", "children"}},
	{Name: "any-kind", Usage: "a file or a directory, which must exist: owner and mode of what is there", Excludes: []string{"file", "absent", "empty", "link"}},
	{Name: "link", Value: "TARGET", Usage: "make a symbolic link, or give it another target", Excludes: []string{"mode", "dir-mode", "file-mode", "recursive", "children", "exclude", "name", "older-than", "if-exists"}},

	{Name: "owner", Value: "UID[:GID]", Usage: "owner: " + perm.OwnerUsage},
	{Name: "mode", Value: "MODE", Usage: "mode, octal or as in u+rwX,go-rwx"},
	{Name: "dir-mode", Value: "MODE", Usage: "mode of directories, instead of mode"},
	{Name: "file-mode", Value: "MODE", Usage: "mode of files, instead of mode"},
	{Name: "selinux", Value: "LABEL", Usage: "SELinux label, as in system_u:object_r:container_file_t:s0"},

	{Name: "recursive", Value: "on-root-mismatch", Optional: true, Usage: "change what is below, too; on-root-mismatch: only if the directory itself is not right yet", Excludes: []string{"children"}},
	{Name: "children", Usage: "change what is below, but not the directory itself"},
	{Name: "exclude", Value: "PATTERN", Multi: true, Usage: "leave out what has this name, at any depth, and what is below it"},
	{Name: "name", Value: "PATTERN", Multi: true, Usage: "only what is below and has this name"},
	{Name: "older-than", Value: "DURATION", Needs: "empty", Usage: "only files that were written longer ago; 0: all files, and no directories"},
	{Name: "if-exists", Usage: "do nothing if it does not exist"},
	{Name: "ignore-errors", Usage: "warn of what fails, and go on"},
}

// Kind is what a path should be.
type Kind int

// The kinds. Directory is the default; Empty is a Directory with nothing in it.
const (
	Directory Kind = iota
	File
	Absent
	Empty
	Link
)

// Path is a path, and what it should be.
type Path struct {
	Path   string   // as it is written
	Paths  []string // what that stands for: {1..9} in it are the numbers from 1 to 9
	Kind   Kind
	Target string // of a Link
	// AnyKind says that the path may be of any kind, and is not made.
	AnyKind bool
	// OnlyFile says that what is to be Absent may be a directory, and then stays.
	OnlyFile bool

	Owner                   perm.Owner // {-1, -1} leaves it
	Mode, DirMode, FileMode perm.Mode  // the zero Mode leaves it; the latter two win
	Label                   string     // of SELinux; "" leaves it

	Recursive      bool // what is below is changed, too
	OnRootMismatch bool // but only if the directory itself is not right
	Children       bool // what is below is changed, and not the directory itself
	Exclude, Names []string
	OnlyFiles      bool // of an Empty directory: what is in it and no directory is removed
	OlderThan      time.Duration
	IfExists       bool
	IgnoreErrors   bool // a failure is a warning
}

// unchanged is the owner that leaves the owner as it is.
var unchanged = perm.Owner{UID: -1, GID: -1}

// Parse reads a path with its settings, as in /data#owner=999&recursive. A setting in flags holds unless the path has
// or contradicts it.
func Parse(text string, flags setting.Settings) (Path, error) {
	name, s, err := Settings.Argument(text, flags)
	if err != nil {
		return Path{}, err
	}
	p := Path{
		Path: name, Target: s.Get("link"), Owner: unchanged, Label: s.Get("selinux"),
		Recursive: s.On("recursive"), OnRootMismatch: s.Get("recursive") != "", Children: s.On("children"),
		Exclude: s["exclude"], Names: s["name"], IfExists: s.On("if-exists"),
		AnyKind: s.On("any-kind"), OnlyFiles: s.On("older-than"), OnlyFile: s.Get("absent") != "", IgnoreErrors: s.On("ignore-errors"),
	}
	for name, kind := range map[string]Kind{"file": File, "absent": Absent, "empty": Empty, "link": Link} {
		if s.On(name) {
			p.Kind = kind
		}
	}
	if s.On("owner") {
		if p.Owner, err = perm.ParseOwner(s.Get("owner")); err != nil {
			return Path{}, fmt.Errorf("owner=%s: %w", s.Get("owner"), err)
		}
	}
	for _, mode := range []struct {
		name string
		of   *perm.Mode
	}{{"mode", &p.Mode}, {"dir-mode", &p.DirMode}, {"file-mode", &p.FileMode}} {
		if s.On(mode.name) {
			if *mode.of, err = perm.ParseMode(s.Get(mode.name)); err != nil {
				return Path{}, fmt.Errorf("%s=%s: %w", mode.name, s.Get(mode.name), err)
			}
		}
	}
	for _, glob := range slices.Concat(p.Exclude, p.Names) {
		if _, err := path.Match(glob, ""); err != nil {
			return Path{}, fmt.Errorf("name or exclude: %q is not a pattern such as *.key", glob)
		}
	}
	if p.OlderThan, err = s.Duration("older-than", 0); err != nil {
		return Path{}, err
	}
	if p.Paths, err = expand(p.Path); err != nil {
		return Path{}, err
	}
	return p, p.check(s)
}

// check refuses settings that have no meaning together.
func (p Path) check(s setting.Settings) error {
	policy, err := s.OneOf("recursive", "", "on-root-mismatch")
	_, errAbsent := s.OneOf("absent", "", "file")
	switch below := p.Recursive || p.Children || p.Kind == Empty; {
	case err != nil, errAbsent != nil:
		return cmp.Or(err, errAbsent)
	case policy != "" && len(p.Names) > 0:
		return errors.New("recursive=on-root-mismatch looks at the directory itself, which name leaves out: they are mutually exclusive")
	case policy != "" && !p.FileMode.IsZero() && p.Mode.IsZero() && p.DirMode.IsZero() && p.Owner == unchanged && p.Label == "":
		return errors.New("recursive=on-root-mismatch looks at the directory itself, which file-mode alone does not change: add owner or dir-mode")
	case !below && len(p.Names) > 0:
		return errors.New("name needs recursive, children or empty")
	case !below && len(p.Exclude) > 0:
		return errors.New("exclude needs recursive, children or empty")
	}
	return nil
}

// maxPaths is how many paths one with {1..9} may stand for.
const maxPaths = 100_000

// numbers matches {1..9}.
var numbers = lazy.Regexp(`\{(\d{1,9})\.\.(\d{1,9})\}`)

// expand returns the paths that one with {1..9} in it stands for.
func expand(path string) (paths []string, err error) {
	at := numbers().FindStringSubmatchIndex(path)
	if at == nil {
		return []string{path}, nil
	}
	digits := 1 // as in bash, {01..10} is 01, 02, …
	if path[at[2]] == '0' {
		digits = at[3] - at[2]
	}
	first, _ := strconv.Atoi(path[at[2]:at[3]])
	last, _ := strconv.Atoi(path[at[4]:at[5]])
	if last < first {
		return nil, errors.New("in {1..9}, the second number is not smaller than the first")
	}
	for n := first; n <= last; n++ {
		more, err := expand(path[:at[0]] + fmt.Sprintf("%0*d", digits, n) + path[at[1]:])
		if paths = append(paths, more...); err != nil {
			return nil, err
		}
		if len(paths) > maxPaths {
			return nil, fmt.Errorf("{1..9} stands for more than %d paths", maxPaths)
		}
	}
	return paths, nil
}
