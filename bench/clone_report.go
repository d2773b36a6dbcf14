package main

import (
	"fmt"
	"time"
)

// cloneReport puts together what was measured of all repositories.
func (b *bench) cloneReport(all []*cloneCosts, busy string) *section {
	s := &section{
		title: "Git repositories to directories",
		about: fmt.Sprintf("The HEAD of a repository with the least history, over HTTP from loopback, into a new directory; medians of %d interleaved runs, ", b.cloneRounds()) +
			"and each result is compared with git's. *Replayed*: the server repeats its replies from memory, in a process whose time does not count. *Live*: git http-backend " +
			"packs what it sends, on the same processors. cpu is user and system time, with all children; resident is the peak of the largest process.",
	}
	s.tables = append(s.tables, repositoryTable(all), b.cloneTable(all, "in memory", false), b.cloneTable(all, "on the disk", true), b.againTable(all))
	if t := b.withinTable(all); len(t) > 1 {
		s.tables = append(s.tables, t)
	} else {
		s.notes = append(s.notes, "The limits of memory were not measured: that needs root, cgroups of version 2 and a disk.")
	}
	s.notes = append(s.notes, b.cloneNotes(all)...)
	s.notes = append(s.notes, busy)
	for _, c := range all {
		s.targets = append(s.targets, c.targets()...)
	}
	return s
}

func repositoryTable(all []*cloneCosts) table {
	t := table{{"repository", "files", "directories", "size of the files"}}
	for _, c := range all {
		t = append(t, []string{c.name, fmt.Sprint(c.tree.files), fmt.Sprint(c.tree.directories), megabytes(c.tree.bytes)})
	}
	return t
}

func (b *bench) cloneTable(all []*cloneCosts, where string, disk bool) table {
	t := table{{where, "repository", "tool", "wall", "× git", "cpu", "× git", "resident"}}
	for _, s := range settings {
		if s.disk != disk {
			continue
		}
		for _, c := range all {
			t = append(t, b.cloneRows(c, s)...)
		}
	}
	return t
}

func (b *bench) cloneRows(c *cloneCosts, s setting) (rows [][]string) {
	costs := c.of[s]
	for _, cl := range b.clonersFor(s) {
		f := costs[cl.name]
		if f == nil || f.err != nil {
			continue
		}
		git := costs[gitClone]
		resident := mebibytes(f.peak)
		if f.bound {
			resident = "≤ " + resident
		}
		rows = append(rows, []string{s.name, c.name, cl.name, human(f.wall.median()), ratio(float64(f.wall.median()), float64(git.wall.median())),
			human(f.cpu.median()), ratio(float64(f.cpu.median()), float64(git.cpu.median())), resident})
	}
	return rows
}

// againTable is of runs that find everything there.
func (b *bench) againTable(all []*cloneCosts) table {
	t := table{{"a second run, nothing changed", "tool", "wall", "p90", "cpu"}}
	names := map[string]string{gitClone: "git fetch --depth 1"}
	for _, c := range all {
		for _, cl := range b.againCloners() {
			f := c.again[cl.name]
			if f.err != nil {
				continue
			}
			name := cl.name
			if other, ok := names[name]; ok {
				name = other
			}
			t = append(t, []string{c.name, name, human(f.wall.median()), human(f.wall.percentile(0.9)), human(f.cpu.median())})
		}
	}
	return t
}

func (b *bench) withinTable(all []*cloneCosts) table {
	t := table{{"limit of memory", "repository", "tool", ""}}
	for _, c := range all {
		for _, cl := range b.clonersFor(replayed) {
			if err, ran := c.within[cl.name]; ran {
				t = append(t, []string{mebi(c.memoryLimit()), c.name, cl.name, survival(err)})
			}
		}
	}
	return t
}

func survival(err error) string {
	if err != nil {
		return "failed"
	}
	return "survived"
}

// cloneNotes say what is not in the tables, and why.
func (b *bench) cloneNotes(all []*cloneCosts) (notes []string) {
	for _, c := range all {
		for _, s := range settings {
			if c.of[s] == nil {
				notes = append(notes, fmt.Sprintf("%s, %s: not measured: the file system does not exist or is too small.", c.name, s.where()))
			}
			for _, cl := range b.clonersFor(s) {
				if f := c.of[s][cl.name]; f != nil && f.err != nil {
					notes = append(notes, fmt.Sprintf("%s failed with %s, %s: %v.", cl.name, c.name, s.where(), f.err))
				}
			}
		}
		for _, cl := range b.againCloners() {
			if f := c.again[cl.name]; f.err != nil {
				notes = append(notes, fmt.Sprintf("%s failed with %s, once more: %v.", cl.name, c.name, f.err))
			}
		}
	}
	if _, found := b.tools[gitSync]; !found {
		notes = append(notes, "Not measured, because it was not found: git-sync.")
	}
	return append(notes, "go-git is "+b.tools[goGit].version+".")
}

// targets are what is promised of a clone: much for the large repositories, and for all that git is never better.
func (c *cloneCosts) targets() (targets []target) {
	part := func(s setting, what, of string, num, den time.Duration, values func(*renderCost) sample) {
		mine, git := c.of[s][ours], c.of[s][of]
		if mine == nil || git == nil || git.err != nil {
			return
		}
		limit, got := values(git).median()*num/den, values(mine).median()
		times := ""
		if num != den {
			times = fmt.Sprintf("%.1f × ", float64(num)/float64(den))
		}
		targets = append(targets, target{fmt.Sprintf("clone, %s, %s, %s", c.name, s.where(), what), times + of + " (" + human(limit) + ")", human(got), got <= limit})
	}
	wall, cpu := func(f *renderCost) sample { return f.wall }, func(f *renderCost) sample { return f.cpu }
	if c.large() {
		part(replayed, "wall", gitClone, 1, 2, wall)
		part(replayed, "cpu", gitClone, 6, 10, cpu)
		targets = append(targets, c.residentTarget())
	} else {
		part(replayed, "wall", gitClone, 1, 1, wall)
	}
	part(replayedOneCore, "wall", gitClone, 1, 1, wall)
	part(live, "wall", gitClone, 1, 1, wall)
	part(replayedOnDisk, "wall", gitClone, 1, 1, wall)
	part(replayedOnDisk, "wall", gitCloneSync, 1, 1, wall)
	targets = append(targets, c.againTarget(ours, 50*time.Millisecond), c.againTarget(oursPinned, 10*time.Millisecond))
	if err, ran := c.within[ours]; ran {
		targets = append(targets, target{"clone, " + c.name + ", within " + mebi(c.memoryLimit()), "survived", survival(err), err == nil})
	}
	return targets
}

// residentTarget is for the most of all settings.
func (c *cloneCosts) residentTarget() target {
	const limit = 70e6
	var most int64
	for _, costs := range c.of {
		most = max(most, costs[ours].peak<<10)
	}
	return target{"clone, " + c.name + ", resident", megabytes(limit), megabytes(most), most <= limit}
}

func (c *cloneCosts) againTarget(name string, limit time.Duration) target {
	got := c.again[name].wall.median()
	return target{"clone, " + c.name + ", a second run of " + name, human(limit), human(got), got <= limit}
}
