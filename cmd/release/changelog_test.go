package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// CHANGELOG.md has the form of Keep a Changelog: the newest version first, each with its date, and the known sections.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"Breaking", "Changed", "Deprecated", "Removed", "Fixed", "Added", "Security"}
	var versions []string
	last := -1
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, found := strings.CutPrefix(line, "### "); found {
			at := slices.Index(known, title)
			if at < 0 || at <= last {
				t.Errorf("### %s: the sections are %q, each once and in this order", title, known)
			}
			last = at
		} else if strings.HasPrefix(line, "## ") {
			match := heading.FindStringSubmatch(line)
			if match == nil {
				t.Errorf("%s: want ## [Unreleased] or ## [VERSION] - YYYY-MM-DD", line)
				continue
			}
			_, err := time.Parse(time.DateOnly, match[2])
			if released := match[1] != unreleased; released && (err != nil || !semantic.MatchString(match[1])) {
				t.Errorf("%s: want ## [VERSION] - YYYY-MM-DD", line)
			}
			versions = append(versions, match[1])
			last = -1
		}
	}
	if len(versions) == 0 || versions[0] != unreleased {
		t.Errorf("the first version is not [%s]: %q", unreleased, versions)
	}
	if !slices.IsSortedFunc(versions[min(1, len(versions)):], func(a, b string) int { return slices.Compare(numbers(b), numbers(a)) }) {
		t.Errorf("the newest version is not the first: %q", versions)
	}
}

// numbers returns the numbers of a version.
func numbers(version string) (list []int) {
	for _, digits := range regexp.MustCompile(`\d+`).FindAllString(version, -1) {
		n, _ := strconv.Atoi(digits)
		list = append(list, n)
	}
	return list
}

// A version has its own notes, and one before a release what is unreleased.
func TestNotes(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte("# Changelog\n\n## [Unreleased]\n\n- new\n\n## [1.1.0] - 2026-02-01\n\n"+
		"### Added\n\n- [x](y)\n\n## [1.0.0] - 2026-01-01\n\n- first\n"), 0o644)
	for version, want := range map[string]string{"1.1.0": "### Added\n\n- [x](y)\n", "1.0.0": "- first\n", "1.2.0-rc.1": "- new\n"} {
		r := release{root: dir, version: version}
		if got, err := r.notes(); err != nil || got != want {
			t.Errorf("notes of %s: %q, %v; want %q", version, got, err, want)
		}
	}
}
