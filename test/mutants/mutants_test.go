package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const sum = `package sum

import "errors"

func Sum(a, b int, known bool) (int, error) {
	if err := check(a); err != nil {
		return 0, err
	}
	if known {
		return a + b, nil
	}
	if a < 100 && b == 1 {
		return 1, nil
	}
	return 0, nil
}

func check(a int) error {
	if a < 0 {
		return errors.New("negative")
	}
	return nil
}
`

// module makes a module with one package, sum, and a test of it, and makes it the working directory.
func module(t *testing.T, test string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n", "sum.go": sum,
		"sum_test.go": "package sum\n\nimport \"testing\"\n\n" + test,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMutantsOfAFile(t *testing.T) {
	module(t, "")
	all, err := mutantsOf("sum.go", "m", func(line int) bool { return line < 17 })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.String())
	}
	want := []string{
		"sum.go:6:34: the error is not returned", "sum.go:6:26: != becomes ==", "sum.go:9:5: the condition is negated",
		"sum.go:10:12: + becomes -", "sum.go:12:13: && becomes ||", "sum.go:12:7: < becomes <=", "sum.go:12:18: == becomes !=",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKilledAndSurvived(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles packages")
	}
	module(t, "func TestSum(t *testing.T) {\n\tif n, err := Sum(1, 2, true); n != 3 || err != nil {\n\t\tt.Error(n, err)\n\t}\n}\n")
	path, err := filepath.Abs("sum.go")
	if err != nil {
		t.Fatal(err)
	}
	all, err := mutantsOf(path, "m", func(line int) bool { return line == 6 || line == 10 })
	if err != nil {
		t.Fatal(err)
	}
	try := trial{dir: t.TempDir(), allowed: map[string][]time.Duration{}}
	want := map[string]outcome{"the error is not returned": survived, "!= becomes ==": killed, "+ becomes -": killed}
	for _, m := range all {
		if got, err := try.of(m); err != nil || got != want[m.what] {
			t.Errorf("%s: outcome %d, %v; want %d", m, got, err, want[m.what])
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != sum {
		t.Errorf("the source was changed: %v", err)
	}
	if len(all) != len(want) {
		t.Errorf("%d mutants, want %d", len(all), len(want))
	}
}

// TestOutcomes checks that only a failure of the tests counts as one.
func TestOutcomes(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles packages")
	}
	module(t, `import "os"

func TestMain(m *testing.M) {
	if n, _ := Sum(1, 2, true); n != 3 {
		os.Exit(1) // and no test has failed
	}
	os.Exit(m.Run())
}

func TestEnds(t *testing.T) {
	for n := 0; n != 1; {
		n, _ = Sum(0, 1, false)
	}
}

func TestKnown(t *testing.T) {
	if n, _ := Sum(1, 2, true); n != 3 {
		t.Error(n)
	}
	if n, _ := Sum(100, 1, false); n != 0 {
		panic(n)
	}
}
`)
	path, err := filepath.Abs("sum.go")
	if err != nil {
		t.Fatal(err)
	}
	mutantOf := func(old, text string) mutant {
		start := strings.Index(sum, old)
		return mutant{path: path, pkg: "m", start: start, end: start + len(old), text: text, what: old + " becomes " + text}
	}
	try := trial{dir: t.TempDir(), allowed: map[string][]time.Duration{}}
	for _, c := range []struct {
		mutant mutant
		want   outcome
		fails  string
	}{
		{mutant: mutantOf("a < 100", "a <= 100"), want: killed},  // by a panic
		{mutant: mutantOf("b == 1", "b != 1"), want: killed},     // by not ending
		{mutant: mutantOf("a < 0", "a <= -1"), want: survived},   // the same
		{mutant: mutantOf("a + b", "a + \"b\""), want: broken},   // not the type
		{mutant: mutantOf("a + b", "a + / b"), fails: "syntax"},  // a mistake of ours
		{mutant: mutantOf("a + b", "a - b"), fails: "pass"},      // the test did not run
		{mutant: mutant{path: path + "x", pkg: "m"}, fails: "x"}, // no such file
	} {
		got, err := try.of(c.mutant)
		if c.fails == "" && (err != nil || got != c.want) {
			t.Errorf("%s: outcome %d, %v; want %d", c.mutant, got, err, c.want)
		}
		if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: outcome %d, %v; want an error with %q", c.mutant, got, err, c.fails)
		}
	}
	t.Setenv("PATH", "")
	if got, err := try.of(mutantOf("a < 0", "a < 1")); err == nil {
		t.Errorf("without go: outcome %d", got)
	}
}

func TestChangedLines(t *testing.T) {
	module(t, "")
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Skipf("git: %v: %s", err, out)
		}
	}
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "first")
	edited := strings.Replace(sum, "return a + b, nil", "b += a\n\t\treturn b, nil", 1)
	if err := os.WriteFile("sum.go", []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := changedLines("sum.go", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for line := range 30 {
		if changed(line) {
			got = append(got, line)
		}
	}
	if want := []int{10, 11}; !slices.Equal(got, want) {
		t.Errorf("lines %v have changed, want %v", got, want)
	}
}
