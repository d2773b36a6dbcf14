package process

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"initbox/internal/words"
)

// How much of the output of a run is logged.
const (
	maxBegin = 64_000
	maxEnd   = 4_000
)

// follow returns a file for the output of the program, a channel that is closed when all programs have closed it, and a
// function that waits for that, but not long.
func (p Program) follow() (file *os.File, closed <-chan struct{}, written func(), err error) {
	from, file, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	o, done := &output{Program: p}, make(chan struct{})
	go func() {
		defer close(done)
		defer from.Close()
		io.Copy(o, from)
		o.finish()
	}()
	return file, done, func() {
		limit, cancel := context.WithTimeout(context.Background(), cmp.Or(p.outputWait, outputWait))
		defer cancel()
		select {
		case <-done:
		case <-limit.Done():
			o.finish() // for now
		}
	}, nil
}

// output passes on the beginning of what a program prints, and at the end its end. What is between them is only
// counted. A program does not end because its output cannot be passed on.
type output struct {
	Program
	mu    sync.Mutex
	begun int    // bytes passed on, or waiting
	line  []byte // waiting for its end, so that the log does not go on in it
	limit bool   // was reached, which was logged
	more  int    // bytes after that
	end   []byte // the last ones of them
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	begin := p[:min(len(p), maxBegin-o.begun)]
	o.begun += len(begin)
	o.pass(begin)
	if rest := p[len(begin):]; len(rest) > 0 {
		if !o.limit {
			o.limit = true
			o.endLine()
			o.Log.Warn(fmt.Sprintf("%s: it has printed %s: of the rest, only the end will be logged", o.Path, words.Bytes(maxBegin)))
		}
		o.more += len(rest)
		o.end = append(o.end, rest...)
		o.end = slices.Delete(o.end, 0, max(0, len(o.end)-maxEnd))
	}
	return len(p), nil
}

// finish passes on the end of what was printed.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more > maxEnd {
		if _, line, found := bytes.Cut(o.end, []byte("\n")); found {
			o.end = line
		}
		o.Log.Warn(fmt.Sprintf("%s: %s of its output left out", o.Path, words.Plural(o.more-len(o.end), "byte")))
	}
	o.pass(o.end)
	o.endLine()
	o.more, o.end = 0, nil
}

// pass passes on whole lines.
func (o *output) pass(p []byte) {
	o.line = append(o.line, p...)
	if whole := bytes.LastIndexByte(o.line, '\n') + 1; whole > 0 {
		o.Output.Write(o.line[:whole])
		o.line = bytes.Clone(o.line[whole:])
	}
}

// endLine passes on a line that has no end, with one.
func (o *output) endLine() {
	if len(o.line) > 0 {
		o.pass([]byte("\n"))
	}
}
