package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// ListName is the file with the list of files that earlier runs with --prune put into a directory, be it a [Stage] or a
// run of volume/copy: one name a line, quoted as in Go. While files are being changed, the list has both the old and
// the new names, so that a kill or a power cut loses none.
const ListName = ".initbox-files"

// listHeader is a comment, as is every line that begins with #.
const listHeader = "# Files that initbox put here; --prune removes what it puts here no longer.\n"

const longestList = 64 << 20

// ReadList returns the names in the list of an open directory, sorted. A missing file is an empty list.
func ReadList(dir dirfd.Dir) ([]string, error) {
	fd, err := dirfd.OpenFD(dir, ListName, unix.O_RDONLY, 0)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(fd.Fd(), ListName)
	defer f.Close()
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("not a regular file"))
	}
	data, err := io.ReadAll(io.LimitReader(f, longestList+1))
	if err == nil && len(data) > longestList {
		err = fmt.Errorf("longer than %d bytes", longestList)
	}
	return parseList(data), err
}

// parseList returns the names, sorted. Every program that can write to the directory can write
// the list, so names that a stage refuses are ignored.
func parseList(data []byte) (names []string) {
	for line := range bytes.Lines(data) {
		name, err := strconv.Unquote(string(bytes.TrimSuffix(line, []byte("\n"))))
		if err == nil && line[0] == '"' && fs.ValidPath(name) && !ours(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func formatList(names []string) []byte {
	b := []byte(listHeader)
	for _, name := range names {
		b = append(strconv.AppendQuote(b, name), '\n')
	}
	return b
}

// ours returns whether a name is the directory itself, or a list or an area, which only a stage makes.
func ours(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ListName || strings.HasPrefix(part, areaPrefix) {
			return true
		}
	}
	return strings.ContainsRune(name, 0)
}

// Stale returns the listed files and links that exist below the open directory root and are not put again. It follows
// no links: a file behind one may be one that is not listed.
func Stale(root dirfd.Dir, list []string, put func(name string) bool) (stale []string) {
	for _, name := range list {
		if put(name) {
			continue
		}
		dir, err := dirfd.OpenBelow(root, path.Dir(name))
		if err != nil {
			continue
		}
		s, err := dirfd.Lstat(dir, path.Base(name))
		if kind := s.Mode & unix.S_IFMT; err == nil && (kind == unix.S_IFREG || kind == unix.S_IFLNK) {
			stale = append(stale, name)
		}
		dir.Close()
	}
	return stale
}

// RemoveStale removes files below root, and directories that become empty, for good: the list can forget them. It
// returns those that it removed, and those that stay because something is mounted on them. The error is an
// [*fs.PathError] with the name.
func RemoveStale(root dirfd.Dir, names []string) (removed, mounted []string, err error) {
	changed := map[string]bool{}
	for _, name := range names {
		above := path.Dir(name)
		dir, err := dirfd.OpenBelow(root, above)
		if err != nil {
			continue // removed meanwhile
		}
		err = dirfd.Remove(dir, path.Base(name))
		dir.Close()
		switch err {
		case nil:
			removed = append(removed, name)
			changed[above] = true
		case unix.EBUSY:
			mounted = append(mounted, name)
		case unix.ENOENT:
		default:
			return removed, mounted, &fs.PathError{Op: "remove", Path: name, Err: err}
		}
		for ; err == nil && above != "."; above = path.Dir(above) {
			if err = removeDir(root, above); err == nil {
				changed[path.Dir(above)] = true
			}
		}
	}
	open := func(name string) (dirfd.FD, error) { return dirfd.OpenBelow(root, name) }
	return removed, mounted, SyncDirs(slices.Collect(maps.Keys(changed)), fewFiles, open)
}

func removeDir(root dirfd.Dir, name string) error {
	above, err := dirfd.OpenBelow(root, path.Dir(name))
	if err != nil {
		return err
	}
	defer above.Close()
	return dirfd.RemoveDir(above, path.Base(name))
}

// WriteList makes the list in the open directory root hold these names, unless it does. It removes the file if there
// are none. The new file is made in a directory on the same mount that area opens.
func WriteList[D dirfd.Dir](root dirfd.Dir, names []string, area func() (D, error)) error {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if now, err := ReadList(root); err == nil && slices.Equal(now, names) {
		return nil
	}
	if err := putList(root, names, area); err != nil {
		return err
	}
	dir, err := dirfd.OpenBelow(root, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return dirfd.Sync(dir)
}

func putList[D dirfd.Dir](root dirfd.Dir, names []string, area func() (D, error)) error {
	if len(names) == 0 {
		return dirfd.Remove(root, ListName)
	}
	dir, err := area()
	if err != nil {
		return err
	}
	dirfd.Remove(dir, ListName) // one that was not put in place
	f, err := dirfd.OpenFD(dir, ListName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(formatList(names))
	if err := errors.Join(err, f.Chmod(0o644), dirfd.Fsync(f), f.Close()); err != nil {
		return err
	}
	return dirfd.Rename(dir, ListName, root, ListName)
}
