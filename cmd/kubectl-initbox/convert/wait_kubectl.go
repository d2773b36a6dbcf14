package convert

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

const (
	needsRole  = "the service account may need another Role than for kubectl: kubectl initbox rbac prints it"
	waitsFirst = "an object that does not exist yet is waited for"
)

// kubectlOptions are those that say which objects, and others that change nothing but what is printed.
const kubectlOptions = `n namespace=; l selector=; field-selector=; for=; timeout=; o output=; w watch=; request-timeout=; no-headers`

// kubectlCall is a call of kubectl: the command, such as get, the objects, and the options.
type kubectlCall struct {
	given
	command string
	kind    shell.Word
	names   []shell.Word // none with a selector
}

func readKubectl(call *shell.Call, c *manifest.Container) (k kubectlCall, err error) {
	if err := noPipes(call); err != nil {
		return k, err
	}
	if variableWord("KUBECONFIG", call, c) != nil {
		return k, &shell.Error{Pos: call.Pos, Word: "KUBECONFIG", Why: "another cluster, whose file may be one of the image"}
	}
	words := slices.Clone(call.Args)
	for i, w := range words {
		if text, ok := w.Literal(); ok && (text == "-w" || text == "--watch") {
			words[i] = shell.Word{{Text: "--watch=true"}}
		}
	}
	if k.given, err = optionsOf(kubectlOptions).read(words); err != nil {
		return k, err
	}
	for name, values := range k.options {
		for i, w := range values { // -o=name is -o name
			if len(name) == 1 && strings.HasPrefix(leading(w), "=") {
				values[i] = behind(w, 1)
			}
		}
	}
	refused := &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not a call of kubectl that waits for objects that it names"}
	if len(k.args) < 2 {
		return k, refused
	}
	k.command, _ = k.args[0].Literal()
	objects := k.args[1:]
	if k.command == "rollout" {
		what, _ := objects[0].Literal()
		k.command += " " + what
		objects = objects[1:]
	}
	if len(objects) == 0 {
		return k, refused
	}
	if kind, name, err := cutWord(objects[0], "/"); err == nil {
		k.kind, k.names = kind, []shell.Word{name}
		for _, o := range objects[1:] {
			other, name, err := cutWord(o, "/")
			if err != nil || other.String() != kind.String() {
				return k, stop(o, "objects of several kinds")
			}
			k.names = append(k.names, name)
		}
		return k, nil
	}
	k.kind, k.names = objects[0], objects[1:]
	if len(k.names) == 0 && !k.has("l") && !k.has("field-selector") || len(k.names) > 0 && (k.has("l") || k.has("field-selector")) {
		return k, refused
	}
	return k, nil
}

// kindPlace takes the names of kinds and objects.
var kindPlace = place{called: "name of an object", plain: "._-", any: true}

// targets returns the targets of the objects, all with the same setting.
func (k kubectlCall) targets(setting string, c *manifest.Container) ([]string, error) {
	kind, err := kindPlace.in(k.kind, c)
	if err != nil {
		return nil, err
	}
	query := ""
	for _, option := range []string{"selector", "field-selector", "namespace"} {
		w := k.get(map[string]string{"selector": "l", "namespace": "n"}[option])
		if option == "field-selector" {
			w = k.get(option)
		}
		if w == nil || option == "namespace" && ownNamespace(w) {
			continue
		}
		p := settingPlace
		if option == "namespace" {
			p = kindPlace
		}
		text, err := p.in(w, c)
		if err != nil {
			return nil, err
		}
		query += "&" + option + "=" + text
	}
	query = strings.Replace(query, "&", "?", 1)
	if len(k.names) == 0 {
		return []string{"k8s:" + kind + query + setting}, nil
	}
	var list []string
	for _, w := range k.names {
		name, err := kindPlace.in(w, c)
		if err != nil {
			return nil, err
		}
		list = append(list, "k8s:"+kind+"/"+name+query+setting)
	}
	return list, nil
}

// ownNamespace reports whether a word is the namespace of the Pod's service account, which is that of targets without
// one.
func ownNamespace(w shell.Word) bool {
	dir := strings.TrimPrefix(w.String(), "$("+shell.FileText)
	return len(w) == 1 && (dir == "/var/run/secrets/kubernetes.io/serviceaccount/namespace)" || dir == "/run/secrets/kubernetes.io/serviceaccount/namespace)")
}

// kubectl is kubectl get, wait or rollout status in the condition of a loop.
func kubectl(call *shell.Call, c *manifest.Container) (Step, error) {
	k, err := readKubectl(call, c)
	if err != nil {
		return Step{}, err
	}
	why, setting := "the object exists", "#exists"
	switch {
	case k.command == "get" && len(k.names) > 0 && !k.has("w") && !k.has("for"):
	case k.command == "get":
		return Step{}, &shell.Error{Pos: call.Pos, Word: "get", Why: "it succeeds whether or not there is such an object"}
	case k.command == "wait":
		if setting, err = k.waitSetting(c); err != nil {
			return Step{}, err
		}
		why = "it waits for the same state of the same objects"
	case k.command == "rollout status" && len(k.names) > 0 && !k.has("w"):
		why, setting = "it waits for the same rollout", ""
	default:
		return Step{}, stop(shell.Word{{Text: "kubectl " + k.command}}, "it does not wait for objects")
	}
	list, err := k.targets(setting, c)
	s := wait(why, list...)
	s.Differs = []string{needsRole}
	if k.command != "get" && setting != "#gone" {
		s.Differs = append(s.Differs, waitsFirst)
	}
	return s, err
}

// waitSetting returns the setting for kubectl wait --for=…:
// https://kubernetes.io/docs/reference/kubectl/generated/kubectl_wait/
func (k kubectlCall) waitSetting(c *manifest.Container) (string, error) {
	w := k.get("for")
	if w == nil || len(k.options["for"]) > 1 || k.has("o") {
		return "", &shell.Error{Word: "kubectl wait", Why: "not called with one --for"}
	}
	text := leading(w)
	switch {
	case strings.HasPrefix(text, "condition="):
		value, err := settingPlace.in(behind(w, len("condition=")), c)
		return "#condition=" + value, err
	case strings.HasPrefix(text, "jsonpath="):
		value, ok := behind(w, len("jsonpath=")).Literal()
		path, want, valued := cutPath(value)
		if !ok || !plainPath().MatchString(path) || valued && (want == "" || slashes(want)) {
			return "", stop(w, "a JSONPath that may mean something else here")
		}
		if valued {
			path += "=" + want
		}
		return "#jsonpath=" + settingPlace.encode(path), nil
	case text == "delete" && len(w) == 1:
		return "#gone", nil
	case text == "create" && len(w) == 1 && len(k.names) > 0:
		return "#exists", nil
	}
	return "", stop(w, "a state that initbox does not know")
}

// cutPath cuts {.status.phase}=Running, with or without the braces.
func cutPath(text string) (path, value string, valued bool) {
	end := strings.LastIndexByte(text, '}') + 1
	after := text[end:]
	before, value, valued := strings.Cut(after, "=")
	return text[:end] + before, strings.Trim(value, `"'`), valued
}

// plainPath matches JSONPaths that lead to one value, or to none.
var plainPath = lazy.Regexp(`^\{?(\.[A-Za-z_](?:[A-Za-z0-9_-]|\\\.|\\?/)*|\[[0-9]+\]|\['[A-Za-z0-9_./-]+'\])+\}?$`)

// path returns the path of kubectl get -o jsonpath={PATH} to one value of one object, with its braces, or "".
func (k kubectlCall) path() string {
	path, ok := strings.CutPrefix(k.get("o").String(), "jsonpath=")
	if _, literal := k.get("o").Literal(); !ok || !literal || !plainPath().MatchString(path) || path[0] != '{' || k.command != "get" || len(k.names) != 1 || k.has("w") {
		return ""
	}
	return path
}

// kubectlMatch compares what kubectl get -o jsonpath=… prints of one object.
func kubectlMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	k, err := readKubectl(m.Call, c)
	if err != nil {
		return Step{}, err
	}
	path := k.path()
	if path == "" {
		return Step{}, noMatch(m, "not one value of one object, from kubectl get -o jsonpath={.PATH}")
	}
	want, err := patternOf(m)
	if err != nil {
		return Step{}, err
	}
	switch number, err := strconv.Atoi(want); {
	case m.Op == "-n":
	case (m.Op == "=" || m.Op == "==") && want != "" && !slashes(want) && want == strings.Trim(want, `"'= `):
		path += "=" + want
	case m.Op == "-eq" && err == nil:
		path += "=" + strconv.Itoa(number)
	case m.Op == "-ge" && err == nil && number > 0:
		path += ">=" + strconv.Itoa(number)
	case m.Op == "-gt" && err == nil && number >= 0:
		path += ">=" + strconv.Itoa(number+1)
	default:
		return Step{}, noMatch(m, "a comparison that initbox does not have")
	}
	list, err := k.targets("#jsonpath="+settingPlace.encode(path), c)
	s := wait("the value at the path is as compared", list...)
	s.Differs = []string{needsRole}
	return s, err
}

// kubectlCommand is kubectl wait or rollout status that is called once, and ends with a failure at its timeout.
func kubectlCommand(call *shell.Call, c *manifest.Container) ([]Step, error) {
	if call.Pipe != nil || call.Stdout != nil && call.Stdout.File != nil {
		return deferred((*files).kubectlGet)(call, c)
	}
	s, err := kubectl(call, c)
	if err != nil {
		return nil, err
	}
	k, err := readKubectl(call, c)
	if err != nil {
		return nil, err
	}
	timeout, ok := k.get("timeout").Literal()
	switch {
	case k.command == "get":
		return nil, &shell.Error{Pos: call.Pos, Word: "kubectl get", Why: "it does not wait"}
	case !ok || strings.HasPrefix(timeout, "-") || k.has("timeout") && strings.Trim(timeout, "0smh") == "":
		return nil, stop(k.get("timeout"), "a timeout that means something else here")
	case timeout == "" && k.command == "wait":
		timeout = "30s" // its default
	case timeout == "":
		s.Differs = append(s.Differs, bounded)
		return []Step{s}, nil
	}
	s.Flags = []Flag{{"timeout", timeout}}
	return []Step{s}, nil
}

// kubectlGet is kubectl get -o jsonpath={PATH} > FILE, where base64 -d may decode the key of a Secret.
func (k *files) kubectlGet(call *shell.Call) ([]Step, error) {
	out, inner := call, *call
	inner.Pipe, inner.Stdout = nil, nil
	if out = cmp.Or(call.Pipe, call); out != call {
		g, err := optionsOf("d D decode").read(out.Args)
		if out.Name != "base64" || err != nil || !g.has("d") || len(g.args) > 0 || out.Pipe != nil || out.Stdin != nil {
			return nil, &shell.Error{Word: out.Name, Why: "what reads the output of kubectl"}
		}
	}
	q, err := readKubectl(&inner, k.c)
	if err != nil {
		return nil, err
	}
	switch {
	case out.Stdout == nil || out.Stdout.File == nil || out.Stdout.Append || call.Stderr != nil && !call.Stderr.Discard:
		return nil, &shell.Error{Word: call.Name, Why: "what it prints does not become a file"}
	case q.path() == "" || q.has("timeout") || q.has("request-timeout"):
		return nil, &shell.Error{Word: "kubectl get", Why: "not one value of one object, from kubectl get -o jsonpath={.PATH}"}
	}
	p, err := k.place(out.Stdout.File, call)
	if err := cmp.Or(err, plain(&inner), k.target(p)); err != nil {
		return nil, err
	}
	if p.slash || k.kind(p) == directory {
		return nil, stop(p.word, "not the name of a file")
	}
	setting := "#jsonpath=" + settingPlace.encode(q.path())
	key := secretKey().FindStringSubmatch(q.kind.String() + q.path())
	switch {
	case out != call && key == nil:
		return nil, &shell.Error{Word: out.Name, Why: "not of one key of a Secret"}
	case out != call:
		setting = "#key=" + settingPlace.encode(strings.ReplaceAll(key[1], `\.`, "."))
	case !strings.Contains(q.path(), "["): // an index that does not exist is a failure
		setting += "&default"
	}
	targets, err := q.targets(setting+"&mode=0644", k.c)
	if err != nil {
		return nil, err
	}
	s := Step{Subcommand: "kube-get", Args: append(targets, p.text), Writes: true, Why: "kube-get writes the same value"}
	s.differs(needsRole, waitsFirst)
	if out != call {
		s.differs("a key that is missing or empty is waited for")
	}
	s.differs(k.linkNote(p)...)
	s.differs(k.parentNote(p)...)
	if err := k.replaces(copying{}, p, &s); err != nil {
		return nil, err
	}
	k.made(p, file)
	return []Step{s}, nil
}

// secretKey matches a kind and a path that lead to a key of a Secret.
var secretKey = lazy.Regexp(`^secrets?\{\.data\.((?:[A-Za-z0-9_-]|\\\.)+)\}$`)

const bounded = "it has a deadline of 5 minutes, where there was none"
