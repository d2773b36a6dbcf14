// Command mutants changes one operator at a time in the product's code and runs the package's own tests, which should
// fail. It prints the mutants that survive, and exits with 1 if fewer than 95 % are killed.
//
//	go run ./test/mutants -for 4m -seed 7
//	go run ./test/mutants -changed v1.2.0            # of the lines that have changed since, in any package
//	go run ./test/mutants -for 10m ./clone/publish
//
// The sources stay as they are: a mutant is compiled through go's -overlay. One that does not compile is not counted.
// But code that removes files, with a condition negated, may remove others: run it where nothing can be lost, and not
// as root.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Where files are written or secrets are handled: what a test does not notice there costs most.
var critical = []string{
	"./clone/access", "./clone/gitdir", "./clone/publish", "./clone/worktree", "./internal/atomicfile", "./internal/dirfd",
	"./internal/secret", "./register", "./render", "./internal/stage", "./render/values", "./waitfor/wire",
	"./internal/perm", "./volume/prepare", "./volume/copy", "./volume/fetch/archive", "./volume/fetch/place",
}

// least is the share of the mutants that have to be killed, in per cent.
const least = 95

// changedFile is what a mutant's file is called, also in the compiler's messages.
const changedFile = "mutant.go"

func main() {
	limit := flag.Duration("for", 4*time.Minute, "start no mutant after this `DURATION`")
	seed := flag.Uint64("seed", 1, "the `NUMBER` that decides which mutants come first")
	changed := flag.String("changed", "", "only lines that have changed since this `REVISION`")
	flag.Parse()
	if err := run(flag.Args(), *changed, *seed, time.Now().Add(*limit)); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(patterns []string, changed string, seed uint64, end time.Time) error {
	if len(patterns) == 0 {
		patterns = critical
		if changed != "" {
			patterns = []string{"./..."}
		}
	}
	mutants, err := find(patterns, changed)
	if err != nil {
		return err
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	trial := trial{dir: dir, allowed: map[string][]time.Duration{}}
	count := map[outcome]int{}
	var failed error
	for _, m := range mutants {
		if time.Now().After(end) {
			break
		}
		result, err := trial.of(m)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		count[result]++
		if result == survived {
			fmt.Printf("survived: %s\n", m)
		}
	}
	tried := count[killed] + count[survived]
	fmt.Printf("mutants: %d of %d killed, out of %d there are; %d more did not compile; seed %d\n",
		count[killed], tried, len(mutants), count[broken], seed)
	if failed != nil {
		return failed
	}
	if tried == 0 && count[broken] > 0 {
		return errors.New("no mutant compiles")
	}
	if count[killed]*100 < tried*least {
		return fmt.Errorf("less than %d %% are killed", least)
	}
	return nil
}

// find returns the mutants of the packages' files, or of those of their lines that have changed since a revision.
func find(patterns []string, changed string) ([]mutant, error) {
	out, err := output("go", append([]string{"list", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct {
			Dir, ImportPath                    string
			GoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.ImportPath, "initbox/test/") || len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			lines, err := changedLines(path, changed)
			if err != nil {
				return nil, err
			}
			found, err := mutantsOf(path, p.ImportPath, lines)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// changedLines returns which lines of a file have changed since a revision: a function that always holds if there is no
// revision.
func changedLines(path, since string) (func(line int) bool, error) {
	if since == "" {
		return func(int) bool { return true }, nil
	}
	diff, err := output("git", "diff", "--unified=0", "--no-color", since, "--", path)
	if err != nil {
		return nil, err
	}
	lines := map[int]bool{}
	for text := range strings.Lines(string(diff)) {
		// @@ -10,2 +12,3 @@: three lines, from the twelfth
		_, after, ok := strings.Cut(text, " +")
		if !strings.HasPrefix(text, "@@ ") || !ok {
			continue
		}
		after, _, _ = strings.Cut(after, " ")
		from, number, several := strings.Cut(after, ",")
		first, err := strconv.Atoi(from)
		n := 1
		if several && err == nil {
			n, err = strconv.Atoi(number)
		}
		if err != nil {
			return nil, fmt.Errorf("git diff says %q: %w", text, err)
		}
		for i := range n {
			lines[first+i] = true
		}
	}
	return func(line int) bool { return lines[line] }, nil
}

type outcome int

const (
	killed outcome = iota
	survived
	broken // it does not compile, and is not counted
)

// trial runs tests against mutants.
type trial struct {
	dir     string
	allowed map[string][]time.Duration // how long each of runs may take, by package
}

// runs are the arguments with which tests run: first with -short, which finds most.
var runs = [][]string{{"-test.failfast", "-test.short"}, {"-test.failfast"}}

// of tries one mutant.
func (t trial) of(m mutant) (outcome, error) {
	allowed, err := t.allowedFor(m)
	if err != nil {
		return 0, err
	}
	overlay, err := t.overlay(m)
	if err != nil {
		return 0, err
	}
	if out, err := t.compile(m.pkg, "-overlay", overlay); err != nil && rejected(out) {
		return broken, nil
	} else if err != nil {
		return 0, fmt.Errorf("compiling %s: %w\n%s", m, err, out)
	}
	for i, args := range runs {
		if result, err := t.test(m, args, allowed[i]); result != survived || err != nil {
			return result, err
		}
	}
	return survived, nil
}

// compile compiles the tests of a package.
func (t trial) compile(pkg string, args ...string) ([]byte, error) {
	args = append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", t.binary()}, append(args, pkg)...)
	return exec.Command("go", args...).CombinedOutput()
}

func (t trial) binary() string { return filepath.Join(t.dir, "mutant.test") }
func (t trial) log() string    { return filepath.Join(t.dir, "mutant.log") }

// rejected reports whether the compiler rejected the types of a mutant. A syntax error is a fault of this program.
func rejected(out []byte) bool {
	return bytes.Contains(out, []byte(changedFile+":")) && !bytes.Contains(out, []byte("syntax error"))
}

// test runs the tests that were compiled last. Only a test that fails, panics or does not end in time kills the mutant.
func (t trial) test(m mutant, args []string, allowed time.Duration) (outcome, error) {
	// A file, since a pipe would stay open as long as a child of the test does.
	log, err := os.Create(t.log())
	if err != nil {
		return 0, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(context.Background(), allowed)
	defer cancel()
	temporary, err := os.MkdirTemp(t.dir, "tmp") // removed with what a test leaves that is killed
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temporary)
	cmd := exec.CommandContext(ctx, t.binary(), args...)
	cmd.Dir, cmd.Env = filepath.Dir(m.path), append(os.Environ(), "TMPDIR="+temporary)
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Run()
	if err == nil {
		return survived, nil
	}
	out, readErr := os.ReadFile(t.log())
	switch status := cmd.ProcessState.ExitCode(); {
	case readErr != nil:
		return 0, readErr
	case cmd.ProcessState != nil && ctx.Err() != nil,
		status == 1 && bytes.Contains(out, []byte("FAIL")),
		status == 2 && (bytes.Contains(out, []byte("panic: ")) || bytes.Contains(out, []byte("fatal error: "))):
		return killed, nil
	}
	return 0, fmt.Errorf("%s: the tests neither pass nor fail: %w\n%s", m, err, out)
}

// allowedFor returns how long each of the runs of a mutant of the package may take: ten times as long as without one.
// Without one the tests have to pass, or every mutant would seem to be killed.
func (t trial) allowedFor(m mutant) ([]time.Duration, error) {
	if d, ok := t.allowed[m.pkg]; ok {
		return d, nil
	}
	if out, err := t.compile(m.pkg); err != nil {
		return nil, fmt.Errorf("compiling %s without a mutant: %w\n%s", m.pkg, err, out)
	}
	var all []time.Duration
	for _, args := range runs {
		began := time.Now()
		if result, err := t.test(m, args, time.Hour); err != nil || result != survived {
			out, _ := os.ReadFile(t.log())
			return nil, fmt.Errorf("the tests of %s fail without a mutant: %v\n%s", m.pkg, err, out)
		}
		all = append(all, 10*time.Since(began)+10*time.Second)
	}
	t.allowed[m.pkg] = all
	return all, nil
}

// overlay writes the mutant's file, and the one that tells go to compile it instead of the original.
func (t trial) overlay(m mutant) (string, error) {
	source, err := os.ReadFile(m.path)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(t.dir, changedFile)
	text := string(source[:m.start]) + m.text + string(source[m.end:])
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.path: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(t.dir, "overlay.json")
	return overlay, os.WriteFile(overlay, replace, 0o600)
}

// output runs a program and returns what it prints; what it says of a failure is in the error.
func output(name string, args ...string) ([]byte, error) {
	out, err := exec.Command(name, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%s %s: %w: %s", name, args[0], err, exit.Stderr)
	}
	return out, err
}
