package failure

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"initbox/internal/suggest"
	"initbox/internal/words"
)

// maxBeside limits the names that are read of a directory.
const maxBeside = 1000

// Beside returns what there is instead of the file that err, of package os, did not find, and the name that was
// probably meant, for the beginning of a hint. It returns "" for other errors.
func Beside(err error) string {
	var pathErr *fs.PathError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &pathErr) {
		return ""
	}
	dir, name := filepath.Split(pathErr.Path)
	dir = filepath.Clean(dir)
	f, err := os.Open(dir)
	if err != nil {
		return ""
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxBeside)                                                             // what can be read
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "..") }) // as ..data of a Secret
	slices.Sort(names)
	if len(names) == 0 {
		return Printable(dir) + " is empty: "
	}
	text := Printable(dir) + " has " + Printable(words.List(names))
	if meant := suggest.Question(name, names, ""); meant != "" {
		return text + ": " + Printable(meant)
	}
	return text + ": "
}
