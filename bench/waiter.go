package main

import (
	"fmt"
	"slices"
	"strings"
)

// A waiter is one way to wait for a thing: a command that exits 0 once the thing
// is there. Placeholders in braces are filled in by [waiter.argv].
type waiter struct {
	name string   // in the tables
	tool string   // what must be installed
	args []string // the whole command line, beginning with {tool} or a shell

	// rival marks what a target of the issue names: initbox has to be better than
	// these, not than any slower variant that a table shows beside them.
	rival bool

	once []string // of a loop, the probe alone, once
}

const ours = "initbox"

// patience bounds every waiter's wait, by its own flag where it has one. It is far longer than any wait here, so that
// no tool's default of ten seconds decides a measurement.
const patience = "120s"

func initbox(name string, args ...string) waiter {
	return waiter{name: name, tool: ours, args: command(args, "--timeout", patience)}
}

func wait4x(args ...string) waiter {
	return waiter{name: "wait4x", tool: "wait4x", args: command(args, "--timeout", patience), rival: true}
}

func dockerize(urls ...string) waiter {
	var args []string
	for _, url := range urls {
		args = append(args, "-wait", url)
	}
	return waiter{name: "dockerize", tool: "dockerize", args: command(args, "-timeout", patience), rival: true}
}

func command(args []string, more ...string) []string {
	return slices.Concat([]string{"{tool}"}, args, more)
}

// loop is what charts and the Kubernetes documentation do instead: a probe, in which {tool} is its program, and a
// pause, in a shell. The shell of a BusyBox probe is BusyBox's own, as in the image of that name.
func loop(tool, applet, probe string, seconds float64) waiter {
	run := []string{"/bin/sh"}
	pause := "sleep"
	if tool == "busybox" {
		run, pause = []string{"{tool}", "sh"}, "{tool} sleep"
	}
	script := fmt.Sprintf("until %s; do %s %v; done", probe, pause, seconds)
	return waiter{
		name:  fmt.Sprintf("%s loop, sleep %v", applet, seconds),
		tool:  tool,
		args:  append(run, "-c", script),
		once:  append(run[:len(run):len(run)], "-c", probe),
		rival: seconds == 1,
	}
}

// argv returns the command line of w with its placeholders replaced.
func (w waiter) argv(path string, vars map[string]string) []string {
	return filled(w.args, path, vars)
}

func filled(args []string, path string, vars map[string]string) []string {
	pairs := []string{"{tool}", path}
	for k, v := range vars {
		pairs = append(pairs, "{"+k+"}", v)
	}
	fill := strings.NewReplacer(pairs...)
	var argv []string
	for _, a := range args {
		argv = append(argv, fill.Replace(a))
	}
	return argv
}

// present returns the waiters whose tool was found.
func (b *bench) present(all []waiter) []waiter {
	var some []waiter
	for _, w := range all {
		if _, ok := b.tools[w.tool]; ok {
			some = append(some, w)
		}
	}
	return some
}
