package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// How long a write may take when the command is over. Scripts in tests set more, so that messages arrive even on a
// busy machine.
var (
	signalGrace   = 80 * time.Millisecond // of the 100 in which a signal ends the program
	deadlineGrace = time.Second
	lastWord      = 100 * time.Millisecond // for a write that begins later
)

// outlet is stdout or stderr. Either may be a full pipe without a reader, as when the log collector hangs, so that a
// write blocks forever. The deadline and signals still end the program.
type outlet struct {
	name string
	w    io.Writer
	end  context.Context // the end of waiting for writes

	mu     sync.Mutex
	gaveUp error
}

// Write implements [io.Writer], but gives up when end has passed. Nothing is written after that: it would be a line
// without its beginning.
func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gaveUp != nil {
		return 0, o.gaveUp
	}
	end := o.end
	if end.Err() != nil { // too late to wait, but the pipe need not be full
		var cancel context.CancelFunc
		end, cancel = context.WithTimeout(context.Background(), lastWord)
		defer cancel()
	}
	type result struct {
		n   int
		err error
	}
	written := make(chan result, 1)
	p = bytes.Clone(p) // a write that was given up may still read it
	go func() {
		n, err := o.w.Write(p)
		written <- result{n, err}
	}()
	select {
	case r := <-written:
		if errors.Is(r.err, syscall.EPIPE) {
			r.err = fmt.Errorf("write to %s: %w", o.name, stopped{syscall.SIGPIPE}) // the status of a program that it ends
		}
		return r.n, r.err
	case <-end.Done():
		o.gaveUp = fmt.Errorf("write to %s, which is full and not being read: %w", o.name, context.Cause(o.end))
		return 0, o.gaveUp
	}
}

// print writes a result that was asked for. It fails if stdout was closed when the program started: then Go's runtime
// has opened /dev/null instead, for reading and writing, which a shell's > does not do.
func (e *env) print(result string) error {
	if out, ok := e.stdout.(*outlet); ok {
		if f, ok := out.w.(*os.File); ok && f == os.Stdout && isOpenNull(f) {
			return errors.New("stdout is closed")
		}
	}
	_, err := io.WriteString(e.stdout, result)
	return err
}

// isOpenNull returns whether f is /dev/null, open for reading and writing.
func isOpenNull(f *os.File) bool {
	stat, err := dirfd.Stat(f)
	null, errNull := os.Stat(os.DevNull)
	if err != nil || errNull != nil {
		return false
	}
	device, ok := null.Sys().(*syscall.Stat_t)
	if !ok || stat.Mode&unix.S_IFMT != unix.S_IFCHR || stat.Rdev != device.Rdev {
		return false
	}
	n, err := f.Read(make([]byte, 1)) // /dev/null is at its end at once; for writing only, it is an error
	return n == 0 && err == io.EOF
}

// failure returns why a write was given up, or nil.
func (o *outlet) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gaveUp
}

// afterGrace calls end with the cause of ctx some time after ctx has ended, unless stop is called before it ends.
func afterGrace(ctx context.Context, grace time.Duration, end context.CancelCauseFunc) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		over, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		<-over.Done()
		end(context.Cause(ctx))
	})
}

// isTerminal reports whether w writes to a terminal.
func isTerminal(w io.Writer) bool {
	if out, ok := w.(*outlet); ok {
		w = out.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	stat, err := f.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}
