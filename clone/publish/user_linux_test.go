package publish

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// Any user may be the one that clones, if the directory can be written to.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string) error
		fails   string
	}{
		"emptyDir": {func(t *testing.T, dir string) error {
			servers.Tmpfs(t, dir, "size=10m,mode=0777")
			return nil
		}, ""},
		"writable directory in a read-only one": {func(t *testing.T, dir string) error { return makeWith(dir, 0o777) }, ""},
		"another user's in /tmp": {func(t *testing.T, dir string) error {
			return cmp.Or(makeWith(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o777|os.ModeSticky))
		}, ""},
		"missing":              {func(t *testing.T, dir string) error { return nil }, "permission denied"},
		"not to be written to": {func(t *testing.T, dir string) error { return makeWith(dir, 0o755) }, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			os.Chmod(filepath.Dir(top), 0o755)
			dir := filepath.Join(top, "app")
			if err := c.prepare(t, dir); err != nil {
				t.Fatal(err)
			}
			for _, generation := range []string{"1", "2"} {
				run := func(o Options) (*exec.Cmd, error) {
					cmd := command(o, generation, true, "")
					cmd.Env = append(cmd.Env, "PUBLISH_UID=1000")
					return cmd, cmd.Run()
				}
				cmd, err := run(Options{Dir: dir})
				if c.fails != "" {
					linked, failed := run(Options{Dir: dir, Link: "current"})
					for cmd, err := range map[*exec.Cmd]error{cmd: err, linked: failed} {
						if out := cmd.Stdout.(*bytes.Buffer).String(); err == nil || !strings.Contains(out, c.fails) {
							t.Errorf("error %v, %q, want %q", err, out, c.fails)
						}
					}
					continue
				}
				if err != nil {
					t.Fatalf("%v: %s", err, cmd.Stdout)
				}
				if g, err := wholeGeneration(dir, true); err != nil || g != generation {
					t.Errorf("generation %q, %v", g, err)
				}
				if got := current(t, Options{Dir: dir}); got != hashOf(generation) {
					t.Errorf("current %q", got)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(top, ".*")); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}

// With Access.GroupWrite, several users of a group clone into one directory that the first has made, and each removes
// the other's old trees.
func TestGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	top := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chown(top, 0, 2000), os.Chmod(top, 0o775|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{
		{Dir: filepath.Join(top, "a", "app")},
		{Dir: filepath.Join(top, "b", "app"), Link: "current"},
		{Dir: filepath.Join(top, "c", "app"), Link: filepath.Join(top, "links", "current")},
	} {
		for i, generation := range []string{"1", "2", "1"} {
			cmd := command(o, generation, true, "")
			cmd.Env = append(cmd.Env, fmt.Sprintf("PUBLISH_UID=%d", 1000+i%2), "PUBLISH_GROUP=2000")
			if err := cmd.Run(); err != nil {
				t.Fatalf("%+v, generation %s: %v: %s", o, generation, err, cmd.Stdout)
			}
			if got := current(t, o); got != hashOf(generation) {
				t.Errorf("%+v: %s instead of generation %s", o, got, generation)
			}
			if trees, _ := filepath.Glob(filepath.Join(o.Dir, worktrees, "[0-9]*")); o.Link != "" && len(trees) != 1 {
				t.Errorf("%+v, generation %s: trees %q", o, generation, trees)
			}
		}
	}
}

// A marker that cannot be given to the owner of the tree is an error, and not published.
func TestMarkerOwnerIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	top := t.TempDir()
	os.Chmod(filepath.Dir(top), 0o755)
	dir := filepath.Join(top, "app")
	if err := makeWith(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := command(Options{Dir: dir}, "1", true, "")
	cmd.Env = append(cmd.Env, "PUBLISH_UID=1000", "PUBLISH_OWNER=0")
	if err := cmd.Run(); err == nil || !strings.Contains(cmd.Stdout.(*bytes.Buffer).String(), "initbox.json") {
		t.Errorf("error %v, %s", err, cmd.Stdout)
	}
	requireTree(t, dir, tree{})
}

// A tree that cannot be written to the disk is not published.
func TestUnsynced(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "app")}
	target := open(t, o)
	defer target.Close()
	s, err := target.Stage()
	if err != nil {
		t.Fatal(err)
	}
	s.dir.Close() // so that syncfs(2) and fsync(2) fail
	if err := target.sync(s); err == nil {
		t.Error("the error is lost")
	}
}

func makeWith(dir string, mode os.FileMode) error {
	return cmp.Or(os.Mkdir(dir, 0o755), os.Chmod(dir, mode))
}
