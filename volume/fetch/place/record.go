package place

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// record says what a run has published. Everyone who can read the directory can read it.
type record struct {
	Format int             `json:"initbox"` // of this file
	Fetch  json.RawMessage `json:"fetch"`   // the caller's

	Directory   bool   `json:"directory,omitempty"`
	Replace     bool   `json:"replace,omitempty"`
	NoOverwrite bool   `json:"noOverwrite,omitempty"`
	Key         string `json:"key,omitempty"`

	Names []byte `json:"names"` // separated by zero bytes: JSON cannot have all names
	Seal  string `json:"seal,omitempty"`
}

const (
	recordFormat = 1
	longest      = 256 << 20
)

// file returns the name of the record in base.
func (r *record) file(prefix string) string {
	if r.Directory && !r.Replace {
		return prefix + "-" + r.Key + ".json"
	}
	return prefix + ".json"
}

func (r *record) names() []string {
	if len(r.Names) == 0 {
		return nil
	}
	return strings.Split(string(r.Names), "\x00")
}

// newRecord returns the record of what is published now.
func (p *Place) newRecord(fetch json.RawMessage) *record {
	return &record{
		Format: recordFormat, Fetch: fetch,
		Directory: p.o.Directory, Replace: p.o.Directory && p.o.Replace, NoOverwrite: p.o.NoOverwrite, Key: p.o.Key,
	}
}

// readRecord reads the record in a directory, or returns nil.
func readRecord(dir dirfd.Dir, name string) *record {
	fd, err := dirfd.OpenFD(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer fd.Close()
	content, err := io.ReadAll(io.LimitReader(fd, longest))
	r := new(record)
	if err != nil || json.Unmarshal(content, r) != nil || r.Format != recordFormat || r.Fetch == nil {
		return nil
	}
	return r
}

// readRecord returns the record of an earlier run with the same options and the same Key, unless something has changed
// since.
func (p *Place) readRecord() *record {
	r := readRecord(p.base, p.newRecord(nil).file(p.prefix))
	if r == nil || r.Seal == "" || r.Key != p.o.Key || r.Directory != p.o.Directory || r.Replace != (p.o.Directory && p.o.Replace) {
		return nil
	}
	seal, err := p.seal(r)
	if err != nil || seal != r.Seal {
		return nil
	}
	return r
}

// seal returns a digest of what was published, by which a later run sees whether that has changed: the sizes, the
// modification times and the executable bits of files, and the targets of links. It has neither groups, nor other
// permissions, nor the times of inodes, which the kubelet changes at each mount of a volume with fsGroup.
func (p *Place) seal(r *record) (string, error) {
	root := dirfd.Dir(p.parent)
	if r.Directory {
		directory, err := dirfd.OpenFD(p.parent, p.name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return "", err
		}
		defer directory.Close()
		root = directory
	}
	names := r.names()
	if r.Replace {
		all, err := list(root, p.keeps)
		if err != nil || !slices.Equal(all, names) {
			return "", errors.Join(err, errors.New("other files"))
		}
	}
	h := sha256.New()
	edited := r.NoOverwrite // files that are not overwritten may be edited, but not be lost
	at := &dirfd.Descent{Root: root}
	defer at.Close()
	for _, name := range names {
		if err := sealOne(h, at, name, edited); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sealOne adds a file to a seal.
func sealOne(h io.Writer, at *dirfd.Descent, name string, edited bool) error {
	in, base, err := at.Parent(name)
	if err != nil {
		return err
	}
	s, err := dirfd.Lstat(in, base)
	if err != nil {
		return err
	}
	kind, detail := s.Mode&unix.S_IFMT, ""
	switch {
	case edited && kind != unix.S_IFDIR:
		kind = unix.S_IFREG
	case kind == unix.S_IFREG:
		detail = fmt.Sprint(s.Size, s.Mtim, s.Mode&0o100)
	case kind == unix.S_IFLNK:
		if detail, err = dirfd.Readlink(in, base); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(h, "%s\x00%d\x00%s\x00", name, kind, detail)
	return err
}

func (p *Place) writeRecord(r *record) error {
	content, err := json.Marshal(r)
	if err == nil {
		err = p.writeFile(p.base, r.file(p.prefix), content)
	}
	if err != nil {
		return p.failed("write the record of", err)
	}
	p.record = r
	return nil
}
