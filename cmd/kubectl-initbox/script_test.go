package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"initbox/cmd/command"
)

var update = flag.Bool("update", false, "rewrite the golden parts of the scripts")

// TestMain makes the test binary the plugin under its names, so that the scripts run it as users do: as a process.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kubectl-initbox": func() { os.Exit(run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr)) },
		"initbox":         func() { os.Exit(command.Run("devel", os.Args, os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScript runs the scripts of testdata/script, each named after the behaviour that it pins.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"status": cmdStatus},
	})
}

// status N cmd args… runs cmd and requires its exit status.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N cmd args…")
	}
	got := 0
	switch err := ts.Exec(args[1], args[2:]...).(type) {
	case nil:
	case *exec.ExitError:
		got = err.ExitCode()
	default:
		ts.Fatalf("cannot run it: %v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}
