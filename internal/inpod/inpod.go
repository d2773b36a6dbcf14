// Package inpod describes what a container sees: who it runs as, its volumes, name servers and API server, and its
// limits. It changes nothing, and shows no value of an environment variable, no token and no content of a volume.
//
//	report := inpod.Look(ctx, inpod.Options{Getenv: os.Getenv, Environ: os.Environ()})
//	fmt.Print(report.Text())
package inpod

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"initbox/internal/failure"
	"initbox/internal/readfile"
	"initbox/internal/words"
)

// Options configures [Look].
type Options struct {
	Version string // of the program
	Getenv  func(name string) string
	Environ []string // NAME=VALUE
	Root    string   // in front of the paths of files; empty but in tests
}

// read returns the text of a file of the system.
func (o *Options) read(name string) (string, error) {
	text, err := readfile.All(filepath.Join(o.Root, name))
	return string(text), err
}

// Report is what a container sees. The names of its fields, groups and items are stable; texts are for people.
type Report struct {
	Version  string    `json:"version"`
	Time     time.Time `json:"time"`
	Kernel   string    `json:"kernel"`
	Groups   []Group   `json:"groups"`
	Problems []Problem `json:"problems"`
}

// Group is a part of a report, such as volumes.
type Group struct {
	Name  string `json:"name"`
	Items []Item `json:"items"`
}

// Item is what was found about one thing, such as a volume.
type Item struct {
	Name    string `json:"name"`
	Text    string `json:"text"`
	Problem bool   `json:"problem"` // it has one of the problems of the report, or several
}

// Problem is what keeps a container from its work, or will.
type Problem struct {
	Group string `json:"group"`
	Item  string `json:"item"`
	Text  string `json:"text"`
	Fix   string `json:"fix"`
}

// groups are the parts of a report, in their order.
var groups = []struct {
	name string
	look func(context.Context, *Options, *section)
}{
	{"process", process},
	{"limits", limits},
	{"volumes", volumes},
	{"name servers", nameServers},
	{"/etc/hosts", hosts},
	{"API server", apiServer},
	{"downward API", downwardAPI},
	{"environment", environment},
}

// limit is how long a group may take. All of them are looked at side by side.
const limit = 12 * time.Second

// Look looks at everything, for at most [limit]. What cannot be read or does not answer is part of the report.
func Look(ctx context.Context, o Options) *Report {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	release, _ := o.read("/proc/sys/kernel/osrelease")
	r := &Report{
		Version: o.Version, Time: time.Now().UTC(), Problems: []Problem{},
		Kernel: strings.TrimSpace(runtime.GOOS + "/" + runtime.GOARCH + " " + failure.Printable(strings.TrimSpace(release))),
	}
	sections := make([]section, len(groups))
	var all sync.WaitGroup
	for i, g := range groups {
		all.Go(func() { g.look(ctx, &o, &sections[i]) })
	}
	all.Wait()
	for i, g := range groups {
		r.Groups = append(r.Groups, Group{g.name, sections[i].items})
		for _, p := range sections[i].problems {
			p.Group = g.name
			r.Problems = append(r.Problems, p)
		}
	}
	return r
}

// section collects a group.
type section struct {
	items    []Item
	problems []Problem
}

func (s *section) add(name, format string, args ...any) {
	s.items = append(s.items, Item{Name: name, Text: fmt.Sprintf(format, args...)})
}

// unknown adds that something cannot be read.
func (s *section) unknown(name string, err error) {
	if text := failure.Of(err).Text; !os.IsNotExist(err) {
		s.add(name, "unknown: %s", text)
	}
}

// problem adds a problem of the last item.
func (s *section) problem(fix, format string, args ...any) {
	last := &s.items[len(s.items)-1]
	last.Problem = true
	s.problems = append(s.problems, Problem{Item: last.Name, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// Text returns the report for people. Items with a problem have a mark, and the problems come last.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "initbox %s, %s, %s\n", r.Version, r.Time.Format("2006-01-02 15:04:05 UTC"), r.Kernel)
	for _, g := range r.Groups {
		if len(g.Items) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", g.Name)
		width := 0
		for _, item := range g.Items {
			width = max(width, min(utf8.RuneCountInString(item.Name), maxName))
		}
		for _, item := range g.Items {
			mark := " "
			if item.Problem {
				mark = "!"
			}
			fmt.Fprintf(&b, "%s %-*s  %s\n", mark, width, item.Name, item.Text)
		}
	}
	b.WriteString("\n")
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "problem: %s: %s\n  fix: %s\n", p.Item, p.Text, p.Fix)
	}
	if len(r.Problems) == 0 {
		b.WriteString("no problem found\n")
	}
	return b.String()
}

// maxName is the length of a name beyond which the texts of the others are not aligned to it.
const maxName = 50

// took returns a duration for the report.
func took(d time.Duration) string {
	if d < time.Millisecond {
		return "less than 1ms"
	}
	return words.Seconds(d)
}

// yes returns one of two words.
func yes(condition bool, then, otherwise string) string {
	if condition {
		return then
	}
	return otherwise
}

// printable returns the texts from outside in a list, separated by commas, or "none".
func printable(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	shown := slices.Clone(list)
	for i := range shown {
		shown[i] = failure.Printable(shown[i])
	}
	return strings.Join(shown, ", ")
}
