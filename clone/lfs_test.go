package clone_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"initbox/clone"
	"initbox/test/servers"
)

// TestLFS compares with the result of git-lfs, for a repository on this machine.
func TestLFS(t *testing.T) {
	t.Parallel()
	servers.Need(t, "git-lfs")
	dir := t.TempDir()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	install := []string{"-c", "filter.lfs.clean=git-lfs clean -- %f", "-c", "filter.lfs.smudge=git-lfs smudge -- %f", "-c", "filter.lfs.required=true"}
	noise := make([]byte, 6<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(noise)
	put(t, origin, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	put(t, origin, "large.bin", string(noise))
	put(t, origin, "models/small.bin", "small, but of Git LFS")
	put(t, origin, "models/empty.bin", "")
	put(t, origin, "pointer.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:"+"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nsize 12\n")
	git(t, origin, append(install, "add", "-A")...)
	git(t, origin, append(install, "commit", "-q", "-m", "large files")...) // commit would add the files again, and without the filter

	want, got := filepath.Join(dir, "want"), filepath.Join(dir, "got")
	git(t, dir, append(install, "clone", "-q", "--depth", "1", "file://"+origin, want)...)
	o := clone.Options{URL: "file://" + origin, Dir: got, Depth: 1, LFS: true}
	result, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	sameTree(t, got, want)
	if result.Bytes < int64(len(noise)) {
		t.Errorf("%d bytes received, which is not all", result.Bytes)
	}
	if again, err := run(t, o); err != nil || again.Changed {
		t.Errorf("again: changed %t, %v", again.Changed, err)
	}

	// Without --lfs the pointers stay.
	o.LFS = false
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	sound(t, got)
}
