package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// peersDir is searched after PATH, for tools that no distribution packages.
const peersDir = "bench/peers"

// A tool is a program that the benchmarks run.
type tool struct {
	name        string
	versionArgs []string // make it print its version
	program     string   // the one that has it, if it is a library: it is there if versionArgs succeed
	directories string   // searched before PATH, a pattern of filepath.Glob; "" for none
	path        string   // absolute, once found
	version     string   // the line that it printed
}

// known lists every tool a benchmark may name. Those that are not found are
// absent from the tables, and the report says which.
var known = []tool{
	{name: "initbox", versionArgs: []string{"--version"}},
	{name: desk, versionArgs: []string{"--version"}},
	{name: "wait4x", versionArgs: []string{"version"}},
	{name: "dockerize", versionArgs: []string{"-version"}},
	{name: "grpc_health_probe", versionArgs: []string{"-version"}},
	{name: "busybox", versionArgs: []string{"--help"}},
	{name: "dig", versionArgs: []string{"-v"}},
	{name: "nc", versionArgs: []string{"-h"}},
	{name: "curl", versionArgs: []string{"--version"}},
	{name: "wget", versionArgs: []string{"--version"}},
	{name: "unbound", versionArgs: []string{"-V"}},
	{name: "ip", versionArgs: []string{"-V"}},
	{name: "pg_isready", versionArgs: []string{"--version"}, directories: postgresDirs},
	{name: "psql", versionArgs: []string{"--version"}, directories: postgresDirs},
	{name: "mysqladmin", versionArgs: []string{"--version"}},
	{name: "redis-cli", versionArgs: []string{"--version"}},
	{name: "etcd", versionArgs: []string{"--version"}},
	{name: "kube-apiserver", versionArgs: []string{"--version"}},
	{name: "kubectl", versionArgs: []string{"version", "--client"}},
	{name: "wait_for.sh", versionArgs: nil}, // of k8s-wait-for
	{name: "gomplate", versionArgs: []string{"--version"}},
	{name: "confd", versionArgs: []string{"-version"}},
	{name: "jinja2", program: "/usr/bin/python3", versionArgs: []string{"-c", // Debian's python3-jinja2, whatever other Python is on PATH
		"import jinja2, platform; print(jinja2.__version__, 'on Python', platform.python_version())"}},
	{name: "envsubst", versionArgs: []string{"--version"}}, // of gettext
	{name: "envsubst-a8m", versionArgs: nil},               // of a8m, under a name of its own
	{name: "chown", versionArgs: []string{"--version"}},
	{name: "chmod", versionArgs: []string{"--version"}},
	{name: "cp", versionArgs: []string{"--version"}},
	{name: "sh", versionArgs: nil},
	{name: "find", versionArgs: []string{"--version"}},
	{name: "git", versionArgs: []string{"--version"}},
	{name: "git-sync", versionArgs: []string{"--version"}},
}

// postgresDirs have PostgreSQL's clients themselves, as its image has them: what
// Debian puts on PATH is a script in Perl that starts them.
const postgresDirs = "/usr/lib/postgresql/*/bin"

// findTools looks for the known tools on PATH and in bench/peers. Only initbox must be there.
func findTools(ctx context.Context, initbox string) (map[string]tool, error) {
	found := map[string]tool{}
	for _, t := range known {
		path, err := t.find(ctx)
		if t.name == "initbox" {
			path, err = exec.LookPath(initbox)
			if err != nil {
				return nil, fmt.Errorf("the binary to measure: %w (build it first, or say where it is with -initbox)", err)
			}
		}
		if t.name == desk {
			path, err = exec.LookPath(filepath.Join(filepath.Dir(found[ours].path), desk))
		}
		if err != nil {
			continue
		}
		if t.path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		t.version = version(ctx, t)
		found[t.name] = t
	}
	return found, nil
}

// find returns where t is, or its program.
func (t tool) find(ctx context.Context) (string, error) {
	if found, _ := filepath.Glob(filepath.Join(t.directories, t.name)); t.directories != "" && len(found) > 0 {
		return found[len(found)-1], nil
	}
	if t.program == "" {
		return lookPath(t.name)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return t.program, exec.CommandContext(ctx, t.program, t.versionArgs...).Run()
}

func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	// Debian keeps servers out of an ordinary user's PATH.
	for _, dir := range []string{peersDir, "/usr/sbin", "/sbin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", err
}

// version returns the first line that t prints about itself. The exit status says nothing: netcat's help ends with 1.
// For a Go program that does not print its version, it is the version of the module that it was built from.
func version(ctx context.Context, t tool) string {
	if info, err := buildinfo.ReadFile(t.path); err == nil && t.versionArgs == nil {
		return info.Main.Version
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, t.path, t.versionArgs...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		line = strings.TrimPrefix(strings.Join(strings.Fields(line), " "), "Version: ")
		if first, _, found := strings.Cut(line, " libcurl/"); found {
			return first // curl goes on to name every library in it
		}
		if line != "" {
			return line
		}
	}
	return "version unknown"
}

// absent returns the known tools that were not found.
func (b *bench) absent() []string {
	var names []string
	for _, t := range known {
		if _, ok := b.tools[t.name]; !ok {
			names = append(names, t.name)
		}
	}
	return names
}
