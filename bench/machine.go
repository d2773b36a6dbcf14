package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine describes what the figures were measured on and with.
func (b *bench) machine(began time.Time, took time.Duration) table {
	t := table{
		{"what", "which"},
		{"processor", fmt.Sprintf("%s, %d cores", field("/proc/cpuinfo", "model name"), runtime.NumCPU())},
		{"memory", field("/proc/meminfo", "MemTotal")},
		{"kernel", kernel()},
		{"Go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		{"run", fmt.Sprintf("%s, %.0f s, %d trials", began.UTC().Format(time.DateOnly), took.Seconds(), b.trials)},
	}
	for _, k := range known {
		if f, ok := b.tools[k.name]; ok {
			t = append(t, []string{k.name, f.version})
		}
	}
	if absent := b.absent(); len(absent) > 0 {
		t = append(t, []string{"absent, so not in the tables", strings.Join(absent, ", ")})
	}
	return t
}

// measuredAlone is what [bench.machine] says, for a section that was not measured with
// the rest of its page: of the tools, those that stand in its tables.
func (b *bench) measuredAlone(s *section, began time.Time) string {
	named := map[string]bool{}
	for _, t := range s.tables {
		for _, row := range t {
			for _, cell := range row {
				for _, word := range strings.Fields(cell) {
					named[strings.TrimSuffix(word, ",")] = true
				}
			}
		}
	}
	var versions []string
	for _, k := range known {
		if f, ok := b.tools[k.name]; ok && named[k.name] {
			versions = append(versions, f.version)
		}
	}
	if versions == nil { // each row is another way to run initbox
		versions = []string{b.tools[ours].version}
	}
	return fmt.Sprintf("Measured alone on %s, on %d cores of %s, with %s.", began.UTC().Format(time.DateOnly), runtime.NumCPU(),
		field("/proc/cpuinfo", "model name"), strings.TrimSuffix(strings.Join(versions, "; "), "."))
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return "Linux " + strings.TrimSpace(string(release))
}

// field returns the value of the first "key : value" line of a file in /proc.
func field(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		k, v, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(k) == key {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return "unknown"
}

// load watches the processors from its call to the call of what it returns, which is a sentence for the report: waits
// that share too few processors delay each other, and anything else that runs on the machine delays them all.
func load() func() string {
	busy, total := cpuTicks()
	began, mine := time.Now(), ownCPU()
	return func() string {
		b, t := cpuTicks()
		everything := float64(b-busy) / float64(max(t-total, 1))
		own := float64(ownCPU()-mine) / float64(time.Since(began)) / float64(runtime.NumCPU())
		return fmt.Sprintf("Meanwhile the processors were busy for %.0f %% of the time; this benchmark alone kept them busy for %.0f %%.", 100*everything, 100*own)
	}
}

// ownCPU returns the user and system time of this process and of the children it has waited for.
func ownCPU() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// cpuTicks reads the first line of /proc/stat: user nice system idle iowait …
func cpuTicks() (busy, total int) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, word := range strings.Fields(line)[1:] {
		n, err := strconv.Atoi(word)
		if err != nil || i > 7 { // guest time is part of user time
			break
		}
		total += n
		if i != 3 && i != 4 {
			busy += n
		}
	}
	return busy, total
}
