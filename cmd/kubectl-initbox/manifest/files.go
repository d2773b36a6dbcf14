package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/lazy"
)

// maxFile is far above what helm template prints, in bytes, and far below what a wrong path would fill the memory with.
const maxFile = 64 << 20

// stdinName is how messages name what was read from stdin.
const stdinName = "stdin"

// ReadFiles reads all objects of files, of the files below directories whose names end in .yaml, .yml or .json, and,
// for "-", of stdin. Where it fails, it goes on with the next file: it returns the objects that it could read, and all
// errors.
func ReadFiles(names []string, stdin io.Reader) ([]*Object, error) {
	var objects []*Object
	var problems []error
	add := func(name string, r io.Reader) {
		more, err := Read(name, r)
		objects, problems = append(objects, more...), append(problems, err)
	}
	for _, name := range names {
		if name == "-" {
			add(stdinName, stdin)
			continue
		}
		files, err := filesBelow(name)
		problems = append(problems, err)
		for _, file := range files {
			f, err := os.Open(file) // also a pipe, as in -f <(helm template .)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			add(file, f)
			f.Close()
		}
	}
	return objects, errors.Join(problems...)
}

// filesBelow returns name, or the manifests below the directory name. Links to files are followed, links to directories
// only if they are name itself.
func filesBelow(name string) (files []string, err error) {
	info, err := os.Stat(name)
	if err != nil {
		if strings.Contains(name, "://") {
			err = failure.WithHint(err, "download it: curl -L "+name+" | kubectl initbox SUBCOMMAND -f -")
		}
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	err = filepath.WalkDir(filepath.Clean(name)+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) || entry.IsDir():
			return nil
		case entry.Type()&fs.ModeSymlink != 0:
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				return err
			}
		case !entry.Type().IsRegular():
			return nil
		}
		files = append(files, filepath.Clean(path))
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("read %s: no file in it ends in .yaml, .yml or .json", name)
	}
	return files, err
}

// readAll returns what r has, up to [maxFile] bytes.
func readAll(name string, r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("longer than %d MiB", maxFile>>20)
	}
	var path *fs.PathError
	if err != nil && !errors.As(err, &path) {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return text, err
}

var (
	yamlLine = lazy.Regexp(`^yaml: (?:line (\d+): )?(?:[a-z ]*\n\s*line (\d+): )?`)
	action   = lazy.Regexp(`(?m)^[^#\n]*\{\{`) // of a Helm template
)

// syntaxError returns err, of the YAML library, with the file and the line in front, as in web.yaml:3: ….
func syntaxError(name string, text []byte, err error) error {
	where, reason := name, err.Error()
	if match := yamlLine().FindStringSubmatch(reason); match != nil {
		reason = strings.TrimPrefix(reason, match[0])
		if line := cmp.Or(match[1], match[2]); line != "" {
			where += ":" + line
		}
	}
	err = fmt.Errorf("%s: not YAML: %s", where, reason)
	if action().Match(text) {
		err = failure.WithHint(err, "this looks like the template of a Helm chart; render it: helm template . | kubectl initbox SUBCOMMAND -f -")
	}
	return err
}
