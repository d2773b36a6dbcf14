package sidecar

import (
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
	"initbox/internal/words"
)

// signals are those with which programs are asked to read their files again, by name.
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
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
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	signal, known := signals[name]
	if !known || process == "" || strings.Contains(process, "/") {
		return nil, errors.New("want NAME:PROCESS, a signal and the name of a program, as in HUP:nginx")
	}
	return &Signal{name, signal, process}, nil
}

// maxComm is how much of a program's name the kernel keeps (TASK_COMM_LEN, without the zero byte).
const maxComm = 15

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

// is returns whether a process runs the program, and which process has started it. A process may have given itself
// another name than its file has.
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
	line, _ := os.ReadFile(dir + "cmdline")
	program, _, _ := strings.Cut(string(line), "\x00")
	return parent, string(stat[begin+1:end]) == s.process[:min(len(s.process), maxComm)] || filepath.Base(program) == s.process
}

// Send sends the signal. Where the process does not run, it will read the files when it starts.
func (s *Signal) Send(log *slog.Logger) error {
	pids := s.find()
	if len(pids) == 0 && os.Getpid() == 1 { // else the first process is the Pod's
		return failure.WithHint(fmt.Errorf("send SIG%s to %s: this container sees only its own processes", s.name, failure.Printable(s.process)), "add shareProcessNamespace: true to the Pod's spec")
	}
	if len(pids) == 0 {
		log.Info(fmt.Sprintf("%s: not running, so SIG%s is not sent", failure.Printable(s.process), s.name))
		return nil
	}
	for _, pid := range pids {
		process, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		if _, still := s.is(pid); still { // after it was opened: the number may be that of another one by now
			err = process.Signal(s.signal)
		}
		process.Release()
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return failure.WithHint(fmt.Errorf("send SIG%s to %s, process %d: %w", s.name, failure.Printable(s.process), pid, err), "both containers need the same runAsUser, or this one the capability KILL")
		}
	}
	log.Info(fmt.Sprintf("%s: SIG%s sent to process %s", failure.Printable(s.process), s.name, words.List(words.Each(pids, strconv.Itoa))))
	return nil
}
