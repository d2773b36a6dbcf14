package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/render/values"
)

// item is one file to render.
type item struct {
	out         *output
	root        *os.Root // nil for stdin and inline templates
	name        string   // of the source, below root
	shown       string   // the same as a user would write it
	directories []string // of the result, below the output's; they may be templates
	base        string   // of the result; may be a template too
	named       bool     // the user gave base
	language    string   // of the template; "" for a file that is copied
	mode        fs.FileMode
	size        int64 // of the source, if known
	secret      bool  // the source is a Secret's

	text []byte // of an inline template, or of stdin once it is read
}

// maxDepth is how deep a tree may be: links within it can form a loop.
const maxDepth = 100

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
	for _, inline := range r.Inline {
		out, name, err := r.outputOf(inline.To, "")
		if err != nil {
			return err
		}
		r.items = append(r.items, &item{
			out: out, shown: "the template for " + inline.To, base: name, named: true, language: r.languageOf(""), mode: 0o644, text: []byte(inline.Text),
		})
	}
	return nil
}

// walkSource lists the files of one source.
func (r *run) walkSource(ctx context.Context, source Source) error {
	if source.From == "-" {
		out, name, err := r.outputOf(source.To, "")
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
		return fmt.Errorf("%s is a directory, and cannot be written to stdout; want SRC:DST", source.From)
	}
	out, err := r.output(source.To)
	if err != nil {
		return err
	}
	if r.identity(source.From) != out.real && strings.HasPrefix(out.real+"/", r.identity(source.From)+"/") {
		return fmt.Errorf("%s lies in %s: what is written there would be read by the next run", source.To, source.From)
	}
	w := walker{run: r, ctx: ctx, out: out, secret: values.OnSecretMount(source.From)}
	before := len(r.items)
	root, err := os.OpenRoot(source.From)
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	err = w.snapshot(root, source.From, nil)
	if err == nil {
		r.warnCopied(source.From, r.items[before:])
	}
	return err
}

// warnCopied logs that files which may be meant as templates are copied.
func (r *run) warnCopied(from string, items []*item) {
	for _, it := range items {
		if suffix := unusual[path.Ext(it.base)]; it.language == "" && suffix != "" && len(r.Suffixes) == 0 {
			r.Log.Warn(fmt.Sprintf("%s is copied unchanged; --template-suffix %s renders such files", failure.Printable(it.shown), suffix))
			return
		}
	}
	if len(items) > 0 && !slices.ContainsFunc(items, func(it *item) bool { return it.language != "" }) {
		ends := slices.Sorted(maps.Keys(extensions))
		r.Log.Warn(from + ": no file name in it has the extension of a template, so all files are copied unchanged; templates end in " +
			strings.Join(ends, ", ") + ", or as --template-suffix says")
	}
}

// walkFile adds a source that is a single file. It is a template, whatever its name. The name
// may be a link to anywhere, because the user chose it.
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
	if stat.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return fmt.Errorf("%s is neither a file nor a directory", source.From)
	}
	result, extension := r.cut(filepath.Base(source.From))
	out, name, err := r.outputOf(source.To, result)
	r.items = append(r.items, &item{
		out: out, root: root, name: filepath.Base(target), shown: source.From, base: name, named: true,
		language: r.languageOf(extension), mode: stat.Mode(), size: stat.Size(), secret: values.OnSecretMount(source.From) || values.Private(stat.Mode()),
	})
	return err
}

// walker lists the files of one tree.
type walker struct {
	*run
	ctx    context.Context
	out    *output
	root   *os.Root
	secret bool
}

// snapshot walks a directory, which is closed at the end of the run. In a volume of the kubelet
// it walks one version, so that all files belong together.
func (w walker) snapshot(root *os.Root, shown string, directories []string) (err error) {
	if w.root, err = values.Version(root); err != nil {
		return fmt.Errorf("read the templates in %s: %w", shown, linkAway(err))
	}
	w.roots = append(w.roots, w.root)
	w.volumes[shown] = w.root
	return w.directory(".", shown, directories)
}

func (w walker) directory(name, shown string, directories []string) error {
	if len(directories) > maxDepth {
		return fmt.Errorf("%s: directories nest deeper than %d; does a link lead back?", shown, maxDepth)
	}
	if err := context.Cause(w.ctx); err != nil {
		return fmt.Errorf("list the templates: %w", err)
	}
	d, err := w.root.Open(name)
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	defer d.Close() // its entries read from it
	entries, err := d.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue // used by the kubelet
		}
		if err := w.entry(entry, path.Join(name, entry.Name()), filepath.Join(shown, failure.Printable(entry.Name())), directories); err != nil {
			return err
		}
	}
	return nil
}

func (w walker) entry(entry fs.DirEntry, name, shown string, directories []string) error {
	stat, err := entry.Info()
	if entry.Type() == fs.ModeSymlink {
		stat, err = w.root.Stat(name)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", shown, linkAway(err))
	}
	base := path.Base(name)
	switch {
	case stat.IsDir():
		directories := append(slices.Clip(directories), base)
		if _, err := w.root.Readlink(path.Join(name, "..data")); err == nil { // a volume within the volume
			root, err := w.root.OpenRoot(name)
			if err != nil {
				return fmt.Errorf("read %s: %w", shown, linkAway(err))
			}
			return w.snapshot(root, shown, directories)
		}
		return w.directory(name, shown, directories)
	case !stat.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a directory", shown)
	case w.isPartial(base):
		text, err := (&item{root: w.root, name: name, shown: shown, language: GoTemplate}).read(nil)
		if err != nil {
			return err
		}
		w.engines.addPartial(name, string(text), w.secret || values.Private(stat.Mode()))
		return nil
	}
	target, extension := w.cut(base)
	language := ""
	if extension != "" {
		language = w.languageOf(extension)
	}
	if language == "" && w.OnlyTemplates {
		return nil
	}
	w.items = append(w.items, &item{
		out: w.out, root: w.root, name: name, shown: shown, directories: directories, base: target,
		language: language, mode: stat.Mode(), size: stat.Size(), secret: w.secret || values.Private(stat.Mode()),
	})
	return nil
}

// linkAway explains why os.Root refuses a link.
func linkAway(err error) error {
	if leadsOut(err) {
		return errors.New("a link points outside the directory; only files in it are read")
	}
	return err
}

// leadsOut returns whether err is that of a link out of an os.Root, which package os does not export.
func leadsOut(err error) bool {
	var pathErr *fs.PathError
	return errors.As(err, &pathErr) && strings.Contains(pathErr.Err.Error(), "escapes")
}
