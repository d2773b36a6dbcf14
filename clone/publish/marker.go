package publish

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"initbox/clone/access"
	"initbox/internal/dirfd"
)

// record is the content of a marker file.
type record struct {
	Format int `json:"initbox"` // of this file
	Marker
	Seal seal  `json:"seal"`
	Git  *seal `json:"git,omitempty"` // of GitDir

	file    *os.File // the marker that was read; the caller closes it
	checked int64    // when the content was known to be right, ns since 1970, see checkInodes
}

const (
	recordFormat = 1
	gitName      = ".git"
	gitMarker    = "initbox.json"
	longestMark  = 1 << 20
)

// hasGit returns whether a tree has a .git directory, which then holds its marker.
func hasGit(tree *os.File) bool {
	s, err := dirfd.Lstat(tree, gitName)
	return err == nil && dirfd.IsDir(s)
}

// openGitDir opens the .git of a tree: in the tree, or GitDir.
func (t *Target) openGitDir(tree *os.File) (*os.File, error) {
	if t.git != nil {
		return openDir(t.git.base, t.git.name)
	}
	return openDir(tree, gitName)
}

// changed returns how the directory differs from what was published, or "".
func (t *Target) changed(r *record, tree *os.File) (string, error) {
	now, reason, err := r.Seal.difference(tree, whole, t.keeps)
	if reason == "" && err == nil {
		reason, err = t.checkInodes(r, tree, now)
	}
	if reason != "" || err != nil || t.git == nil {
		return reason, err
	}
	if r.Git == nil {
		return "its .git is elsewhere", nil
	}
	git, err := t.openGitDir(tree)
	if err != nil {
		return "", err
	}
	defer git.Close()
	_, reason, err = r.Git.difference(git, repository, t.git.keeps)
	return reason, err
}

// outerMarker returns the name, in the base directory, of a marker outside the tree.
func (t *Target) outerMarker(hash string) string {
	if t.link() {
		return "." + hash + t.prefix + markerSuffix
	}
	return t.prefix + markerSuffix
}

// readMarker reads the marker of a tree, and leaves it open. Without one the error is fs.ErrNotExist.
func (t *Target) readMarker(tree *os.File, hash string) (r *record, err error) {
	dir, name := t.base, t.outerMarker(hash)
	if t.git != nil || hasGit(tree) {
		git, err := t.openGitDir(tree)
		if err != nil {
			return nil, err
		}
		defer git.Close()
		dir, name = git, gitMarker
	}
	f, err := openAt(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if stat, err := f.Stat(); err != nil || !stat.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, fmt.Errorf("%s is not a regular file", f.Name()))
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, longestMark+1))
	if err != nil {
		return nil, err
	}
	r = &record{file: f, checked: stat.ModTime().UnixNano()}
	if len(content) > longestMark || json.Unmarshal(content, r) != nil || r.Format != recordFormat {
		return nil, errors.New("its marker has the format of another version")
	}
	return r, nil
}

// writeMarker writes the marker of a staged tree: into its .git, with which it becomes
// visible, or beside the tree. It returns whether it is beside the tree.
func (s *Stage) writeMarker(r *record, owner *access.Owner) (outer bool, err error) {
	content, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	if len(content) > longestMark {
		return false, fmt.Errorf("the marker has %d bytes; the limit is %d", len(content), longestMark)
	}
	dir, name := s.dir, readyName
	if s.git != nil {
		dir, name = s.git.tree, gitMarker
	} else if outer = !hasGit(s.tree); !outer {
		git, err := openDir(s.tree, gitName)
		if err != nil {
			return false, err
		}
		defer git.Close()
		dir, name = git, gitMarker
	}
	f, err := openAt(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return outer, err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644) // whatever the umask: everyone who may read the tree may read it
	}
	if err == nil && owner != nil {
		err = f.Chown(owner.UID, owner.GID)
	}
	return outer, errors.Join(err, f.Close())
}
