package atomicfile

import (
	"errors"
	"os"
	"testing"

	"initbox/internal/mounts"
	"initbox/test/servers"
)

// In a volume, a link with the name of the file is replaced, and one on the way to it is an error. The image's links,
// outside any volume, are followed, and so are all of them with Follow.
func TestLinksInAVolume(t *testing.T) {
	vol, outside := servers.Volume(t)
	write := func(w Writer, name string) error { return w.Write(name, []byte("new"), 0o644) }
	link := func(target, name string) {
		t.Helper()
		os.Remove(name)
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(name); string(got) != want || want != "" && err != nil {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
	secret := outside + "/secret"
	old := func() {
		t.Helper()
		if err := os.WriteFile(secret, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	old()
	link(secret, vol+"/file")
	if err := write(Writer{}, vol+"/file"); err != nil {
		t.Fatal(err)
	}
	holds(secret, "old")
	holds(vol+"/file", "new")
	if stat, err := os.Lstat(vol + "/file"); err != nil || !stat.Mode().IsRegular() {
		t.Errorf("%v, %v, want a file instead of the link", stat, err)
	}

	link(outside+"/none", vol+"/dangling")
	if err := write(Writer{}, vol+"/dangling"); err != nil {
		t.Fatal(err)
	}
	holds(vol+"/dangling", "new")
	holds(outside+"/none", "")

	link(outside, vol+"/dir")
	var refused *mounts.LinkError
	if err := write(Writer{}, vol+"/dir/secret"); !errors.As(err, &refused) || refused.Link != vol+"/dir" {
		t.Errorf("%v, want that the link is refused", err)
	}
	if err := (Writer{}).Link(vol+"/dir/link", "secret"); !errors.As(err, &refused) {
		t.Errorf("%v, want that the link is refused", err)
	}
	holds(secret, "old")

	for _, name := range []string{vol + "/again", vol + "/dir/secret"} {
		old()
		link(secret, vol+"/again")
		if err := write(Writer{Follow: true}, name); err != nil {
			t.Fatal(err)
		}
		holds(secret, "new")
	}

	old()
	link("secret", outside+"/image")
	if err := write(Writer{}, outside+"/image"); err != nil {
		t.Fatal(err)
	}
	holds(secret, "new")
	if _, err := os.Readlink(outside + "/image"); err != nil {
		t.Errorf("the image's link was replaced: %v", err)
	}
}
