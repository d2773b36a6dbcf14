package sidecars

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"initbox/test/servers"
	"initbox/test/soak"
)

var program string

func TestMain(m *testing.M) { os.Exit(servers.WithInitbox(&program, m.Run)) }

// TestComeAndGo changes what the sidecars look at, while servers and files are there or away and while sidecars are
// killed, and requires that each has the last version in place in the end and has told the application of it. Under
// make soak, memory and open files must not grow.
func TestComeAndGo(t *testing.T) {
	servers.Slow(t)
	w := newWorld(t)
	sidecars := w.sidecars(t)
	for _, s := range sidecars {
		w.start(t, s)
	}
	w.settle(t, sidecars)
	random, begin := soak.Rand(t), time.Now()
	rounds, kills := 0, 0
	pause := func() {
		if soak.Running(t) {
			time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
		}
	}
	usage := map[string][]use{}
	for rounds = 0; rounds < 6 || time.Since(begin) < soak.Duration(t); rounds++ {
		var away []*door
		for _, d := range w.doors() {
			if random.IntN(2) == 0 {
				d.close()
				away = append(away, d)
			}
		}
		if random.IntN(3) == 0 {
			w.entries.Forget()
		}
		for range random.IntN(3) {
			w.change(t)
			pause()
		}
		if victim := sidecars[random.IntN(len(sidecars))]; !soak.Running(t) { // where memory is measured, each process stays
			victim.cmd.Process.Kill()
			victim.cmd.Wait()
			w.start(t, victim)
			kills++
		}
		for _, d := range away {
			d.open(t)
		}
		w.change(t)
		w.settle(t, sidecars)
		pause()
		for _, s := range sidecars {
			u, err := read(s.cmd.Process.Pid)
			if err != nil {
				t.Fatalf("%s has ended: %v", s.name, err)
			}
			usage[s.name] = append(usage[s.name], u)
		}
	}
	t.Logf("%d rounds, %d versions, %d kills in %v", rounds, w.version, kills, time.Since(begin).Round(time.Second))
	const enough = 40 // rounds for a comparison
	for _, s := range sidecars {
		all := usage[s.name]
		third := max(1, len(all)/3)
		first, last := median(all[:third]), median(all[len(all)-third:])
		t.Logf("%-10s %s at first, %s at last", s.name, first, last)
		if rounds >= enough && (last.memory > first.memory*5/4+2<<20 || last.files > first.files+2) {
			t.Errorf("%s grows", s.name)
		}
	}
}

// use is what a process uses.
type use struct {
	memory int // resident, in bytes
	files  int // open
}

func (u use) String() string {
	return fmt.Sprintf("%.1f MiB and %d files", float64(u.memory)/(1<<20), u.files)
}

// read returns what a process uses; see proc(5).
func read(pid int) (use, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	statm, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return use{}, err
	}
	files, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return use{}, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	return use{pages * os.Getpagesize(), len(files)}, err
}

// median returns the median of each.
func median(all []use) (m use) {
	for value, of := range map[*int]func(use) int{&m.memory: func(u use) int { return u.memory }, &m.files: func(u use) int { return u.files }} {
		var sorted []int
		for _, u := range all {
			sorted = append(sorted, of(u))
		}
		slices.Sort(sorted)
		*value = sorted[len(sorted)/2]
	}
	return m
}
