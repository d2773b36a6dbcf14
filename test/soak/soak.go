// Package soak decides what is random in a test. Under go test nothing is: a test strikes at a fixed list of moments
// and draws from a fixed seed, so that two runs do the same. Under make soak it strikes at random moments and draws
// from a new seed, which is logged and can be given again:
//
//	INITBOX_SOAK=30s INITBOX_SEED=7 go test ./clone/publish -run Killed
//
// A test that kills a process asks for the moments, as fractions of an undisturbed run. Its name contains Killed, by
// which make soak finds it:
//
//	for moment := range soak.Moments(t, 20) {
//		child := soak.Child("WRITE_TO=" + name) // TestMain writes instead of running tests
//		soak.Start(t, child, "begin")
//		time.Sleep(time.Duration(moment * float64(undisturbed)))
//		child.Process.Kill()
//		child.Wait()
//		...
//	}
package soak

import (
	"bufio"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"initbox/test/servers"
)

// Moments yields fractions in [0, 1): n of them, evenly spread and always the same, or, while make soak runs, random
// ones until $INITBOX_SOAK has passed since the first.
func Moments(t testing.TB, n int) iter.Seq[float64] {
	t.Helper()
	if !strings.Contains(t.Name(), "Killed") {
		t.Fatalf("make soak does not run %s: a test that asks for moments has Killed in its name", t.Name())
	}
	limit := Duration(t)
	random := Rand(t)
	return func(yield func(float64) bool) {
		if limit == 0 {
			for i := range n {
				if !yield((float64(i) + 0.5) / float64(n)) {
					return
				}
			}
			return
		}
		for start := time.Now(); time.Since(start) < limit; {
			if !yield(random.Float64()) {
				return
			}
		}
	}
}

// Child returns a command that runs the binary of this test with more variables in its environment, such as NAME=VALUE.
// The package's TestMain looks at them before it runs tests.
func Child(env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = servers.DieWithParent()
	return cmd
}

// Start starts a command and returns when it has printed line. What it prints later can be read from output.
func Start(t testing.TB, cmd *exec.Cmd, line string) (output *bufio.Reader) {
	t.Helper()
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	output = bufio.NewReader(pipe)
	if got, err := output.ReadString('\n'); got != line+"\n" {
		t.Fatalf("%s printed %q, %v, want %q", cmd, got, err, line)
	}
	return output
}

// Rand returns a source of random numbers: always the same for a test of this name, or, while make soak runs, that of
// $INITBOX_SEED.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	name := fnv.New64a()
	name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed(t), name.Sum64()))
}

// Running reports whether make soak runs, so that a test may do more than go test has the time for.
func Running(t testing.TB) bool {
	t.Helper()
	return Duration(t) > 0
}

// Duration returns how long a test goes on while make soak runs, or 0 otherwise.
func Duration(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv("INITBOX_SOAK")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("INITBOX_SOAK=%s is not a positive duration", text)
	}
	return d
}

// seed returns $INITBOX_SEED, and logs it: a test that failed is run again with it.
func seed(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("INITBOX_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("INITBOX_SEED=%s is not a number", text)
	}
	t.Logf("INITBOX_SEED=%d", n)
	return n
}
