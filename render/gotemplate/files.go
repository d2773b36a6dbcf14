package gotemplate

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// files is .Files: the files that templates may read. They are read on demand.
type files struct{ w *worker }

// fileMissing is the error for a missing file. In Helm such a file is empty.
type fileMissing struct{ name string }

func (e *fileMissing) Error() string { return "there is no file " + e.name }

// String prevents that the struct is printed.
func (f files) String() string { return "" }

// GetBytes returns what a file holds.
func (f files) GetBytes(name string) ([]byte, error) {
	data, err := f.read(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		if !f.w.e.strict {
			return []byte{}, nil
		}
		return nil, &fileMissing{name}
	}
	return data, err
}

func (f files) read(name string) ([]byte, error) {
	if f.w.e.data.Files == nil {
		return nil, fs.ErrNotExist
	}
	file, err := f.w.e.data.Files.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, f.w.e.options.Bytes+1))
	if err != nil {
		return nil, err
	}
	return data, f.w.grow(len(data))
}

// Get returns what a file holds, as a text.
func (f files) Get(name string) (string, error) {
	data, err := f.GetBytes(name)
	return string(data), err
}

// Lines returns the lines of a file.
func (f files) Lines(name string) ([]string, error) {
	data, err := f.GetBytes(name)
	if err == nil {
		err = f.w.elements(int64(bytes.Count(data, []byte("\n"))))
	}
	if err != nil {
		return nil, err
	}
	return lines(data), nil
}

func lines(data []byte) []string {
	if len(data) == 0 {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// Glob returns the files whose path matches: * and ? are within a name, ** is anything, and there are [a-z] and {a,b}.
func (f files) Glob(pattern string) (fileSet, error) {
	set := fileSet{}
	match, err := globPattern(pattern)
	if err != nil || f.w.e.data.Files == nil {
		return set, err
	}
	err = fs.WalkDir(f.w.e.data.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !match.MatchString(name) {
			return err
		}
		if err := f.w.charge(1); err != nil {
			return err
		}
		data, err := f.read(name)
		if err == nil {
			set[name] = data
		}
		return err
	})
	return set, err
}

// AsConfig returns all files as the data of a ConfigMap.
func (f files) AsConfig() (string, error) {
	set, err := f.Glob("**")
	return set.AsConfig(), err
}

// AsSecrets returns all files as the data of a Secret.
func (f files) AsSecrets() (string, error) {
	set, err := f.Glob("**")
	return set.AsSecrets(), err
}

// fileSet is what Glob returns: files by path.
type fileSet map[string][]byte

// GetBytes returns what a file of the set holds.
func (s fileSet) GetBytes(name string) []byte {
	if data, ok := s[name]; ok {
		return data
	}
	return []byte{}
}

// Get returns what a file of the set holds, as a text.
func (s fileSet) Get(name string) string { return string(s[name]) }

// Lines returns the lines of a file of the set.
func (s fileSet) Lines(name string) []string { return lines(s[name]) }

// Glob returns those whose path matches.
func (s fileSet) Glob(pattern string) (fileSet, error) {
	match, err := globPattern(pattern)
	set := fileSet{}
	for name, data := range s {
		if err == nil && match.MatchString(name) {
			set[name] = data
		}
	}
	return set, err
}

// AsConfig returns the files as the data of a ConfigMap, by their names without directories.
func (s fileSet) AsConfig() string {
	return s.yaml(func(data []byte) string { return string(data) })
}

// AsSecrets returns the files as the data of a Secret.
func (s fileSet) AsSecrets() string { return s.yaml(base64.StdEncoding.EncodeToString) }

func (s fileSet) yaml(encode func([]byte) string) string {
	if s == nil {
		return ""
	}
	m := map[string]string{}
	for _, name := range sortedKeys(s) { // of two files with the same name, always the same one
		m[path.Base(name)] = encode(s[name])
	}
	return toYAML(m)
}

// globPattern makes a regular expression of a pattern.
func globPattern(pattern string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	braces := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '{':
			b.WriteString("(?:")
			braces++
		case c == '}' && braces > 0:
			b.WriteString(")")
			braces--
		case c == ',' && braces > 0:
			b.WriteString("|")
		case c == '[' && strings.IndexByte(pattern[i:], ']') > 1:
			end := i + strings.IndexByte(pattern[i:], ']')
			class := strings.Replace(pattern[i+1:end], "!", "^", 1)
			b.WriteString("[" + strings.ReplaceAll(class, `\`, `\\`) + "]")
			i = end
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	b.WriteString(`\z`)
	match, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("%q is not a pattern for files", pattern)
	}
	return match, nil
}
