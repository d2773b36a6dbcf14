package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A rendering is a task for all renderers that are fit for it.
type rendering struct {
	name   string
	files  int // 1 is a file by itself; more are a tree
	lines  int // of half a kilobyte that a loop writes to each file; 0 for a file of 1 kB without a loop
	rounds int
}

func renderings(b *bench) []rendering {
	large, rounds := 10, min(b.trials, 3)
	if b.quick {
		large, rounds = 1, 1
	}
	return []rendering{
		{thousands(100*large) + " files", 100 * large, 0, rounds},
		{thousands(1000*large) + " files", 1000 * large, 0, rounds},
		{fmt.Sprintf("one of %d MB", 5*large), 1, 10_000 * large, rounds},
		{fmt.Sprintf("%d MB in %d files", 5*large, 10*large), 10 * large, 1000, rounds},
	}
}

// thousands writes a number as it stands in the targets.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d %03d", n/1000, n%1000)
}

// renderAll measures templates that become files, beside the tools of which docs/render.md says how to move from them.
func renderAll(ctx context.Context, b *bench) (*section, error) {
	s := &section{
		title: "Templates to files",
		about: "What all tools can do: templates in their own languages. Each result is compared with the expected one. The templates see " +
			fmt.Sprintf("%d environment variables. ", len(renderVariables)) +
			"initbox writes files to the disk before it replaces any, which its elapsed time includes; the others leave that to the kernel. cpu is user and system time, with all children.",
	}
	one := rendering{"one of 1 kB", 1, 0, b.trials}
	costs, err := b.runRendering(ctx, one)
	if err != nil {
		return s, err
	}
	s.tables = append(s.tables, b.oneFileTable(one, costs))
	s.targets = append(s.targets, oneFileTargets(costs)...)
	s.notes = append(s.notes, failed(one, costs)...)

	t := table{{"files", "tool", "elapsed", "× initbox", "cpu", "× initbox", "resident"}}
	all := map[rendering]map[string]*renderCost{}
	for _, c := range renderings(b) {
		if all[c], err = b.runRendering(ctx, c); err != nil {
			return s, err
		}
		t = append(t, b.renderRows(c, all[c])...)
		s.notes = append(s.notes, failed(c, all[c])...)
	}
	s.tables = append(s.tables, t)
	s.notes = append(s.notes, b.notMeasured()...)
	s.targets = append(s.targets, renderTargets(renderings(b), all)...)
	return s, nil
}

// A renderCost is what the runs of one renderer took.
type renderCost struct {
	cost
	peak  int64 // resident, the most of all runs, in KiB
	bound bool  // it is at most that
	err   error // of the first run that failed, which was the last
}

// fit returns the renderers that can do c, and whose tool was found.
func (b *bench) fit(c rendering) []renderer {
	var some []renderer
	for _, r := range renderers {
		_, found := b.tools[r.tool]
		switch {
		case !found,
			c.files == 1 && r.treeOnly,
			c.files > 1 && r.most > 0 && c.files > r.most,
			c.lines > 0 && (r.language.loop == "" || r.again || r.treeOnly):
			continue
		}
		some = append(some, r)
	}
	return some
}

// runRendering runs all that are fit for c, one at a time and in another order in each round. A result that is not
// right is a failure, which ends the run if it is initbox's.
func (b *bench) runRendering(ctx context.Context, c rendering) (map[string]*renderCost, error) {
	dir, err := os.MkdirTemp(b.dir, "render-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	some := b.fit(c)
	costs := map[string]*renderCost{}
	loads := map[string]*workload{}
	for i, r := range some {
		costs[r.name] = new(renderCost)
		if loads[r.name], err = newWorkload(filepath.Join(dir, strconv.Itoa(i)), c, r); err != nil {
			return nil, err
		}
	}
	random := rand.New(rand.NewPCG(9, 10))
	for range c.rounds {
		for _, i := range random.Perm(len(some)) {
			r := some[i]
			if costs[r.name].err != nil {
				continue
			}
			err := b.runRenderer(ctx, loads[r.name], costs[r.name])
			if err != nil && (r.tool == ours || ctx.Err() != nil) {
				return nil, fmt.Errorf("%s, %s: %w", c.name, r.name, err)
			}
			costs[r.name].err = err
		}
	}
	return costs, nil
}

// oneRendering bounds a run, in case a tool waits for something.
const oneRendering = 2 * time.Minute

// runRenderer does the work once, and adds what it took.
func (b *bench) runRenderer(ctx context.Context, w *workload, sum *renderCost) error {
	ctx, cancel := context.WithTimeoutCause(ctx, oneRendering, errors.New("still not done"))
	defer cancel()
	if err := w.clean(len(sum.wall)); err != nil {
		return err
	}
	if w.again {
		if _, err := b.renderOnce(ctx, w); err != nil {
			return err
		}
	}
	if !w.small() {
		syscall.Sync() // what others have left to the kernel is not this one's work
		shrink()
	}
	p, err := b.renderOnce(ctx, w)
	if err != nil {
		return err
	}
	peak, bound := p.peak()
	if err := w.check(); err != nil {
		return err
	}
	sum.wall, sum.cpu = append(sum.wall, p.exited.Sub(p.started)), append(sum.cpu, p.cpu())
	if peak > sum.peak {
		sum.peak, sum.bound = peak, bound
	}
	return nil
}

func (b *bench) renderOnce(ctx context.Context, w *workload) (*proc, error) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	with := func(cmd *exec.Cmd) { cmd.Env = w.environ }
	if w.piped && w.single() {
		in, err := os.Open(w.vars["in"])
		if err != nil {
			return nil, err
		}
		files = append(files, in)
		out, err := os.Create(w.vars["out"])
		if err != nil {
			return nil, err
		}
		files = append(files, out)
		with = func(cmd *exec.Cmd) { cmd.Env, cmd.Stdin, cmd.Stdout = w.environ, in, out }
	}
	p, err := b.start(ctx, w.argv(b.tools[w.tool].path), with)
	if err != nil {
		return nil, err
	}
	<-p.done
	return p, p.err
}

// A workload is a renderer's share of a rendering: its own templates, and where it puts the results.
type workload struct {
	renderer
	rendering
	in, out     string            // directories
	names       []string          // of results, below out
	directories []string          // of names
	vars        map[string]string // of the command line
	environ     []string
}

const filesPerDir = 100 // files

func newWorkload(dir string, c rendering, r renderer) (*workload, error) {
	w := &workload{renderer: r, rendering: c, in: filepath.Join(dir, "in"), out: filepath.Join(dir, "out")}
	w.environ = append([]string{"PATH=/usr/bin:/bin", "HOME=" + dir}, r.env...)
	for name, value := range renderVariables {
		w.environ = append(w.environ, name+"="+value)
	}
	slices.Sort(w.environ)
	w.vars = map[string]string{"in": w.in, "out": w.out, "confdir": filepath.Join(dir, "confd"), "script": filepath.Join(dir, "render.py")}
	if w.single() {
		w.names = []string{"app.conf"}
		w.vars["in"], w.vars["out"] = filepath.Join(w.in, "app.conf"+r.language.suffix), filepath.Join(w.out, "app.conf")
	}
	for i := 0; !w.single() && i < c.files; i++ {
		directory := fmt.Sprintf("%03d", i/filesPerDir)
		if i%filesPerDir == 0 {
			w.directories = append(w.directories, directory)
		}
		w.names = append(w.names, filepath.Join(directory, fmt.Sprintf("app-%05d.conf", i)))
	}
	text := r.language.template(c)
	for i, name := range w.names {
		if err := writeBelow(filepath.Join(w.in, name+r.language.suffix), numbered(text, i)); err != nil {
			return nil, err
		}
	}
	if r.prepare == nil {
		return w, nil
	}
	return w, r.prepare(w)
}

func writeBelow(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

func (w *workload) single() bool { return w.files == 1 }

// small reports whether the memory of a run says nothing, and a sync before each would take most of the time.
func (w *workload) small() bool { return w.single() && w.lines == 0 }

// argv returns the command line.
func (w *workload) argv(path string) []string {
	args := w.file
	if !w.single() {
		args = w.tree
	}
	argv := waiter{args: args}.argv(path, w.vars)
	for _, directory := range w.directories {
		vars := map[string]string{"in": filepath.Join(w.in, directory), "out": filepath.Join(w.out, directory)}
		argv = append(argv, waiter{args: w.directory}.argv(path, vars)...)
	}
	return argv
}

// clean makes an empty directory for the results of the n-th run. Those of the run before are put aside, since ext4
// looks long for a free inode where many files were removed a moment ago.
func (w *workload) clean(n int) error {
	if err := os.Rename(w.out, fmt.Sprintf("%s-%d", w.out, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(w.out, 0o755); err != nil || !w.mkdir {
		return err
	}
	for _, directory := range w.directories {
		if err := os.Mkdir(filepath.Join(w.out, directory), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// check compares the results with what they have to be, and finds files that should not be there.
func (w *workload) check() error {
	want := w.result()
	for i, name := range w.names {
		got, err := os.ReadFile(filepath.Join(w.out, name))
		if err != nil {
			return err
		}
		if string(got) != numbered(want, i) {
			return fmt.Errorf("the result %s is wrong", name)
		}
	}
	count := 0
	err := filepath.WalkDir(w.out, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			count++
		}
		return err
	})
	if err == nil && count != len(w.names) {
		err = fmt.Errorf("%d files, want %d", count, len(w.names))
	}
	return err
}

func (b *bench) oneFileTable(c rendering, costs map[string]*renderCost) table {
	t := table{{fmt.Sprintf("%s, %d runs each", c.name, c.rounds), "elapsed", "p90", "× initbox", "cpu", "× initbox"}}
	mine := costs[ours]
	for _, r := range b.fit(c) {
		f := costs[r.name]
		if f.err != nil {
			continue
		}
		t = append(t, []string{r.name, human(f.wall.median()), human(f.wall.percentile(0.9)), ratio(float64(f.wall.median()), float64(mine.wall.median())),
			human(f.cpu.median()), ratio(float64(f.cpu.median()), float64(mine.cpu.median()))})
	}
	return t
}

func (b *bench) renderRows(c rendering, costs map[string]*renderCost) (rows [][]string) {
	mine := costs[ours]
	for _, r := range b.fit(c) {
		f := costs[r.name]
		if f.err != nil {
			continue
		}
		resident := mebibytes(f.peak)
		if f.bound {
			resident = "≤ " + resident
		}
		rows = append(rows, []string{c.name, r.name, human(f.wall.median()), ratio(float64(f.wall.median()), float64(mine.wall.median())),
			human(f.cpu.median()), ratio(float64(f.cpu.median()), float64(mine.cpu.median())), resident})
	}
	return rows
}

// failed returns a note for each tool that failed.
func failed(c rendering, costs map[string]*renderCost) (notes []string) {
	for _, r := range renderers {
		if f := costs[r.name]; f != nil && f.err != nil {
			notes = append(notes, fmt.Sprintf("%s failed with %s: %v.", r.name, c.name, f.err))
		}
	}
	return notes
}

// notMeasured names the tools that were not found.
func (b *bench) notMeasured() []string {
	var names []string
	for _, r := range renderers {
		if _, found := b.tools[r.tool]; !found {
			names = append(names, r.name)
		}
	}
	if names == nil {
		return nil
	}
	return []string{"Not measured, since not found: " + strings.Join(names, ", ") + "."}
}

// oneFileTargets returns the targets of the start, which is most of the time that one file takes.
func oneFileTargets(costs map[string]*renderCost) []target {
	cpu := costs[ours].cpu.median()
	return []target{{"cpu, initbox render, one file of 1 kB", "4 ms", human(cpu), cpu <= 4*time.Millisecond}}
}

// renderTargets are those of trees. That a run scales with the processors, and
// its memory with the largest file, is put in numbers here.
func renderTargets(cases []rendering, all map[rendering]map[string]*renderCost) (targets []target) {
	few, many := all[cases[0]], all[cases[1]]
	mine := many[ours].wall.median()
	if f := many[theirs]; f != nil && f.err == nil {
		limit := f.wall.median() / 5
		targets = append(targets, target{cases[1].name + ", elapsed", fmt.Sprintf("1/5 of %s (%s)", theirs, human(limit)), human(mine), mine <= limit})
	}
	if runtime.NumCPU() > 1 {
		limit, two := many[oursOneCore].wall.median()*2/3, many[oursTwoCores].wall.median()
		targets = append(targets, target{cases[1].name + ", elapsed with two processors", "2/3 of that with one (" + human(limit) + ")", human(two), two <= limit})
	}
	targets = append(targets, atMost("resident, "+cases[1].name, "2 × "+cases[0].name, 2*few[ours].peak, many[ours].peak))
	const most = 32 << 10 // KiB, whatever the size of the files
	for _, large := range cases[2:4] {
		for _, name := range []string{ours, oursJinja, oursEnvsubst} {
			if c := all[large][name]; c != nil && c.err == nil {
				targets = append(targets, target{"resident, " + large.name + ", " + name, mebibytes(most), mebibytes(c.peak), c.peak <= most})
			}
		}
	}
	return targets
}

// atMost is a target for memory in KiB.
func atMost(what, limit string, kib, got int64) target {
	return target{what, fmt.Sprintf("%s (%s)", limit, mebibytes(kib)), mebibytes(got), got <= kib}
}
