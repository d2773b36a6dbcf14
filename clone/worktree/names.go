package worktree

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

var (
	errNoName     = errors.New("it is not the name of a file")
	errRepository = errors.New("some file systems treat it as .git")
	errModules    = errors.New("it is a symbolic link, which .gitmodules must not be")
)

// checkName refuses the names that Git refuses (verify_path in its read-cache.c, with core.protectHFS and
// core.protectNTFS, whatever the file system is: the volume may be shared with others). Names that only Windows does
// not take, such as aux.go, are fine.
func checkName(name string, mode filemode.FileMode) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return errNoName
	}
	if isHFSName(name, ".git") {
		return errRepository
	}
	link := mode == filemode.Symlink
	if link && isHFSName(name, ".gitmodules") {
		return errModules
	}
	for part := range strings.SplitSeq(name, `\`) { // NTFS's slash
		if isNTFSRepository(part) {
			return errRepository
		}
		if link && isNTFSModules(part) {
			return errModules
		}
	}
	return nil
}

// isHFSName returns whether HFS+ treats name as equal to wanted, which is in lower case: it
// ignores case and some code points.
func isHFSName(name, wanted string) bool {
	for len(name) > 0 {
		r, size := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && size == 1 {
			return wanted == "" // like Git, which ends the name there
		}
		name = name[size:]
		if isIgnoredByHFS(r) {
			continue
		}
		if r >= utf8.RuneSelf || wanted == "" || unicode.ToLower(r) != rune(wanted[0]) {
			return false
		}
		wanted = wanted[1:]
	}
	return wanted == ""
}

// isIgnoredByHFS is next_hfs_char of Git's utf8.c.
func isIgnoredByHFS(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}

// isNTFSRepository reports whether NTFS takes name for .git (is_ntfs_dotgit of Git's path.c): in any case, by its short
// name, with dots and spaces or a stream after it.
func isNTFSRepository(name string) bool {
	for _, known := range [...]string{".git", "git~1"} {
		if hasPrefixFold(name, known) && endsOnNTFS(name[len(known):]) {
			return true
		}
	}
	return false
}

// isNTFSModules does the same for .gitmodules (is_ntfs_dot_generic).
func isNTFSModules(name string) bool {
	const long, short, fallback = ".gitmodules", "gitmod~", "gi7eba"
	if hasPrefixFold(name, long) {
		return endsOnNTFS(name[len(long):])
	}
	if hasPrefixFold(name, short) && len(name) > len(short) && name[len(short)] >= '1' && name[len(short)] <= '4' {
		return endsOnNTFS(name[len(short)+1:])
	}
	if len(name) < 8 {
		return false
	}
	// The name that NTFS gives where the one above is taken: hexadecimal digits
	// of a hash instead of letters, then ~ and a number, eight characters in all.
	tilde := strings.IndexByte(name[:8], '~')
	if tilde < 0 || tilde > 6 || !strings.EqualFold(name[:tilde], fallback[:tilde]) || name[tilde+1] < '1' || name[tilde+1] > '9' {
		return false
	}
	for _, c := range []byte(name[tilde+1 : 8]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return endsOnNTFS(name[8:])
}

// endsOnNTFS reports whether NTFS leaves out the rest of a name.
func endsOnNTFS(rest string) bool {
	rest = strings.TrimLeft(rest, ". ")
	return rest == "" || rest[0] == ':'
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
