package completion_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"

	"initbox/cmd/command"
	"initbox/internal/completion"
	"initbox/test/servers"
)

// run returns what initbox prints.
func run(t *testing.T, args ...string) string {
	t.Helper()
	var out, messages bytes.Buffer
	if status := command.Run("1.2.3", append([]string{"initbox"}, args...), nil, &out, &messages); status != 0 {
		t.Fatalf("initbox %v: status %d: %s", args, status, &messages)
	}
	return out.String()
}

func initbox(t *testing.T) *completion.Program {
	t.Helper()
	p, err := completion.Read("initbox", strings.NewReader(run(t, "--list", "--format", "json")))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Each word that is offered for the value of a flag is one that the help of the subcommand has.
func TestWordsAreInTheHelp(t *testing.T) {
	program := initbox(t)
	for _, c := range program.Commands {
		help := run(t, "help", c.Name)
		if c.Name == "wait-for-service" || c.Name == "rbac" {
			help += run(t, "help", "wait-for-service", "all")
		}
		for _, f := range c.Flags {
			for _, word := range program.Values(c.Name, f.Name) {
				method := strings.HasSuffix(f.Name, "method") // each server has its own
				if !strings.HasPrefix(word, "@") && !strings.Contains(help, word) && !method {
					t.Errorf("initbox %s --%s: completions offer %s, which its help does not have", c.Name, f.Name, word)
				}
			}
		}
	}
}

// Enumerations and files are recognised.
func TestValues(t *testing.T) {
	program := initbox(t)
	for _, c := range []struct{ command, flag, want string }{
		{"sleep", "log-format", "text json"},
		{"sleep", "log-level", "debug info warn error"},
		{"sleep", "timeout", "@any"},
		{"sleep", "once", "@files"},
		{"wait-for-dns", "type", "A AAAA CNAME SRV MX NS TXT PTR"},
		{"wait-for-service", "if-missing", "wait ok fail"},
		{"request", "method", "GET HEAD POST PUT PATCH DELETE"},
		{"render", "values", "@files"},
		{"render", "schema", "@files @files-after-equals"},
		{"render", "set-file", "@files-after-equals"},
		{"merge", "lists", "replace append by-key="},
		{"git-clone", "submodules", "off shallow recursive"},
		{"generate", "encoding", "hex base64 base64url raw"},
		{"trust-bundle", "hash-dir", "@directories"},
		{"kube-get", "format", "json yaml"},
		{"sleep", "help", ""},
	} {
		if got := strings.Join(program.Values(c.command, c.flag), " "); got != c.want {
			t.Errorf("initbox %s --%s: %q, want %q", c.command, c.flag, got, c.want)
		}
	}
}

// The scripts have every subcommand and flag, are accepted by their shells, and the same each time.
func TestScripts(t *testing.T) {
	program := initbox(t)
	for _, shell := range completion.Shells() {
		t.Run(shell.Name, func(t *testing.T) {
			var first, second strings.Builder
			for _, w := range []io.Writer{&first, &second} {
				if err := program.Write(w, shell); err != nil {
					t.Fatal(err)
				}
			}
			if first.String() != second.String() {
				t.Error("two runs give two scripts")
			}
			if strings.Contains(first.String(), "@function@") || strings.Contains(first.String(), "@program@") {
				t.Error("a mark of the template is left")
			}
			for _, c := range program.Commands {
				for _, f := range c.Flags {
					if !strings.Contains(first.String(), "--"+f.Name+"\t") {
						t.Errorf("--%s of %s is missing", f.Name, c.Name)
					}
				}
			}
			check := exec.Command(servers.Need(t, shell.Name), "-n")
			check.Stdin = strings.NewReader(first.String())
			if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s -n: %v: %s", shell.Name, err, out)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{"", "{}", `{"subcommands": [{"name": "x; rm -rf"}]}`, `{"subcommands": [{"name": "x", "flags": [{"name": "$(x)"}]}]}`} {
		if _, err := completion.Read("initbox", strings.NewReader(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	if _, err := completion.Read("a b", strings.NewReader(`{"subcommands": [{"name": "x"}]}`)); err == nil {
		t.Error("a name with a space is taken")
	}
}

// FuzzRead writes scripts of any table that is read. Whatever a usage says, it stays inside its quotes.
func FuzzRead(f *testing.F) {
	f.Add("usage", "FILE", "it's")
	f.Add("a\nb", "c\x00\n", "\xff\n'")
	f.Add(`'; touch x; '`, "a'b|c", `\'`)
	f.Fuzz(func(t *testing.T, usage, value, flagUsage string) {
		quote := func(s string) string {
			quoted, _ := json.Marshal(s)
			return string(quoted)
		}
		table := `{"subcommands": [{"name": "x", "usage": ` + quote(usage) + `, "flags": [{"name": "y", "type": "string", "value": ` +
			quote(value) + `, "usage": ` + quote(flagUsage) + `}]}]}`
		program, err := completion.Read("initbox", strings.NewReader(table))
		if err != nil {
			return
		}
		var script strings.Builder
		program.Write(&script, completion.Bash)
		words := "x\t" + program.Commands[0].Usage
		if !strings.Contains(script.String(), "'"+strings.ReplaceAll(words, "'", `'\''`)+"'") {
			t.Errorf("%q is not quoted in %s", words, script.String())
		}
	})
}
