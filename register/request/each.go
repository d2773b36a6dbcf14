package request

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/readfile"
	"initbox/internal/secret"
	"initbox/internal/words"
)

// File is one of those that are sent.
type File struct {
	Name, Path string
	Content    []byte
}

// ReadFile reads a file, of at most 16 MiB.
func ReadFile(path string) (*File, error) {
	content, err := readfile.Upto(path, maxBody)
	return &File{Name: filepath.Base(path), Path: path, Content: content}, err
}

// Stem returns the name without its extension.
func (f *File) Stem() string { return strings.TrimSuffix(f.Name, filepath.Ext(f.Name)) }

// in returns a URL with the file's name in place of {name}, without its extension, and of {file}.
func (f *File) in(text string) string {
	escape := func(name string) string { // valid in paths and queries, and no reference to a secret
		return strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return strings.NewReplacer("{name}", escape(f.Stem()), "{file}", escape(f.Name)).Replace(text)
}

// each sends the files, and stops at the first that is refused.
func (o *Options) each(ctx context.Context) error {
	start := time.Now()
	names, err := o.list()
	if errors.As(err, new(*fs.PathError)) {
		err = failure.WithHint(err, failure.Beside(err)+"is the volume mounted, and may this user read it?")
	}
	if err != nil {
		return fmt.Errorf("--each: %w", err)
	}
	known := 0
	for i, name := range names {
		sent, err := o.file(ctx, name)
		if err != nil {
			return fmt.Errorf("%s, %d of %s: %w", failure.Printable(name), i+1, words.Plural(len(names), "file"), err)
		}
		if !sent {
			known++
		}
	}
	if !o.DryRun {
		at, took := secret.Word(o.URL), time.Since(start)
		o.Log.Info(fmt.Sprintf("%s: %d of %s sent, %d sent before, in %s", at, len(names)-known, words.Plural(len(names), "file"), known, words.Seconds(took)),
			failure.Fields(at, took, nil))
	}
	return nil
}

// file sends one file, and returns whether it was not sent before.
func (o *Options) file(ctx context.Context, name string) (sent bool, err error) {
	dir, err := os.OpenRoot(o.Each)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	f := &File{Name: name, Path: filepath.Join(o.Each, name)}
	if f.Content, err = readfile.In(dir, name, maxBody); err != nil {
		return false, err
	}
	m, err := o.message(ctx, f)
	if err != nil {
		return false, err
	}
	if o.Sent != nil && o.Sent.Has(m.digest) {
		return false, nil
	}
	if _, err := m.send(ctx); err != nil || o.Sent == nil {
		return true, err
	}
	return true, o.Sent.Add(m.digest)
}

// maxFiles is far above what a ConfigMap can have.
const maxFiles = 5_000

// list returns the names of the files, sorted. It leaves out directories, and names that begin with a dot, which are
// the kubelet's in a mounted ConfigMap. A link that leads out of the directory is an error: another program that writes
// to the volume may have made it, to have the server sent what only this one may read.
func (o *Options) list() (names []string, err error) {
	entries, err := os.ReadDir(o.Each)
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(o.Each)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	byURL := map[string]string{}
	for _, entry := range entries {
		stat, err := dir.Stat(entry.Name()) // of a link, what it leads to
		switch {
		case strings.HasPrefix(entry.Name(), "."):
			continue
		case err != nil && entry.Type()&fs.ModeSymlink != 0:
			return nil, failure.WithHint(fmt.Errorf("%s is a link that leads out of %s, or nowhere", failure.Printable(entry.Name()), failure.Printable(o.Each)), "put the file itself there")
		case err != nil:
			return nil, err
		case stat.IsDir():
			continue
		}
		f := File{Name: entry.Name()}
		if other, taken := byURL[f.in(o.URL)]; taken && strings.Contains(o.URL, "{name}") {
			return nil, fmt.Errorf("%s and %s would be sent to the same URL: write {file} instead of {name}", failure.Printable(other), failure.Printable(f.Name))
		}
		byURL[f.in(o.URL)] = f.Name
		names = append(names, f.Name)
	}
	switch {
	case len(names) == 0:
		return nil, failure.WithHint(errors.New("no file in "+o.Each), "is the ConfigMap mounted there?")
	case len(names) > maxFiles:
		return nil, fmt.Errorf("more than %d files in %s", maxFiles, o.Each)
	}
	return names, nil
}
