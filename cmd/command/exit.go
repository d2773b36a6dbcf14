package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"initbox/cmd/help"
	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/suggest"
)

// Exit statuses, the same for every subcommand.
const (
	exitFailure = 1   // trying again the same way cannot help
	exitUsage   = 2   // the command line is wrong; nothing was tried
	exitTimeout = 124 // the deadline passed, as with timeout(1)
	exitSignal  = 128 // plus the signal's number
)

const exitHelp = `Exit status:
  0      done, or nothing to do
  1      failed, and trying again the same way cannot help
  2      the command line is wrong; nothing was tried
  124    the deadline (--timeout) passed
  128+n  stopped by signal n (143 for SIGTERM)
`

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func (e usageError) hint(hint string) error { return failure.WithHint(e, hint) }

func usagef(format string, args ...any) usageError { return usageError{fmt.Errorf(format, args...)} }

// status is the one place where an error becomes an exit status.
func status(err error) int {
	var sig stopped
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.As(err, &sig):
		return exitSignal + int(sig.Signal)
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitFailure
}

// report is the one place where an error reaches the user: on stderr, in the Pod's status, and as the exit status.
func (e *env) report(err error) int {
	if err == nil {
		return 0
	}
	message := strings.ReplaceAll(failure.Lines(printableNames(err)), "\nhint:", "\n  hint:") // hints come after it
	hint := failure.Lines(failure.Hint(err))
	lines := e.step.String() + message + "\n"
	if hint != "" {
		lines += "hint: " + hint + "\n"
	}
	// The Pod's status comes first: a write to stderr may block.
	termination := writeTerminationLog(e.terminationLog, strings.TrimSuffix(lines, "\n"))
	if e.logFormat == "json" {
		// There may be no logger yet: the command line may be wrong before its flags, or in them.
		slog.New(newJSONHandler(e.stderr, slog.LevelInfo)).With(e.attrs()...).Error(message, failure.Advised(failure.Advice(err)), "status", status(err),
			failure.Fields("", 0, err))
	} else {
		command := e.command
		if e.number > 0 {
			command = "initbox"
		}
		fmt.Fprintf(e.stderr, "%s: %s", command, lines)
	}
	if termination != nil && e.log != nil {
		e.log.Warn("cannot write the termination message: " + termination.Error())
	}
	return status(err)
}

// printableNames returns the text of err in which the name of a file, which may have line breaks, is one line.
func printableNames(err error) string {
	text := err.Error()
	var path *fs.PathError
	if errors.As(err, &path) {
		text = strings.ReplaceAll(text, path.Path, failure.Printable(path.Path))
	}
	return text
}

// maxTerminationMessage is how many bytes the kubelet reads.
const maxTerminationMessage = 4096

// kubeletTerminationLog is where the kubelet looks unless the Pod says otherwise (terminationMessagePath).
const kubeletTerminationLog = "/dev/termination-log"

// writeTerminationLog writes message to the file where the kubelet looks for it, or nowhere if name is empty. The file
// is a mount: it is written in place, and never replaced or created. A link in a volume is not followed.
func writeTerminationLog(name, message string) error {
	if name == "" {
		return nil
	}
	dir, base, link, err := mounts.OpenParent(name, false)
	if err != nil || link != nil {
		return cmp.Or(err, link)
	}
	defer dir.Close()
	f, err := dirfd.Open(dir, base, syscall.O_WRONLY|syscall.O_TRUNC, 0) // does not wait for the reader of a FIFO
	if err != nil {
		if name == kubeletTerminationLog && errors.Is(err, os.ErrNotExist) {
			return nil // not in a Pod
		}
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	_ = f.SetWriteDeadline(time.Now().Add(lastWord)) // for a full FIFO; files have no deadlines
	_, err = io.WriteString(f, cut(message, maxTerminationMessage))
	return errors.Join(err, f.Close())
}

// cut returns at most n bytes of s, without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// helpHint returns a hint that says where the flags of a command are explained.
func helpHint(command string) string { return "run " + command + " --help for the flags" }

// onUsageError replaces the messages of the flag library by the program's own.
func onUsageError(c *cli.Context, err error, _ bool) error {
	hint := helpHint(c.App.Name)
	var flags []cli.Flag
	subcommand := ""
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != c.App.Name {
		subcommand = c.Command.Name
		hint = helpHint(c.App.Name + " " + subcommand)
		flags = c.Command.Flags
	}
	name, undefined := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !undefined {
		return usageError{help.WrongValue(err, flags)}.hint(hint)
	}
	name = strings.TrimLeft(name, "-")
	var known []string
	for _, f := range flags {
		known = append(known, f.Names()...)
	}
	meant := suggest.Closest(name, known)
	if own := gitNames[name]; slices.Contains(known, own) {
		meant = own
	}
	dashes := "--"
	if len(name) == 1 {
		dashes = "-"
	}
	if own, found := otherNames[subcommand][name]; found {
		if meant = own; own == "" {
			hint = fmt.Sprintf("leave out %s%s, %s does that anyway; %s", dashes, name, subcommand, hint)
		}
	}
	if meant != "" {
		hint = "did you mean --" + meant + "? " + hint
	}
	return usagef("no such flag: %s%s", dashes, name).hint(hint)
}

// newLogger returns the logger that the common flags of a step ask for.
func newLogger(w io.Writer, format, level string, s *step) (*slog.Logger, error) {
	var l slog.Level
	switch level {
	case "debug", "info", "warn", "error":
		l.UnmarshalText([]byte(level))
	default:
		return nil, usagef("--log-level: want debug, info, warn or error, got %q", level)
	}
	switch format {
	case "json":
		return slog.New(newJSONHandler(w, l)).With(s.attrs()...), nil
	case "text":
		return slog.New(&textHandler{w: w, level: l, prefix: s.String(), mu: new(sync.Mutex)}), nil
	}
	return nil, usagef("--log-format: want text or json, got %q", format)
}
