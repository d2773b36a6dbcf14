package completion

import (
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	t.Parallel()
	p, err := Read("program", strings.NewReader(described))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line, want string // the words up to the cursor, the last of which may be empty; those that are offered
		paths      bool
	}{
		{"", "wait-for-service render install help --list --format --help --version", false},
		{"ren", "render", false},
		{"help ren", "render", false},
		{"render --l", "--lists", false},
		{"render a:b --re", "--recursive", false},
		{"render --lists ", "replace append by-key=", false},
		{"render --lists=a", "--lists=append", false},
		{"render --schema ", "", true},
		{"render -s ", "", true},
		{"render --recursive ", "", true}, // its value would stand behind =
		{"wait-for-service --any --log-format j", "json", false},
		{"wait-for-service --timeout ", "", false},
		{"wait-for-service d", "dns:", false},
		{"wait-for-service dns:x -- ", "", true},
		{"nonsense ", "", false},
	} {
		var offered []string
		lines, paths := p.Complete(strings.Split(c.line, " "))
		for _, line := range lines {
			word, _, _ := strings.Cut(line, "\t")
			offered = append(offered, word)
		}
		if got := strings.Join(offered, " "); got != c.want || paths != c.paths {
			t.Errorf("%q offers %q, files: %v", c.line, got, paths)
		}
	}
}
