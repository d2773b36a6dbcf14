package process

import (
	"bytes"
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

// follow returns a file for the output of the program, and a function that waits until all programs have closed it, but
// not long.
func (p Program) follow() (file *os.File, written func(), err error) {
	from, file, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	o, done := &output{Program: p}, make(chan struct{})
	go func() {
		defer close(done)
		defer from.Close()
		io.Copy(o, from)
		o.finish()
	}()
	return file, func() {
		limit, cancel := context.WithTimeout(context.Background(), outputWait)
		defer cancel()
		select {
		case <-done:
		case <-limit.Done():
			o.finish() // for now
		}
	}, nil
}

// output passes on the beginning of what a program prints, and at the end its end. What is between them is only
// counted. That nothing reads it does not end the program.
type output struct {
	Program
	mu     sync.Mutex
	begun  int    // bytes passed on
	inLine bool   // the last one was not the end of a line
	limit  bool   // was reached, which was logged
	more   int    // bytes after that
	end    []byte // the last ones of them
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
	if o.more > 0 {
		o.pass(o.end)
		o.endLine()
	}
	o.more, o.end = 0, nil
}

func (o *output) pass(p []byte) {
	if len(p) > 0 {
		o.Output.Write(p)
		o.inLine = p[len(p)-1] != '\n'
	}
}

// endLine lets the log continue on a line of its own.
func (o *output) endLine() {
	if o.inLine {
		o.pass([]byte("\n"))
	}
}
