package command

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the golden parts of the scripts")

// TestMain makes the test binary initbox under each of its names, so that the scripts run it as users do: as a process.
func TestMain(m *testing.M) {
	main := func() {
		if os.Getenv("SCRIPT_TEST") != "" { // in a script: all of the last message must arrive, however busy the machine is
			signalGrace, deadlineGrace, lastWord = 20*time.Second, 20*time.Second, 20*time.Second
		}
		os.Exit(Run("devel", os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	names := map[string]func(){"initbox": main}
	for _, cmd := range new(env).newApp("").Commands {
		names[cmd.Name] = main
	}
	// The tests wait for most of their time, so many at once do not load two processors. The flag, if it is given, wins:
	// it is parsed later.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	testscript.Main(tests{m}, names)
}

// tests are the tests of the package, when this process is not initbox.
type tests struct{ *testing.M }

// Run runs the tests. A shell without job control starts commands in the background with SIGINT and SIGQUIT ignored;
// the processes that the tests start are to react to both.
func (m tests) Run() int {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	return m.M.Run()
}

// TestScript runs the scripts of testdata/script, each named after the behaviour that it pins. [scriptCommands] lists
// what they can do besides the commands of testscript. Under -short, those that start real servers or wait for more
// than about a second are skipped.
func TestScript(t *testing.T) {
	t.Parallel()
	shared := &sharedDatabases{t: t}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(e *testscript.Env) error { return setupScript(e, shared) },
		Cmds:                scriptCommands,
		Condition: func(condition string) (bool, error) {
			if condition == "ipv6" {
				l, err := net.Listen("tcp6", "[::1]:0")
				if err == nil {
					l.Close()
				}
				return err == nil, nil
			}
			return false, fmt.Errorf("no such condition: %s", condition)
		},
	})
}

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"status":    cmdStatus,
	"stuck":     cmdStuck,
	"begin":     cmdBegin,
	"awaits":    cmdAwaits,
	"signal":    cmdSignal,
	"end":       cmdEnd,
	"serve":     cmdServe,
	"open":      cmdOpen,
	"stop":      cmdStop,
	"requests":  cmdRequests,
	"asked":     cmdAsked,
	"untouched": cmdUntouched,
	"jsonlines": cmdJSONLines,
	"took":      cmdTook,
	"replace":   cmdReplace,
	"k8s":       cmdK8s,
	"registry":  cmdRegistry,
	"entries":   cmdEntries,
	"git":       cmdGit,
	"gitserver": cmdGitServer,
	"database":  cmdDatabase,
	"images":    cmdImages,
}

// scriptKey is where a script's [script] is kept.
type scriptKey struct{}

// script is what the commands know of one script.
type script struct {
	servers   map[string]*server
	processes map[string]*background
	shared    *sharedDatabases
	took      time.Duration // of the last command run by status, or end
}

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

// setupScript gives every script certificates in pki/, a termination log, and a deadline, so that a wait that does not
// end as it should fails soon.
func setupScript(e *testscript.Env, shared *sharedDatabases) error {
	e.Values[scriptKey{}] = &script{servers: map[string]*server{}, processes: map[string]*background{}, shared: shared}
	e.Setenv("INITBOX_TERMINATION_LOG", filepath.Join(e.WorkDir, "termination-log"))
	e.Setenv("INITBOX_TIMEOUT", "40s")
	e.Setenv("SCRIPT_TEST", "1") // see TestMain
	if e.Getenv("GORACE") == "" {
		e.Setenv("GORACE", "atexit_sleep_ms=10") // instead of a second for each process
	}
	if err := os.WriteFile(filepath.Join(e.WorkDir, "termination-log"), nil, 0o666); err != nil {
		return err
	}
	return writePKI(filepath.Join(e.WorkDir, "pki"))
}

// status N cmd args… runs cmd and requires exit status N.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N cmd args…")
	}
	start := time.Now()
	err := ts.Exec(args[1], args[2:]...)
	scriptOf(ts).took = time.Since(start)
	requireStatus(ts, args[0], err)
}

func requireStatus(ts *testscript.TestScript, want string, err error) {
	got := 0
	var exit *exec.ExitError
	switch e, ok := err.(*exec.ExitError); {
	case ok:
		exit = e
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("cannot run it: %v", err)
	}
	if want != strconv.Itoa(got) {
		ts.Fatalf("exit status %d (%v), want %s", got, exit, want)
	}
}

// stuck REGEX cmd args… runs cmd, which must not end by itself, until its stderr has a match, and then stops it. Unlike
// a deadline, this works on a busy machine, and waits no longer than needed.
func cmdStuck(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: stuck REGEX cmd args…")
	}
	const name = "stuck"
	cmdBegin(ts, false, append([]string{name}, args[1:]...))
	cmdAwaits(ts, false, []string{name, args[0]})
	cmdSignal(ts, false, []string{name, "TERM"})
	cmdEnd(ts, false, []string{name, "143"})
}

// took [MIN] MAX requires that the last command run by status, or ended by end, took so long. MAX has to leave room for
// a busy machine: it distinguishes a wait that noticed from one that slept on.
func cmdTook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: took [MIN] MAX")
	}
	least, most := time.Duration(0), parseScriptDuration(ts, args[len(args)-1])
	if len(args) == 2 {
		least = parseScriptDuration(ts, args[0])
	}
	if took := scriptOf(ts).took; took < least || took > most {
		ts.Fatalf("took %v, want %v to %v", took, least, most)
	}
}

func parseScriptDuration(ts *testscript.TestScript, text string) time.Duration {
	d, err := time.ParseDuration(text)
	ts.Check(err)
	return d
}

// background is a process started by begin.
type background struct {
	cmd      *exec.Cmd
	stdout   bytes.Buffer
	stderr   transcript
	exited   chan struct{}
	err      error
	signaled time.Time // when signal was last called
}

// transcript is an output that can be waited for.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed at the next write
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
	return t.text.Write(p)
}

// read returns the text so far, and a channel that is closed when there is more.
func (t *transcript) read() (string, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return t.text.String(), t.more
}

// begin NAME cmd args… starts cmd and returns when it has said something on
// stderr: a wait is on then, and signals are handled.
func cmdBegin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: begin NAME cmd args…")
	}
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	p := &background{cmd: exec.Command(path, args[2:]...), exited: make(chan struct{})}
	p.cmd.Args[0] = args[1]
	p.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "KUBECONFIG", "WORK", "SCRIPT_TEST", "HOME", "INITBOX_TERMINATION_LOG", "INITBOX_TIMEOUT", "INITBOX_LOG_FORMAT", "INITBOX_TARGETS", "PASSWORD", "POD_NAME", "POD_NAMESPACE", "POD_UID", "POD_IP", "GOCOVERDIR", "GORACE"} {
		if value := ts.Getenv(name); value != "" {
			p.cmd.Env = append(p.cmd.Env, name+"="+value)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	ts.Check(p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	ts.Defer(func() {
		p.cmd.Process.Kill()
		<-p.exited
	})
	scriptOf(ts).processes[args[0]] = p
	p.await(ts, regexp.MustCompile(`.`))
}

// awaits NAME REGEX waits until stderr of the process has a match.
func cmdAwaits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: awaits NAME REGEX")
	}
	re, err := regexp.Compile(`(?m)` + args[1])
	ts.Check(err)
	scriptOf(ts).process(ts, args[0]).await(ts, re)
}

func (s *script) process(ts *testscript.TestScript, name string) *background {
	p := s.processes[name]
	if p == nil {
		ts.Fatalf("no process was begun as %s", name)
	}
	return p
}

func (p *background) await(ts *testscript.TestScript, re *regexp.Regexp) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		text, more := p.stderr.read()
		if re.MatchString(text) {
			return
		}
		select {
		case <-more:
		case <-p.exited:
			if text, _ := p.stderr.read(); !re.MatchString(text) {
				ts.Fatalf("ended (%v) without a match of %s:\n%s", p.err, re, text)
			}
			return
		case <-ctx.Done():
			ts.Fatalf("no match of %s:\n%s", re, text)
		}
	}
}

// signal NAME SIGNAL sends the process a signal.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL}
	if neg || len(args) != 2 || signals[args[1]] == nil {
		ts.Fatalf("usage: signal NAME TERM|INT|HUP|QUIT|KILL")
	}
	p := scriptOf(ts).process(ts, args[0])
	select {
	case <-p.exited:
		text, _ := p.stderr.read()
		ts.Fatalf("it had ended before the signal: %v\n%s", p.err, text)
	default:
	}
	p.signaled = time.Now()
	ts.Check(p.cmd.Process.Signal(signals[args[1]]))
}

// end NAME STATUS waits for the process and requires its exit status. The time
// for took counts from the signal, if there was one.
func cmdEnd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: end NAME STATUS")
	}
	p := scriptOf(ts).process(ts, args[0])
	since := time.Now()
	if !p.signaled.IsZero() {
		since = p.signaled
	}
	select {
	case <-p.exited:
	case <-time.After(60 * time.Second):
		p.cmd.Process.Kill()
		<-p.exited
		text, _ := p.stderr.read()
		ts.Fatalf("did not end:\n%s", text)
	}
	scriptOf(ts).took = time.Since(since)
	io.Copy(ts.Stdout(), &p.stdout)
	text, _ := p.stderr.read()
	io.WriteString(ts.Stderr(), text)
	if code := strconv.Itoa(p.cmd.ProcessState.ExitCode()); code != args[1] {
		ts.Fatalf("exit status %s (%v), want %s:\n%s", code, p.err, args[1], text)
	}
}

// jsonlines FILE requires that every line is a JSON object with a time, a level and a message; FILE may be stderr.
func cmdJSONLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: jsonlines FILE")
	}
	text := ts.ReadFile(args[0])
	if text == "" {
		ts.Fatalf("%s is empty", args[0])
	}
	for line := range strings.Lines(text) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			ts.Fatalf("not JSON: %v\n%s", err, line)
		}
		for _, key := range []string{"time", "level", "msg"} {
			if object[key] == nil {
				ts.Fatalf("no %s in %s", key, line)
			}
		}
		for key, value := range object {
			if value == nil || value == "" {
				ts.Fatalf("%s is empty in %s", key, line)
			}
			if n := strings.Count(line, `,"`+key+`":`); n > 1 {
				ts.Fatalf("%s is there %d times in %s", key, n, line)
			}
		}
	}
}

// replace FILE TEXT puts TEXT into FILE by a rename, as editors and the kubelet do, so that no reader sees half of it.
func cmdReplace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: replace FILE TEXT")
	}
	name := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(name+".new", []byte(args[1]+"\n"), 0o666))
	ts.Check(os.Rename(name+".new", name))
}

// serve NAME KIND [OPTION…] starts a server and puts its address into $NAME, its
// port into $NAME_port, the percent-encoded path of its socket into
// $NAME_escaped. The kinds are in [serverKinds], the options in [serverOptions].
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: serve NAME KIND [OPTION…]; the kinds are %s", slices.Sorted(maps.Keys(serverKinds)))
	}
	options := serverOptions{}
	for _, option := range args[2:] {
		name, value, _ := strings.Cut(option, "=")
		if name == "socket" || name == "zone" || name == "dir" {
			value = ts.MkAbs(value)
		}
		options[name] = value
	}
	s, err := newServer(args[1], options)
	ts.Check(err)
	scriptOf(ts).servers[args[0]] = s
	ts.Defer(s.close)
	ts.Setenv(args[0], s.addr)
	if _, port, err := net.SplitHostPort(s.addr); err == nil {
		ts.Setenv(args[0]+"_port", port)
	} else {
		ts.Setenv(args[0]+"_escaped", url.PathEscape(s.addr))
	}
}

func (s *script) server(ts *testscript.TestScript, name string) *server {
	if s.servers[name] == nil {
		ts.Fatalf("no server was started as %s", name)
	}
	return s.servers[name]
}

// open NAME lets a server with the option closed, or a black hole, listen.
func cmdOpen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: open NAME")
	}
	scriptOf(ts).server(ts, args[0]).open()
}

// stop NAME closes a server for good; its port then refuses.
func cmdStop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: stop NAME")
	}
	scriptOf(ts).server(ts, args[0]).stop()
}

// requests NAME writes what the server was asked to stdout, one request per line.
func cmdRequests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: requests NAME")
	}
	for _, line := range scriptOf(ts).server(ts, args[0]).requests() {
		fmt.Fprintln(ts.Stdout(), line)
	}
}

// asked NAME REGEX waits until the server was asked something that matches.
func cmdAsked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: asked NAME REGEX")
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	server := scriptOf(ts).server(ts, args[0])
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if slices.ContainsFunc(server.requests(), re.MatchString) {
			return
		}
	}
	ts.Fatalf("%s was not asked %s", args[0], re)
}

// untouched NAME requires that nothing was ever sent to a server of kind trap.
func cmdUntouched(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: untouched NAME")
	}
	if what := scriptOf(ts).server(ts, args[0]).sprung(); what != "" {
		ts.Fatalf("%s was touched: %s", args[0], what)
	}
}
