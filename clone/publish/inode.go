package publish

import (
	"errors"
	"fmt"
	"io"
	"os"
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
	if r.Content == "" || now.inode.time <= r.checked {
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
		return fmt.Sprintf("a file was written, and its time put back, perhaps %s", failure.Printable(now.inode.path())), nil
	}
	if t.lock.Held() {
		r.remember(time.Unix(0, now.inode.time))
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

// hash adds a file outside .git to the digest of the content, or the directories in which there are more.
func (r *reader) hash(dir dirfd.FD, name string, kind byte) error {
	switch {
	case name == gitName && (kind != unix.DT_DIR || r.at.path == ""):
		return nil
	case kind == unix.DT_DIR:
		r.directories = append(r.directories, directory{below(r.at.path, name), whole})
		return nil
	case kind != unix.DT_REG:
		return nil
	}
	id, err := r.blob.of(dir, name)
	if err == nil {
		r.content.Add(below(r.at.path, name), id)
	}
	return err
}

// blob computes the ID that the content of a file has as a blob, of one file after another.
type blob struct{ buf []byte }

// of reads most files at once, which is a third faster than through a hash.
func (b *blob) of(dir dirfd.FD, name string) (id plumbing.Hash, err error) {
	fd, err := dirfd.OpenFD(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return id, err
	}
	defer fd.Close()
	if b.buf == nil {
		b.buf = make([]byte, object.BlobHeader+256<<10)
	}
	content := b.buf[object.BlobHeader:]
	n, err := io.ReadFull(fd, content)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return object.BlobID(b.buf[:object.BlobHeader+n]), nil
	}
	if err != nil {
		return id, err
	}
	s, err := dirfd.Stat(fd)
	if err != nil {
		return id, err
	}
	h := object.NewBlob(s.Size)
	h.Write(content)
	if _, err = io.CopyBuffer(h, fd, content); err == nil {
		h.Sum(id[:0])
	}
	return id, err
}
