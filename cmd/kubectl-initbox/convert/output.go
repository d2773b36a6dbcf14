package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v3"

	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/failure"
	"initbox/internal/lazy"
	english "initbox/internal/words"
)

// Output is a form in which [Conversion.Write] writes.
type Output string

// The forms.
const (
	Diff      Output = "diff"      // a unified diff, for patch -p1 and git apply
	Manifest  Output = "manifest"  // the manifests with the changes
	Patch     Output = "patch"     // strategic merge patches, for kubectl patch --patch-file
	Kustomize Output = "kustomize" // JSON patches, as the field patches of a kustomization.yaml
	Report    Output = "report"    // how each container is converted and why, for people
	JSON      Output = "json"      // the same, for programs
)

// Outputs are all forms, the first of which is the default.
var Outputs = []Output{Diff, Manifest, Patch, Kustomize, Report, JSON}

// Conversion is the result for the init containers of some manifests.
type Conversion struct {
	Objects []*manifest.Object
	Changes []*Change // one for each init container that does not run initbox already
}

// New converts the init containers of the objects into ones that run image. If names are given, it looks only at the
// containers of these names.
func New(objects []*manifest.Object, image string, names []string) *Conversion {
	v := &Conversion{Objects: objects}
	for _, o := range objects {
		for _, c := range Candidates(o.Pod) {
			if len(names) == 0 || slices.Contains(names, c.Name) {
				v.Changes = append(v.Changes, Container(c, image, objects))
			}
		}
	}
	return v
}

// Write writes the conversion.
func (v *Conversion) Write(w io.Writer, as Output) error {
	switch as {
	case Diff, Manifest:
		return v.writeText(w, as)
	case Patch:
		return v.writePatches(w)
	case Kustomize:
		return v.writeKustomize(w)
	case JSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(v.report())
	}
	return v.writeReport(w)
}

// writeText writes the edited text of all files, or the difference.
func (v *Conversion) writeText(w io.Writer, as Output) error {
	var files []*manifest.File
	for _, o := range v.Objects {
		if !slices.Contains(files, o.File) {
			files = append(files, o.File)
		}
	}
	var all []error
	for i, f := range files {
		objects := slices.DeleteFunc(slices.Clone(v.Objects), func(o *manifest.Object) bool { return o.File != f })
		text, err := Edited(f, objects, v.Changes)
		if err != nil {
			all = append(all, err)
			continue
		}
		if as == Diff {
			name := strings.TrimPrefix(strings.TrimPrefix(f.Name, "./"), "/")
			text = diff.Diff("a/"+name, f.Text, "b/"+name, text)
		} else if i > 0 && !strings.HasPrefix(string(text), "---") {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(all...)
}

// builtIn matches the API versions of the kinds that Kubernetes knows how to merge.
var builtIn = lazy.Regexp(`^(v1|(apps|batch)/v[0-9a-z]+)$`)

// writePatches writes a strategic merge patch for each object
// (https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/).
func (v *Conversion) writePatches(w io.Writer) error {
	var all []error
	separator := ""
	for _, o := range v.Objects {
		changes := of(o, v.Changes)
		switch {
		case len(changes) == 0:
			continue
		case !named(o):
			all = append(all, fmt.Errorf("%s: a patch needs the name of the object", o))
			continue
		case !builtIn().MatchString(o.APIVersion):
			all = append(all, failure.WithHint(fmt.Errorf("%s: the API server merges no patch into custom resources", o), "-o kustomize writes JSON patches"))
			continue
		}
		e := &editor{eol: "\n"}
		if _, err := fmt.Fprintf(w, "%s%s\n", separator, strings.Join(e.block(strategic(o, changes), 0), "\n")); err != nil {
			return err
		}
		separator = "---\n"
	}
	return errors.Join(all...)
}

// named reports whether the object has a name, and not only the beginning of one.
func named(o *manifest.Object) bool { return manifest.Get(o.Node, "metadata", "name") != nil }

func strategic(o *manifest.Object, changes []*Change) *yaml.Node {
	containers, spec := sequence(), mapping()
	put := func(key string, value *yaml.Node) { spec.Content = append(spec.Content, scalar(key), value) }
	if c := toolsOf(changes); c != nil {
		order := sequence()
		for _, other := range o.Pod.Containers {
			if other == c.Container {
				order.Content = append(order.Content, mapping("name", c.installer()))
			}
			if other.Init {
				order.Content = append(order.Content, mapping("name", other.Name))
			}
		}
		put("$setElementOrder/initContainers", order)
		put("volumes", sequence(toolsVolumeOf(c)))
	}
	put("initContainers", containers)
	for _, c := range changes {
		if c == toolsOf(changes) {
			containers.Content = append(containers.Content, installContainerOf(c))
		}
		containers.Content = append(containers.Content, c.strategic())
	}
	node := spec
	path := strings.Split(o.Pod.Path, ".")
	for _, key := range slices.Backward(path) {
		node = mapping(key, node)
	}
	metadata := mapping("name", o.Name)
	if o.Namespace != "" {
		metadata.Content = append(metadata.Content, scalar("namespace"), scalar(o.Namespace))
	}
	node.Content = slices.Concat(mapping("apiVersion", o.APIVersion, "kind", o.Kind, "metadata", metadata).Content, node.Content)
	return node
}

// strategic returns the container in a strategic merge patch, in which null removes a key.
func (c *Change) strategic() *yaml.Node {
	node := mapping("name", c.Container.Name)
	put := func(key string, value *yaml.Node) { node.Content = append(node.Content, scalar(key), value) }
	if !c.Inside {
		put("image", scalar(c.Initbox))
	}
	for _, key := range []string{"command", "args"} {
		if key == c.key() {
			put(key, list(c.Words...))
		} else if manifest.Get(c.Container.Node, key) != nil {
			put(key, scalar(nil))
		}
	}
	if c.User != nil {
		put("securityContext", mapping("runAsUser", *c.User))
	}
	if c.Hostname {
		put("env", sequence(hostnameOf()))
	}
	if c.Inside {
		put("volumeMounts", sequence(toolsMountOf(c)))
	}
	return node
}

// writeKustomize writes the field patches of a kustomization, with a JSON patch (RFC 6902) for each object.
func (v *Conversion) writeKustomize(w io.Writer) error {
	var all []error
	patches := sequence()
	for _, o := range v.Objects {
		changes := of(o, v.Changes)
		if len(changes) == 0 {
			continue
		}
		if !named(o) {
			all = append(all, fmt.Errorf("%s: a patch needs the name of the object", o))
			continue
		}
		group, version, found := strings.Cut(o.APIVersion, "/")
		target := mapping("group", group, "version", version)
		if !found {
			target = mapping("version", group)
		}
		target.Content = append(target.Content, mapping("kind", o.Kind, "name", regexp.QuoteMeta(o.Name)).Content...)
		if o.Namespace != "" {
			target.Content = append(target.Content, scalar("namespace"), scalar(regexp.QuoteMeta(o.Namespace)))
		}
		var operations strings.Builder
		for _, operation := range jsonPatch(o, changes) {
			operations.WriteString("- " + flow(operation, false) + "\n")
		}
		text := scalar(operations.String())
		text.Style = yaml.LiteralStyle
		patches.Content = append(patches.Content, mapping("target", target, "patch", text))
	}
	if len(patches.Content) > 0 {
		e := &editor{eol: "\n"}
		if _, err := fmt.Fprintln(w, strings.Join(e.block(mapping("patches", patches), 0), "\n")); err != nil {
			return err
		}
	}
	return errors.Join(all...)
}

// jsonPatch returns the operations on an object. The first one for each container makes sure that it is the one that
// was meant.
func jsonPatch(o *manifest.Object, changes []*Change) (operations []*yaml.Node) {
	spec := "/" + strings.ReplaceAll(o.Pod.Path, ".", "/")
	do := func(op, path string, value *yaml.Node) {
		node := mapping("op", op, "path", path)
		if value != nil {
			node.Content = append(node.Content, scalar("value"), value)
		}
		operations = append(operations, node)
	}
	// add adds the item to a list that may be missing.
	add := func(m *yaml.Node, path, key string, item *yaml.Node) {
		if items := manifest.Get(m, key); items != nil && len(items.Content) > 0 {
			do("add", path+"/"+key+"/-", item)
		} else {
			do("add", path+"/"+key, sequence(item))
		}
	}
	for _, c := range changes {
		at := fmt.Sprintf("%s/initContainers/%d", spec, c.Container.Index)
		do("test", at+"/name", scalar(c.Container.Name))
		if !c.Inside {
			do("add", at+"/image", scalar(c.Initbox))
		}
		for _, key := range []string{"command", "args"} {
			if len(c.Container.Command) > 0 && key == "command" && c.key() != key || len(c.Container.Args) > 0 && key == "args" && c.key() != key {
				do("remove", at+"/"+key, nil)
			}
		}
		do("add", at+"/"+c.key(), list(c.Words...))
		if c.User != nil {
			if context := manifest.Get(c.Container.Node, "securityContext"); context != nil && context.Kind == yaml.MappingNode {
				do("add", at+"/securityContext/runAsUser", scalar(*c.User))
			} else {
				do("add", at+"/securityContext", mapping("runAsUser", *c.User))
			}
		}
		if c.Hostname {
			add(c.Container.Node, at, "env", hostnameOf())
		}
		if c.Inside {
			add(c.Container.Node, at, "volumeMounts", toolsMountOf(c))
		}
	}
	if c := toolsOf(changes); c != nil {
		add(o.Pod.Node, spec, "volumes", toolsVolumeOf(c))
		do("add", fmt.Sprintf("%s/initContainers/%d", spec, c.Container.Index), installContainerOf(c))
	}
	return operations
}

// Entry is a container in the report.
type Entry struct {
	File      string   `json:"file"`
	Line      int      `json:"line"`
	Object    string   `json:"object"`
	Container string   `json:"container"`
	Path      string   `json:"path"`
	Verdict   Verdict  `json:"verdict"`
	Command   []string `json:"command,omitempty"` // of initbox
	Inside    bool     `json:"inside,omitempty"`
	User      *int64   `json:"runAsUser,omitempty"`
	Hostname  bool     `json:"hostname,omitempty"` // it gets the variable HOSTNAME, with the name of the Pod
	Why       string   `json:"why"`
	Differs   []string `json:"differs,omitempty"`
	Unused    []string `json:"unused,omitempty"`
	Needs     bool     `json:"needsPermissions,omitempty"` // at the API server
}

// Entry returns the change in the form of the report.
func (c *Change) Entry() Entry {
	e := Entry{
		Verdict: c.Verdict, Command: c.Words, Inside: c.Inside, User: c.User, Hostname: c.Hostname, Why: c.Why, Differs: c.Differs,
		Unused: c.Unused, Needs: c.Needs,
	}
	if k := c.Container; k.Node != nil {
		e.File, e.Line, e.Object, e.Container, e.Path = k.Pod.Object.File.Name, k.Node.Line, k.Pod.Object.String(), k.Name, k.Path()
	}
	return e
}

func (v *Conversion) report() any {
	entries := []Entry{}
	for _, c := range v.Changes {
		entries = append(entries, c.Entry())
	}
	return map[string]any{"containers": entries, "summary": v.counts()}
}

func (v *Conversion) counts() map[Verdict]int {
	counts := map[Verdict]int{Replaced: 0, Different: 0, Kept: 0}
	for _, c := range v.Changes {
		counts[c.Verdict]++
	}
	return counts
}

func (v *Conversion) writeReport(w io.Writer) error {
	for _, c := range v.Changes {
		e := c.Entry()
		if _, err := fmt.Fprintf(w, "%s:%d: %s, container %s: %s\n", e.File, e.Line, e.Object, e.Container, e.Text()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, v.Summary())
	return err
}

// Text returns the verdict and, in lines of their own, what there is to say about it.
func (e Entry) Text() string {
	text := string(e.Verdict)
	if e.Verdict == Different {
		text = "replaced, but different"
	}
	say := func(label string, lines ...string) {
		for _, l := range lines {
			text += fmt.Sprintf("\n  %-8s  %s", label, failure.Printable(l))
			label = ""
		}
	}
	if e.Verdict == Kept {
		say("because", e.Why)
		return text + "\n"
	}
	say("by", flow(list(e.Command...), false))
	if e.Inside {
		say("in", "its own image, with the program that an install container copies")
	}
	if e.User != nil {
		say("as", fmt.Sprintf("user %d, as its image ran", *e.User))
	}
	if e.Hostname {
		say("with", "the variable HOSTNAME in env, the name of the Pod")
	}
	if e.Why != "" {
		say("because", e.Why)
	}
	say("differs", e.Differs...)
	say("unused", e.Unused...)
	if e.Needs {
		say("needs", "permissions: kubectl initbox rbac -f FILE prints the Role")
	}
	return text + "\n"
}

// Summary says how many containers became what.
func (v *Conversion) Summary() string {
	if len(v.Changes) == 0 {
		return "no init container to convert: there is none, or all run initbox already"
	}
	n := v.counts()
	return fmt.Sprintf("%s: %d replaced, %d replaced but different, %d kept", english.Plural(len(v.Changes), "init container"), n[Replaced], n[Different], n[Kept])
}

// Kept returns one line for each container that is kept.
func (v *Conversion) Kept() (lines []string) {
	for _, c := range v.Changes {
		if e := c.Entry(); e.Verdict == Kept {
			lines = append(lines, fmt.Sprintf("%s:%d: %s, container %s: kept: %s", e.File, e.Line, e.Object, e.Container, failure.Printable(e.Why)))
		}
	}
	return lines
}
