package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

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

// FormatList returns the content of the file for these names.
func FormatList(names []string) []byte {
	b := []byte(listHeader)
	for _, name := range names {
		b = append(strconv.AppendQuote(b, name), '\n')
	}
	return b
}
