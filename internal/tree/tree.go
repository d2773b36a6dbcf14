// Package tree walks over everything below an open directory, with several workers, and is never led out of it: each
// directory is opened by its name in the one above, without following a link of that name, so that a program which
// swaps directories for links meanwhile gains nothing.
//
//	walk := tree.Walk{Visit: func(e *tree.Entry) error {
//		if e.File >= 0 {
//			return e.File.Chown(999, 999) // a directory
//		}
//		return dirfd.Chown(e.Dir, e.Name, 999, 999)
//	}}
//	err := walk.Run(ctx, dir)
//
// Memory and descriptors are bounded, however many entries a directory has and however deep the tree is. Only the names
// of the directories in a directory that is more than 32 levels down are held in memory.
package tree

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// Entry is a file, a directory or whatever else has a name below the directory that is walked. It is valid during the
// call of Visit or Leave, or, of a directory, until Leave has returned.
type Entry struct {
	Dir   dirfd.FD    // the directory that it lies in
	Name  string      // its name there
	Stat  unix.Stat_t // of a directory, that of File if it is open
	File  dirfd.FD    // the directory itself, open for reading, or -1 of anything else, and without permission to open it
	Mount bool        // a directory on which something is mounted
	Up    *Entry      // the directory that it lies in; its own Up is nil if that is the root
	Value any         // of a directory: what Visit stores, for Leave, and for the entries in it to find as Up.Value
}

// Path returns the path from the directory that is walked, with slashes.
func (e *Entry) Path() string {
	var names []string
	for ; e.Up != nil; e = e.Up {
		names = append(names, e.Name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// failed returns the error of an operation on the entry.
func (e *Entry) failed(op string, err error) error {
	return &fs.PathError{Op: op, Path: e.Path(), Err: err}
}

// Walk says what is done with the entries. The functions are called by several goroutines at once, of which each knows
// only that a directory is visited before the entries in it, and left after all of them. An error of any ends the walk.
// An entry that is removed meanwhile is left out.
type Walk struct {
	Workers int                // goroutines: by default GOMAXPROCS, at least 2 and at most 16
	Value   any                // of the root, which the entries in it find as Up.Value
	Exclude func(*Entry) bool  // leaves an entry out, with all below, before anything but its name is known; may be nil
	Visit   func(*Entry) error // is called for each entry; fs.SkipDir leaves out what lies in a directory, and its Leave
	Leave   func(*Entry) error // is called for each directory after all that lies in it; may be nil
}

// shallow is how many levels of directories stay open. One that is deeper is closed while a directory in it is walked,
// and reached again as .. of that.
const shallow = 32

// Run walks over all below root. Errors of the walk itself are [*fs.PathError] with the path from root.
func (w Walk) Run(ctx context.Context, root dirfd.Dir) error {
	file, err := dirfd.OpenFD(root, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: ".", Err: err}
	}
	if w.Workers <= 0 {
		w.Workers = min(max(runtime.GOMAXPROCS(0), 2), 16)
	}
	r := &run{Walk: w, ctx: ctx, tasks: make(chan task, w.Workers), done: make(chan struct{})}
	top := &node{Entry: Entry{Dir: -1, File: file, Value: w.Value}}
	if top.Stat, err = dirfd.Stat(file); err != nil {
		file.Close()
		return &fs.PathError{Op: "stat", Path: ".", Err: err}
	}
	top.unfinished.Store(1)
	var workers sync.WaitGroup
	for range w.Workers - 1 {
		workers.Go(func() { (&worker{run: r}).serve() })
	}
	first := &worker{run: r}
	first.do(task{node: top})
	first.serve()
	workers.Wait()
	return r.err
}

// run is what the workers share.
type run struct {
	Walk
	ctx   context.Context
	tasks chan task     // has room for a few, so that a worker which ends one need not wait until another offers the next
	done  chan struct{} // closed when the root is finished

	stopped atomic.Bool
	once    sync.Once
	err     error // the first
}

// fail ends the walk: workers finish the directories that they are in without looking at more.
func (r *run) fail(err error) {
	r.once.Do(func() { r.err = err })
	r.stopped.Store(true)
}

// task is a directory to walk, or some of its entries.
type task struct {
	node    *node
	entries []byte // as dirfd.ReadSome has read them, or nil for all
}

// node is a directory that is not finished.
type node struct {
	Entry
	up         *node
	depth      int
	unfinished atomic.Int32 // frames for it, and directories in it
}

// worker walks depth first, with a stack of its own: paths can be longer than the goroutine's stack should grow.
type worker struct {
	*run
	stack []frame
	buf   []byte
	entry Entry // that is visited, unless it is a directory
}

// frame is a directory on the way to where a worker is.
type frame struct {
	node    *node
	names   []string // of directories in it that are still to be entered
	reading bool     // there may be more entries
}

func (w *worker) serve() {
	for {
		select {
		case t := <-w.tasks:
			w.do(t)
		case <-w.done:
			return
		}
	}
}

// do walks over a task.
func (w *worker) do(t task) {
	if w.buf == nil {
		w.buf = make([]byte, 32<<10)
	}
	w.stack = append(w.stack, frame{node: t.node, reading: t.entries == nil})
	if t.entries != nil {
		w.look(0, t.entries)
	}
	for len(w.stack) > 0 {
		top := len(w.stack) - 1
		f := &w.stack[top]
		if w.stopped.Load() {
			f.names, f.reading = nil, false
		}
		if last := len(f.names) - 1; last >= 0 {
			name := f.names[last]
			f.names = f.names[:last]
			w.descend(top, name)
		} else if f.reading {
			w.read(top)
		} else {
			n := f.node
			w.stack = w.stack[:top]
			w.finish(n)
		}
	}
}

// read reads some entries of the directory of a frame, and looks at them, or leaves that to other workers.
func (w *worker) read(at int) {
	f := &w.stack[at]
	if err := w.ctx.Err(); err != nil {
		w.fail(context.Cause(w.ctx))
		return
	}
	n, err := dirfd.ReadSome(f.node.File, w.buf)
	if err != nil && err != unix.ENOENT { // which is a directory that has been removed meanwhile
		w.fail(f.node.failed("read", err))
		return
	}
	f.reading = n > 0 && err == nil
	if n > len(w.buf)/2 && f.node.depth < shallow {
		f.node.unfinished.Add(1)
		select {
		case w.tasks <- task{f.node, w.buf[:n]}:
			w.buf = make([]byte, len(w.buf))
			return
		default:
			f.node.unfinished.Add(-1)
		}
	}
	w.look(at, w.buf[:n])
}

// look visits entries of the directory of a frame, except the directories, which it adds to the frame.
func (w *worker) look(at int, entries []byte) {
	f := &w.stack[at]
	e := &w.entry
	*e = Entry{Dir: f.node.File, File: -1, Up: &f.node.Entry}
	err := dirfd.Entries(entries, func(name string, kind byte) {
		e.Name = name
		switch {
		case w.stopped.Load() || w.Exclude != nil && w.Exclude(e):
		case kind == unix.DT_DIR || !w.visit(e):
			f.names = append(f.names, name)
		}
	})
	if err != nil {
		w.fail(f.node.failed("read", err))
	}
}

// visit visits what is called e.Name, and returns false if that is a directory.
func (w *worker) visit(e *Entry) bool {
	var err error
	if e.Stat, err = dirfd.Lstat(e.Dir, e.Name); err == unix.ENOENT {
		return true
	}
	if err == nil && dirfd.IsDir(e.Stat) {
		return false
	}
	if err != nil {
		err = e.failed("stat", err)
	} else if err = w.Visit(e); err == fs.SkipDir {
		err = nil
	}
	if err != nil {
		w.fail(err)
	}
	return true
}

// descend enters a directory in that of a frame, or leaves it to other workers.
func (w *worker) descend(at int, name string) {
	up := w.stack[at].node
	for up.depth >= shallow && w.stack[at].reading && !w.stopped.Load() {
		w.read(at) // it is closed below, and then its position is lost
	}
	n := &node{up: up, depth: up.depth + 1}
	n.Entry = Entry{Dir: up.File, Name: name, File: -1, Up: &up.Entry}
	if w.stopped.Load() || !w.enter(n) {
		return
	}
	n.unfinished.Store(1)
	up.unfinished.Add(1)
	if up.depth >= shallow {
		up.File.Close()
		up.File = -1
	} else {
		select {
		case w.tasks <- task{node: n}:
			return
		default:
		}
	}
	w.stack = append(w.stack, frame{node: n, reading: true})
}

// maxSwaps is how often enter tries to open what is a directory whenever it is looked at, and something else when it is
// opened, since another program keeps exchanging it.
const maxSwaps = 100

// enter opens and visits a directory. It returns whether it is to be walked.
func (w *worker) enter(n *node) bool {
	err := open(n)
	for tries := 0; (err == unix.ENOTDIR || err == unix.ELOOP) && tries < maxSwaps; tries++ { // it has been replaced meanwhile
		w.entry = n.Entry
		if w.visit(&w.entry) {
			return false
		}
		err = open(n)
	}
	if err == unix.EACCES { // Visit may change that
		n.Stat, err = dirfd.Lstat(n.Dir, n.Name)
	}
	if err == nil && dirfd.IsDir(n.Stat) {
		if err := w.Visit(&n.Entry); err != nil {
			if err != fs.SkipDir {
				w.fail(err)
			}
			if n.File >= 0 {
				n.File.Close()
			}
			return false
		}
		if n.File < 0 {
			err = open(n)
		}
	}
	if err != nil && err != unix.ENOENT {
		w.fail(n.failed("open", err))
	}
	return n.File >= 0
}

// open opens a directory and describes what is open.
func open(n *node) error {
	file, err := dirfd.OpenFD(n.Dir, n.Name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	info := dirfd.Info{}
	if n.Stat, err = dirfd.Stat(file); err == nil {
		info, err = dirfd.Inspect(file, "")
	}
	if err != nil {
		file.Close()
		return err
	}
	n.File, n.Mount = file, info.MountRoot || n.Stat.Dev != n.Up.Stat.Dev
	return nil
}

// finish is called when a frame is done. It leaves the directory, unless other workers are still in it; the last of
// them leaves it, and those above in which nothing else is unfinished.
func (w *worker) finish(n *node) {
	for n.unfinished.Add(-1) == 0 {
		up := n.up
		if up == nil {
			n.File.Close()
			close(w.done)
			return
		}
		if up.File < 0 && !w.stopped.Load() {
			if err := reopen(up, n); err != nil {
				w.fail(up.failed("open", err))
			}
		}
		n.Dir = up.File
		if w.Leave != nil && !w.stopped.Load() {
			if err := w.Leave(&n.Entry); err != nil {
				w.fail(err)
			}
		}
		if n.File >= 0 {
			n.File.Close()
		}
		n = up
	}
}

// errMoved is the error of a directory that has been moved elsewhere while the walk was in it.
var errMoved = errors.New("moved to another directory meanwhile")

// reopen opens a directory again, from one in it. It is the same directory, unless the one in it has been moved.
func reopen(up, n *node) error {
	file, err := dirfd.OpenFD(n.File, "..", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	s, err := dirfd.Stat(file)
	if err == nil && (s.Dev != up.Stat.Dev || s.Ino != up.Stat.Ino) {
		err = errMoved
	}
	if err != nil {
		file.Close()
		return err
	}
	up.File = file
	return nil
}
