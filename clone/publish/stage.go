package publish

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"initbox/internal/failure"
)

// Stage is a directory in which the new tree is made, on the same file system as the directory
// that is replaced. Other users cannot enter it.
type Stage struct {
	Path string // of the stage, for files that are not part of the tree
	Tree string // path of the directory that becomes the tree, empty at first
	Git  string // path of the directory that becomes Options.GitDir, if that is set

	name  string
	dir   *os.File
	tree  *os.File
	git   *Stage
	temps atomic.Int64
}

const (
	idLength  = 12
	treeName  = "tree"
	readyName = "marker" // the marker, until it becomes visible
	linkName  = "link"   // the link, until it becomes visible
)

// Stage makes a directory for the new tree, at most once for each Open. It fails if it is
// already known that the new tree could not be published.
func (t *Target) Stage() (*Stage, error) {
	if t.denied != nil {
		return nil, t.denied
	}
	if t.stage != nil {
		return nil, errors.New("there is a stage already")
	}
	if t.deep != "" {
		return nil, refuse("%s is mounted in %s, whose content is to be replaced", t.deep, t.options.Dir)
	}
	s, err := t.makeStage()
	if err != nil {
		return nil, explain("make a directory beside "+t.options.Dir, err)
	}
	if t.git != nil {
		if s.git, err = t.git.Stage(); err != nil {
			return nil, err
		}
		s.Git = s.git.Tree
	}
	return s, nil
}

func (t *Target) makeStage() (*Stage, error) {
	s := &Stage{name: t.prefix + "-" + strings.ToLower(rand.Text()[:idLength])}
	var err error
	if s.dir, err = makeDir(t.base, s.name, 0o700); err != nil {
		return nil, err
	}
	t.stage = s // for Close
	if s.tree, err = makeDir(s.dir, treeName, t.options.Access.Directory()); err != nil {
		return nil, err
	}
	if o := t.options.Access.Owner; o != nil && !t.inside() {
		if err = s.tree.Chown(o.UID, o.GID); err == nil {
			err = s.tree.Chmod(t.options.Access.Directory()) // chown may clear the setgid bit
		}
		if err != nil {
			return nil, fmt.Errorf("change its owner to user %d, group %d: %w", o.UID, o.GID, err)
		}
	}
	s.Path = filepath.Join(t.base.Name(), s.name)
	// A user who may write to the parent directory may give the name of the stage to another directory.
	if own := fmt.Sprintf("/proc/self/fd/%d", s.dir.Fd()); isSame(s.dir, own) {
		s.Path = own
	}
	s.Tree = filepath.Join(s.Path, treeName)
	return s, nil
}

// Named returns err with the names that files of the stage will have in the directory, instead of those that they have
// until then, such as /proc/self/fd/7/tree/file.
func (t *Target) Named(err error) error {
	if err == nil || t.stage == nil {
		return err
	}
	var pairs []string
	for s, o := t.stage, t.options; s != nil; s, o.Dir, o.Link = s.git, o.GitDir, "" {
		pairs = append(pairs, s.Tree, o.linkPath(), s.Path+"/", filepath.Join(filepath.Dir(o.Dir), s.name)+"/")
	}
	names := strings.NewReplacer(pairs...)
	f := failure.Of(err)
	text, note := names.Replace(f.Text), names.Replace(f.Note)
	if text == f.Text && note == f.Note {
		return err
	}
	f.Text, f.Note, f.Err = text, note, err
	return f
}

// Temp creates a file in the stage, outside the tree, for reading and writing. The caller closes it, and renames it
// into the tree, links it there or removes it. A file that remains is removed with the stage.
func (s *Stage) Temp() (*os.File, error) {
	name := "temp-" + strconv.FormatInt(s.temps.Add(1), 10)
	return openAt(s.dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
}

func (s *Stage) close() {
	if s.tree != nil {
		s.tree.Close()
	}
	if s.dir != nil {
		s.dir.Close()
	}
}

// isSame returns whether path names the directory.
func isSame(dir *os.File, path string) bool {
	there, err := os.Stat(path)
	here, failed := dir.Stat()
	return err == nil && failed == nil && os.SameFile(there, here)
}
