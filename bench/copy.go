package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	random "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A copying is a tree that all tools copy to a directory that does not exist.
type copying struct {
	name  string
	files int
	size  int64 // of each
	limit float64
}

// copyLines copy SRC, a directory, to DST. The last writes to the disk what it has copied, as initbox does.
var copyLines = []toolLine{
	{"initbox", "copy SRC:DST"},
	{"initbox", "copy SRC:DST --keep"},
	{"cp", "-r SRC DST"},
	{"cp", "-a SRC DST"},
	{"sh", "-c|cp -a SRC DST && sync -f DST"},
}

// copyAll measures copies of many small files and of a large one, beside cp.
func copyAll(ctx context.Context, b *bench) (*section, error) {
	copies := []copying{{"10 000 of 4 kB", 10_000, 4 << 10, 1.2}, {"one of 2 GB", 1, 2 << 30, 1.2}}
	if b.quick {
		copies = []copying{{"1 000 of 4 kB", 1000, 4 << 10, 1.2}, {"one of 200 MB", 1, 200 << 20, 1.2}}
	}
	s := &section{
		title: "Copies into volumes",
		about: "A directory is copied to one that does not exist, with `initbox copy`, `cp -r` and `cp -a`, and once more over the copy, which initbox compares and leaves alone. cp leaves the writing to the kernel; initbox ends when all is on the disk, as does `cp -a` with `sync -f`. cpu is user and system time, with all children. × is the median of the ratios within a round, in which all run once, in random order.",
	}
	busy := load()
	t := table{{"where", "files", "tool", "elapsed", "× cp -r", "× cp -a", "again", "cpu"}}
	for _, place := range []setting{replayed, replayedOnDisk} {
		at := b.place(place)
		where := map[bool]string{false: "in memory", true: "on the disk"}[place.disk]
		for _, c := range copies {
			if at == "" || room(at) < 3*int64(c.files)*c.size {
				s.notes = append(s.notes, fmt.Sprintf("no room %s for %s", where, c.name))
				continue
			}
			fmt.Fprintf(b.log, "bench: copy: %s, %s …\n", where, c.name)
			rows, targets, err := b.copyIn(ctx, at, where, c, place.disk)
			if err != nil {
				return s, fmt.Errorf("%s, %s: %w", where, c.name, err)
			}
			t = append(t, rows...)
			s.targets = append(s.targets, targets...)
		}
	}
	s.tables, s.notes = []table{t}, append(s.notes, busy())
	return s, nil
}

// copyIn measures all tools with one tree. On the disk, initbox is compared with the cp that waits for it, too.
func (b *bench) copyIn(ctx context.Context, at, where string, c copying, disk bool) (rows [][]string, targets []target, err error) {
	dir, err := os.MkdirTemp(at, "copy-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	src := filepath.Join(dir, "src")
	if err := c.write(src); err != nil {
		return nil, nil, err
	}
	first, again := make([]cost, len(copyLines)), make([]cost, len(copyLines))
	order := random.New(random.NewPCG(13, 14))
	for round := range min(b.trials, 5) + 1 { // the first warms the caches
		for _, i := range order.Perm(len(copyLines)) {
			dst := filepath.Join(dir, "dst")
			for _, costs := range [][]cost{first, again} {
				run, err := b.copyOnce(ctx, copyLines[i], src, dst)
				if err == nil {
					err = c.check(src, dst)
				}
				if err != nil {
					return nil, nil, fmt.Errorf("%s %s: %w", copyLines[i].tool, copyLines[i].line, err)
				}
				if round > 0 {
					costs[i].wall, costs[i].cpu = append(costs[i].wall, run.exited.Sub(run.started)), append(costs[i].cpu, run.cpu())
				}
				if copyLines[i].tool != ours {
					break // it would copy into the copy
				}
			}
			if err := os.RemoveAll(dst); err != nil {
				return nil, nil, err
			}
		}
	}
	for i, line := range copyLines {
		r, a := ratios(first[i].wall, first[2].wall), ratios(first[i].wall, first[3].wall)
		repeated := ""
		if line.tool == ours {
			repeated = human(again[i].wall.median())
		}
		shown := strings.NewReplacer(" SRC:DST", "", " SRC DST", "", "-c|", "", " DST", "").Replace(line.line)
		if line.tool != "sh" {
			shown = line.tool + " " + shown
		}
		rows = append(rows, []string{where, c.name, shown, human(first[i].wall.median()), fmt.Sprintf("%.2f", r), fmt.Sprintf("%.2f", a), repeated, human(first[i].cpu.median())})
	}
	beside, with := []int{2, 3}, []string{"cp -r", "cp -a"}
	if disk {
		beside, with = []int{4, 4}, []string{"cp -a and sync", "cp -a and sync"}
	}
	for i, name := range []string{"copy", "copy --keep"} {
		times := ratios(first[i].wall, first[beside[i]].wall)
		what := fmt.Sprintf("%s, %s %s, beside %s", name, c.name, where, with[i])
		targets = append(targets, target{what, fmt.Sprintf("≤ %.1f ×", c.limit), fmt.Sprintf("%.2f ×", times), times <= c.limit})
	}
	return rows, targets, nil
}

// copyOnce runs one tool.
func (b *bench) copyOnce(ctx context.Context, line toolLine, src, dst string) (*proc, error) {
	words := strings.Fields(line.line)
	if rest, found := strings.CutPrefix(line.line, "-c|"); found {
		words = []string{"-c", rest}
	}
	argv := []string{b.tools[line.tool].path}
	for _, word := range words {
		argv = append(argv, strings.NewReplacer("SRC", src, "DST", dst).Replace(word))
	}
	syscall.Sync() // what others have left to the kernel is not this one's work
	run, err := b.start(ctx, argv)
	if err != nil {
		return nil, err
	}
	<-run.done
	return run, run.err
}

// write makes the files.
func (c copying) write(dir string) error {
	for i := range c.files {
		name := filepath.Join(dir, strconv.Itoa(i/100), strconv.Itoa(i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		_, err = io.CopyN(f, rand.Reader, c.size)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error unless a sample of the files is the same.
func (c copying) check(src, dst string) error {
	n := 0
	return filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(src, path)
		info, err := os.Stat(filepath.Join(dst, name))
		if err != nil || info.Size() != c.size {
			return errors.Join(err, fmt.Errorf("%s is missing or of another size", name))
		}
		if n++; n%97 > 0 {
			return nil
		}
		want, errWant := os.ReadFile(path)
		got, errGot := os.ReadFile(filepath.Join(dst, name))
		if err := errors.Join(errWant, errGot); err != nil || !bytes.Equal(got, want) {
			return errors.Join(err, fmt.Errorf("%s differs", name))
		}
		return nil
	})
}
