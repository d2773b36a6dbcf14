package worktree

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// odd are names of which some file system takes some for others.
var odd = []string{
	".git", ".GIT", ".giT", ".git ", ".git.", ".git . .", ".git:", ".git::$INDEX_ALLOCATION", ".git...:x", ".git x", ".gitx", "git",
	"git~1", "GIT~1", "Git~1 .", "git~1:x", "git~2", "git~11", "git~",
	".g\u200cit", "\u200d.git", ".git\u200e", ".GI\u206bT", "\ufeff.git", ".g\u200bit", ".g\u0131t", ".gi\u0074\u0301", ".git\u2029", ".\u202agit\u202e", ".git\u206e",
	"..", ".", "...", ". ", ".. ", "a", "a b", "-", "aux.go", "nul", "COM1", "con:colon",
	`a\.git`, `a\.git\b`, `\.git`, `.git\`, `.git\x`, `a\git~1`, `a\..\b`, `..\a`, `a\b`, `a\.git x`, `x\.GIT.`,
	"\xff.git", ".git\xff", ".gi\xfft", "\xc0\xae.git", ".git\x7f", ".git\t", "\x01",
	".gitmodules", ".GitModules", ".gitmodules ", ".gitmodules.", ".gitmodules:x", ".gitmodulesx", ".gitmodules\u200c", ".git\u200dmodules",
	"gitmod~1", "GITMOD~4", "gitmod~5", "gitmod~1.", "gitmod~1x", "gitmod~10", "gi7eba~1", "GI7EBA~9", "gi7eb~01", "gi7eb~10", "gi7e~123", "gi~12345", "~1000000", "gi7ebx~1", "gi7eba~0", "gi7eba~1 ", "gi7eba~1x", "gi7eba",
	`x\.gitmodules`, `x\gitmod~1`, "gi7eba~", "gitmod~", "gi7e~1x3", "g~100000:x", ".gitattributes", ".gitignore", ".mailmap",
}

// TestNamesAreGits compares what is refused with what Git refuses to put into its
// index, with both of its protections on.
func TestNamesAreGits(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, nil, "init", "-q")
	id := strings.TrimSpace(git(t, dir, strings.NewReader("x"), "hash-object", "-w", "--stdin"))
	for _, mode := range []filemode.FileMode{filemode.Regular, filemode.Symlink} {
		var lines strings.Builder
		for _, name := range odd {
			lines.WriteString(mode.String()[1:] + " " + id + "\t" + name + "\x00")
		}
		git(t, dir, nil, "read-tree", "--empty")
		git(t, dir, strings.NewReader(lines.String()), "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true", "update-index", "-z", "--index-info")
		taken := strings.Split(git(t, dir, nil, "ls-files", "-z"), "\x00")
		for _, name := range odd {
			// Git 2.39 lets a backslash through at the beginning alone.
			his, ours := slices.Contains(taken, name) && name[0] != '\\', checkName(name, mode)
			if his != (ours == nil) {
				t.Errorf("%q with the mode %v: does Git take it? %t; we say %v", name, mode, his, ours)
			}
		}
	}
}

// FuzzName checks what is let through by asking otherwise: as each file system
// sees a name, none of its parts is Git's own.
func FuzzName(f *testing.F) {
	for _, name := range odd {
		f.Add(name)
	}
	ignored := strings.NewReplacer("\u200c", "", "\u200d", "", "\u200e", "", "\u200f", "", "\u202a", "", "\u202b", "", "\u202c", "", "\u202d", "", "\u202e", "",
		"\u206a", "", "\u206b", "", "\u206c", "", "\u206d", "", "\u206e", "", "\u206f", "", "\ufeff", "")
	f.Fuzz(func(t *testing.T, name string) {
		for _, mode := range []filemode.FileMode{filemode.Regular, filemode.Symlink, filemode.Dir} {
			if checkName(name, mode) != nil {
				continue
			}
			seen := []string{ignored.Replace(name)}         // HFS+
			for part := range strings.SplitSeq(name, `\`) { // NTFS
				part, _, _ = strings.Cut(part, ":")
				seen = append(seen, strings.TrimRight(part, ". "))
			}
			for _, s := range seen {
				s = strings.ToLower(s)
				if s == ".git" || s == "git~1" || mode == filemode.Symlink && (s == ".gitmodules" || s == "gitmod~1" || s == "gi7eba~1") {
					t.Errorf("%q, which is %s to some, has been let through", name, s)
				}
			}
			if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
				t.Errorf("%q has been let through", name)
			}
		}
	})
}
