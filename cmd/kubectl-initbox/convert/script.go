package convert

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/duration"
	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
	plurals "initbox/internal/words"
)

// readScript returns the steps that do what a script does that c runs with a shell, program. parameters are $0, $1, ….
// The error is what stopped it, a [*shell.Error] where one word is to blame.
func readScript(program, source string, parameters []string, c *manifest.Container) (Result, error) {
	known := func(name string) (string, shell.State) { return stateOf(name, c) }
	word, err := kubeletWord(source, c, len(c.Env))
	if err != nil {
		return Result{}, err
	}
	text, err := shell.Paste(word, known)
	if err != nil {
		return Result{}, err
	}
	list, err := words(parameters, c)
	if err != nil {
		return Result{}, err
	}
	if program = shellOf(program, c); program == "sh" && callsUpdateTrust().MatchString(text) {
		program = "bash" // which sh is in the distributions with that command
	}
	if base := repository(c.Image); program == "sh" && official(c.Image) && (base == "debian" || base == "ubuntu") && strings.Contains(text, "pipefail") {
		return Result{}, &shell.Error{Word: "set -o pipefail", Why: "the sh of this image is dash, which ends the script there"}
	}
	script, err := shell.Parse(text, shell.Options{Program: program, Parameters: list, Lookup: known, Hostname: hostnameIn(c), Directory: func(path string) bool { return isMountPoint(path, c) }})
	if err != nil {
		return Result{}, err
	}
	s := &scriptReader{c: c}
	for _, name := range script.Pasted {
		s.differs("the value of " + name + " was part of the script's text: it is now taken literally")
	}
	if err := s.statements(script.Body, true); err != nil {
		return Result{}, err
	}
	return s.result()
}

// readCommand returns the steps that do what a command does that runs without a shell. A program that is not known is a
// step without a subcommand.
func readCommand(line []shell.Word, c *manifest.Container) (Result, error) {
	name, ok := line[0].Literal()
	if !ok {
		return Result{}, stop(line[0], "a program that is not known")
	}
	s := &scriptReader{c: c}
	call := &shell.Call{Pos: shell.Pos{}, Name: path.Base(name), Path: name, Args: line[1:]}
	if err := s.statements([]shell.Statement{{Call: call}}, true); err != nil {
		return Result{}, err
	}
	return s.result()
}

// hostnameIn returns the variable that has what hostname prints, or "".
func hostnameIn(c *manifest.Container) string {
	if n := len(c.Env) - 1; n >= 0 && c.Env[n].Name == hostname && lookup(hostname, c).origin == inPod {
		return hostname
	}
	return ""
}

// isMountPoint reports whether a whole volume that is a directory is mounted at a path.
func isMountPoint(file string, c *manifest.Container) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return path.IsAbs(file) && path.Clean(m.MountPath) == path.Clean(file) && m.SubPath == "" && m.SubPathExpr == "" &&
			!slices.ContainsFunc(c.Pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.HostPath != nil })
	})
}

// stateOf returns what is known of a variable, for the reading of scripts.
func stateOf(name string, c *manifest.Container) (string, shell.State) {
	switch v := lookup(name, c); v.origin {
	case inManifest:
		return v.value, shell.Literal
	case inPod, inConfigMap, inSecret:
		return "", shell.Opaque
	case nowhere:
		return "", shell.Unset
	}
	return "", shell.Uncertain
}

// shellOf returns the shell that a name stands for in the image of c: bash, ash, or sh if it may be any of them.
func shellOf(name string, c *manifest.Container) string {
	if base := repository(c.Image); name == "ash" || name == "sh" && official(c.Image) && (base == "busybox" || base == "alpine") {
		return "ash"
	}
	return name
}

var callsUpdateTrust = lazy.Regexp(`(^|[\s;&])update-ca-trust\b`)

// scriptReader makes steps of statements.
type scriptReader struct {
	c        *manifest.Container
	items    []item
	notes    []string
	unused   []string
	split    []string // variables without quotes whose values are not known
	installs []*shell.Call
}

// item is a step, or a wait whose deadline is written when the waits beside it are known.
type item struct {
	step      Step
	wait      bool
	unbounded bool
	limit     time.Duration
	attempts  int // that the script makes; 0 if only their time is limited
	goesOn    bool
	loop      *shell.Loop
	inAttempt time.Duration // the part of limit that its own attempts take
}

func (s *scriptReader) differs(note string) {
	if !slices.Contains(s.notes, note) {
		s.notes = append(s.notes, note)
	}
}

// statements adds the steps of a list. last says that nothing follows it.
func (s *scriptReader) statements(list []shell.Statement, last bool) error {
	for i, statement := range list {
		var err error
		switch {
		case statement.Call != nil:
			err = s.call(statement, last && i == len(list)-1)
			err = at(statement.Call, err)
		case statement.Loop != nil:
			err = s.loop(statement)
		default:
			err = s.condition(statement.If)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// call adds the steps of a command that is called once.
func (s *scriptReader) call(statement shell.Statement, last bool) error {
	call := statement.Call
	if installs(call) {
		s.installs = append(s.installs, call)
		return nil
	}
	if call.Stderr != nil && call.Stderr.File != nil {
		return stop(call.Stderr.File, "the errors of "+call.Name+", in a file")
	}
	if call.Limit > 0 {
		return &shell.Error{Word: "timeout", Why: "a limit of the time of " + call.Name}
	}
	if _, isCommand := commandOf(call.Name); !isCommand && probes[call.Name] != nil && !statement.Unchecked && !statement.MayFail {
		return s.loop(shell.Statement{Loop: &shell.Loop{Pos: call.Pos, Until: shell.Cond{Call: call}, Attempts: 1, Fails: true}})
	}
	steps, err := s.steps(call, last && !statement.Unchecked && !statement.MayFail)
	if err != nil {
		return err
	}
	switch {
	case len(steps) == 0 && call.Name == "ulimit":
		s.unused = append(s.unused, callText(call))
		s.differs("the script failed where the limit of ulimit could not be set")
	case len(steps) == 0:
		s.unused = append(s.unused, callText(call))
	case statement.MayFail:
		steps = []Step{ignoring(call, steps)}
	case statement.Unchecked && call.Name != "sleep" && call.Name != "cd":
		what := call.Name
		if what == ":" {
			what = "the redirection"
		}
		s.differs("if " + what + " fails, the container fails and starts again; the script went on")
	}
	for _, step := range steps {
		s.items = append(s.items, item{step: step})
	}
	return nil
}

func (s *scriptReader) steps(call *shell.Call, last bool) ([]Step, error) {
	call = withoutCat(call)
	if call.Name == "sleep" {
		return s.sleep(call)
	}
	if f, found := commandOf(call.Name); found {
		s.splits(call)
		return f(call, s.c)
	}
	plain := len(call.Set) == 0 && call.Stdin == nil && call.Stdout == nil && call.Stderr == nil && call.Pipe == nil && call.Dir == nil && call.Umask == ""
	if !last || !plain {
		return nil, &shell.Error{Word: call.Name, Why: "initbox has no replacement for this command"}
	}
	before := len(s.split)
	if s.splits(call); len(s.split) > before {
		return nil, &shell.Error{Word: "$" + s.split[before], Why: "without quotes, its value may be several words for " + call.Name}
	}
	list, err := args(append([]shell.Word{{{Text: call.Path}}}, call.Args...), s.c)
	if err != nil {
		return nil, err
	}
	return []Step{{Args: list, Inside: true, Writes: true, Why: "it runs " + call.Name + " as before"}}, nil
}

func (s *scriptReader) sleep(call *shell.Call) ([]Step, error) {
	if len(call.Args) != 1 || call.Pipe != nil || call.Stdin != nil {
		return nil, &shell.Error{Word: "sleep", Why: "not called with one time"}
	}
	text, ok := known(call.Args[0], s.c)
	if n, err := strconv.ParseFloat(text, 64); ok && err == nil && n >= 0 {
		text += "s"
	}
	if d, err := time.ParseDuration(text); !ok || err != nil || d < 0 {
		return nil, stop(call.Args[0], "a time that is not known")
	}
	return []Step{{Subcommand: "sleep", Args: []string{text}, Why: "it sleeps as long"}}, nil
}

// splits collects the variables without quotes whose values are not known.
func (s *scriptReader) splits(call *shell.Call) {
	for ; call != nil; call = call.Pipe {
		for _, w := range call.Args {
			for _, p := range w {
				if v := lookup(p.Env, s.c); p.Env != "" && p.Split && (v.origin == inConfigMap || v.origin == inSecret) {
					s.split = append(s.split, p.Env)
				}
			}
		}
	}
}

// callText returns a call for the report, without what may be a secret.
func callText(call *shell.Call) string {
	text := call.Name
	for _, w := range call.Args {
		if literal, ok := w.Literal(); !ok || strings.ContainsAny(literal, "@=\n") || len(text) > 60 {
			return text + " …"
		} else {
			text += " " + literal
		}
	}
	return text
}

// packageManagers are the programs that install others, with what they are called with to do so.
var packageManagers = map[string][]string{
	"apk": {"add", "update"}, "apt-get": {"install", "update"}, "apt": {"install", "update"}, "yum": {"install", "makecache", "update"},
	"dnf": {"install", "makecache"}, "microdnf": {"install"}, "pip": {"install"}, "pip3": {"install"},
}

// installs reports whether a call installs other programs.
func installs(call *shell.Call) bool {
	for _, w := range call.Args {
		if text, _ := w.Literal(); !strings.HasPrefix(text, "-") {
			return slices.Contains(packageManagers[call.Name], text) && call.Pipe == nil && call.Stdin == nil && (call.Stdout == nil || call.Stdout.Discard)
		}
	}
	return false
}

// condition adds the steps of an if. What only installs programs is not needed.
func (s *scriptReader) condition(i *shell.If) error {
	cond := i.Cond
	then, err := s.branch(i.Then)
	if err != nil {
		return err
	}
	otherwise, err := s.branch(i.Else)
	switch {
	case err != nil:
		return err
	case len(then) == 0:
		then, otherwise = otherwise, nil
		cond.Not = !cond.Not
	}
	if len(then) == 0 {
		return nil
	}
	word := &shell.Error{Pos: i.Pos, Word: "if " + condText(i.Cond), Why: "a condition that initbox cannot express"}
	if len(otherwise) > 0 {
		return word
	}
	steps, err := conditional(cond, then, s.c)
	if e := (*shell.Error)(nil); errors.As(err, &e) && e.Pos.Line == 0 {
		e.Pos = i.Pos
	}
	for _, step := range steps {
		s.items = append(s.items, item{step: step})
	}
	return err
}

// branch returns the steps of what is only done if a condition holds.
func (s *scriptReader) branch(list []shell.Statement) ([]Step, error) {
	before := s.items
	s.items = nil
	err := s.statements(list, false)
	var steps []Step
	for i, it := range s.items {
		if it.wait {
			return nil, &shell.Error{Pos: list[min(i, len(list)-1)].Pos(), Word: "if", Why: "a wait under a condition"}
		}
		steps = append(steps, it.step)
	}
	s.items = before
	return steps, err
}

func condText(c shell.Cond) string {
	switch {
	case c.Call != nil:
		return callText(c.Call)
	case c.Match != nil:
		return callText(c.Match.Call)
	}
	return "…"
}

// loop adds the wait that a loop is.
func (s *scriptReader) loop(statement shell.Statement) error {
	loop := statement.Loop
	if statement.MayFail {
		return &shell.Error{Pos: loop.Pos, Word: "||", Why: "the script wants to go on if the wait is in vain, and initbox would fail"}
	}
	waits, err := s.until(loop.Until)
	if err != nil {
		var e *shell.Error
		if errors.As(err, &e) && e.Pos.Line == 0 {
			e.Pos = loop.Pos
		}
		return err
	}
	if loop.Aborts {
		s.differs("an attempt that failed ended the script, because of set -e, and the kubelet started it again; now the wait goes on")
	}
	for _, w := range waits {
		it := item{step: w, wait: true, attempts: loop.Attempts, limit: loop.Timeout, loop: loop}
		each := loop.Pause
		for i, f := range w.Flags {
			if d, err := time.ParseDuration(f.Value); f.Name == "attempt-timeout" && err == nil {
				each += d
			}
			if f.Name == "timeout" { // of an attempt
				d, _ := time.ParseDuration(f.Value)
				each += d
				it.step.Flags = slices.Delete(slices.Clone(w.Flags), i, i+1)
				break
			}
		}
		if loop.Attempts > 0 {
			it.limit, it.inAttempt = time.Duration(loop.Attempts)*each, time.Duration(loop.Attempts)*(each-loop.Pause)
			if it.limit < time.Minute && each < time.Second {
				it.limit = 5 * time.Minute // an attempt has no time of its own
			}
		}
		it.unbounded = it.limit == 0
		it.goesOn = !it.unbounded && !loop.Fails
		s.items = append(s.items, it)
	}
	return nil
}

// until returns the waits for a condition.
func (s *scriptReader) until(c shell.Cond) ([]Step, error) {
	switch {
	case c.Call != nil:
		s.splits(c.Call)
		if c.Call.Substituted && !silent(c.Call) {
			return nil, &shell.Error{Pos: c.Call.Pos, Word: "$(" + c.Call.Name + " …)", Why: "what it prints would be run as a command"}
		}
		f, found := probes[c.Call.Name]
		if !found {
			return nil, &shell.Error{Pos: c.Call.Pos, Word: c.Call.Name, Why: "a condition that initbox does not wait for"}
		}
		step, err := f(c.Call, s.c)
		if err == nil && c.Not {
			step, err = gone(step, c.Call)
		}
		step = limited(step, c.Call.Limit)
		return []Step{step}, at(c.Call, err)
	case c.Match != nil:
		s.splits(c.Match.Call)
		m := *c.Match
		if c.Not {
			op, found := opposite[m.Op]
			if !found {
				return nil, &shell.Error{Pos: m.Call.Pos, Word: "! " + m.Op, Why: "a wait until something is no longer printed"}
			}
			m.Op = op
		}
		f, found := comparisons[m.Call.Name]
		if !found {
			return nil, &shell.Error{Pos: m.Call.Pos, Word: m.Call.Name, Why: "a comparison that initbox does not wait for"}
		}
		step, err := f(&m, s.c)
		return []Step{limited(step, m.Call.Limit)}, at(m.Call, err)
	case c.All != nil && !c.Not:
		var all []Step
		for _, inner := range c.All {
			steps, err := s.until(inner)
			if err != nil {
				return nil, err
			}
			all = append(all, steps...)
		}
		s.differs("each condition must have held, not all at the same moment")
		return all, nil
	case c.Any != nil && c.Not: // not (a or b)
		var all shell.Cond
		for _, inner := range c.Any {
			inner.Not = !inner.Not
			all.All = append(all.All, inner)
		}
		return s.until(all)
	}
	return nil, &shell.Error{Word: "||", Why: "a wait for one of several conditions"}
}

// silent reports whether a call certainly prints nothing but errors.
func silent(call *shell.Call) bool {
	if call.Pipe != nil || call.Stdout != nil && call.Stdout.Discard {
		return call.Pipe == nil
	}
	texts := ""
	for _, w := range call.Args {
		texts += " " + w.String()
	}
	switch call.Name {
	case "curl":
		return !strings.Contains(texts, "-w") && !strings.Contains(texts, "%{") && (strings.Contains(texts+" ", "-o /dev/null ") || strings.Contains(texts+" ", "--output /dev/null "))
	case "wget":
		return strings.Contains(texts+" ", " -O /dev/null ") || strings.Contains(texts, " --spider")
	case "nc":
		return strings.Contains(texts, " -z")
	}
	return false
}

// opposite are the comparisons that hold if others do not.
var opposite = map[string]string{
	"=": "!=", "!=": "=", "-n": "-z", "-z": "-n", "-eq": "-ne", "-ne": "-eq", "-lt": "-ge", "-ge": "-lt", "-gt": "-le", "-le": "-gt",
}

// result returns the steps in order.
func (s *scriptReader) result() (Result, error) {
	var steps []Step
	if err := s.leaveImplied(); err != nil {
		return Result{}, err
	}
	for i := 0; i < len(s.items); {
		it := s.items[i]
		for i++; i < len(s.items) && together(it, s.items[i]); i++ {
			it = merge(it, s.items[i])
		}
		if it.wait {
			s.deadline(&it)
		}
		steps = append(steps, it.step)
	}
	steps, err := settle(steps, s.c, s.installs...)
	if err != nil {
		return Result{}, err
	}
	for _, call := range s.installs {
		if slices.ContainsFunc(steps, func(s Step) bool { return s.Inside }) {
			return Result{}, &shell.Error{Pos: call.Pos, Word: callText(call), Why: "what it installs may be needed by what else runs in the image"}
		}
		s.unused = append(s.unused, callText(call))
	}
	line := ""
	for _, step := range steps {
		line += strings.Join(step.words(), " ")
	}
	for _, name := range s.split {
		if strings.Contains(line, "$("+name+")") || strings.Contains(line, "${env:"+name) {
			s.differs("$" + name + " stands without quotes: white space in its value made several words of it, which is one word now")
		}
	}
	return Result{Steps: steps, Differs: s.notes, Unused: s.unused}, nil
}

// leaveImplied leaves out waits for servers of PostgreSQL that a later wait logs in to.
func (s *scriptReader) leaveImplied() error {
	logsIn := func(it item, server string) bool {
		return it.wait && slices.ContainsFunc(it.step.Args, func(target string) bool {
			_, behind, login := strings.Cut(target, "@")
			return strings.HasPrefix(target, "postgres://") && login && (behind == server || strings.HasPrefix(behind, server+"/") || strings.HasPrefix(behind, server+"#"))
		})
	}
	for i := len(s.items) - 1; i >= 0; i-- {
		if step := s.items[i].step; step.implied {
			if len(step.Args) != 1 || !slices.ContainsFunc(s.items[i+1:], func(it item) bool { return logsIn(it, strings.TrimPrefix(step.Args[0], "postgres://")) }) {
				return &shell.Error{Word: "PGUSER", Why: "a variable with which initbox would log in, where pg_isready does not"}
			}
			s.unused = append(s.unused, "pg_isready")
			s.items = slices.Delete(s.items, i, i+1)
		}
	}
	return nil
}

// together reports whether two waits, one after the other, are the same as one for both.
func together(a, b item) bool {
	return a.wait && b.wait && a.step.Subcommand == b.step.Subcommand && a.step.Inside == b.step.Inside && slices.Equal(a.step.Flags, b.step.Flags) &&
		a.goesOn == b.goesOn && a.unbounded == b.unbounded
}

func merge(a, b item) item {
	a.step.Args = slices.Clone(a.step.Args)
	for _, target := range b.step.Args {
		if !slices.Contains(a.step.Args, target) {
			a.step.Args = append(a.step.Args, target)
		}
	}
	for _, d := range b.step.Differs {
		if !slices.Contains(a.step.Differs, d) {
			a.step.Differs = append(slices.Clone(a.step.Differs), d)
		}
	}
	if !strings.Contains(a.step.Why, b.step.Why) {
		a.step.Why += "; " + b.step.Why
	}
	a.step.Writes, a.step.AsRoot = a.step.Writes || b.step.Writes, a.step.AsRoot || b.step.AsRoot
	if a.loop == b.loop { // one attempt is at both
		a.limit += b.inAttempt
		return a
	}
	a.limit += b.limit
	a.attempts += b.attempts
	return a
}

// deadline adds --timeout to a wait.
func (s *scriptReader) deadline(it *item) {
	limit := 5 * time.Minute
	switch {
	case it.unbounded:
		s.differs("it gives up after 5 minutes, and the kubelet starts it again; the script waited forever")
	case it.attempts > 0:
		limit = roundUp(it.limit)
		s.differs(fmt.Sprintf("it gives up after %s instead of after %s, however long an attempt takes", duration.Short(limit), plurals.Plural(it.attempts, "attempt")))
	default:
		limit = it.limit
	}
	if it.goesOn {
		s.differs("it fails if the wait times out; the script went on, although nothing was ready")
	}
	it.step.Flags = append(slices.Clone(it.step.Flags), Flag{"timeout", duration.Short(limit)})
}

// roundUp returns a duration that is not shorter and that people write.
func roundUp(d time.Duration) time.Duration {
	unit := 5 * time.Second
	switch {
	case d > 10*time.Minute:
		unit = time.Minute
	case d > 2*time.Minute:
		unit = 30 * time.Second
	}
	return (d + unit - 1) / unit * unit
}
