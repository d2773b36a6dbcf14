package prepare

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"initbox/internal/failure"
	"initbox/internal/words"
)

// kind is a kind of change of what exists.
type kind int

const (
	owners kind = iota
	modes
	labels
)

func (k kind) name() string { return [...]string{"owner", "mode", "SELinux label"}[k] }

// tally counts what a job has changed, or, in a dry run, what it would.
type tally struct {
	made, parents, replaced atomic.Int64 // what the path names, directories above it, and links
	removed                 atomic.Int64
	files                   atomic.Int64 // looked at
	changes                 [labels + 1]atomic.Int64
	skipped, missing        atomic.Int64 // paths: not entered, since they are right themselves; not there

	mu   sync.Mutex
	left []string // mounts that are left as they are
}

// leave adds a mount that is left as it is.
func (t *tally) leave(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = append(t.left, failure.Printable(path))
}

// changed returns whether anything has changed.
func (t *tally) changed() bool {
	n := t.made.Load() + t.parents.Load() + t.replaced.Load() + t.removed.Load()
	for k := range t.changes {
		n += t.changes[k].Load()
	}
	return n > 0
}

// report logs a line for each kind of change, or that there was nothing to change. After an error, it logs what had
// changed until then.
func (j *job) report(failed error) {
	name, took := failure.Printable(j.Path.Path), words.Seconds(time.Since(j.start))
	be := ""
	if j.DryRun {
		be = "would be "
	}
	say := func(format string, args ...any) { j.Log.Info(name + ": " + fmt.Sprintf(format, args...)) }
	above := ""
	if n := int(j.parents.Load()); n > 0 {
		above = ", with " + strings.Replace(words.Plural(n, "directory"), "ys", "ies", 1) + " above"
	}
	if n := int(j.made.Load()); n > 0 {
		noun := map[Kind]string{File: "file", Link: "link", Folder: "directory", Empty: "directory"}[j.Kind]
		if n > 1 {
			noun = strings.Replace(words.Plural(n, noun), "ys", "ies", 1)
		}
		say("%s %smade%s", noun, be, above)
	}
	if j.replaced.Load() > 0 {
		say("link %schanged to %s", be, failure.Printable(j.Target))
	}
	if n := int(j.removed.Load()); n > 0 {
		say("%d %sremoved, in %s", n, be, took)
	}
	files := words.Plural(int(j.files.Load()), "file")
	for k := range j.changes {
		n, to := j.changes[k].Load(), ""
		if kind(k) == owners {
			to = " to " + j.Owner.String()
		}
		switch {
		case n == 1 && j.files.Load() == 1:
			say("%s %schanged%s", kind(k).name(), be, to)
		case n > 0:
			say("%s of %d of %s %schanged%s, in %s", kind(k).name(), n, files, be, to, took)
		}
	}
	if len(j.left) > 0 {
		slices.Sort(j.left)
		say("left as mounted: %s", words.List(j.left))
	}
	if failed != nil || j.changed() {
		return
	}
	switch {
	case j.missing.Load() > 0:
		say("does not exist: nothing to do")
	case j.skipped.Load() > 0:
		say("nothing to change: the directory itself is right")
	case j.files.Load() > 1:
		say("nothing to change in %s, in %s", files, took)
	default:
		say("nothing to change")
	}
}
