package inotify

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/poll"
)

// What fcntl(2), F_NOTIFY, reports of the children of a directory.
const (
	dnPresence = 0x04 | 0x08 | 0x10 // DN_CREATE, DN_DELETE, DN_RENAME
	dnContent  = 0x02 | 0x20        // DN_MODIFY, DN_ATTRIB
)

// notice is the signal by which dnotify reports. The kernel discards it where it is not handled, so it cannot harm what
// replaces this process.
const notice = unix.SIGWINCH

// maxQuick limits the watches by dnotify: each holds a descriptor per directory, and looks after every change.
const maxQuick = 16

// noticePause is how long a watch rests after a change that soon follows another one: a directory that changes all the
// time must not keep a processor busy.
const noticePause = 10 * time.Millisecond

var quick atomic.Int32 // how many watches by dnotify there are

// WatchFile is [Watch] for one file, whose caller may exit as soon as that has changed. The kernel frees an inotify
// instance only after a grace period, and an exit waits for it, as does execve(2): 9 ms in the median and up to 36 ms,
// measured at 250 Hz. Its older dnotify needs no such time. It does not say what has changed, so it is of no use for
// trees, nor for many files. Where it is not available, WatchFile uses inotify.
func WatchFile(ctx context.Context, path string) <-chan struct{} {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	notices, wake := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(notices, notice)
	var w dirWatch
	end := func() {
		signal.Stop(notices)
		w.close()
		quick.Add(-1)
	}
	if quick.Add(1) > maxQuick || !w.renew(path) {
		end()
		return Watch(ctx, path)
	}
	there := existing(path, w)
	changed := func() {
		before := there
		if there = existing(path, w); there != before || there > len(w) { // and not only something beside what is missing
			report(wake)
		}
	}
	go func() {
		defer end()
		var renewed time.Time
		for ctx.Err() == nil {
			select {
			case <-notices:
			case <-ctx.Done():
			}
			changed()
			if time.Since(renewed) < noticePause {
				_ = poll.Sleep(ctx, noticePause)
			}
			renewed = time.Now()
			w.renew(path)
			changed() // by what happened before the new watch
		}
	}()
	return wake
}

// dirWatch has the directories that are watched. Each reports one change, until they are renewed.
type dirWatch []*os.File

// renew watches what exists now of the directories on the way to path, and returns whether it watches any.
func (w *dirWatch) renew(path string) bool {
	w.close()
	events := dnPresence | dnContent
	for path != "/" {
		path = filepath.Dir(path)
		dir, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
		if err == nil {
			*w = append(*w, dir)
			if _, err = unix.FcntlInt(dir.Fd(), unix.F_SETSIG, int(notice)); err == nil {
				_, err = unix.FcntlInt(dir.Fd(), unix.F_NOTIFY, events)
			}
			if err != nil { // no dnotify here
				return false
			}
		}
		events = dnPresence
	}
	return len(*w) > 0
}

func (w *dirWatch) close() {
	for _, dir := range *w {
		dir.Close()
	}
	*w = nil
}

// existing returns how many of the directories on the way to path exist, and one more if it exists itself.
func existing(path string, dirs dirWatch) int {
	if _, err := os.Stat(path); err != nil {
		return len(dirs)
	}
	return len(dirs) + 1
}

// report makes wake have a value.
func report(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it was not noticed yet
	}
}
