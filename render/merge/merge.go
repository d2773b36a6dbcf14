// Package merge merges configuration files into one: maps key by key, the later file wins.
//
//	done, err := merge.Run(ctx, merge.Options{
//		Sources: []merge.Source{{Path: "/defaults/app.yaml"}, {Path: "/overrides", Optional: true}},
//		To:      "/config/app.json",
//	})
//	log.Info(done.String()) // /config/app.json: created, from 3 files, 1.2 kB, in 2ms
package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/perm"
	"initbox/internal/setting"
	"initbox/internal/stage"
	"initbox/internal/words"
	"initbox/render"
	"initbox/render/format"
	"initbox/render/values"
)

// Settings are those of a source.
var Settings = setting.List{{Name: "optional", Usage: "SRC may be missing, or match nothing"}}

// Source is a file, a directory, whose files are merged in the order of their names, or a pattern of names in one.
type Source struct {
	Path     string
	Optional bool
}

// Options of a run.
type Options struct {
	Sources []Source                         // in the order in which they are merged
	To      string                           // the file that is written; a source only if it is among them
	Formats []perm.Rule[*format.Format]      // by the names of files; without one, the extension tells the format
	Lists   string                           // "replace" (as ""), "append", or "by-key=NAME": maps with the same value of NAME are merged
	Edit    values.Edit                      // what is deleted and set at last
	Expand  func(name string) (string, bool) // what ${NAME} in values of sources stands for; nil leaves it
	Concat  bool                             // join the bytes of the files instead
	Schemas []perm.Rule[string]              // files with JSON Schemas that the result must match, by its name

	Mode   func(usual fs.FileMode) fs.FileMode // nil: usual, which is that of To if it is a source, else 0644, or 0600 for secrets
	Owner  *perm.Owner                         // of To; what it leaves out, or nil, stays as it is if To is a source and this user is root
	Follow bool                                // follow symbolic links in volumes to To
	DryRun bool
	Log    *slog.Logger // nil discards

	Elsewhere bool // Check is for another machine, and looks at no file
}

// Summary is what a run did, or in a dry run would do.
type Summary struct {
	stage.Change     // its Name is the path of the file
	Files        int // that were merged
	Bytes        int
	Secret       bool // the content of the file is
	Duration     time.Duration
	DryRun       bool
}

// String returns one line for the log.
func (s Summary) String() string {
	what, secret := string(s.Kind), ""
	switch {
	case s.Files == 0 && s.Kind == "":
		what = "nothing to change: no source exists"
	case s.Kind == stage.Unchanged:
		what = "nothing to change"
	case s.DryRun:
		what = "would be " + what
	}
	if s.Files > 0 {
		what += fmt.Sprintf(", from %s, %s", words.Plural(s.Files, "file"), words.Bytes(int64(s.Bytes)))
	}
	if s.Secret {
		secret = ", with a secret in it"
	}
	return fmt.Sprintf("%s: %s%s, in %s", failure.Printable(s.Name), what, secret, words.Seconds(s.Duration))
}

// Check returns why the options contradict each other.
func (o Options) Check() error {
	name, byKey := strings.CutPrefix(o.Lists, "by-key=")
	same, isDir := same, isDir
	if o.Elsewhere {
		same, isDir = sameName, func(string) bool { return false }
	}
	itself := slices.ContainsFunc(o.Sources, func(s Source) bool { return same(s.Path, o.To) })
	to := o.formatOf(o.To)
	path := func(s Source) string { return s.Path }
	switch {
	case slices.ContainsFunc(append(words.Each(o.Sources, path), o.To), func(p string) bool { return p == "-" || strings.Contains(p, "://") }):
		return failure.WithHint(errors.New("SRC and DST must be files, and not URLs, standard input or standard output"), "initbox fetch downloads, and merge can follow it after --")
	case isDir(o.To) || strings.HasSuffix(o.To, "/"):
		return fmt.Errorf("%s is a directory, and the last argument, DST, is a file", failure.Printable(o.To))
	case byKey && name == "" || !byKey && o.Lists != "" && o.Lists != "replace" && o.Lists != "append":
		return errors.New("--lists: want replace, append or by-key=NAME, as in by-key=name")
	case itself && (o.Lists == "append" || o.Concat):
		return failure.WithHint(fmt.Errorf("%s is among the sources, so each run would append the others to it again", failure.Printable(o.To)), "name the original file as the source, and another one as DST")
	case o.Concat && (len(o.Edit.Delete)+len(o.Edit.Set) > 0 || o.Lists != "" || o.Expand != nil):
		return errors.New("--concat joins bytes, whatever they are, and takes no --lists, --set, --delete or --expand")
	case o.Concat:
		return nil
	case to != nil && !to.Writable():
		return fmt.Errorf("%s: values cannot be written as %s", failure.Printable(o.To), to)
	case to == nil:
		return failure.WithHint(fmt.Errorf("%s: no known format has this extension", failure.Printable(o.To)), formatHint)
	}
	edit := values.Edit{Flat: to.Flat(), Delete: o.Edit.Delete}
	edit.Set = slices.DeleteFunc(slices.Clone(o.Edit.Set), func(s values.Source) bool { return s.Kind == values.SetFile })
	_, _, err := edit.Apply(context.Background(), nil)
	return err
}

const formatHint = "say which, as in --format '*.conf=ini'"

// formatOf returns the format of a file, or nil.
func (o Options) formatOf(name string) *format.Format {
	if f, given := perm.LastMatch(o.Formats, name); given {
		return f
	}
	return format.For(name)
}

// same returns whether two paths lead to the same file, which may be missing.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y)
	}
	return sameName(a, b)
}

// sameName returns whether two paths are the same, whatever is there.
func sameName(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return errA == nil && errB == nil && a == b
}

func isDir(name string) bool {
	stat, err := os.Stat(name)
	return err == nil && stat.IsDir()
}

// file is one that is merged.
type file struct {
	values.Document
	itself bool // it is DST
}

// run is one call of [Run].
type run struct {
	Options
	format *format.Format // of the result; may be nil with Concat
	like   []byte         // the first YAML file
	secret bool           // --set-file read one
}

// Run merges the sources, and writes the result unless it is there already. An error is about the first file that
// cannot be read or merged; then nothing is written.
func Run(ctx context.Context, o Options) (Summary, error) {
	start := time.Now()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	done := Summary{Change: stage.Change{Name: o.To}, DryRun: o.DryRun}
	if err := o.Check(); err != nil {
		return done, err
	}
	r := &run{Options: o, format: o.formatOf(o.To)}
	r.Edit.Flat = r.format != nil && r.format.Flat()
	files, err := r.read(ctx)
	if err != nil {
		return done, err
	}
	done.Files = len(files)
	if len(files) > 0 || len(o.Edit.Set) > 0 {
		var content []byte
		if o.Concat {
			content, err = r.join(files)
		} else {
			content, err = r.merge(ctx, files)
		}
		if err == nil {
			err = render.Check(render.Options{Validate: true, Formats: o.Formats, Schemas: o.Schemas}, o.To, content)
		}
		if err != nil {
			return done, fmt.Errorf("merge to %s: %w", failure.Printable(o.To), err)
		}
		done.Bytes = len(content)
		err = r.write(&done, content, files)
	}
	done.Duration = time.Since(start)
	return done, err
}

// read returns the files of all sources.
func (r *run) read(ctx context.Context) (files []file, err error) {
	for _, s := range r.Sources {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		path, pattern := s.Path, ""
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(filepath.Base(path), "*?[") {
			path, pattern = filepath.Split(path)
			path = filepath.Clean(path)
		}
		if same(path, r.To) { // a link in a volume may lead to what its maker cannot read
			dir, _, link, err := mounts.OpenParent(r.To, r.Follow)
			if err == nil {
				dir.Close()
			}
			if link != nil {
				return nil, link
			}
		}
		found, err := values.Files(ctx, path)
		if err != nil && !(s.Optional && errors.Is(err, fs.ErrNotExist)) {
			return nil, failure.WithHint(fmt.Errorf("read %s: %w", failure.Printable(s.Path), bare(err)), failure.Beside(err)+"is its volume mounted, and may this user read it? #optional accepts a missing file")
		}
		before := len(files)
		for _, f := range found {
			itself := same(f.Name, r.To)
			if err == nil && perm.Match(pattern, f.Name) && (!itself || same(s.Path, r.To)) {
				files = append(files, file{f, itself})
			}
		}
		switch none := len(files) == before; {
		case none && s.Optional:
			r.Log.Info(failure.Printable(s.Path) + ": no such file, which is optional")
		case none:
			return nil, failure.WithHint(fmt.Errorf("%s: no file found", failure.Printable(s.Path)), "#optional accepts that")
		}
	}
	return files, nil
}

// bare returns an error without the path in it.
func bare(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// join returns the bytes of all files, with a line break between two where it is missing.
func (r *run) join(files []file) ([]byte, error) {
	var b bytes.Buffer
	for _, f := range files {
		if n := b.Len(); n > 0 && b.Bytes()[n-1] != '\n' && len(f.Data) > 0 {
			b.WriteByte('\n')
		}
		b.Write(f.Data)
	}
	return b.Bytes(), nil
}

// merge returns the content of the result.
func (r *run) merge(ctx context.Context, files []file) ([]byte, error) {
	var all any
	var existing []byte
	for _, f := range files {
		doc, err := r.parse(f)
		if err == nil && doc != nil {
			all, err = r.merged("", all, doc)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", failure.Printable(f.Name), err)
		}
		if f.itself {
			existing = f.Data
		}
	}
	all, secret, err := r.Edit.Apply(ctx, all)
	if err != nil {
		return nil, err
	}
	r.secret = secret
	content, err := r.format.Write(all, r.like)
	if err != nil {
		return nil, err
	}
	if was, err := r.format.Document(existing); err == nil && existing != nil {
		if now, err := r.format.Document(content); err == nil && reflect.DeepEqual(was, now) {
			return existing, nil // the library may move a comment each time
		}
	}
	return content, nil
}

// parse returns the values of a file.
func (r *run) parse(f file) (any, error) {
	from := r.formatOf(f.Name)
	if from == nil {
		return nil, failure.WithHint(errors.New("no known format has this extension"), formatHint+", or name the files to merge, as in '/config/*.yaml'")
	}
	doc, err := from.Document(f.Data)
	if err != nil {
		return nil, err
	}
	if from.Name == "yaml" && r.like == nil {
		r.like = f.Data
	}
	if r.Expand != nil && !f.itself {
		if doc, err = r.expand(doc); err != nil {
			return nil, err
		}
	}
	if r.Edit.Flat && doc != nil {
		return format.Flatten(doc)
	}
	return doc, nil
}

// write puts the content in place.
func (r *run) write(done *Summary, content []byte, files []file) error {
	attr := stage.Attr{Mode: 0o644, UID: -1, GID: -1}
	usual, private := attr.Mode, fs.FileMode(0o077) // a secret takes from others
	done.Secret = r.secret
	for _, f := range files {
		done.Secret = done.Secret || f.Secret
		if stat, err := os.Stat(r.To); err == nil && f.itself {
			usual, private = stat.Mode().Perm(), 0o007 // the group has its reason
			if own, ok := stat.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
				attr.UID, attr.GID = int(own.Uid), int(own.Gid)
			}
		}
	}
	if attr.Mode = usual; done.Secret {
		attr.Mode &^= private
	}
	if r.Owner != nil && r.Owner.UID >= 0 {
		attr.UID = r.Owner.UID
	}
	if r.Owner != nil && r.Owner.GID >= 0 {
		attr.GID = r.Owner.GID
	}
	if r.Mode != nil {
		attr.Mode = r.Mode(attr.Mode)
	}
	s, err := stage.Open(filepath.Dir(r.To), stage.Options{DryRun: r.DryRun, Follow: r.Follow})
	if err != nil {
		return r.unwritten(err)
	}
	defer s.Close()
	c, err := s.Put(filepath.Base(r.To), content, attr)
	if err == nil && !r.DryRun {
		_, err = s.Commit()
	}
	if err != nil {
		return r.unwritten(err)
	}
	c.Name = r.To
	done.Change = c
	return nil
}

// unwritten returns the error of writing DST, with a hint.
func (r *run) unwritten(err error) error {
	op := perm.Write
	if r.Owner != nil && errors.Is(err, syscall.EPERM) {
		op = perm.Chown
	}
	return perm.Failed("write", op, r.To, err)
}
