package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// unreleased is the section of what no version has yet.
const unreleased = "Unreleased"

// heading is that of a version in CHANGELOG.md, by https://keepachangelog.com: ## [1.2.3] - 2026-11-23.
var heading = regexp.MustCompile(`(?m)^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$`)

// notes returns what CHANGELOG.md says of the version. One before a release, such as 1.3.0-rc.1, has what is
// unreleased.
func (r *release) notes() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	wanted := r.version
	if strings.Contains(wanted, "-") {
		wanted = unreleased
	}
	sections := heading.FindAllStringSubmatchIndex(string(text), -1)
	for i, at := range sections {
		if string(text[at[2]:at[3]]) != wanted {
			continue
		}
		end := len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		return strings.TrimSpace(string(text[at[1]:end])) + "\n", nil
	}
	return "", fmt.Errorf("release %s: CHANGELOG.md has no section ## [%s]\nhint: rename [Unreleased] to [%s] - YYYY-MM-DD, and add an empty [Unreleased] above it", r.version, wanted, wanted)
}

func (r *release) printNotes() error {
	notes, err := r.notes()
	if err == nil {
		_, err = io.WriteString(r.log, notes)
	}
	return err
}
