// Package lint finds mistakes in the init containers of manifests, without a cluster. It reads their command lines as
// the program does in the Pod, and compares them with the Pod around them.
//
//	for _, f := range lint.Check(objects, lint.Options{}) {
//		fmt.Println(f)
//	}
//
// A rule that cannot be sure is a warning, or silent.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/grants"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/cmd/kubectl-initbox/program"
	"initbox/internal/lazy"
)

// Severity says whether a finding breaks the Pod.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the Pod does not start, or does not do what the manifest says
	Warning Severity = "warning" // it may be what is meant
)

// Options of [Check].
type Options struct {
	// Images are patterns of images that run the program, beside those with its name; see [program.Runs].
	Images []string
}

// Finding is a mistake, and where it is.
type Finding struct {
	Rule      string   `json:"rule"`
	Severity  Severity `json:"severity"`
	File      string   `json:"file"`
	Line      int      `json:"line"`   // from 1
	Column    int      `json:"column"` // from 1
	Object    string   `json:"object"` // as in Deployment/web
	Container string   `json:"container,omitempty"`
	Message   string   `json:"message"`
	Fix       string   `json:"fix,omitempty"`
}

// String returns the finding in one line, without the fix.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s%s [%s]", f.File, f.Line, f.Column, f.Severity, f.where(), f.Message, f.Rule)
}

// Check returns what is wrong with the containers that run the program, in the order of files and lines. A finding that
// is silenced is left out; what silences without a reason, or nothing, is a finding.
func Check(objects []*manifest.Object, o Options) []Finding {
	in := &input{objects: objects, images: o.Images, accounts: map[string][]*manifest.Object{}}
	in.grants = sync.OnceValue(func() *grants.Grants { return grants.Of(objects) })
	for _, object := range objects {
		switch object.Kind {
		case "ServiceAccount":
			in.accounts[object.Name] = append(in.accounts[object.Name], object)
		case "RoleBinding", "ClusterRoleBinding":
			in.hasRoles = true
		}
	}
	for _, object := range objects {
		if object.Pod != nil {
			in.pods = append(in.pods, in.newPod(object.Pod))
		}
	}
	for _, p := range in.pods {
		if slices.ContainsFunc(p.containers, func(c *container) bool { return len(c.runs) > 0 }) {
			for _, r := range rules {
				if !p.patch() || slices.Contains(inPatches, r.ID) {
					r.check(p, in.reporter(r, p))
				}
			}
		}
	}
	findings := in.silence()
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Rule, b.Rule))
	})
	return slices.Compact(findings)
}

// Containers returns how many containers of the objects run the program.
func Containers(objects []*manifest.Object, o Options) (n int) {
	for _, object := range objects {
		if object.Pod == nil {
			continue
		}
		for _, c := range object.Pod.Containers {
			if program.Runs(c, o.Images) {
				n++
			}
		}
	}
	return n
}

// input is what [Check] was given, and what it has found.
type input struct {
	objects  []*manifest.Object
	images   []string
	pods     []*pod
	findings []finding

	accounts map[string][]*manifest.Object // ServiceAccounts, by name
	hasRoles bool                          // a Role is bound
	grants   func() *grants.Grants
}

// finding is a finding with what may silence it.
type finding struct {
	Finding
	object    *manifest.Object
	container *manifest.Container // nil for none
}

// pod is a Pod of the input.
type pod struct {
	*manifest.Pod
	input      *input
	containers []*container
}

// inPatches are the rules that hold for a patch, whose other half is not known.
var inPatches = []string{"no-shell", "one-string", "unknown-subcommand", "unknown-flag", "image-tag"}

// patch returns whether the object is a patch for another one: it lacks what Kubernetes requires.
func (p *pod) patch() bool {
	workloads := []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}
	return len(p.Spec.Containers) == 0 || slices.ContainsFunc(p.containers, func(c *container) bool { return c.Image == "" }) ||
		slices.Contains(workloads, p.Object.Kind) && manifest.Get(p.Object.Node, "spec", "selector") == nil
}

// container is a container of a Pod, with the command lines of the program in it.
type container struct {
	*manifest.Container
	pod  *pod
	own  bool // the image is the program's, with its layout
	main *run // the command and args; nil if they do not run the program
	runs []*run
}

// run is a command line of the program: that of a container, or of one of its probes and hooks.
type run struct {
	*container
	hook        string              // startupProbe, preStop, …; "" for the container itself
	seconds     int32               // timeoutSeconds of a probe
	nodes       []*yaml.Node        // of the words, as they stand in the manifest; after those that the image adds
	words       []string            // with variables replaced
	steps       []command.Inspected // of the chain, and of chains of the program's own after --
	errs        []mistake           // of the command line, in the order in which the program finds them
	err         error               // the last of them, if what follows it cannot be read; then the steps are not all
	environment map[string]string
}

func (in *input) newPod(from *manifest.Pod) *pod {
	p := &pod{Pod: from, input: in}
	for _, c := range from.Containers {
		p.containers = append(p.containers, p.newContainer(c))
	}
	return p
}

func (p *pod) newContainer(from *manifest.Container) *container {
	c := &container{Container: from, pod: p, own: program.IsImage(from.Image, nil)}
	if program.Runs(from, p.input.images) {
		r := &run{container: c, nodes: slices.Concat(c.list("command"), c.list("args")), words: program.Words(from)}
		if len(from.Command) == 0 {
			r.words = append([]string{"/bin/initbox"}, r.words...)
		}
		c.main = r
		c.runs = append(c.runs, r)
	}
	for _, h := range hooks(from) {
		exec := *from
		exec.Command, exec.Args = h.command, nil
		if len(h.command) == 0 || !program.Runs(&exec, nil) {
			continue
		}
		r := &run{container: c, hook: h.name, seconds: h.seconds, nodes: sequence(manifest.Get(from.Node, h.path...)), words: h.command}
		if h.expanded {
			r.words = program.Words(&exec)
		}
		c.runs = append(c.runs, r)
	}
	for _, r := range c.runs {
		r.environment = program.Environment(from)
		r.surroundings()
		r.inspect()
	}
	return c
}

// surroundings adds what the manifest does not show: the variables of the container runtime, of Services and of another
// image than the program's; and what a template engine has yet to replace.
func (r *run) surroundings() {
	for _, word := range r.words {
		for _, match := range referred().FindAllStringSubmatch(word, -1) {
			_, set := r.environment[match[1]]
			if !set && (!r.own || ofService().MatchString(match[1]) || slices.Contains([]string{"HOSTNAME", "HOME", "PATH"}, match[1])) {
				r.environment[match[1]] = command.Opaque("")
			}
		}
	}
	r.words = slices.Clone(r.words)
	for i := range r.words {
		r.words[i] = unrendered().ReplaceAllString(r.words[i], command.Opaque(""))
	}
	for name, value := range r.environment {
		r.environment[name] = unrendered().ReplaceAllString(value, command.Opaque(""))
	}
}

var (
	// referred matches a reference to a variable that must be set.
	referred = lazy.Regexp(`\$\{env:([A-Za-z_][A-Za-z0-9_.-]*)\}`)
	// unrendered matches an expression of a template.
	unrendered = lazy.Regexp(`\{\{.*?\}\}`)
)

// inspect reads the command line. What follows the last -- may be the program again, as in -- /bin/initbox register.
func (r *run) inspect() {
	words := r.words
	if (len(r.Command) > 0 || r.hook != "") && !isProgram(words[0]) {
		return // it runs something else, which a rule of its own reports
	}
	for depth := 0; depth < 3 && r.err == nil; depth++ {
		steps := r.read(words)
		r.steps = append(r.steps, steps...)
		if len(steps) == 0 {
			return
		}
		words = steps[len(steps)-1].Command
		if len(words) == 0 || !isProgram(words[0]) {
			return
		}
	}
}

// last returns the last step, or an empty one if the command line could not be read.
func (r *run) last() (s command.Inspected) {
	if len(r.steps) > 0 {
		s = r.steps[len(r.steps)-1]
	}
	return s
}

// foreign returns the program that replaces this one at the end, or nil.
func (r *run) foreign() []string {
	if words := r.last().Command; len(words) > 0 && !isProgram(words[0]) {
		return words
	}
	return nil
}

// node returns the node of the first word that has the text in it, else that of the whole list, or of the container.
func (r *run) node(texts ...string) *yaml.Node {
	for _, text := range texts {
		for _, n := range r.nodes {
			if text != "" && strings.Contains(n.Value, text) {
				return n
			}
		}
	}
	if len(r.nodes) > 0 {
		return r.nodes[0]
	}
	return r.Node
}

// list returns the nodes of a list of texts of the container, such as args.
func (c *container) list(key string) []*yaml.Node { return sequence(manifest.Get(c.Node, key)) }

func sequence(node *yaml.Node) []*yaml.Node {
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	return node.Content
}

// key returns the node of the value at a path below node, or the nearest one above it.
func key(node *yaml.Node, path ...string) *yaml.Node {
	for i := len(path); i > 0; i-- {
		if n := manifest.Get(node, path[:i]...); n != nil {
			return n
		}
	}
	return node
}

// reporter returns the function with which a rule reports what it has found.
func (in *input) reporter(r *Rule, p *pod) report {
	return func(c *container, at *yaml.Node, fix, format string, args ...any) {
		f := finding{object: p.Object, Finding: Finding{
			Rule: r.ID, Severity: r.Severity, File: p.Object.File.Name, Object: p.Object.String(), Message: fmt.Sprintf(format, args...), Fix: fix,
		}}
		if c != nil {
			f.container, f.Container = c.Container, c.Name
		}
		if at == nil {
			at = p.Object.Node
		}
		f.Line, f.Column = at.Line, at.Column
		in.findings = append(in.findings, f)
	}
}

// report reports a finding of a container, or of the Pod if c is nil, at a node.
type report func(c *container, at *yaml.Node, fix, format string, args ...any)

// mains calls check for each container that runs the program.
func mains(check func(r *run, report report)) func(*pod, report) {
	return func(p *pod, report report) {
		for _, c := range p.containers {
			if c.main != nil {
				check(c.main, report)
			}
		}
	}
}

// every calls check for each command line of the program, also of probes and hooks.
func every(check func(r *run, report report)) func(*pod, report) {
	return func(p *pod, report report) {
		for _, c := range p.containers {
			for _, r := range c.runs {
				check(r, report)
			}
		}
	}
}
