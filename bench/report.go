package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A section is what one benchmark found.
type section struct {
	title   string
	about   string // one paragraph: what was done, and what the columns are
	tables  []table
	notes   []string
	targets []target

	pictures map[string]string // SVG by file name; kept beside the page
}

// A table is written as it stands: the first row is the header.
type table [][]string

// A target is a promise of the project, and what came of it.
type target struct {
	what, limit, got string
	met              bool
}

func (t table) String() string {
	var s strings.Builder
	for i, row := range t {
		fmt.Fprintf(&s, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&s, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return s.String()
}

func (s *section) String() string {
	parts := []string{"### " + s.title + "\n"}
	if s.about != "" {
		parts = append(parts, s.about+"\n")
	}
	for _, t := range s.tables {
		parts = append(parts, t.String())
	}
	for _, n := range s.notes {
		parts = append(parts, n+"\n")
	}
	return strings.Join(parts, "\n")
}

// render puts the report together: what was promised first, then the measurements.
func (b *bench) render(sections []*section, began time.Time, took time.Duration) string {
	var s strings.Builder
	fmt.Fprintf(&s, "### Targets\n\n%s\n", targets(sections))
	for _, section := range sections {
		fmt.Fprintf(&s, "%s\n", section)
	}
	fmt.Fprintf(&s, "### Machine and versions\n\n%s\n", b.machine(began, took))
	return s.String()
}

func targets(sections []*section) table {
	t := table{{"target", "limit", "measured", ""}}
	for _, section := range sections {
		for _, g := range section.targets {
			t = append(t, []string{g.what, g.limit, g.got, map[bool]string{true: "met", false: "**missed**"}[g.met]})
		}
	}
	return t
}

// Between these two lines a page keeps the report of the last full run.
const (
	beginMark = "<!-- report: begin, written by make bench -->"
	endMark   = "<!-- report: end -->"
)

// replaceReport returns page with what stands between its markers replaced.
func replaceReport(page, report string) (string, error) {
	before, rest, ok := strings.Cut(page, beginMark)
	_, after, closed := strings.Cut(rest, endMark)
	if !ok || !closed {
		return "", errors.New("no place for the report: the lines " + beginMark + " and " + endMark + " are missing")
	}
	return before + beginMark + "\n\n" + strings.TrimSpace(report) + "\n\n" + endMark + after, nil
}

// writePictures keeps those of all sections beside the page.
func writePictures(page string, sections []*section) error {
	for _, s := range sections {
		for name, svg := range s.pictures {
			if err := os.WriteFile(filepath.Join(filepath.Dir(page), name), []byte(svg), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeReport(name, report string) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	replaced, err := replaceReport(string(page), report)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(replaced), 0o644)
}
