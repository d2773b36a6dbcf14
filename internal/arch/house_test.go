package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHouse pins that the table of the house in CONTRIBUTING.md has one row for each package of the product, and no row
// for a package that does not exist.
func TestHouse(t *testing.T) {
	rows := houseRows(t)
	packages := map[string]bool{}
	tops := map[string]bool{}
	for _, f := range productFiles(t) {
		packages[f.dir] = true
		tops[topOf(f.dir)] = true
	}
	for pkg := range packages {
		if rows[pkg] != 1 {
			t.Errorf("CONTRIBUTING.md: the table of the house names the package %s %d times, want once", pkg, rows[pkg])
		}
	}
	packages["internal/arch"] = true // which has only tests
	packages[releaseTool] = true
	for name := range rows {
		if tops[topOf(name)] && !packages[name] {
			t.Errorf("CONTRIBUTING.md: the table of the house names %s, which is not a package", name)
		}
	}
}

// topOf returns the directory at the top of the repository that a package lies in.
func topOf(pkg string) string {
	top, _, _ := strings.Cut(pkg, "/")
	return top
}

// houseRows returns how often the first column of the table of the house names each directory.
func houseRows(t *testing.T) map[string]int {
	t.Helper()
	text := string(readSource(t, "CONTRIBUTING.md"))
	_, house, found := strings.Cut(text, "\n## The house\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no section The house")
	}
	house, _, _ = strings.Cut(house, "\n## ")
	rows := map[string]int{}
	name := regexp.MustCompile("`([a-z0-9/-]+)`")
	for line := range strings.Lines(house) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, match := range name.FindAllStringSubmatch(cells[1], -1) {
			rows[strings.TrimSuffix(match[1], "/")]++
		}
	}
	return rows
}

// readSource returns a file of the repository.
func readSource(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
