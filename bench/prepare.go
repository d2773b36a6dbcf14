package main

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A preparation is a change to all files of a tree, which tools make in their own ways. In argv, DIR is the tree, and
// TO what the change is to: a user and the group of the same number, or a mode.
type preparation struct {
	name  string
	argv  []toolLine
	right string    // TO of a tree that is right already; all tools find it so
	wrong [2]string // TO by turns, so that each run finds every file wrong
	limit map[string]float64
}

// A toolLine is a command line, without shell quotes.
type toolLine struct{ tool, line string }

var preparations = []preparation{
	{"owner", []toolLine{
		{"initbox", "prepare DIR#owner=TO:TO&recursive"},
		{"chown", "-R TO:TO DIR"},
		{"find", "DIR ( ! -user TO -o ! -group TO ) -exec chown -h TO:TO {} +"},
	}, "0", [2]string{"1001", "1002"}, map[string]float64{"right": 0.6, "wrong": 0.9}},
	{"mode", []toolLine{
		{"initbox", "prepare DIR#mode=TO&recursive"},
		{"chmod", "-R TO DIR"},
	}, "u=rwX,go=rX", [2]string{"u=rwX,go=", "u=rwX,g=rX,o="}, map[string]float64{"right": 0.6, "wrong": 0.9}},
}

const preparedFiles = 300_000

// prepareAll measures owners and modes of whole volumes, beside chown, chmod and find.
func prepareAll(ctx context.Context, b *bench) (*section, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: giving files to other users needs root", errSkipped)
	}
	files := preparedFiles
	if b.quick {
		files /= 30
	}
	s := &section{
		title: "Owners and modes of volumes",
		about: fmt.Sprintf("All of %s files in directories of 100 get an owner or a mode with `initbox prepare`, `chown -R`, `chmod -R`, and `find` with `-exec … +`; they are right already, or all wrong. cpu is user and system time, with all children. × is the median of the ratios within a round, in which all run once, in random order.", thousands(files)),
	}
	busy := load()
	t := table{{"where", "files are", "tool", "elapsed", "× chown or chmod", "cpu"}}
	for _, place := range []setting{replayed, replayedOnDisk} {
		at := b.place(place)
		if at == "" {
			continue
		}
		where := map[bool]string{false: "in memory", true: "on the disk"}[place.disk]
		rows, targets, err := b.prepareIn(ctx, at, where, files)
		if err != nil {
			return s, fmt.Errorf("%s: %w", where, err)
		}
		t = append(t, rows...)
		s.targets = append(s.targets, targets...)
	}
	s.tables, s.notes = []table{t}, []string{busy()}
	return s, nil
}

// prepareIn measures all preparations of one tree.
func (b *bench) prepareIn(ctx context.Context, at, where string, files int) (rows [][]string, targets []target, err error) {
	dir, err := os.MkdirTemp(at, "prepare-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	for i := range files {
		name := filepath.Join(dir, strconv.Itoa(i/10_000), strconv.Itoa(i/100), strconv.Itoa(i))
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return nil, nil, err
			}
		}
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range preparations {
		for _, state := range []string{"right", "wrong"} {
			fmt.Fprintf(b.log, "bench: prepare: %s, %s %s …\n", where, p.name, state)
			costs, err := b.prepareRounds(ctx, dir, p, state)
			if err != nil {
				return nil, nil, fmt.Errorf("%s, %s: %w", p.name, state, err)
			}
			for i, line := range p.argv {
				times := ratios(costs[i].wall, costs[1].wall)
				rows = append(rows, []string{where, p.name + " " + state, line.tool, human(costs[i].wall.median()), fmt.Sprintf("%.2f", times), human(costs[i].cpu.median())})
				if i == 0 {
					what := fmt.Sprintf("prepare, %s files %s, %s %s, beside %s -R", thousands(files), where, p.name, state, p.argv[1].tool)
					targets = append(targets, target{what, fmt.Sprintf("≤ %.1f ×", p.limit[state]), fmt.Sprintf("%.2f ×", times), times <= p.limit[state]})
				}
			}
		}
	}
	return rows, targets, nil
}

// ratios returns the median of a/b, round by round.
func ratios(a, b sample) float64 {
	const unit = 1e6
	var s sample
	for i := range a {
		s = append(s, a[i]*unit/b[i])
	}
	return float64(s.median()) / unit
}

// prepareRounds runs all tools of a preparation, in another order in each round. Before the first round and, for files
// that are right, after each, it checks that all are as the last run should have left them.
func (b *bench) prepareRounds(ctx context.Context, dir string, p preparation, state string) ([]cost, error) {
	costs := make([]cost, len(p.argv))
	random := rand.New(rand.NewPCG(11, 12))
	rounds, turn := min(b.trials, 5), 0
	x := func() string {
		if state == "right" {
			return p.right
		}
		turn++
		return p.wrong[turn%2]
	}
	for round := -1; round < rounds; round++ { // the first warms the caches, and makes the tree right or wrong
		for _, i := range random.Perm(len(p.argv)) {
			to := x()
			argv := []string{b.tools[p.argv[i].tool].path}
			for _, word := range strings.Fields(p.argv[i].line) {
				argv = append(argv, strings.NewReplacer("DIR", dir, "TO", to).Replace(word))
			}
			syscall.Sync() // what others have left to the kernel is not this one's work
			run, err := b.start(ctx, argv)
			if err != nil {
				return nil, err
			}
			<-run.done
			if run.err != nil {
				return nil, run.err
			}
			if err := prepared(dir, p.name, to); err != nil {
				return nil, fmt.Errorf("%s: %w", p.argv[i].tool, err)
			}
			if round >= 0 {
				costs[i].wall, costs[i].cpu = append(costs[i].wall, run.exited.Sub(run.started)), append(costs[i].cpu, run.cpu())
			}
		}
	}
	return costs, nil
}

// prepared returns an error unless a sample of the files is as it should be.
func prepared(dir, what, to string) error {
	n := 0
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if n++; err != nil || n%97 > 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		private := info.Mode().Perm()&0o007 == 0
		switch s := info.Sys().(*syscall.Stat_t); {
		case what == "owner" && (strconv.Itoa(int(s.Uid)) != to || strconv.Itoa(int(s.Gid)) != to):
			return fmt.Errorf("%s has the owner %d:%d, want %s", path, s.Uid, s.Gid, to)
		case what == "mode" && private == (to == preparations[1].right):
			return fmt.Errorf("%s has the mode %v, want %s", path, info.Mode(), to)
		}
		return nil
	})
}
