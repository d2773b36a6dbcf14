package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A transcript interleaves the lines of several speakers, each with the time since the start and the speaker's name.
type transcript struct {
	start  time.Time
	colour bool

	mu   sync.Mutex
	w    io.Writer
	said []line
	more chan struct{} // closed at the next line
}

// A line is one line of a speaker.
type line struct{ speaker, text string }

func newTranscript(w io.Writer) *transcript {
	return &transcript{start: time.Now(), colour: isTerminal(w) && os.Getenv("NO_COLOR") == "", w: w, more: make(chan struct{})}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// A speaker adds lines to a transcript.
type speaker struct {
	name   string
	colour int // ANSI SGR code; 0 for the terminal's own
}

// nameWidth is the length of the longest name of a speaker.
const nameWidth = len("init-myservice")

func (t *transcript) say(s speaker, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, text := fmt.Sprintf("%-*s", nameWidth, s.name), fmt.Sprintf(format, args...)
	if t.colour && s.colour != 0 {
		name = fmt.Sprintf("\x1b[%dm%s\x1b[0m", s.colour, name)
	}
	fmt.Fprintf(t.w, "%5.1fs  %s | %s\n", time.Since(t.start).Seconds(), name, text)
	t.said = append(t.said, line{s.name, text})
	close(t.more)
	t.more = make(chan struct{})
}

// await waits until a line of the speaker contains text. It returns false if ctx ends first.
func (t *transcript) await(ctx context.Context, speaker, text string) bool {
	said := func(l line) bool { return l.speaker == speaker && strings.Contains(l.text, text) }
	for {
		t.mu.Lock()
		found, more := slices.ContainsFunc(t.said, said), t.more
		t.mu.Unlock()
		if found {
			return true
		}
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}

// lines returns a writer for the output of a process.
func (t *transcript) lines(s speaker) *lineWriter { return &lineWriter{t: t, speaker: s} }

type lineWriter struct {
	t       *transcript
	speaker speaker
	partial []byte
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.t.say(l.speaker, "%s", untimed(line))
		l.partial = rest
	}
}

// flush adds the text after the last line break.
func (l *lineWriter) flush() {
	if len(l.partial) > 0 {
		l.t.say(l.speaker, "%s", untimed(l.partial))
		l.partial = nil
	}
}

// untimed returns a log line without its date and time: the transcript shows the time since the start.
func untimed(line []byte) []byte {
	first, rest, _ := bytes.Cut(line, []byte(" "))
	if _, err := time.Parse(time.RFC3339Nano, string(first)); err == nil {
		return rest
	}
	return line
}
