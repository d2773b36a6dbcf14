package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/process"
	"initbox/internal/words"
)

// signals are those with which programs are asked to read their files again, by name.
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
}

// SignalNamed returns the signal of that name, with or without SIG in front of it, if it is one of those with which
// programs are asked to read their files again, and its name without SIG.
func SignalNamed(text string) (name string, signal syscall.Signal, known bool) {
	name = strings.TrimPrefix(strings.ToUpper(text), "SIG")
	signal, known = signals[name]
	return name, signal, known
}

// Signal is a signal for a process after a change. The Pod's containers must share a process namespace.
type Signal struct {
	name    string // as in HUP
	signal  syscall.Signal
	process string // the name of its program
}

// ParseSignal reads NAME:PROCESS, as in HUP:nginx. Its error says what is wanted.
func ParseSignal(text string) (*Signal, error) {
	name, process, _ := strings.Cut(text, ":")
	name, signal, known := SignalNamed(name)
	if !known || process == "" || strings.Contains(process, "/") {
		return nil, errors.New("want NAME:PROCESS, a signal and the name of a program, as in HUP:nginx")
	}
	return &Signal{name, signal, process}, nil
}

// Hook returns the hook that sends it. A failure is permanent: neither the capabilities of this container nor what it
// sees of the Pod can change, and a process that starts later reads the files then.
func (s *Signal) Hook(log *slog.Logger) *Hook {
	target := failure.Printable(s.process)
	log = log.With(failure.Fields(target, 0, nil))
	return &Hook{Name: "signal", Run: func(context.Context, string) error {
		err := s.Send(log)
		if err == nil {
			return nil
		}
		return poll.Permanent(failure.About(target, err, err))
	}}
}

// find returns the processes of the program, without those that one of them has started: a server tells its workers.
func (s *Signal) find() (found []process.Process) {
	all := map[int]process.Process{}
	for _, p := range process.All() {
		if p.PID != os.Getpid() && s.is(p) {
			all[p.PID] = p
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		if _, started := all[all[pid].Parent]; !started {
			found = append(found, all[pid])
		}
	}
	return found
}

// maxComm is how much of a program's name the kernel keeps (TASK_COMM_LEN, without the zero byte).
const maxComm = 15

// is returns whether a process runs the program. It is known by the name of its file, which only root and its own user
// may read, by its first argument, and by the name that the kernel shows, unless that may be cut off. A process may
// change the last two.
func (s *Signal) is(p process.Process) bool {
	dir := fmt.Sprintf("/proc/%d/", p.PID)
	line, _ := os.ReadFile(dir + "cmdline")
	first, _, _ := strings.Cut(string(line), "\x00")
	file, _ := os.Readlink(dir + "exe")
	return !p.Ended && (len(p.Name) < maxComm && p.Name == s.process ||
		filepath.Base(first) == s.process || filepath.Base(strings.TrimSuffix(file, " (deleted)")) == s.process)
}

// Send sends the signal to every process that it can be sent to; its error has those to which it cannot. Where the
// program does not run, it will read the files when it starts.
func (s *Signal) Send(log *slog.Logger) error {
	processes := s.find()
	if len(processes) == 0 && os.Getpid() == 1 { // else the first process is the Pod's
		return failure.WithHint(fmt.Errorf("send SIG%s to %s: this container sees only its own processes", s.name, failure.Printable(s.process)), "add shareProcessNamespace: true to the Pod's spec")
	}
	if len(processes) == 0 {
		log.Info(fmt.Sprintf("%s: not running, so SIG%s is not sent", failure.Printable(s.process), s.name))
		return nil
	}
	var sent []string
	var failed error
	for _, p := range processes {
		switch err := p.Signal(s.signal); {
		case err == nil:
			sent = append(sent, strconv.Itoa(p.PID))
		case !errors.Is(err, os.ErrProcessDone):
			failed = errors.Join(failed, fmt.Errorf("send SIG%s to %s, process %d: %w", s.name, failure.Printable(s.process), p.PID, err))
		}
	}
	if len(sent) > 0 {
		log.Info(fmt.Sprintf("%s: SIG%s sent to process %s", failure.Printable(s.process), s.name, words.List(sent)))
	}
	if failed != nil {
		return failure.New(failure.Local, "%v", failed).WithHint("both containers need the same runAsUser, or this one the capability KILL")
	}
	return nil
}
