package clone_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"initbox/clone"
	"initbox/clone/access"
	"initbox/test/servers"
)

// shapes are repositories of all kinds, each named after what is special about it.
var shapes = []struct {
	name string
	make func(t *testing.T, dir string)
	run  func(o *clone.Options) // sets options; nil for none
	git  []string               // the same options of git clone; nil for --depth 1
}{
	{name: "small", make: small},
	{name: "whole history", make: history, run: func(o *clone.Options) { o.Depth = 0 }, git: []string{}},
	{name: "single branch", make: history, run: func(o *clone.Options) { o.Depth, o.SingleBranch, o.Ref = 0, true, "side" }, git: []string{"--single-branch", "--branch", "side"}},
	{name: "annotated tag", make: history, run: func(o *clone.Options) { o.Ref = "v1.0" }, git: []string{"--depth", "1", "--branch", "v1.0"}},
	{name: "plain tag", make: history, run: func(o *clone.Options) { o.Ref = "light" }, git: []string{"--depth", "1", "--branch", "light"}},
	{name: "links and modes", make: linksAndModes},
	{name: "names", make: oddNames},
	{name: "line ends and encodings", make: lineEnds},
	{name: "many files", make: manyFiles},
	{name: "large blobs", make: largeBlobs},
	{name: "same content twice", make: sameContent},
	{name: "deep", make: func(t *testing.T, dir string) {
		put(t, dir, strings.Repeat("directory-with-a-name/", 60)+"file", "deep")
		commit(t, dir, "deep")
	}},
	{name: "empty tree", make: func(t *testing.T, dir string) { commit(t, dir, "nothing") }},
	{name: "no commit", make: func(*testing.T, string) {}, git: []string{}},
	{name: "submodules", make: withSubmodules, run: func(o *clone.Options) { o.Submodules = clone.SubmodulesRecursive },
		git: []string{"--depth", "1", "--recurse-submodules", "--shallow-submodules"}},
	{name: "submodules left out", make: withSubmodules},
}

// TestIdentity compares the results of Run and of git clone.
func TestIdentity(t *testing.T) {
	skipIfShort(t)
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			origin := newRepository(t, filepath.Join(dir, "origin"))
			shape.make(t, origin)
			at := serve(t, dir) + "/origin"
			want, got := filepath.Join(dir, "git"), filepath.Join(dir, "initbox")
			arguments := []string{"--depth", "1"}
			if shape.git != nil {
				arguments = shape.git
			}
			git(t, dir, append(append([]string{"clone", "-q"}, arguments...), at, want)...)

			o := clone.Options{URL: at, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Dir: got, Depth: 1, Access: access.Access{Umask: 0o022}}
			if shape.run != nil {
				shape.run(&o)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			result, err := clone.Run(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			sameTree(t, got, want)
			sound(t, got)
			for _, look := range [][]string{{"ls-files", "--stage"}, {"symbolic-ref", "-q", "HEAD"}, {"for-each-ref"}, {"branch", "-avv"}} {
				g, gotErr := tryGit(got, nil, look...)
				w, wantErr := tryGit(want, nil, look...)
				if g != w || (gotErr == nil) != (wantErr == nil) {
					t.Errorf("git %s:\n%s\nwant:\n%s", strings.Join(look, " "), abridged(g), abridged(w))
				}
			}
			if result.SHA != "" {
				if out, err := tryGit(got, nil, "fetch", "-q"); err != nil {
					t.Errorf("git fetch: %v\n%s", err, out)
				}
			}
			// In brackets stands the name of a commit, and a submodule has no branches here.
			g, w := git(t, got, "submodule", "status", "--recursive"), git(t, want, "submodule", "status", "--recursive")
			if bracket := regexp.MustCompile(`\(.*\)`); bracket.ReplaceAllString(g, "") != bracket.ReplaceAllString(w, "") {
				t.Errorf("git submodule status:\n%s\nwant:\n%s", g, w)
			}
			again, err := clone.Run(ctx, o)
			if err != nil || again.Changed {
				t.Errorf("again: changed %t, %v", again.Changed, err)
			}
		})
	}
}

func small(t *testing.T, dir string) {
	put(t, dir, "README", "hello\n")
	put(t, dir, "src/main.go", "package main\n")
	put(t, dir, "empty", "")
	commit(t, dir, "first")
	put(t, dir, "README", "hello again\n")
	commit(t, dir, "second")
}

func history(t *testing.T, dir string) {
	text := strings.Repeat("a line that stays\n", 200)
	var stream strings.Builder
	data := func(content string) { fmt.Fprintf(&stream, "data %d\n%s\n", len(content), content) }
	for i := range 30 {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter C <c@example.com> %d +0000\n", 1700000000+i)
		data(fmt.Sprint("commit ", i))
		fmt.Fprint(&stream, "M 644 inline log\n")
		data(fmt.Sprintf("%s%d\n", text, i))
		fmt.Fprintf(&stream, "M 644 inline files/%d\n", i)
		data(fmt.Sprint(i, text))
		switch i {
		case 10:
			fmt.Fprint(&stream, "reset refs/tags/light\nfrom refs/heads/main\n\n")
		case 20:
			fmt.Fprint(&stream, "reset refs/heads/side\nfrom refs/heads/main\n\n")
			fmt.Fprint(&stream, "tag v1.0\nfrom refs/heads/main\ntagger T <t@example.com> 1700000000 +0000\n")
			data("the first")
		}
	}
	fastImport(t, dir, stream.String())
	git(t, dir, "repack", "-adfq")
}

func linksAndModes(t *testing.T, dir string) {
	put(t, dir, "script", "#!/bin/sh\n")
	put(t, dir, "directory/tool", "#!/bin/sh\n")
	for _, name := range []string{"script", "directory/tool"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"to-file": "script", "to-directory": "directory", "directory/up": "../script",
		"dangling": "nowhere", "out": "/etc/passwd", "loop": "loop", "above": "../../..", "same": "script"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, dir, "links")
}

func oddNames(t *testing.T, dir string) {
	for _, name := range []string{"aux.go", "nul", "con.txt", "a b", " leading", "trailing ", "quo\"te", "back\\slash", "tab\there", "new\nline",
		"\xff\xfe not UTF-8", "ünïcödé", "*", "?", ":colon", "-dash", "--", "~", "#hash", "!bang", ".gitignore2", ".hidden", "git", ".git2/x", "a/.gitx",
		strings.Repeat("n", 255), strings.Repeat("m", 250) + "/" + strings.Repeat("o", 250)} {
		put(t, dir, name, name)
	}
	commit(t, dir, "names")
}

func lineEnds(t *testing.T, dir string) {
	put(t, dir, ".gitattributes", "*.bat text eol=crlf\n*.sh text eol=lf\n*.bin binary\n*.id ident\n*.auto text=auto eol=crlf\n"+
		"*.utf16 text working-tree-encoding=UTF-16LE eol=crlf\nvendor/** -text\n")
	for name, content := range map[string]string{
		"run.bat": "@echo off\necho hello\n", "run.sh": "echo hello\n", "x.bin": "a\nb\r\nc\x00\n", "x.id": "$Id$\ntext\n",
		"x.auto": "some\ntext\n", "bin.auto": "some\n\x00binary\n", "vendor/x.bat": "one\ntwo\n", "sub/deep/y.bat": "one\ntwo\n"} {
		put(t, dir, name, content)
	}
	put(t, dir, "sub/.gitattributes", "*.bat -text\n")
	put(t, dir, "x.utf16", "t\x00e\x00x\x00t\x00\r\x00\n\x00")
	commit(t, dir, "line ends")
}

func manyFiles(t *testing.T, dir string) {
	const files = 4000
	var stream strings.Builder
	fmt.Fprint(&stream, "commit refs/heads/main\ncommitter C <c@example.com> 1700000000 +0000\ndata 4\nmany\n")
	for i := range files {
		content := fmt.Sprintf("%d %s", i, strings.Repeat("text ", i%97))
		fmt.Fprintf(&stream, "M 644 inline %d/%d/file-%d\ndata %d\n%s\n", i%37, i%11, i, len(content), content)
	}
	fastImport(t, dir, stream.String())
	git(t, dir, "reset", "-q", "--hard")
	git(t, dir, "repack", "-adfq")
}

func largeBlobs(t *testing.T, dir string) {
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 6<<20)
	_, _ = random.Read(noise)
	put(t, dir, "noise", string(noise))
	put(t, dir, "zeros", strings.Repeat("\x00", 16<<20))
	copy(noise[3<<20:], "a small difference")
	put(t, dir, "noise2", string(noise))
	commit(t, dir, "large")
	git(t, dir, "repack", "-adfq", "--depth=50", "--window=10")
}

func sameContent(t *testing.T, dir string) {
	for i := range 20 {
		put(t, dir, fmt.Sprintf("%d/a", i), "the same")
		put(t, dir, fmt.Sprintf("%d/b", i), "the same")
		put(t, dir, fmt.Sprintf("%d/%d", i, i), "another")
	}
	commit(t, dir, "same")
}

func withSubmodules(t *testing.T, dir string) {
	inner := newRepository(t, dir+"-inner")
	put(t, inner, "inner", "innermost\n")
	commit(t, inner, "inner")
	middle := newRepository(t, dir+"-middle")
	put(t, middle, "middle", "in the middle\n")
	git(t, middle, "submodule", "--quiet", "add", "../"+filepath.Base(inner), "lib/inner")
	commit(t, middle, "middle")
	put(t, dir, "outer", "outside\n")
	git(t, dir, "submodule", "--quiet", "add", "--name", "a name", "../"+filepath.Base(middle), "modules/middle")
	git(t, dir, "submodule", "--quiet", "add", "../"+filepath.Base(inner), "inner")
	commit(t, dir, "outer")
}

// serve has a real git http-backend serve the repositories in a directory.
func serve(t *testing.T, dir string) string {
	skipIfShort(t)
	return servers.StartGit(t, dir, servers.GitOptions{Config: []string{"uploadpack.allowFilter=true", "safe.directory=*"}}).URL
}
