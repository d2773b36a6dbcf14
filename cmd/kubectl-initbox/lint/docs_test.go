package lint

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of the rules into docs/lint.md")

// TestPage pins that docs/lint.md has a table of the rules, and a section on each, in their order.
func TestPage(t *testing.T) {
	page := filepath.Join(root, "docs/lint.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- rules: begin, written by make docs -->\n", "<!-- rules: end -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table of the rules", page)
	}
	var table strings.Builder
	table.WriteString("| rule | | finds |\n|---|---|---|\n")
	for _, r := range Rules() {
		fmt.Fprintf(&table, "| [`%s`](#%[1]s) | %s | %s |\n", r.ID, r.Severity, r.Finds)
		heading := "\n### " + r.ID + "\n"
		if i := strings.Index(after, heading); i < 0 {
			t.Errorf("%s has no section on %s, in the order of the rules", page, r.ID)
		} else {
			after = after[i:]
		}
	}
	_, rest, _ = strings.Cut(string(text), end)
	now := []byte(before + begin + table.String() + end + rest)
	switch {
	case bytes.Equal(now, text):
	case *update:
		if err := os.WriteFile(page, now, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the table of the rules is not theirs: run make docs", page)
	}
}
