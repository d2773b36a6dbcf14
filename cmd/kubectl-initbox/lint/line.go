package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/failure"
	"initbox/internal/lazy"
	"initbox/internal/suggest"
)

var shells = []string{"sh", "bash", "ash", "dash", "zsh", "busybox"}

// other returns what the container runs in the image of the program instead of it, or at the end of a chain; "" if that
// is nothing, or lies in a volume.
func (r *run) other() (word string) {
	if (len(r.Command) > 0 || r.hook != "") && !isProgram(r.words[0]) {
		word = r.words[0]
	} else if foreign := r.foreign(); foreign != nil {
		word = foreign[0]
	}
	if m, _ := r.mount(word); !r.own || m != nil && strings.HasPrefix(word, "/") || strings.Contains(word, "$(") || isOpaque(word) {
		return ""
	}
	return word
}

func noShell(r *run, report report) {
	const fix = "replace the script by subcommands of initbox; kubectl initbox convert shows how"
	if word := r.other(); slices.Contains(shells, path.Base(word)) {
		report(r.container, r.node(word), fix, "%s: the image of initbox has no shell", word)
	}
	if len(r.Command) == 0 && len(r.Args) > 0 && r.own && r.hook == "" && slices.Contains(shells, path.Base(r.Args[0])) {
		report(r.container, r.node(r.Args[0]), fix, "args of initbox begin with %s, and its image has no shell", r.Args[0])
	}
}

func noSuchProgram(r *run, report report) {
	word := r.other()
	if base := path.Base(word); word != "" && !slices.Contains(shells, base) && !strings.Contains(word, " ") {
		fix := "the image has /bin/initbox and, for each subcommand, a link such as /wait-for-service"
		if meant := suggest.Closest(base, command.Subcommands()); meant != "" {
			fix = "did you mean /" + meant + "? " + fix
		}
		report(r.container, r.node(word), fix, "the image of initbox has no program %s", failure.Printable(word))
	}
	r.missingLink(report)
}

// missingLink reports a path of the program, or of a link to it, that is not there: in the image the program is in /bin
// and links are at /, and in a volume those that install was asked for.
func (r *run) missingLink(report report) {
	if len(r.words) == 0 || r.hook == "" && len(r.Command) == 0 {
		return
	}
	word := r.words[0]
	dir, base := path.Split(word)
	m, _ := r.mount(word)
	switch {
	case base == "initbox":
		if m == nil && r.own && dir != "" && path.Clean(dir) != "/bin" {
			report(r.container, r.node(word), "write /bin/initbox, or leave out command: the image runs the program by itself", "the image of initbox has no %s: the program is /bin/initbox", word)
		}
	case !command.IsSubcommand(base):
	case m == nil && r.own && dir != "/":
		report(r.container, r.node(word), "write /"+base+", or /bin/initbox "+base, "the image of initbox has no %s: its links are in the root directory", word)
	case m != nil:
		if names, known := r.pod.installed(m.Name); known && !slices.Contains(names, base) {
			report(r.container, r.node(word), "add "+base+" to the args of the container that runs install, or run initbox "+base,
				"no link %s: initbox install does not create it in the volume %s", word, m.Name)
		}
	}
}

// installed returns the names of the links that the containers of the Pod with initbox install make in a volume. known
// is false if no container installs into it: something else may have made the links.
func (p *pod) installed(volume string) (names []string, known bool) {
	for _, c := range p.containers {
		if c.main == nil {
			continue
		}
		for _, s := range c.main.steps {
			if s.Name != "install" || len(s.Args) == 0 {
				continue
			}
			if m, _ := c.mount(s.Args[0]); m == nil || m.Name != volume {
				continue
			}
			if s.Flags["all"] != nil {
				return command.Subcommands(), true
			}
			names, known = append(names, s.Args[1:]...), true
		}
	}
	return names, known
}

// noList reports texts where Kubernetes wants lists, and command lines in one element of a list.
func noList(p *pod, report report) {
	for _, c := range p.containers {
		for _, key := range []string{"command", "args"} {
			node := manifest.Get(c.Node, key)
			if node == nil || !c.own && c.main == nil {
				continue
			}
			if node.Kind == yaml.ScalarNode && node.Tag != "!!null" {
				report(c, node, fmt.Sprintf("write %s: [%s]", key, strings.Join(strings.Fields(node.Value), ", ")), "%s is a string, and Kubernetes needs a list", key)
			}
		}
		for _, r := range c.runs {
			if i := r.joined(); i >= 0 {
				text := r.words[i]
				report(c, r.node(text), "write each word as an element of the list: ["+strings.Join(strings.Fields(text), ", ")+"]",
					"a command line in one string, which no shell splits into words")
			}
		}
	}
}

// joined returns the index of a word that is a command line, or -1. What stands after a shell is its script.
func (r *run) joined() int {
	for i, word := range r.words[:min(len(r.words), 3)] {
		if slices.Contains(shells, path.Base(word)) {
			break
		}
		first, rest, found := strings.Cut(word, " ")
		if found && rest != "" && isProgram(first) {
			return i
		}
	}
	return -1
}

// replaced finds $(NAME) as the kubelet would replace it.
var replaced = lazy.Regexp(`\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)`)

// wrongLine returns the check of a rule that reports errors with which the program would end.
func wrongLine(rule string) func(*run, report) {
	return func(r *run, report report) {
		if r.joined() >= 0 || r.own && r.hook == "" && len(r.Command) == 0 && len(r.Args) > 0 && slices.Contains(shells, path.Base(r.Args[0])) {
			return
		}
		for _, m := range r.errs {
			if m.rule == rule {
				report(r.container, m.node, failure.Hint(m.err), "%s", failure.Printable(m.err.Error()))
			}
		}
	}
}

// mistake is an error of the command line.
type mistake struct {
	err  error
	rule string
	node *yaml.Node
}

// maxMistakes is how many mistakes of one command line are found at most.
const maxMistakes = 5

// read returns the steps of a command line. After a mistake whose correction is certain enough to look for the next
// one, it goes on with that.
func (r *run) read(words []string) (steps []command.Inspected) {
	for {
		steps, r.err = command.Inspect(words, r.environment)
		if r.err == nil {
			return steps
		}
		m := mistake{r.err, ruleOf(r.err), r.blamed(r.err)}
		r.errs = append(r.errs, m)
		corrected := r.correct(words, m)
		if corrected == nil || len(r.errs) == maxMistakes {
			return steps
		}
		words = corrected
	}
}

// correct returns the words without a mistake, or nil.
func (r *run) correct(words []string, m mistake) []string {
	text, corrected := m.err.Error(), slices.Clone(words)
	replace := func(old, new string) {
		for i, word := range corrected {
			corrected[i] = strings.ReplaceAll(word, old, new)
		}
	}
	before := maps.Clone(r.environment)
	_, wrong, _ := strings.Cut(text, "no such "+strings.TrimPrefix(m.rule, "unknown-")+": ")
	switch m.rule {
	case "unset-variable":
		for _, match := range replaced().FindAllString(text, -1) {
			replace(match, command.Opaque(""))
		}
		for _, match := range unset().FindAllStringSubmatch(text, -1) {
			r.environment[match[1]] = command.Opaque("")
		}
	case "pod-field":
		r.environment["POD_IP"], r.environment["POD_NAME"] = command.Opaque("10.0.0.1"), command.Opaque("unknown-0")
	case "unknown-flag", "unknown-subcommand":
		meant := meant().FindStringSubmatch(failure.Hint(m.err))
		if meant == nil {
			return nil
		}
		for i, word := range corrected {
			if name, _, _ := strings.Cut(word, "="); name == wrong {
				corrected[i] = meant[1] + strings.TrimPrefix(word, name)
			}
		}
	}
	if slices.Equal(words, corrected) && maps.Equal(before, r.environment) {
		return nil
	}
	return corrected
}

var (
	// unset matches the name of a variable in the error about it.
	unset = lazy.Regexp(`environment variable ([A-Za-z_][A-Za-z0-9_.-]*) is not set`)
	// meant matches what the program suggests.
	meant = lazy.Regexp(`^did you mean (\S+)\?`)
)

// ruleOf returns the rule that an error of the command line belongs to.
func ruleOf(err error) string {
	text := err.Error()
	for _, of := range []struct{ part, rule string }{
		{"no such subcommand: ", "unknown-subcommand"},
		{"no such flag: ", "unknown-flag"},
		{"which Kubernetes did not replace", "unset-variable"},
		{"$(NAME) that was not replaced", "unset-variable"},
		{"is not set, or is empty, but", "unset-variable"},
		{"environment variable that is not set", "unset-variable"},
		{"INITBOX_TARGETS is empty", "unset-variable"},
		{"the Pod's IP is not known", "pod-field"},
		{"POD_NAME is not set", "pod-field"},
		{"has no ordinal", "pod-field"},
	} {
		if strings.Contains(text, of.part) {
			return of.rule
		}
	}
	return "command-line"
}

// quoted finds what an error may quote of the command line.
var quoted = lazy.Regexp(`--?[a-z][a-z0-9-]*|\$\([^)]*\)|\$\{env:[^}]*\}|[^\s"';,]+`)

// blamed returns the node of the word that the error of the command line is about, as far as the error tells.
func (r *run) blamed(err error) *yaml.Node {
	text := err.Error()
	if i := strings.Index(text, "target "); i >= 0 { // its number, among the targets
		var n int
		if _, err := fmt.Sscanf(text[i:], "target %d:", &n); err == nil {
			var targets []*yaml.Node
			for _, node := range r.nodes {
				if strings.Contains(node.Value, ":") && !strings.HasPrefix(node.Value, "-") {
					targets = append(targets, node)
				}
			}
			if n >= 1 && n <= len(targets) {
				return targets[n-1]
			}
		}
	}
	var best *yaml.Node
	longest := 2
	for _, part := range quoted().FindAllString(text, -1) {
		part = strings.TrimRight(part, ":")
		for _, node := range r.nodes {
			if len(part) > longest && strings.Contains(node.Value, part) && !command.IsSubcommand(part) {
				best, longest = node, len(part)
			}
		}
	}
	if best == nil && len(r.nodes) > 1 { // the last target or argument is a better guess than the subcommand
		for _, node := range r.nodes {
			if strings.Contains(node.Value, ":") {
				return node
			}
		}
	}
	if best == nil {
		return r.node(r.lastName())
	}
	return best
}

// lastName returns the subcommand of the step that the error is about.
func (r *run) lastName() string {
	for i := len(r.words) - 1; i >= 0; i-- {
		if command.IsSubcommand(r.words[i]) {
			return r.words[i]
		}
	}
	return ""
}

// unreplaced reports $(NAME) that stays as it is: there is no such variable, the variable is defined later, or the
// kubelet replaces nothing there, as in hooks.
func unreplaced(r *run, report report) {
	r.definedLater(report)
	if len(r.steps) == 0 || slices.ContainsFunc(r.errs, func(m mistake) bool { return m.rule == "unset-variable" }) {
		return
	}
	end := len(r.nodes)
	if foreign := r.foreign(); foreign != nil { // a script there has its own $(…)
		end = max(0, end-len(foreign))
	}
	for _, node := range r.nodes[:end] {
		for _, match := range replaced().FindAllStringSubmatch(node.Value, -1) {
			name := match[1]
			switch {
			case name == "" || strings.ToUpper(name) != name || len(r.EnvFrom) > 0 || ofService().MatchString(name):
			case r.hook == "preStop" || r.hook == "postStart":
				report(r.container, node, "", "$(%s): Kubernetes replaces variables in command, args and probes, and not in hooks", name)
			case !slices.ContainsFunc(r.Env, func(e corev1.EnvVar) bool { return e.Name == name }):
				report(r.container, node, "define "+name+" in env, or write $$("+name+") for the text", "$(%s) stays as it is: the container has no variable %[1]s", name)
			}
		}
	}
}

// definedLater reports variables whose values refer to one that is defined after them.
func (r *run) definedLater(report report) {
	if r.hook != "" {
		return
	}
	for i, e := range r.Env {
		for _, match := range replaced().FindAllStringSubmatch(e.Value, -1) {
			later := slices.ContainsFunc(r.Env[i:], func(e corev1.EnvVar) bool { return e.Name == match[1] })
			before := slices.ContainsFunc(r.Env[:i], func(e corev1.EnvVar) bool { return e.Name == match[1] })
			if match[1] != "" && later && !before {
				report(r.container, key(r.list("env")[i], "value"), "define "+match[1]+" before "+e.Name, "$(%s) stays as it is: %[1]s is defined after %s", match[1], e.Name)
			}
		}
	}
}

// ofService matches the variables that the kubelet sets for Services.
var ofService = lazy.Regexp(`_SERVICE_HOST$|_SERVICE_PORT($|_)|_PORT($|_[0-9]+_(TCP|UDP|SCTP))`)

// harmless matches the names of variables and keys of Secrets whose values are usually no secret, such as a host.
var harmless = lazy.Regexp(`(?i)(^|[_.-])(host|hostname|port|user|username|name|db|database|dbname|schema|region|zone|endpoint|address|bucket|namespace|ca|cert)$|(?i)(host|port|username)$`)

// secretInArgs reports values of Secrets that the kubelet would put into the command line, where every process on the
// node, and the container runtime, shows them.
func secretInArgs(r *run, report report) {
	secret := map[string]string{} // by variable, the Secret
	for _, e := range r.Env {
		switch {
		case e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil:
			if ref := e.ValueFrom.SecretKeyRef; !harmless().MatchString(ref.Key) && !harmless().MatchString(e.Name) {
				secret[e.Name] = ref.Name
			}
		case e.ValueFrom == nil:
			for _, match := range replaced().FindAllStringSubmatch(e.Value, -1) {
				if of, found := secret[match[1]]; found {
					secret[e.Name] = of
				}
			}
		}
	}
	if r.hook == "preStop" || r.hook == "postStart" {
		return
	}
	for _, node := range r.nodes {
		for _, match := range replaced().FindAllStringSubmatch(node.Value, -1) {
			if of, found := secret[match[1]]; found {
				report(r.container, node, "write ${env:"+match[1]+"}, which initbox reads itself, or ${file:/PATH} of the mounted Secret",
					"$(%s) puts a value of the Secret %s into the command line, which others on the node can read", match[1], of)
			}
		}
	}
}

func isOpaque(word string) bool { return strings.Contains(word, command.Opaque("")[:4]) }

// imageTag reports images that change without the manifest.
func imageTag(p *pod, report report) {
	for _, c := range p.containers {
		name := c.Image[strings.LastIndex(c.Image, "/")+1:]
		_, tag, tagged := strings.Cut(name, ":")
		if c.own && !strings.Contains(name, "@") && (!tagged || tag == "latest") {
			report(c, key(c.Node, "image"), "write the tag of a release, or a digest", "the image %s may differ between nodes, and after each restart", c.Image)
		}
	}
}
