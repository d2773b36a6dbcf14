package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"initbox/internal/perm"
	"initbox/internal/stage"
	"initbox/render/engine"
)

// renderAll renders all items, and stages the results.
func (r *run) renderAll(ctx context.Context) error {
	for _, p := range r.engines.partials {
		r.data.mayWant([]byte(p.text))
	}
	r.data.readEnvFiles()
	err := patiently(ctx, r.atWork, func() error {
		for items := r.items; len(items) > 0; items = r.takePostponed() {
			r.renderItems(ctx, items)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.failures.err(r.data); err != nil {
		return err
	}
	return r.envFile()
}

// renderItems renders one item per processor at a time.
func (r *run) renderItems(ctx context.Context, items []*item) {
	jobs := make(chan *item)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(items)) {
		workers.Go(func() {
			for it := range jobs {
				r.busy.Store(it.shown, true)
				r.failures.add(r.postponedIfLate(it, r.render(ctx, it)))
				r.busy.Delete(it.shown)
			}
		})
	}
	for _, it := range items {
		if r.failures.enough() {
			break
		}
		jobs <- it
	}
	close(jobs)
	workers.Wait()
}

// takePostponed returns the items that need files which variables name, and reads those files.
func (r *run) takePostponed() []*item {
	items := r.postponed
	r.postponed = nil
	r.data.readEnvFiles()
	r.data.late.Store(false)
	r.engines.forget()
	r.directories.Clear()
	return items
}

// errLate ends the rendering of an item that has to be repeated, because it needs the content of such files.
var errLate = errors.New("a variable was not read yet")

// postponedIfLate returns the error of an item, unless the item has to be repeated.
func (r *run) postponedIfLate(it *item, err error) error {
	if !errors.Is(err, errLate) {
		return err
	}
	r.claimed.Range(func(destination, shown any) bool {
		if shown == it.shown {
			r.claimed.Delete(destination)
		}
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.postponed = append(r.postponed, it)
	return nil
}

// postpone returns whether an item has to wait for the content of such files.
func (r *run) postpone(it *item, text []byte) bool {
	wants := it.language != "" && r.data.mayWant(text)
	for _, name := range append(slices.Clip(it.directories), it.base) {
		wants = r.data.mayWant([]byte(name)) || wants
	}
	if wants {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.postponed = append(r.postponed, it)
	}
	return wants
}

// atWork describes what is being rendered.
func (r *run) atWork() string {
	var names []string
	r.busy.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	slices.Sort(names)
	return "render " + strings.Join(names, ", ")
}

// render makes one file.
func (r *run) render(ctx context.Context, it *item) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("render %s: %w", it.shown, err)
	}
	var text []byte
	var err error
	if it.language != "" {
		text, err = it.read(r.Stdin)
	}
	if err != nil || r.postpone(it, text) {
		return err
	}
	name, err := r.nameOf(ctx, it)
	if err != nil || name == "" {
		return err
	}
	if err := r.claim(it.out, name, it.shown); err != nil {
		return err
	}
	if r.NoOverwrite && it.out.exists(name) {
		return nil
	}
	res := result{secret: it.secret}
	switch {
	case it.language != "":
		res, err = r.execute(ctx, it.language, it.shown, unsafe.String(unsafe.SliceData(text), len(text)), r.draft(it.out, name))
		res.secret = res.secret || it.secret
	case r.checks.apply(name):
		res.content, err = it.read(nil)
	default:
		res.from = it.content(r.ended(ctx))
	}
	if err != nil {
		return err
	}
	return r.put(it.out, name, it.shown, res, 0o644|executable(it.mode))
}

// draft returns a function that makes room for a long result on the disk; nil if the result is needed in memory.
func (r *run) draft(out *output, name string) func() (*stage.Draft, error) {
	if out.stage == nil || out.diffs != nil || r.checks.apply(name) {
		return nil
	}
	return func() (*stage.Draft, error) { return out.stage.Draft(name) }
}

// put checks and stages a result.
func (r *run) put(out *output, name, from string, res result, mode fs.FileMode) error {
	if r.Sum != nil {
		if err := r.Sum.add(out.path(name), res); err != nil {
			return err
		}
	}
	if res.from != nil {
		return out.put(name, res, r.modeAndOwner(name, res.secret, mode))
	}
	if err := r.checks.file(name, res.content); err != nil {
		if res.shadow != nil {
			err = maskedCheck(err, r.checks.file(name, res.shadow))
		}
		return fmt.Errorf("%s: the result is invalid: %w", from, err)
	}
	return out.put(name, res, r.modeAndOwner(name, res.secret, mode))
}

// modeAndOwner returns the mode and the owner of a file. Only the owner may read one that holds a secret (0600, or 0700
// if it is executable), unless the user sets another mode.
func (r *run) modeAndOwner(name string, secret bool, mode fs.FileMode) stage.Attr {
	if secret {
		mode &^= 0o077
	}
	if m, found := perm.LastMatch(r.Modes, name); found {
		mode = fs.FileMode(m.Of(uint32(mode), false))
	}
	owner, found := perm.LastMatch(r.Owners, name)
	if !found {
		owner = perm.Owner{UID: -1, GID: -1}
	}
	return stage.Attr{Mode: mode, UID: owner.UID, GID: owner.GID}
}

// claim refuses two sources of the same file.
func (r *run) claim(out *output, name, shown string) error {
	if other, taken := r.claimed.LoadOrStore(path.Join(out.real, name), shown); taken {
		return fmt.Errorf("%s and %s would both be written to %s", min(shown, other.(string)), max(shown, other.(string)), out.path(name))
	}
	return nil
}

// read returns the source's content.
func (it *item) read(stdin io.Reader) ([]byte, error) {
	if it.root == nil && it.text != nil {
		return it.text, nil
	}
	from := stdin
	if it.root != nil {
		f, err := it.open()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	var text bytes.Buffer
	text.Grow(int(min(it.size, maxSource)) + bytes.MinRead)
	n, err := text.ReadFrom(io.LimitReader(from, maxSource+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", it.shown, err)
	case n > maxSource:
		return nil, fmt.Errorf("%s is longer than %d MiB%s", it.shown, maxSource>>20, it.whyLimited())
	}
	if it.root == nil {
		it.text = text.Bytes() // stdin can be read only once
	}
	return text.Bytes(), nil
}

// whyLimited explains the limit for a file that has none if it is only copied.
func (it *item) whyLimited() string {
	if it.language == "" && it.root != nil {
		return ", the limit for files that --validate, --format or --schema check"
	}
	return ""
}

// maxSource bounds templates and files that are checked, in bytes.
const maxSource = 64 << 20

// result is the output of a template, or a file that is copied.
type result struct {
	content []byte
	from    stage.Content // of a file that is copied without a check, instead of content
	draft   *stage.Draft  // where a long result is, instead of content
	secret  bool
	shadow  []byte // the same with other secrets; nil without secrets, or if it failed
}

// source returns the result as a content.
func (r result) source() stage.Content {
	switch {
	case r.from != nil:
		return r.from
	case r.draft != nil:
		return r.draft.Content()
	}
	return stage.Bytes(r.content)
}

// execute renders a template, and finds out whether the result contains a secret: then the
// result differs when the secret differs, however the template transformed it.
// A long result goes to a draft, if there can be one.
func (r *run) execute(ctx context.Context, language, name, text string, draft func() (*stage.Draft, error)) (res result, err error) {
	engines, err := r.engines.get(language)
	if err != nil {
		return result{}, err
	}
	w := &bounded{limit: r.Limits.Bytes}
	defer w.close(&err)
	if engines.shadow == nil { // else both results are compared
		w.draft = draft
	}
	err = r.executeWith(ctx, engines.real, name, text, w, r.warnUnsteady)
	if missing := (*engine.MissingError)(nil); errors.As(err, &missing) {
		for _, m := range missing.Missing {
			r.data.wantLate(m.Name)
		}
	}
	if r.data.late.Load() {
		return result{}, errLate
	}
	if engines.shadow == nil {
		return w.result(), err
	}
	other := &bounded{limit: r.Limits.Bytes}
	otherErr := r.executeWith(ctx, engines.shadow, name, text, other, func(engine.Template, string) {})
	if cause := context.Cause(ctx); cause != nil {
		return result{}, fmt.Errorf("render %s: %w", name, cause)
	}
	switch {
	case err != nil:
		return result{}, masked(err, otherErr)
	case otherErr != nil: // another secret fails, so the result depends on it
		return result{content: w.Bytes(), secret: true}, nil
	}
	content, shadow := w.Bytes(), other.Bytes()
	return result{content: content, secret: !bytes.Equal(content, shadow), shadow: shadow}, nil
}

func (r *run) executeWith(ctx context.Context, e engine.Engine, name, text string, w io.Writer, parsed func(engine.Template, string)) error {
	t, err := e.Parse(name, text)
	if err != nil {
		return err
	}
	parsed(t, name)
	err = t.Execute(ctx, w)
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%s: %w of %d MiB", name, errTooLong, r.Limits.Bytes>>20)
	}
	return err
}

// warnUnsteady logs which functions make the result differ at each run: a Pod that restarts
// would find another configuration.
func (r *run) warnUnsteady(t engine.Template, name string) {
	for _, function := range t.Unsteady() {
		if _, warned := r.warned.LoadOrStore(function, true); !warned {
			r.Log.Warn(fmt.Sprintf("%s uses %s: the result differs at each run, even when the Pod only restarts", name, function))
		}
	}
}

// nameOf returns the name of an item's result below the output's directory, or "" if a part of
// the name renders to nothing, which leaves the file out.
func (r *run) nameOf(ctx context.Context, it *item) (string, error) {
	if it.named {
		return it.base, nil
	}
	name := ""
	for i, directory := range it.directories {
		part, err := r.dirName(ctx, it, i, directory)
		if err != nil || part == "" {
			return "", err
		}
		name = path.Join(name, part)
	}
	base, err := r.namePart(ctx, r.languageOf(it.language), it.shown, it.base)
	if err != nil || base == "" {
		return "", err
	}
	return path.Join(name, base), nil
}

// dirName renders the name of the i-th directory above an item. Siblings share it, and its error is reported once.
func (r *run) dirName(ctx context.Context, it *item, i int, directory string) (string, error) {
	if !mayBeTemplate(r.languageOf(""), directory) {
		return directory, nil
	}
	key := it.out.dir + "\x00" + path.Join(it.directories[:i+1]...)
	once, _ := r.directories.LoadOrStore(key, sync.OnceValues(func() (string, error) {
		return r.namePart(ctx, r.languageOf(""), path.Join(it.shown, strings.Repeat("../", len(it.directories)-i)), directory)
	}))
	return once.(func() (string, error))()
}

// namePart renders one part of a path.
func (r *run) namePart(ctx context.Context, language, shown, text string) (string, error) {
	if !mayBeTemplate(language, text) {
		return text, nil
	}
	shown = "the name " + shown
	res, err := r.execute(ctx, language, shown, text, nil)
	switch {
	case err != nil:
		return "", err
	case res.secret:
		return "", fmt.Errorf("%s contains a value from a Secret, and file names are not secret", shown)
	}
	name := string(res.content)
	if err := checkName(name); err != nil {
		return "", fmt.Errorf("%s: %w: %q", shown, err, name)
	}
	return name, nil
}

func mayBeTemplate(language, name string) bool {
	return slices.ContainsFunc(marks[language], func(mark string) bool { return strings.Contains(name, mark) })
}
