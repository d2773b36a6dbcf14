package file

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// changes are the events, of a child of the watched directory or of the directory itself, with which a file may appear,
// grow or disappear.
const changes = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_MODIFY |
	unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// Watch reports changes to the file, by inotify(7) on the nearest existing directory. Where inotify is not available (a
// user may have 128 instances on a node; some network file systems do not support it), polling has to suffice.
func (c check) Watch(ctx context.Context) <-chan struct{} {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	events := os.NewFile(uintptr(fd), "inotify") // nonblocking, so that Close ends a Read
	context.AfterFunc(ctx, func() { events.Close() })

	wake := make(chan struct{}, 1)
	child := watchNearest(fd, c.path)
	go func() {
		buf := make([]byte, 16<<10)
		for {
			n, err := events.Read(buf)
			if err != nil {
				return
			}
			if !concerns(buf[:n], child) {
				continue
			}
			// A directory in the path may be new now, or replaced. The next attempt sees what happened before the new
			// watch.
			child = watchNearest(fd, c.path)
			select {
			case wake <- struct{}{}:
			default: // an attempt is due already
			}
		}
	}()
	return wake
}

// watchNearest watches the nearest existing directory above path and returns the name of its child in path.
func watchNearest(fd int, path string) (child string) {
	for {
		dir := filepath.Dir(path)
		child = filepath.Base(path)
		if _, err := unix.InotifyAddWatch(fd, dir, changes|unix.IN_ONLYDIR); err == nil || dir == path {
			return child
		}
		path = dir
	}
}

// concerns reports whether any of the raw events is about child, about the directory itself, or about the snapshot
// (..data) of a mounted ConfigMap or Secret.
func concerns(events []byte, child string) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&events[0]))
		end := min(unix.SizeofInotifyEvent+int(e.Len), len(events))
		name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00"))
		if name == "" || name == child || strings.HasPrefix(name, "..") {
			return true
		}
		events = events[end:]
	}
	return false
}
