package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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

// A target is a promise of the project, and whether it was kept.
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
		parts = append(parts, wrap(s.about)+"\n")
	}
	for _, t := range s.tables {
		parts = append(parts, t.String())
	}
	for _, n := range s.notes {
		parts = append(parts, wrap(n)+"\n")
	}
	return strings.Join(parts, "\n")
}

// wrap returns a paragraph with its lines broken at column 120, as all prose in Markdown has them.
func wrap(paragraph string) string {
	var s strings.Builder
	column := 0
	for _, word := range strings.Fields(paragraph) {
		n := utf8.RuneCountInString(word)
		switch {
		case column+1+n > 120:
			s.WriteByte('\n')
			column = 0
		case column > 0:
			s.WriteByte(' ')
			column++
		}
		s.WriteString(word)
		column += n
	}
	return s.String()
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
			t = append(t, g.row())
		}
	}
	return t
}

func (g target) row() []string {
	return []string{g.what, g.limit, g.got, map[bool]string{true: "met", false: "**missed**"}[g.met]}
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

// replaceSection returns page with one section of its report replaced, or added at the
// end, and with it the rows of its targets.
func replaceSection(page string, s *section) (string, error) {
	before, rest, ok := strings.Cut(page, beginMark)
	report, after, closed := strings.Cut(rest, endMark)
	const first, last = "\n### Targets\n", "\n### Machine and versions\n"
	head, body, hasTargets := strings.Cut(report, first)
	body, machine, hasMachine := strings.Cut(body, last)
	if !ok || !closed || !hasTargets || !hasMachine {
		return "", errors.New("no report to put a section into: it is written by a run without -only")
	}
	parts := strings.Split(body, "\n### ")
	at := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, s.title+"\n") })
	if at < 0 {
		at, parts = len(parts), append(parts, "")
	}
	parts[at] = strings.TrimPrefix(s.String(), "### ")
	parts[0] = replaceTargets(strings.TrimSpace(parts[0]), s.targets)
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return before + beginMark + head + first + "\n" + strings.Join(parts, "\n\n### ") + "\n" + last + machine + endMark + after, nil
}

// replaceTargets returns the rows of a table with those of the targets replaced, where
// the first of them was, or added at its end.
func replaceTargets(rows string, targets []target) string {
	var kept []string
	at := -1
	for row := range strings.SplitSeq(rows, "\n") {
		if slices.ContainsFunc(targets, func(g target) bool { return strings.HasPrefix(row, "| "+g.what+" |") }) {
			at = max(at, len(kept))
			continue
		}
		kept = append(kept, row)
	}
	if at < 0 {
		at = len(kept)
	}
	for i, g := range targets {
		kept = slices.Insert(kept, at+i, "| "+strings.Join(g.row(), " | ")+" |")
	}
	return strings.Join(kept, "\n")
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

// rewrite replaces the text of a page.
func rewrite(name string, replace func(page string) (string, error)) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	replaced, err := replace(string(page))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(replaced), 0o644)
}
