package publish

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"initbox/clone/object"
	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/words"
)

// A program that writes to a file can put back its modification time, but not the time of its inode (ctime). The
// kubelet changes the inodes of all files at each mount of a volume with fsGroup, though, so a changed inode only means
// that the content has to be looked at. Up to which time that is known to be right is remembered as the modification
// time of the marker: that of its publication, or of the newest inode whose content was found to be right.

// checkInodes returns how the content of a tree differs from what was published, if an inode has changed since, or "".
func (t *Target) checkInodes(r *record, tree *os.File, now *walk) (string, error) {
	if r.Content == "" || now.inode <= r.checked {
		return "", nil
	}
	t.log.Info(fmt.Sprintf("%s: comparing the content of %s: their inodes have changed, as by chmod or for fsGroup", t.options.Dir, words.Plural(now.sum.Files, "file")))
	w := &walk{root: tree, skip: t.keeps, content: new(object.Content)}
	if err := w.run(whole); err != nil {
		if errors.Is(err, unix.EACCES) {
			return "", nil // of another user: only what can be read is compared
		}
		return "", err
	}
	if w.content.String() != r.Content {
		return fmt.Sprintf("a file was written, and its time put back, perhaps %s", failure.Printable(now.changed)), nil
	}
	if t.lock.Held() {
		r.remember(time.Unix(0, now.inode))
	}
	return "", nil
}

// stamp remembers that the content is right, after a publication: a file that is moved gets a newer inode time than its
// marker.
func (t *Target) stamp() {
	tree, hash, err := t.openTree()
	if err != nil {
		return
	}
	defer tree.Close()
	if r, err := t.readMarker(tree, hash); err == nil {
		r.remember(time.Now())
		r.file.Close()
	}
}

// remember sets the modification time of the marker. It is not an error if that is not permitted: the next run compares
// the content again.
func (r *record) remember(until time.Time) {
	_ = os.Chtimes(fmt.Sprintf("/proc/self/fd/%d", r.file.Fd()), time.Time{}, until)
}

// hash adds a file outside .git to the digest of the content.
func (r *reader) hash(dir dirfd.FD, name string, size int64) error {
	if name == gitName || r.at.part != whole || r.at.path == gitName || strings.HasPrefix(r.at.path, gitName+"/") {
		return nil
	}
	fd, err := dirfd.OpenFD(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer fd.Close()
	blob := object.NewBlob(size)
	if r.buffer == nil {
		r.buffer = make([]byte, 128<<10)
	}
	if _, err := io.CopyBuffer(blob, fd, r.buffer); err != nil {
		return err
	}
	r.walk.mu.Lock()
	defer r.walk.mu.Unlock()
	r.walk.content.Add(below(r.at.path, name), plumbing.Hash(blob.Sum(nil)))
	return nil
}
