package copy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/perm"
	"initbox/internal/setting"
)

// Pair is a source, its destination, and how it is copied.
type Pair struct {
	From, To string // To is a directory if it ends in a slash, is one, or From is one

	Owner         []perm.Rule[perm.Owner] // of files, links and directories; none: who runs this
	Mode, DirMode []perm.Rule[perm.Mode]  // of files and directories; none: the permission bits of the source
	Keep          Kept
	Links         string   // "keep", "follow", or "": follow in a mounted ConfigMap or Secret, and From itself
	Newest        string   // pattern: copy only the newest match in From
	ByTime        bool     // newest by modification time, not by the version in the name
	Exclude       []string // patterns of names, as in [perm.Match]
	Unless        string   // nothing is copied if this path exists

	NoOverwrite, Update, IfEmpty, Optional, Prune, Unpack bool
}

// Kept are the attributes of the source that are kept.
type Kept uint

// Kept attributes. Holes in sparse files are always kept.
const (
	KeepMode  Kept = 1 << iota // with setuid, setgid and sticky bits
	KeepOwner                  // as far as this process may set it
	KeepTimes
	KeepXattrs // extended attributes, with ACLs
	KeepLinks  // hard links among the files that are copied

	KeepAll = KeepMode | KeepOwner | KeepTimes | KeepXattrs | KeepLinks
)

var keeps = map[string]Kept{
	"": KeepAll, "all": KeepAll, "mode": KeepMode, "owner": KeepOwner, "times": KeepTimes, "xattrs": KeepXattrs, "links": KeepLinks,
}

// Settings are the settings of a pair.
var Settings = setting.List{
	{Name: "owner", Value: "[PATTERN=]UID[:GID]", Multi: true, Usage: "owner of what is copied: " + perm.OwnerUsage},
	{Name: "mode", Value: "[PATTERN=]MODE", Multi: true, Usage: "mode of files, as in 0640, u+rwX,go-rwx or '*.key=0600' (default: the permission bits of the source)"},
	{Name: "dir-mode", Value: "[PATTERN=]MODE", Multi: true, Usage: "mode of directories that are copied"},
	{Name: "keep", Value: "WHAT", Optional: true, Usage: "keep all attributes of the source, as cp -a does, or some: mode, owner, times, xattrs (with ACLs), links (hard links)"},
	{Name: "links", Value: "keep|follow", Usage: "copy symbolic links as links, or what they lead to (default: keep; in mounted ConfigMaps and Secrets, and for SRC itself, follow)"},
	{Name: "exclude", Value: "PATTERN", Multi: true, Usage: "leave out files and directories whose name matches"},
	{Name: "newest", Value: "PATTERN", Usage: "of what matches in the directory SRC, copy only the newest by the version in its name"},
	{Name: "by", Value: "name|mtime", Needs: "newest", Usage: "what makes it the newest: the version in its name, or when it was written"},
	{Name: "no-overwrite", Usage: "keep files that exist"},
	{Name: "update", Usage: "keep files that were written after those of SRC", Excludes: []string{"no-overwrite"}},
	{Name: "if-empty", Usage: "copy only into a directory that is empty or missing"},
	{Name: "unless", Value: "PATH", Usage: "copy nothing if PATH exists"},
	{Name: "optional", Usage: "SRC may be missing or empty"},
	{Name: "prune", Usage: "remove files that an earlier run with this setting copied, and that SRC no longer has"},
	{Name: "unpack", Usage: "decompress files that end in .gz or .zst, also if they are in base64, and decode those that end in .b64 or .base64"},
}

// ParsePair reads SRC:DST with settings in its fragment; flags are settings that hold where the fragment has none.
func ParsePair(text string, flags setting.Settings) (Pair, error) {
	both, s, err := Settings.Argument(text, flags)
	if err != nil {
		return Pair{}, err
	}
	from, to, found := strings.Cut(both, ":")
	if !found || from == "" || to == "" || strings.Contains(to, ":") {
		return Pair{}, errors.New("want SRC:DST, two paths joined by a colon")
	}
	p := Pair{
		From: from, To: to, Newest: s.Get("newest"), ByTime: s.Get("by") == "mtime", Exclude: s["exclude"], Unless: s.Get("unless"),
		NoOverwrite: s.On("no-overwrite"), Update: s.On("update"), IfEmpty: s.On("if-empty"), Optional: s.On("optional"), Prune: s.On("prune"), Unpack: s.On("unpack"),
	}
	_, errBy := s.OneOf("by", "name", "mtime")
	links, errLinks := s.OneOf("links", "keep", "follow")
	p.Links = links
	var errOwner, errMode, errDirMode error
	p.Owner, errOwner = perm.ParseRules("owner", s["owner"], perm.ParseOwner)
	p.Mode, errMode = perm.ParseRules("mode", s["mode"], perm.ParseMode)
	p.DirMode, errDirMode = perm.ParseRules("dir-mode", s["dir-mode"], perm.ParseMode)
	return p, cmp.Or(errBy, errLinks, errOwner, errMode, errDirMode, p.keep(s), p.patterns())
}

// keep reads the setting of that name.
func (p *Pair) keep(s setting.Settings) error {
	for _, text := range s["keep"] {
		for word := range strings.SplitSeq(text, ",") {
			kept, known := keeps[word]
			if !known {
				return fmt.Errorf("keep: want all, mode, owner, times, xattrs or links, got %q", word)
			}
			p.Keep |= kept
		}
	}
	return nil
}

func (p *Pair) patterns() error {
	for _, pattern := range append([]string{p.Newest}, p.Exclude...) {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%q: %w", pattern, err)
		}
	}
	if strings.Contains(p.Newest, "/") {
		return errors.New("newest: want the pattern of a name, without a slash")
	}
	return nil
}

// attributes are those that a file or directory should have.
type attributes struct {
	perm.Owner
	kept  bool   // the owner comes from the source, and it is no error if this process may not set it
	mode  uint32 // 07777; of a link, nothing
	times []unix.Timespec
	xattr map[string]string // to be set; others stay
}

// attributesOf returns those of a copy of a file with that stat, whose path below the destination is name.
func (p *Pair) attributesOf(s unix.Stat_t, name string) attributes {
	a := attributes{Owner: perm.Owner{UID: -1, GID: -1}, mode: uint32(s.Mode) & 0o777}
	if p.Keep&KeepOwner != 0 {
		a.Owner, a.kept = perm.Owner{UID: int(s.Uid), GID: int(s.Gid)}, true
	}
	if owner, found := perm.LastMatch(p.Owner, name); found {
		a.Owner, a.kept = owner, false
	}
	if p.Keep&KeepMode != 0 {
		a.mode = uint32(s.Mode) & 0o7777
	}
	dir, modes := s.Mode&unix.S_IFMT == unix.S_IFDIR, p.Mode
	if dir {
		modes = p.DirMode
	}
	if mode, found := perm.LastMatch(modes, name); found {
		a.mode = mode.Of(a.mode, dir)
	}
	if p.Keep&KeepTimes != 0 {
		a.times = []unix.Timespec{s.Atim, s.Mtim}
	}
	return a
}

// nameOf returns the name of what is copied from a file of that name.
func (p *Pair) nameOf(name string) string {
	if p.Unpack {
		return unpackedName(name)
	}
	return name
}

// xattrs returns the extended attributes of a source that a copy should have. The label of SELinux comes from the
// volume.
func (p *Pair) xattrs(src dirfd.FD) (map[string]string, error) {
	if p.Keep&KeepXattrs == 0 {
		return nil, nil
	}
	all, err := dirfd.Xattrs(src)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return name == "security.selinux" || strings.HasPrefix(name, "trusted.overlay.")
	})
	return all, err
}

// Check returns an error for options that exclude each other.
func (o Options) Check() error {
	for _, p := range o.Pairs {
		if o.Atomic && (p.Keep != 0 || p.Prune || p.NoOverwrite || p.Update || p.IfEmpty) {
			return errors.New("--atomic-dir and keep, prune, no-overwrite, update or if-empty are mutually exclusive: each run makes a new directory, without the files of the old one")
		}
	}
	return nil
}
