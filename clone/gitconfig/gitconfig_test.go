package gitconfig_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"initbox/clone/gitconfig"
)

// list returns the settings as git config --list -z prints them.
func list(content string) (string, error) {
	var b strings.Builder
	for e, err := range gitconfig.Parse([]byte(content)) {
		if err != nil {
			return b.String(), err
		}
		b.WriteString(e.Section + ".")
		if e.Subsection != "" {
			b.WriteString(e.Subsection + ".")
		}
		b.WriteString(e.Key)
		if !e.Bare {
			b.WriteString("\n" + e.Value)
		}
		b.WriteString("\x00")
	}
	return b.String(), nil
}

var files = []string{
	"",
	"[core]\n\tbare = true\n",
	"\ufeff[core]\r\n\tbare = true\r\n[a \"b\"]\r\nc = d\r",
	"[core] bare = true # yes\n ; no\n#\n[Remote \"Origin\"]URL=a;b\nfetch = \"a;b\" c\nfetch\n",
	"[submodule \"a \\\"b\\\" \\\\ \\c \xff\"]\n\tpath = \xfe\xff\n\turl = \"a\\tb\\n\\\"\\\\\" tail \n",
	"[a.B.c]\nd = 1\n",
	"[a]\nb = c\\\n d\\\n\n e = f",
	"[a]\nb = \" c \" \t \n",
	"[a]\nb =\nc=\"\"\nd = \\\\\n",
	"[a]b[c]d",
	"[a]\nb = \"c\rd\"\n",
	"[az09 \t \"b\"]\nz0a9 = 1\nb- = 2\n",
	"[a]\nb\n[c]\nd=e", "[a]\nb #x\n", "[a]\nb = \"c\n", "[a]\nb = \\x\n", "[a\n]\n", "[a\n\"b\"]\nc=d\n", "[a \n\"b\"]\nc=d\n", "[a \"b\n\"]\n", "[a \"b\"c]\n", "[a b]\n", "[]\nb=c\n",
	"[ \"b\"]\nc = d\n", "[ \t \"b\"]c=d", "[.b]\nc = d\n", "[\n\"b\"]\nc=d\n",
	"[]\n", "[a]\nb=c\n[]\n", "[ a]\nb=c\n", "[\"a\"]\nb=c\n", "[1-a]\nb=c\n",
	"[a]\n1b = c\n", "[a]\nb.c = d\n", "[a]\n\xff = 1\n", "[a \"\\\n\"]\n", "[a", "[a \"", "[a]\nb = \\",
}

// TestGit compares with git itself.
func TestGit(t *testing.T) {
	for _, content := range files {
		want, ok := gitList(t, content)
		got, err := list(content)
		if (err == nil) != ok || ok && got != want {
			t.Errorf("%q\nis   %q, %v\ngit: %q, %v", content, got, err, want, ok)
		}
	}
}

// TestLine pins the line that an error names.
func TestLine(t *testing.T) {
	for content, line := range map[string]string{
		"[a]\nb = c\n# d\n[": "line 4: ", "[a]\r\nb = \"c\\\n\"\n=": "line 4: ", "=": "line 1: ", "[]": "line 1: malformed section",
	} {
		if _, err := list(content); err == nil || !strings.HasPrefix(err.Error(), line) {
			t.Errorf("%q: %v, want %s", content, err, line)
		}
	}
}

func gitList(t *testing.T, content string) (string, bool) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	cmd := exec.CommandContext(t.Context(), "git", "config", "--list", "-z", "-f", "-")
	cmd.Stdin = strings.NewReader(content)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	return string(out), err == nil
}

// FuzzParse writes the parsed settings, and parses them again.
func FuzzParse(f *testing.F) {
	for _, content := range files {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var w gitconfig.Writer
		var entries []gitconfig.Entry
		for e, err := range gitconfig.Parse(content) {
			if err != nil {
				return
			}
			if len(e.Value)+len(e.Subsection)+len(e.Key) > len(content) {
				t.Fatalf("%+v is longer than the file", e)
			}
			e.Bare = false
			entries = append(entries, e)
			w.Section(e.Section, e.Subsection)
			w.Set(e.Key, e.Value)
		}
		written, err := w.Bytes()
		if err != nil {
			return // control characters
		}
		for e, err := range gitconfig.Parse(written) {
			if err != nil || len(entries) == 0 || e != entries[0] {
				t.Fatalf("%q was written as %q, which is %+v, %v", content, written, e, err)
			}
			entries = entries[1:]
		}
		if len(entries) > 0 {
			t.Fatalf("%q was written as %q: %+v is lost", content, written, entries)
		}
	})
}

func TestWriter(t *testing.T) {
	for _, text := range []string{"plain", ` a#b;c"d\e `, "\xff\u200b", "", "  "} {
		var w gitconfig.Writer
		w.Section("a", "x"+text)
		w.Set("b", text)
		content, err := w.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := gitList(t, string(content)); !ok || got != "a.x"+text+".b\n"+text+"\x00" {
			t.Errorf("%q is to git %q, %v", text, got, ok)
		}
	}
	for _, text := range []string{"a\nb", "\r", "\x00", "\x7f"} {
		var w, s gitconfig.Writer
		w.Section("a", "")
		w.Set("b", text)
		s.Section("a", text)
		_, err := w.Bytes()
		if _, err2 := s.Bytes(); err == nil || err2 == nil {
			t.Errorf("%q was written", text)
		}
	}
}

// TestMany has as many sections as a hostile .gitmodules.
func TestMany(t *testing.T) {
	content := bytes.Repeat([]byte("[submodule \"0\"]\na=\n"), 500_000)
	n := 0
	for _, err := range gitconfig.Parse(content) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 500_000 {
		t.Error(n)
	}
}
