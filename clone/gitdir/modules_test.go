package gitdir_test

import (
	"fmt"
	"strings"
	"testing"

	"initbox/clone/gitdir"
)

func TestParseModules(t *testing.T) {
	modules, err := gitdir.ParseModules([]byte(`
[submodule "lib"]
	path = libs/lib
	url = ../lib.git
	branch = .
	shallow = true
[other "lib"]
	path = nothing
[submodule "old"]
	path = third_party/x
	url = https://example.org/x
	update = none
[submodule "lib"]
	url = ../lib2.git
	shallow
`))
	want := gitdir.Modules{
		{Name: "lib", Path: "libs/lib", URL: "../lib2.git", Branch: ".", Shallow: true},
		{Name: "old", Path: "third_party/x", URL: "https://example.org/x", Update: "none"},
	}
	if err != nil || fmt.Sprint(modules) != fmt.Sprint(want) {
		t.Fatalf("%+v, %v", modules, err)
	}
	if dir := modules[0].Dir(); dir != "modules/lib" {
		t.Error(dir)
	}
	selected, err := modules.Select([]string{"third_party/x", "libs/lib"})
	if err != nil || fmt.Sprint(selected) != fmt.Sprint(want[:1]) {
		t.Errorf("%+v, %v", selected, err)
	}
	if _, err := modules.Select([]string{"libs\x1b"}); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("no such submodule: %v", err)
	}
}

// TestHostileModules has entries that exploited vulnerabilities of git, and similar ones.
func TestHostileModules(t *testing.T) {
	for name, settings := range map[string]string{
		"../x":                          "path = a\nurl = https://example.org/",
		"a/../b":                        "path = a\nurl = https://example.org/",
		"..":                            "path = a\nurl = https://example.org/",
		".":                             "path = a\nurl = https://example.org/",
		"a//b":                          "path = a\nurl = https://example.org/",
		"/a":                            "path = a\nurl = https://example.org/",
		"a/":                            "path = a\nurl = https://example.org/",
		`a\\..\\b`:                      "path = a\nurl = https://example.org/",
		"a/.git":                        "path = a\nurl = https://example.org/",
		"a/.. ":                         "path = a\nurl = https://example.org/",
		"-u":                            "path = a\nurl = https://example.org/",
		"\x1b[2J":                       "path = a\nurl = https://example.org/",
		"option":                        "path = a\nurl = -uecho",
		"option path":                   "path = -a\nurl = https://example.org/",
		"outside":                       "path = ../a\nurl = https://example.org/",
		"absolute":                      "path = /a\nurl = https://example.org/",
		"inside":                        "path = .git/hooks\nurl = https://example.org/",
		"inside2":                       "path = a/.GIT\nurl = https://example.org/",
		"top":                           "path = .\nurl = https://example.org/",
		"command":                       "path = a\nurl = https://example.org/\nupdate = !touch /tmp/x",
		"lines":                         "path = a\nurl = \"https://example.org/\\n[core]\"",
		"escapes":                       "path = \"a\\b\"\nurl = https://example.org/",
		"no URL":                        "path = a",
		"no path":                       "url = https://example.org/",
		strings.Repeat("a/", 600) + "a": "path = a\nurl = https://example.org/",
	} {
		content := "[submodule \"good\"]\npath = good\nurl = ./good\n[submodule \"" + name + "\"]\n" + settings
		modules, err := gitdir.ParseModules([]byte(content))
		if err != nil || len(modules) != 2 || modules[0].Err != nil || modules[1].Err == nil {
			t.Errorf("%q: %+v, %v", name, modules, err)
			continue
		}
		if text := modules[1].Err.Error(); strings.ContainsAny(text, "\x1b\n\b") {
			t.Errorf("%q", text)
		}
		if _, err := modules.Select([]string{"good"}); err != nil {
			t.Errorf("%q: without it: %v", name, err)
		}
		if s, err := modules.Select([]string{"good", modules[1].Path}); err == nil {
			t.Errorf("%q: selected: %+v", name, s)
		}
	}
}

// TestModuleLimits pins the limits of names and of the file.
func TestModuleLimits(t *testing.T) {
	longest := strings.Repeat("a/", 511) + "ab"
	for name, ok := range map[string]bool{longest: true, longest + "c": false, strings.Repeat("a", 255): true, strings.Repeat("a", 256): false} {
		modules, err := gitdir.ParseModules([]byte("[submodule \"" + name + "\"]\npath = a\nurl = ./a"))
		if err != nil || len(modules) != 1 || (modules[0].Err == nil) != ok {
			t.Errorf("a name of %d bytes: %v, %v", len(name), modules, err)
		}
	}
	const largest = 16 << 20
	for content, ok := range map[string]bool{strings.Repeat("\n", largest): true, strings.Repeat("\n", largest+1): false, "[": false} {
		if _, err := gitdir.ParseModules([]byte(content)); (err == nil) != ok {
			t.Errorf("%d bytes: %v", len(content), err)
		}
	}
}

func TestNestedModules(t *testing.T) {
	modules, err := gitdir.ParseModules([]byte("[submodule \"a/b/c\"]\npath = c\nurl = c\n[submodule \"a\"]\npath = a\nurl = a\n[submodule \"ab\"]\npath = ab\nurl = ab"))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := modules.Select([]string{"c", "ab"}); err != nil || len(s) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := modules.Select([]string{"c", "a"}); err == nil {
		t.Errorf("one repository in another: %+v", s)
	}
}

func FuzzParseModules(f *testing.F) {
	f.Add([]byte("[submodule \"a\"]\npath = b\nurl = ./c\nshallow\n"))
	f.Add([]byte("[submodule \"a\"]\npath = ../b\nurl = -c\nupdate = !d"))
	f.Fuzz(func(t *testing.T, content []byte) {
		modules, err := gitdir.ParseModules(content)
		if err != nil {
			return
		}
		for _, m := range modules {
			if m.Err != nil {
				continue
			}
			for _, name := range []string{m.Name, m.Path} {
				for part := range strings.SplitSeq(name, "/") {
					if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") {
						t.Fatalf("%q has a part %q", name, part)
					}
				}
			}
			if strings.HasPrefix(m.URL+m.Path, "-") || strings.HasPrefix(m.Update, "!") {
				t.Fatalf("%+v", m)
			}
		}
	})
}
