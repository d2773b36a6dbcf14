// Package inotify reports changes to files and directories, by inotify(7).
//
//	wake := inotify.Watch(ctx, "/etc/config/app.yaml", "/templates")
//	for range wake {
//		// one of them has changed, appeared or disappeared
//	}
package inotify

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// changes are the events, of a child of a watched directory or of the directory itself, with which a file may appear,
// grow or disappear.
const changes = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_MODIFY |
	unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// maxDirectories limits how many directories of a tree are watched: a user may watch some thousands on a node.
const maxDirectories = 500

// Watch returns a channel that has a value after a change to one of the paths, which need not exist: to a file, to
// anything in a directory, or to a link or directory on the way there. It ends with ctx. It returns nil where inotify
// is not available (a user may have 128 instances on a node); some network file systems report nothing. So a caller
// polls as well.
func Watch(ctx context.Context, paths ...string) <-chan struct{} {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	events := os.NewFile(uintptr(fd), "inotify") // nonblocking, so that Close ends a Read
	context.AfterFunc(ctx, func() { events.Close() })
	wake := make(chan struct{}, 1)
	w := &watcher{fd: fd, paths: paths}
	w.renew()
	go func() {
		buf := make([]byte, 16<<10)
		for {
			n, err := events.Read(buf)
			if err != nil {
				return
			}
			if !w.concerned(buf[:n]) {
				continue
			}
			// A directory on the way may be new now, or replaced. Who is woken sees what happened before the new watch.
			w.renew()
			report(wake)
		}
	}()
	return wake
}

// watcher is one call of [Watch].
type watcher struct {
	fd      int
	paths   []string
	watched map[int32]children // by watch descriptor
}

// children are the names in a directory whose changes count; nil for all.
type children map[string]bool

// renew watches all directories that exist now, and no other.
func (w *watcher) renew() {
	old := w.watched
	w.watched = map[int32]children{}
	for _, path := range w.paths {
		if path, err := filepath.Abs(path); err == nil {
			w.tree(path)
			for ; path != "/"; path = filepath.Dir(path) {
				w.add(filepath.Dir(path), filepath.Base(path))
			}
		}
	}
	for descriptor := range old {
		if _, still := w.watched[descriptor]; !still {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(descriptor)) // the kernel may have done so already
		}
	}
}

// add watches a child of a directory, or all of them if child is empty.
func (w *watcher) add(dir, child string) {
	n, err := unix.InotifyAddWatch(w.fd, dir, changes)
	if err != nil {
		return // perhaps it does not exist
	}
	names, known := w.watched[int32(n)]
	switch {
	case child == "":
		w.watched[int32(n)] = nil
	case !known:
		w.watched[int32(n)] = children{child: true}
	case names != nil:
		names[child] = true
	}
}

// tree watches all directories below path, if it is one. What a volume of a ConfigMap or Secret has is in directories
// that never change, and whose names begin with two dots.
func (w *watcher) tree(path string) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	left := maxDirectories
	_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case !d.IsDir():
			return nil
		case left == 0 || name != path && (strings.HasPrefix(d.Name(), "..") || d.Name() == ".git"):
			return fs.SkipDir
		}
		left--
		w.add(name, "")
		return nil
	})
}

// concerned returns whether any of the raw events is about a child that counts, about a watched directory itself, or
// about the snapshot (..data) of a mounted ConfigMap or Secret.
func (w *watcher) concerned(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&events[0]))
		end := min(unix.SizeofInotifyEvent+int(e.Len), len(events))
		name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00"))
		names, known := w.watched[e.Wd]
		if e.Mask&unix.IN_Q_OVERFLOW != 0 || known && e.Mask&unix.IN_IGNORED == 0 && (name == "" || names == nil || names[name] || strings.HasPrefix(name, "..")) {
			return true
		}
		events = events[end:]
	}
	return false
}
