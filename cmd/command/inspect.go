package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/internal/kube"
	"initbox/internal/perm"
	"initbox/internal/podinfo"
	"initbox/waitfor"
)

// Inspected is what a step of a chain would do.
type Inspected struct {
	Name  string              // of the subcommand
	Flags map[string][]string // those given, by their first names; a switch has the value true or false
	Args  []string            // without flags; of another tool's command line, what it is translated into
	// Targets are those of wait-for-service and wait-for-dns, also from $INITBOX_TARGETS.
	Targets []Target
	Needs   []kube.Permission // at the API server
	Timeout time.Duration     // the deadline of the step; 0 for none
	Stays   string            // the flag with which it does not end, --hold or --watch; or ""
	Command []string          // the program that replaces this one after the last step
	// Unknown says that the command line has values that are not known, see [Opaque], in whose place Args, Targets and
	// Needs have samples.
	Unknown bool
}

// Target is a target with its check, which is nil if the target is in a file of the container.
type Target struct {
	Text  string
	Check waitfor.Check
}

// Opaque returns what stands in words and in an environment, for [Inspect], for a value that is not known, such as that
// of a Secret. The sample is a value of the kind that it has, as in 10.0.0.1 for an address, or "" if even that is not
// known.
func Opaque(sample string) string { return opaqueBegin + sample + opaqueEnd }

// Opaque values begin and end with these, which are for private use (Unicode, section 23.5), and in no manifest.
const (
	opaqueBegin = "\U000F1B00"
	opaqueEnd   = "\U000F1B01"
)

// samples are what an unknown value may look like. A mistake that is one whatever the value does not depend on it.
var samples = []string{
	"unknown", "8080", "http://unknown:8080/unknown", "postgres://unknown/unknown", "10m", "10.0.0.1", "true", "unknown=unknown",
}

// inspecting is held while the process has variables of a container.
var inspecting sync.Mutex

// Inspect reads the command line of a container as the program does there, does nothing, and returns the steps of its
// chain. The words are the command and the args after the kubelet has replaced variables in them; they may begin with
// the path of the program or of a link to it, or with the name of a subcommand. Nothing of this machine counts, such as
// its files. While it runs, the process has those variables of the environment given that the command line reads.
//
// The error is the one with which the program would end, and may have a hint, see failure.Hint. What would be right
// with some value for one that is not known is not an error. Without a subcommand, as with --version, there
// are no steps.
func Inspect(words []string, environment map[string]string) ([]Inspected, error) {
	inspecting.Lock()
	defer inspecting.Unlock()
	environment = withFiles(words, environment)
	defer setEnvironment(readBy(words, environment), environment)()
	steps, err := inspectAs(samples[0], words, environment)
	if err == nil || !strings.Contains(fmt.Sprint(words, environment), opaqueBegin) {
		return steps, err
	}
	for _, sample := range samples[1:] {
		other, otherErr := inspectAs(sample, words, environment)
		if otherErr == nil {
			return other, nil
		}
		if otherErr.Error() != err.Error() {
			return steps, nil // it depends on the value
		}
	}
	return steps, err
}

// inspectAs reads the command line with sample in place of what is wholly unknown. With an error, it returns the steps
// in front of the one that has it.
func inspectAs(sample string, words []string, environment map[string]string) ([]Inspected, error) {
	setKnown(readBy(words, environment), environment, sample)
	e := &env{
		version: "devel", stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard,
		command: programName, inspecting: true, untilStopped: context.Background(),
		timeout: defaultTimeout, logFormat: "text",
	}
	words = withoutPath(words)
	if len(words) == 0 || !isSubcommand(words[0]) {
		_, err := e.main(context.Background(), append([]string{programName}, words...))
		return nil, err
	}
	steps, unknown, err := e.readSteps(words, environment, sample)
	if err != nil {
		return nil, err
	}
	var all []Inspected
	for i, s := range steps {
		one, err := s.inspect()
		if err != nil {
			return all, fmt.Errorf("%v%w", &s.step, err)
		}
		one.Unknown = unknown[i]
		all = append(all, one)
		if one.Flags["help"] != nil {
			break
		}
	}
	return all, nil
}

// readSteps reads the steps that words begin with, as [env.chain] does, and returns which depend on what is not known.
func (e *env) readSteps(words []string, environment map[string]string, sample string) (steps []*env, unknown []bool, err error) {
	for {
		s := e.newStep(len(steps)+1, words[0])
		end := len(words)
		if i := slices.Index(words[1:], "--"); i >= 0 {
			end = i + 1
		}
		own := slices.Clone(words[1:end])
		steps, unknown = append(steps, s), append(unknown, dependsOnUnknown(own, environment))
		for i, word := range own {
			own[i] = known(inFile(word, s.name), sample)
		}
		if err := s.read(append(own, words[end:]...)); err != nil {
			return nil, nil, fmt.Errorf("%v%w", &s.step, err)
		}
		if words = s.next; s.name == rbacName || len(words) == 0 || !isSubcommand(words[0]) {
			return steps, unknown, nil
		}
	}
}

// inspect checks a step that was read.
func (e *env) inspect() (Inspected, error) {
	one := Inspected{Name: e.name, Flags: e.givenFlags()}
	if e.line[0] == "--help" {
		one.Flags["help"] = []string{"true"}
		return one, nil
	}
	err := e.check(context.Background())
	if err != nil && !errors.As(err, new(perm.NameError)) { // the container has its own /etc/passwd
		return one, err
	}
	one.Targets, one.Needs, one.Timeout, one.Command = e.targetsRead, e.needs, e.timeout, e.next
	if len(e.next) > 0 && isSubcommand(e.next[0]) {
		one.Command = nil
	}
	if e.context != nil {
		one.Stays, one.Args = staysRunning(e.context), e.context.Args().Slice()
		e.addTranslated(&one)
	}
	if e.name == waitForServiceName {
		one.Args = nil
		for _, t := range e.targetsRead {
			one.Args = append(one.Args, t.Text)
			if t.Check != nil {
				needs, _ := waitfor.Permissions([]waitfor.Check{t.Check}) // of a kind that it cannot know, it asks the API server
				one.Needs = append(one.Needs, needs...)
			}
		}
	}
	return one, nil
}

// givenFlags returns the flags on the command line.
func (e *env) givenFlags() map[string][]string {
	flags, all := map[string][]string{}, e.app.Command(e.name).Flags
	for line := e.line; len(line) > 0 && line[0] != "--"; {
		o, ok := readOption(line, all)
		if !ok {
			break
		}
		if o.flag != nil {
			name, value := o.flag.Names()[0], o.value
			if _, isSwitch := o.flag.(*cli.BoolFlag); isSwitch && value == "" {
				value = "true"
			}
			flags[name] = append(flags[name], value)
		}
		line = line[len(o.words):]
	}
	return flags
}

// addTranslated adds the flags that another tool's command line was translated into.
func (e *env) addTranslated(one *Inspected) {
	if one.Flags[flagCompat] == nil {
		return
	}
	one.Args, _ = arguments(e.context)
	for _, name := range e.context.LocalFlagNames() {
		if one.Flags[name] != nil {
			continue
		}
		if list := e.context.StringSlice(name); list != nil {
			one.Flags[name] = list
			continue
		}
		for _, f := range e.context.Command.Flags {
			if d, ok := f.(cli.DocGenerationFlag); ok && f.Names()[0] == name && f.IsSet() {
				one.Flags[name] = []string{valueOf(e.context, f, d)}
			}
		}
	}
}

// valueOf returns the value of a flag that another tool's command line has set.
func valueOf(c *cli.Context, f cli.Flag, d cli.DocGenerationFlag) string {
	if generic, ok := f.(*cli.GenericFlag); ok { // the library panics on a value without Get
		return generic.Value.String()
	}
	if !d.TakesValue() {
		return fmt.Sprint(c.Bool(f.Names()[0]))
	}
	return fmt.Sprint(c.Value(f.Names()[0]))
}

// withoutPath returns the words that follow the path of the program, beginning with the subcommand if they begin with a
// link to it.
func withoutPath(words []string) []string {
	if len(words) == 0 {
		return nil
	}
	first := path.Base(words[0])
	switch {
	case isSubcommand(first):
		return append([]string{first}, words[1:]...)
	case first == programName, len(words) > 1 && strings.Contains(words[0], "/") && isSubcommand(words[1]):
		return words[1:]
	}
	return words
}

// inFile returns an unknown value for one that the program would read from a file. The targets of wait-for-service are
// left out there, see [env.parseTargets].
func inFile(word, subcommand string) string {
	before, value := "", word
	if strings.HasPrefix(word, "-") {
		name, after, _ := strings.Cut(word, "=")
		before, value = name+"=", after
	} else if subcommand == waitForServiceName {
		return word
	}
	if !readFromFile(value) {
		return word
	}
	return before + Opaque("")
}

// readFromFile returns whether a text stands for all that is in a file.
func readFromFile(text string) bool {
	text, _, _ = strings.Cut(text, "#")
	before, reference, _ := strings.Cut(text, "${")
	return strings.HasPrefix(reference, "file:") && strings.IndexByte(reference, '}') == len(reference)-1 && !strings.Contains(before, "/")
}

// withFiles returns an environment in which the variables that the words refer to, and NAME_FILE sets, are unknown.
func withFiles(words []string, environment map[string]string) map[string]string {
	all := maps.Clone(environment)
	if all == nil {
		all = map[string]string{}
	}
	for variable := range environment {
		name, found := strings.CutSuffix(variable, "_FILE")
		if found && all[name] == "" && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "${env:"+name) }) {
			all[name] = Opaque("")
		}
	}
	return all
}

// dependsOnUnknown returns whether the command line depends on what is not known.
func dependsOnUnknown(words []string, environment map[string]string) bool {
	for _, word := range words {
		if strings.Contains(word, opaqueBegin) || readFromFile(word) || word[0:min(len(word), 1)] == "-" && readFromFile(word[strings.IndexByte(word, '=')+1:]) {
			return true
		}
	}
	for name, value := range environment {
		if !strings.Contains(value, opaqueBegin) {
			continue
		}
		if strings.HasPrefix(name, "INITBOX_") || strings.HasPrefix(name, "DEPENDENCY_") || strings.HasPrefix(name, "GIT") || name == "NAMESPACE" ||
			slices.ContainsFunc(words, func(w string) bool {
				return strings.Contains(w, "${env:"+name) || strings.HasPrefix(w, "--"+flagCompat)
			}) {
			return true
		}
	}
	return false
}

// known returns text with samples in place of what is not known.
func known(text, sample string) string {
	for {
		before, after, found := strings.Cut(text, opaqueBegin)
		if !found {
			return text
		}
		own, rest, _ := strings.Cut(after, opaqueEnd)
		if own == "" {
			own = sample
		}
		text = before + own + rest
	}
}

// readBy returns a function that tells which variables a command line reads, at most. The others stay as they are, for
// what else runs in this process.
func readBy(words []string, environment map[string]string) func(name string) bool {
	text := strings.Join(words, " ") + " " + environment[variableTargets]
	foreign := strings.Contains(text, "--"+flagCompat) || strings.Contains(text, "--"+flagFromKubernetesEntrypoint) || strings.Contains(text, "--"+flagFromK8sWaitFor)
	return func(name string) bool {
		return foreign || strings.HasPrefix(name, "INITBOX_") || strings.HasPrefix(name, "POD_") || strings.HasPrefix(name, "HOST_IP") ||
			strings.Contains(text, strings.TrimSuffix(name, "_FILE")) ||
			slices.ContainsFunc(podinfo.Fields, func(f podinfo.Field) bool { return f.Variable == name })
	}
}

// setEnvironment removes the variables that are read, and returns what restores them.
func setEnvironment(read func(string) bool, environment map[string]string) (restore func()) {
	before := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); read(name) {
			before[name] = value
			_ = os.Unsetenv(name)
		}
	}
	return func() {
		for name := range environment {
			if _, found := before[name]; !found && read(name) {
				_ = os.Unsetenv(name)
			}
		}
		for name, value := range before {
			_ = os.Setenv(name, value)
		}
	}
}

// setKnown sets the variables of a container that are read.
func setKnown(read func(string) bool, environment map[string]string, sample string) {
	for name, value := range environment {
		if read(name) {
			_ = os.Setenv(name, known(value, sample)) // a name that no variable can have is refused, as the kubelet does
		}
	}
}

// IsSubcommand returns whether the program has a subcommand of that name, and so may have a link of it.
func IsSubcommand(name string) bool { return isSubcommand(name) }
