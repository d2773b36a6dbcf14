package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"initbox/internal/failure"
	"initbox/internal/poll"
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
	return &Hook{Name: "signal", Run: func(context.Context, string) error { return poll.Permanent(s.Send(log)) }}
}

// find returns the processes of the program, without those that one of them has started: a server tells its workers.
func (s *Signal) find() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	parents := map[int]int{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if parent, is := s.is(pid); err == nil && is && pid != os.Getpid() {
			parents[pid] = parent
		}
	}
	for pid, parent := range parents {
		if _, started := parents[parent]; !started {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// maxComm is how much of a program's name the kernel keeps (TASK_COMM_LEN, without the zero byte).
const maxComm = 15

// is returns whether a process runs the program, and which process has started it. It is known by the name of its
// file, which only root and its own user may read, by its first argument, and by the name that the kernel shows,
// unless that may be cut off. A process may change the last two.
func (s *Signal) is(pid int) (parent int, is bool) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(dir + "stat") // PID (COMM) STATE PPID …, see proc(5)
	begin, end := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
	if err != nil || begin < 0 || end < begin {
		return 0, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 2 || fields[0] == "Z" {
		return 0, false
	}
	parent, _ = strconv.Atoi(fields[1])
	comm := string(stat[begin+1 : end])
	line, _ := os.ReadFile(dir + "cmdline")
	first, _, _ := strings.Cut(string(line), "\x00")
	file, _ := os.Readlink(dir + "exe")
	return parent, len(comm) < maxComm && comm == s.process ||
		filepath.Base(first) == s.process || filepath.Base(strings.TrimSuffix(file, " (deleted)")) == s.process
}

// Send sends the signal to every process that it can be sent to; its error has those to which it cannot. Where the
// program does not run, it will read the files when it starts.
func (s *Signal) Send(log *slog.Logger) error {
	pids := s.find()
	if len(pids) == 0 && os.Getpid() == 1 { // else the first process is the Pod's
		return failure.WithHint(fmt.Errorf("send SIG%s to %s: this container sees only its own processes", s.name, failure.Printable(s.process)), "add shareProcessNamespace: true to the Pod's spec")
	}
	if len(pids) == 0 {
		log.Info(fmt.Sprintf("%s: not running, so SIG%s is not sent", failure.Printable(s.process), s.name))
		return nil
	}
	var sent []string
	var failed error
	for _, pid := range pids {
		switch err := s.send(pid); {
		case err == nil:
			sent = append(sent, strconv.Itoa(pid))
		case !errors.Is(err, os.ErrProcessDone):
			failed = errors.Join(failed, fmt.Errorf("send SIG%s to %s, process %d: %w", s.name, failure.Printable(s.process), pid, err))
		}
	}
	if len(sent) > 0 {
		log.Info(fmt.Sprintf("%s: SIG%s sent to process %s", failure.Printable(s.process), s.name, words.List(sent)))
	}
	if failed != nil {
		return failure.WithHint(failed, "both containers need the same runAsUser, or this one the capability KILL")
	}
	return nil
}

// send sends the signal to a process, or returns [os.ErrProcessDone] if it has ended.
func (s *Signal) send(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer process.Release()
	if _, still := s.is(pid); !still { // after it was opened: the number may be that of another one by now
		return os.ErrProcessDone
	}
	return process.Signal(s.signal)
}
