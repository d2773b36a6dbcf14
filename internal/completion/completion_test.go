package completion

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// described is the description of a small program, with all forms of values.
const described = `{"subcommands": [
	{"name": "wait-for-service", "usage": "wait; and more", "arguments": "TARGET… [-- COMMAND ARG…]", "flags": [
		{"name": "timeout", "type": "duration", "value": "DURATION", "usage": "how long"},
		{"name": "log-format", "type": "string", "value": "text|json", "usage": "it's the format of the log: text"},
		{"name": "log-level", "type": "string", "value": "LEVEL", "usage": "LEVEL"},
		{"name": "ca-file", "type": "string", "value": "FILE", "usage": "FILE"},
		{"name": "any", "type": "bool", "value": "", "usage": "one is enough"}]},
	{"name": "render", "usage": "render", "arguments": "SRC:DST…", "flags": [
		{"name": "schema", "aliases": ["s"], "type": "string", "value": "[PATTERN=]FILE", "usage": "FILE"},
		{"name": "set-file", "type": "string", "value": "KEY=FILE", "usage": "FILE"},
		{"name": "lists", "type": "string", "value": "replace|append|by-key=NAME", "usage": "lists"},
		{"name": "recursive", "type": "string", "value": "on-root-mismatch", "optional": true, "usage": "below, too"}]},
	{"name": "install", "usage": "install", "arguments": "DIR [NAME…]", "flags": []}],
	"kinds": [{"schemes": ["dns"], "usage": "dns:NAME"}, {"schemes": ["file"], "usage": "file:///PATH"},
		{"schemes": ["tcp", "tcp4"], "usage": "tcp://HOST:PORT", "settings": [{"name": "hold", "value": "DURATION"}]}],
	"settings": [{"name": "gone", "usage": "it's gone"}]}`

// small returns the program that described describes, in a directory with some files.
func small(t *testing.T) (p *Program, dir string) {
	t.Helper()
	p, err := Read("program", strings.NewReader(described))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, name := range []string{"ca.crt", "two words.crt", "folder/inner.txt"} {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A link named render leads to the program; install is the machine's own.
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "program"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("program", filepath.Join(bin, "render")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return p, dir
}

// typed has command lines up to the cursor, and the words that are offered there; with "…", others too. DIR
// is the working directory, and ␣ a space in a word.
var typed = []struct{ name, line, want string }{
	{"subcommands", "program ", "wait-for-service render install help --list …"},
	{"the only subcommand", "program ren", "render"},
	{"topics", "program help f", "file"},
	{"format of the list", "program --format ", "text json"},
	{"flags", "program wait-for-service --", "--any --ca-file --log-format --log-level --timeout"},
	{"flags after arguments", "program wait-for-service tcp://x --t", "--timeout"},
	{"flags of a link", "wait-for-service --log-", "--log-format --log-level"},
	{"flags of a link with its path", "/tools/wait-for-service --an", "--any"},
	{"flags of a link whose name other programs have, too", "render --li", "--lists"},
	{"another program with the name of a subcommand", "install ca", "ca.crt"},
	{"values", "program wait-for-service --log-format ", "text json"},
	{"values after an equals sign", "program wait-for-service --log-format=j", "--log-format=json"},
	{"values that the form does not list", "program wait-for-service --log-level ", "debug info warn error"},
	{"any value", "program wait-for-service --timeout ", ""},
	{"files", "program wait-for-service --ca-file ca", "ca.crt"},
	{"files after an equals sign", "program wait-for-service --ca-file=ca", "--ca-file=ca.crt"},
	{"files of a key", "program render --set-file x=ca", "x=ca.crt"},
	{"files of a key, after equals signs", "program render --set-file=x=ca", "--set-file=x=ca.crt"},
	{"files of a pattern", "program render --schema *.yaml=ca", "*.yaml=ca.crt"},
	{"a file with a space", "program wait-for-service --ca-file tw", "two␣words.crt"},
	{"files after a short flag", "program render -s tw", "two␣words.crt"},
	{"files in a folder", "program render --schema folder/", "folder/inner.txt"},
	{"pairs", "program render ca", "ca.crt"},
	{"second half of a pair", "program render a:ca", "a:ca.crt"},
	{"words and a beginning", "program render --lists ", "replace append by-key="},
	{"optional value", "program render --recursive=", "--recursive=on-root-mismatch"},
	{"after an optional value", "program render --recursive ca", "ca.crt"},
	{"targets", "program wait-for-service ", "dns: tcp:// tcp4:// file://"},
	{"the only target", "program wait-for-service d", "dns:"},
	{"settings of a target", "program wait-for-service tcp://x:1#g", "tcp://x:1#gone"},
	{"setting of a target", "program wait-for-service tcp4://x#h", "tcp4://x#hold="},
	{"path of a target", "program wait-for-service file://DIR/ca", "file://DIR/ca.crt"},
	{"next subcommand", "program wait-for-service tcp://x -- ren", "render …"},
	{"flags of the next subcommand", "program wait-for-service tcp://x -- render --l", "--lists"},
	{"next program", "program wait-for-service tcp://x -- tes", "test …"},
	{"arguments of the next program", "program render a:b -- cat ca", "ca.crt"},
	{"names of links", "program install folder ren", "render …"},
}

// wrong returns what is wrong if a shell that offers got was to offer want.
func wrong(got []string, want string) string {
	offered := map[string]bool{}
	for _, word := range got {
		offered[strings.NewReplacer(`\`, "", " ", "␣").Replace(word)] = true
	}
	open := false
	for _, word := range strings.Fields(want) {
		if word == "…" {
			open = true
		} else if !offered[word] {
			return word + " is missing"
		}
		delete(offered, word)
	}
	for word := range offered {
		if !open {
			return word + " is too much"
		}
	}
	return ""
}

func testTyped(t *testing.T, dir string, complete func(line string) []string) {
	for _, c := range typed {
		t.Run(c.name, func(t *testing.T) {
			got := complete(strings.ReplaceAll(c.line, "DIR", dir))
			if problem := wrong(got, strings.ReplaceAll(c.want, "DIR", dir)); problem != "" {
				t.Errorf("%q offers %q: %s", c.line, got, problem)
			}
		})
	}
}

// script writes the completions for a shell.
func script(t *testing.T, p *Program, shell Shell) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), shell.File(p.Name))
	var text strings.Builder
	if err := p.Write(&text, shell); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFish(t *testing.T) {
	servers.Need(t, "fish")
	p, dir := small(t)
	path := script(t, p, Fish)
	testTyped(t, dir, func(line string) (words []string) {
		cmd := exec.Command("fish", "--no-config", "-c", "source $argv[1]; cd $argv[2]; complete -C $argv[3]", path, dir, line)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			words = append(words, word)
		}
		return words
	})
}
