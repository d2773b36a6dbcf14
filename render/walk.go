package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"initbox/render/values"
)

// item is one file to be made.
type item struct {
	out      *output
	root     *os.Root // nil for stdin
	name     string   // of the source, below root
	shown    string   // the same as a user would write it
	folders  []string // of the result, below the output's; they may be templates
	base     string   // of the result; may be a template, too
	named    bool     // base is as the user gave it
	language string   // of the template; "" for what is copied
	mode     fs.FileMode
	secret   bool // the source is a Secret's

	text []byte // of stdin, once it is read
}

// maxFolders is how deep a tree may be: links within it can lead back.
const maxFolders = 100

// walk lists the files of all sources.
func (r *run) walk(ctx context.Context) error {
	for _, partial := range r.Partials {
		if err := r.engines.addPartials(partial); err != nil {
			return fmt.Errorf("read the partials %s: %w", partial, err)
		}
	}
	for _, source := range r.Sources {
		if err := r.walkSource(ctx, source); err != nil {
			return err
		}
	}
	return r.readEnvFiles()
}

// readEnvFiles reads what templates may ask for of the variables that name files.
func (r *run) readEnvFiles() error {
	if len(r.data.envFiles) == 0 {
		return nil
	}
	for _, p := range r.engines.partials {
		r.data.wantEnvFiles([]byte(p.text))
	}
	for _, it := range r.items {
		r.data.wantEnvFiles([]byte(path.Join(path.Join(it.folders...), it.base)))
		if it.language == "" {
			continue
		}
		text, err := it.read(r.Stdin)
		if err != nil {
			return err
		}
		r.data.wantEnvFiles(text)
	}
	return nil
}

// walkSource lists the files of one source.
func (r *run) walkSource(ctx context.Context, source Source) error {
	if source.From == "-" {
		out, name, err := r.outputOf(source.To, "stdin")
		r.items = append(r.items, &item{out: out, shown: "stdin", base: name, named: true, language: r.languageOf(""), mode: 0o644})
		return err
	}
	stat, err := os.Stat(source.From)
	switch {
	case err != nil:
		return fmt.Errorf("read the templates: %w", err)
	case !stat.IsDir():
		return r.walkFile(source)
	case source.To == "-":
		return fmt.Errorf("%s is a folder, and cannot be written to stdout; want SRC:DST", source.From)
	}
	out, err := r.output(source.To)
	if err != nil {
		return err
	}
	w := walker{run: r, ctx: ctx, out: out, secret: values.OnSecretMount(source.From)}
	return w.snapshot(source.From, source.From, nil)
}

// walkFile adds a source that is a file by itself: it is a template, whatever its
// name says. The name may be a link that leads anywhere: the user named it.
func (r *run) walkFile(source Source) error {
	target, err := filepath.EvalSymlinks(source.From)
	if err != nil {
		return fmt.Errorf("read the template: %w", err)
	}
	root, err := os.OpenRoot(filepath.Dir(target))
	if err != nil {
		return fmt.Errorf("read the template %s: %w", source.From, err)
	}
	r.roots = append(r.roots, root)
	stat, err := root.Stat(filepath.Base(target))
	if err != nil {
		return fmt.Errorf("read the template %s: %w", source.From, err)
	}
	result, extension := cut(filepath.Base(source.From))
	out, name, err := r.outputOf(source.To, result)
	r.items = append(r.items, &item{
		out: out, root: root, name: filepath.Base(target), shown: source.From, base: name, named: true,
		language: r.languageOf(extension), mode: stat.Mode(), secret: values.OnSecretMount(source.From) || private(stat.Mode()),
	})
	return err
}

// private reports whether a file is kept from others: so will be its result.
func private(mode fs.FileMode) bool { return mode&0o004 == 0 }

// walker lists the files of one tree.
type walker struct {
	*run
	ctx    context.Context
	out    *output
	root   *os.Root
	secret bool
}

// snapshot walks a folder of the file system: that which "..data" is a link to,
// if it is a volume of the kubelet's, so that all files are of one moment.
func (w walker) snapshot(dir, shown string, folders []string) error {
	if target, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		dir = target
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	w.roots = append(w.roots, root)
	w.root = root
	return w.folder(".", shown, folders)
}

func (w walker) folder(name, shown string, folders []string) error {
	if len(folders) > maxFolders {
		return fmt.Errorf("%s: folders nest deeper than %d; does a link lead back?", shown, maxFolders)
	}
	if err := context.Cause(w.ctx); err != nil {
		return fmt.Errorf("list the templates: %w", err)
	}
	d, err := w.root.Open(name)
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	entries, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue // the kubelet's own
		}
		if err := w.entry(path.Join(name, entry.Name()), filepath.Join(shown, entry.Name()), folders); err != nil {
			return err
		}
	}
	return nil
}

func (w walker) entry(name, shown string, folders []string) error {
	stat, err := w.root.Stat(name)
	if err != nil {
		return fmt.Errorf("read %s: %w", shown, linkAway(err))
	}
	base := path.Base(name)
	switch {
	case stat.IsDir():
		folders := append(slices.Clip(folders), base)
		if _, err := w.root.Readlink(path.Join(name, "..data")); err == nil { // a volume within the volume
			return w.snapshot(filepath.Join(w.root.Name(), name), shown, folders)
		}
		return w.folder(name, shown, folders)
	case !stat.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder", shown)
	case isPartial(base):
		text, err := w.root.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read %s: %w", shown, err)
		}
		w.engines.addPartial(name, string(text))
		return nil
	}
	target, extension := cut(base)
	language := ""
	if extension != "" {
		language = w.languageOf(extension)
	}
	if language == "" && w.OnlyTemplates {
		return nil
	}
	w.items = append(w.items, &item{
		out: w.out, root: w.root, name: name, shown: shown, folders: folders, base: target,
		language: language, mode: stat.Mode(), secret: w.secret || private(stat.Mode()),
	})
	return nil
}

// linkAway says of a link that os.Root refuses what is wrong with it.
func linkAway(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) && strings.Contains(pathErr.Err.Error(), "escapes") {
		return errors.New("a link leads out of the folder; only what is in it is read")
	}
	return err
}
