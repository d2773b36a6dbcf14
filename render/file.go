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

	"initbox/internal/atomicfile"
	"initbox/render/engine"
)

// renderAll renders all items, as many at a time as there are processors, and
// lays the results beside their destinations.
func (r *run) renderAll(ctx context.Context) error {
	jobs := make(chan *item)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(r.items)) {
		workers.Go(func() {
			for it := range jobs {
				r.failures.add(r.render(ctx, it))
			}
		})
	}
	for _, it := range r.items {
		if r.failures.enough() {
			break
		}
		jobs <- it
	}
	close(jobs)
	workers.Wait()
	if err := r.failures.err(r.data); err != nil {
		return err
	}
	return r.envFile()
}

// render makes one file.
func (r *run) render(ctx context.Context, it *item) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("render %s: %w", it.shown, err)
	}
	name, err := r.nameOf(ctx, it)
	if err != nil || name == "" {
		return err
	}
	if err := r.claim(it.out.path(name), it.shown); err != nil {
		return err
	}
	if r.Keep && it.out.exists(name) {
		return nil
	}
	text, err := it.read(r.Stdin)
	if err != nil {
		return err
	}
	res := result{content: text, secret: it.secret}
	if it.language != "" {
		if res, err = r.execute(ctx, it.language, it.shown, string(text)); err != nil {
			return err
		}
		res.secret = res.secret || it.secret
	}
	return r.put(it.out, name, it.shown, res, 0o644|executable(it.mode))
}

// put checks a result, and lays it beside its destination.
func (r *run) put(out *output, name, from string, res result, mode fs.FileMode) error {
	if err := r.checks.file(name, res.content); err != nil {
		return fmt.Errorf("%s: the result is wrong: %w", from, err)
	}
	return out.put(name, res, r.attr(name, res.secret, mode))
}

// attr returns the mode and the owner of a file. What holds a secret is its
// owner's alone, unless the user says otherwise.
func (r *run) attr(name string, secret bool, mode fs.FileMode) atomicfile.Attr {
	if secret {
		mode &^= 0o077
	}
	if m, found := lastMatch(r.Modes, name); found {
		mode = m
	}
	owner, found := lastMatch(r.Owners, name)
	if !found {
		owner = Owner{-1, -1}
	}
	return atomicfile.Attr{Mode: mode, UID: owner.UID, GID: owner.GID}
}

// claim refuses two sources of one file.
func (r *run) claim(dst, shown string) error {
	if other, taken := r.claimed.LoadOrStore(dst, shown); taken {
		return fmt.Errorf("%s and %s would both be written to %s", min(shown, other.(string)), max(shown, other.(string)), dst)
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
		f, err := it.root.Open(it.name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", it.shown, linkAway(err))
		}
		defer f.Close()
		from = f
	}
	var text bytes.Buffer
	n, err := text.ReadFrom(io.LimitReader(from, maxSource+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", it.shown, err)
	case n > maxSource:
		return nil, fmt.Errorf("%s is longer than %d MiB", it.shown, maxSource>>20)
	}
	if it.root == nil {
		it.text = text.Bytes() // stdin can be read only once
	}
	return text.Bytes(), nil
}

// maxSource bounds what is read of one file, in bytes.
const maxSource = 64 << 20

// result is what a template gave.
type result struct {
	content []byte
	secret  bool
	shadow  []byte // the same with other secrets; nil if there are none, or if it failed
}

// execute renders a template, and finds out whether the result holds a secret:
// then it is another one with another secret, however it was transformed.
func (r *run) execute(ctx context.Context, language, name, text string) (result, error) {
	engines, err := r.engines.get(language)
	if err != nil {
		return result{}, err
	}
	content, err := r.executeWith(ctx, engines.real, name, text, r.warnUnsteady)
	if err != nil || engines.shadow == nil {
		return result{content: content}, err
	}
	shadow, err := r.executeWith(ctx, engines.shadow, name, text, func(engine.Template, string) {})
	if err != nil { // another secret does not even pass, so this one has a part in it
		return result{content: content, secret: true}, nil
	}
	return result{content, !bytes.Equal(content, shadow), shadow}, nil
}

func (r *run) executeWith(ctx context.Context, e engine.Engine, name, text string, parsed func(engine.Template, string)) ([]byte, error) {
	t, err := e.Parse(name, text)
	if err != nil {
		return nil, err
	}
	parsed(t, name)
	w := bounded{limit: r.Limits.Bytes}
	if err := t.Execute(ctx, &w); err != nil {
		if errors.Is(err, errTooLong) {
			return nil, fmt.Errorf("%s: %w of %d MiB", name, errTooLong, r.Limits.Bytes>>20)
		}
		return nil, err
	}
	return w.Bytes(), nil
}

// warnUnsteady says which functions make a file another one at each run: a Pod
// that restarts would find another configuration.
func (r *run) warnUnsteady(t engine.Template, name string) {
	for _, function := range t.Unsteady() {
		if _, warned := r.warned.LoadOrStore(function, true); !warned {
			r.Log.Warn(fmt.Sprintf("%s uses %s: the result is another one at each run, also when the Pod only restarts", name, function))
		}
	}
}

// bounded is a buffer that takes so many bytes and no more.
type bounded struct {
	bytes.Buffer
	limit int64
}

var errTooLong = errors.New("the result is longer than the limit")

func (b *bounded) Write(p []byte) (int, error) {
	if int64(b.Len()+len(p)) > b.limit {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}

func (b *bounded) WriteString(s string) (int, error) {
	if int64(b.Len()+len(s)) > b.limit {
		return 0, errTooLong
	}
	return b.Buffer.WriteString(s)
}

// nameOf returns the name of an item's result below its output's folder; it is
// "" if a part of it renders to nothing, which leaves the file out.
func (r *run) nameOf(ctx context.Context, it *item) (string, error) {
	if it.named {
		return it.base, nil
	}
	name := ""
	for i, folder := range it.folders {
		part, err := r.folderName(ctx, it, i, folder)
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

// folderName renders the name of the i-th folder above an item. Its siblings
// have it too, and what is wrong with it is told once.
func (r *run) folderName(ctx context.Context, it *item, i int, folder string) (string, error) {
	if !mayBeTemplate(r.languageOf(""), folder) {
		return folder, nil
	}
	key := it.out.dir + "\x00" + path.Join(it.folders[:i+1]...)
	once, _ := r.folders.LoadOrStore(key, sync.OnceValues(func() (string, error) {
		return r.namePart(ctx, r.languageOf(""), path.Join(it.shown, strings.Repeat("../", len(it.folders)-i)), folder)
	}))
	return once.(func() (string, error))()
}

// namePart renders one part of a path.
func (r *run) namePart(ctx context.Context, language, shown, text string) (string, error) {
	if !mayBeTemplate(language, text) {
		return text, nil
	}
	shown = "the name " + shown
	res, err := r.execute(ctx, language, shown, text)
	switch {
	case err != nil:
		return "", err
	case res.secret:
		return "", fmt.Errorf("%s holds a value from a Secret, and names are no secrets", shown)
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
