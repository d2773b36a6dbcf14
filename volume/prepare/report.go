package prepare

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"initbox/internal/failure"
	"initbox/internal/words"
)

// What a job counts. Up to labels, it is a change, or, in a dry run, what would change.
const (
	made     = iota // what the path names
	parents         // directories above it
	replaced        // links that had another target
	removed
	owners
	modes
	labels
	looked  // files, right or not
	skipped // directories that are right themselves, so that what is below counts as right
	missing // paths that need not exist
	staying // directories where only a file is to be absent
	ignored // failures of what has ignore-errors
	counts
)

// changeable are the kinds of changes of what exists.
var changeable = map[int]string{owners: "owner", modes: "mode", labels: "SELinux label"}

// tally counts what a job does.
type tally struct {
	n     [counts]atomic.Int64
	mu    sync.Mutex
	left  []string              // mounts that are left as they are
	first atomic.Pointer[error] // of the failures that are ignored
}

func (t *tally) count(what int) { t.n[what].Add(1) }

func (t *tally) of(what int) int { return int(t.n[what].Load()) }

// leave adds a mount that is left as it is.
func (t *tally) leave(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = append(t.left, failure.Printable(path))
}

// changed returns whether anything has changed.
func (t *tally) changed() bool {
	n := 0
	for what := range labels + 1 {
		n += t.of(what)
	}
	return n > 0
}

// report logs a line for each kind of change, or that there was nothing to change. After an error, it logs what had
// changed until then.
func (j *job) report(failed error) {
	be, took := "", time.Since(j.start)
	if j.DryRun {
		be = "would be "
	}
	say := func(format string, args ...any) {
		j.Log.Info(failure.Printable(j.Path.Path) + ": " + fmt.Sprintf(format, args...))
	}
	sayTimed := func(format string, args ...any) {
		j.Log.Info(fmt.Sprintf("%s: %s, in %s", failure.Printable(j.Path.Path), fmt.Sprintf(format, args...), words.Seconds(took)), failure.Seconds(took))
	}
	if n := j.of(made); n > 0 {
		noun, above := map[Kind]string{File: "file", Link: "link", Directory: "directory", Empty: "directory"}[j.Kind], ""
		if n > 1 {
			noun = words.Plural(n, noun)
		}
		if n := j.of(parents); n > 0 {
			above = ", with " + words.Plural(n, "directory") + " above"
		}
		say("%s %smade%s", noun, be, above)
	}
	if j.of(replaced) > 0 {
		say("link %schanged to %s", be, failure.Printable(j.Target))
	}
	if n := j.of(removed); n > 0 {
		sayTimed("%s %sremoved", words.Plural(n, "file"), be)
	}
	files := words.Plural(j.of(looked), "file")
	for k := owners; k <= labels; k++ {
		to := ""
		if k == owners {
			to = " to " + j.Owner.String()
		}
		if n := j.of(k); n == 1 && j.of(looked) == 1 {
			say("%s %schanged%s", changeable[k], be, to)
		} else if n > 0 {
			sayTimed("%s of %d of %s %schanged%s", changeable[k], n, files, be, to)
		}
	}
	if len(j.left) > 0 {
		slices.Sort(j.left)
		say("left as mounted: %s", words.List(slices.Compact(j.left)))
	}
	if n := j.of(ignored); n > 0 {
		j.Log.Warn(fmt.Sprintf("%s: %s ignored, the first: %v", failure.Printable(j.Path.Path), words.Plural(n, "failure"), *j.first.Load()))
	}
	switch {
	case failed != nil || j.changed() || j.of(ignored) > 0:
	case j.of(missing) > 0:
		say("does not exist: nothing to do")
	case j.of(staying) > 0:
		say("is a directory, which stays")
	case j.of(skipped) > 0:
		say("nothing to change: the directory itself is right")
	case j.of(looked) > 1:
		sayTimed("nothing to change in %s", files)
	default:
		say("nothing to change")
	}
}
