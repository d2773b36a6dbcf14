package convert

import (
	"errors"
	"path"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/cmd/translate"
	"initbox/internal/lazy"
)

const cloneOptions = "b branch=; depth=; single-branch; no-single-branch; q quiet; v verbose; progress; recurse-submodules recursive; shallow-submodules"

// git clones, and checks out what it has cloned.
func (k *files) git(call *shell.Call) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	words := call.Args
	if len(words) > 2 {
		if text, _ := words[0].Literal(); text == "-C" {
			inner := *call
			inner.Dir, inner.Args = words[1], words[2:]
			if _, err := k.cd(&shell.Call{Args: words[1:2], Dir: call.Dir}); err != nil {
				return nil, err
			}
			return k.git(&inner)
		}
	}
	if err := k.gitVariables(call); err != nil || len(words) == 0 {
		return nil, err
	}
	switch name, _ := words[0].Literal(); name {
	case "clone":
		return k.clone(call, words[1:])
	case "checkout":
		return k.checkout(call, words[1:])
	case "config":
		list, err := literals(words[1:])
		if text := strings.Join(list, " "); err == nil && harmlessConfig(text) {
			return nil, nil
		}
		return nil, &shell.Error{Word: "git config", Why: "a setting that may change what git does"}
	case "version", "--version", "status", "log", "rev-parse", "lfs":
		if name != "lfs" || len(words) == 2 && words[1].String() == "install" {
			return nil, nil
		}
	}
	return nil, stop(words[0], "not git clone, nor the checkout of a clone")
}

// harmlessConfig reports whether a setting of git is of no consequence for a clone by initbox.
func harmlessConfig(text string) bool {
	fields := strings.Fields(text)
	for _, f := range fields {
		if f == "safe.directory" || strings.HasPrefix(f, "user.") || strings.HasPrefix(f, "advice.") {
			return true
		}
	}
	return false
}

// gitVariables refuses the variables that change what git does.
func (k *files) gitVariables(call *shell.Call) error {
	if err := noProxies(call, k.c); err != nil {
		return err
	}
	for _, s := range call.Set {
		if strings.HasPrefix(s.Name, "GIT_") && s.Name != "GIT_TERMINAL_PROMPT" {
			return &shell.Error{Word: s.Name, Why: "a variable that changes what git does"}
		}
	}
	for _, e := range k.c.Env {
		if gitMeans[e.Name] {
			return &shell.Error{Word: e.Name, Why: "a variable that changes what git does"}
		}
	}
	return nil
}

// gitMeans are the variables that change what git does for a clone: https://git-scm.com/docs/git#_environment_variables
var gitMeans = set("GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS GIT_SSL_NO_VERIFY GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSL_CERT GIT_SSL_KEY " +
	"GIT_DIR GIT_WORK_TREE GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_PROXY_COMMAND " +
	"GIT_TEMPLATE_DIR GIT_LFS_SKIP_SMUDGE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_INDEX_FILE GIT_NAMESPACE")

func (k *files) clone(call *shell.Call, words []shell.Word) ([]Step, error) {
	g, err := optionsOf(cloneOptions).read(words)
	if err != nil {
		return nil, err
	}
	if len(g.args) == 0 || len(g.args) > 2 {
		return nil, &shell.Error{Word: "git clone", Why: "want a URL, and a directory or not"}
	}
	url, scheme, err := httpURL(g.args[0], nil, k.c)
	if err != nil {
		return nil, err
	}
	to := shell.Word{{Text: strings.TrimSuffix(path.Base(strings.TrimRight(url, "/")), ".git")}}
	if len(g.args) == 2 {
		to = g.args[1]
	}
	p, err := k.place(to, call)
	if err != nil {
		return nil, err
	}
	if err := k.target(p); err != nil {
		return nil, err
	}
	if k.mountsIn(p) {
		return nil, stop(p.word, "a directory in which volumes are mounted")
	}
	s := Step{Subcommand: "git-clone", Writes: true, Args: []string{url, p.text}, Why: "git-clone puts the same revision there", writes: "git " + p.value}
	for _, f := range []struct{ option, flag string }{{"b", "ref"}, {"depth", "depth"}} {
		if w := g.get(f.option); w != nil {
			value, err := arg(w, k.c)
			if err != nil {
				return nil, err
			}
			s.Flags = append(s.Flags, Flag{f.flag, value})
		} else if f.option == "depth" {
			s.Flags = append(s.Flags, Flag{"depth", "0"})
		}
	}
	switch {
	case g.has("shallow-submodules") && !g.has("recurse-submodules"):
		return nil, &shell.Error{Word: "--shallow-submodules", Why: "without --recurse-submodules"}
	case g.has("recurse-submodules"):
		s.Flags = append(s.Flags, Flag{"submodules", "recursive"})
	}
	if g.has("single-branch") && !g.has("depth") {
		s.Flags = append(s.Flags, Flag{"single-branch", ""})
	}
	if scheme == "https" {
		s.differs(mozillaRoots)
	}
	s.differs("a second run brings " + p.value + " to the revision as it is then, where git clone fails")
	s.differs(k.linkNote(p)...)
	k.filled = append(k.filled, p.value)
	k.made(p, directory)
	k.clones[p.value] = true
	return []Step{s}, nil
}

// checkout makes another revision that of the clone before.
func (k *files) checkout(call *shell.Call, words []shell.Word) ([]Step, error) {
	g, err := optionsOf("q quiet; f force; detach").read(words)
	if err != nil {
		return nil, err
	}
	if len(g.args) != 1 {
		return nil, &shell.Error{Word: "git checkout", Why: "want one revision"}
	}
	ref, err := arg(g.args[0], k.c)
	if err != nil {
		return nil, err
	}
	p, err := k.place(shell.Word{{Text: "."}}, call)
	if err != nil {
		return nil, err
	}
	if ref == "" || strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, "^~:@") || strings.HasPrefix(ref, "HEAD") || strings.HasPrefix(ref, "FETCH_HEAD") {
		return nil, stop(g.args[0], "not the name of a branch, a tag or a commit")
	}
	s := Step{writes: "git " + p.value}
	s.appends = func(clone Step) Step {
		flags := []Flag{{"ref", ref}}
		for _, f := range clone.Flags {
			if f.Name != "ref" {
				flags = append(flags, f)
			}
		}
		clone.Flags = flags
		return clone
	}
	return []Step{s}, nil
}

// gitTool is an image whose program is git.
func gitTool(words []shell.Word, c *manifest.Container) ([]Step, error) {
	return programTool("git", (*files).git)(words, c)
}

// programTool returns the tool that is a program of this package.
func programTool(name string, f fileCommand) tool {
	return settled(func(words []shell.Word, c *manifest.Container) ([]Step, error) {
		return deferred(f)(&shell.Call{Name: name, Path: name, Args: words}, c)
	})
}

// veleroPlugin is an image of Velero's own plugins, whose only program copies the plugin:
// https://github.com/vmware-tanzu/velero-plugin-for-aws/blob/main/Dockerfile
func veleroPlugin(words []shell.Word, c *manifest.Container) ([]Step, error) {
	name := repository(c.Image)
	if len(words) > 0 || !strings.Contains("/"+c.Image, "/velero/"+name) {
		return nil, &shell.Error{Word: name, Why: "not an image of Velero's without arguments"}
	}
	return programTool("cp", (*files).cp)([]shell.Word{{{Text: "/plugins/" + name}}, {{Text: "/target/."}}}, c)
}

// settled is a tool whose steps depend on what those before have made.
func settled(t tool) tool {
	return func(words []shell.Word, c *manifest.Container) ([]Step, error) {
		steps, err := t(words, c)
		if err != nil {
			return nil, err
		}
		return settle(steps, c)
	}
}

// errNotHere is what a file of the container is.
var errNotHere = errors.New("not known here")

// environment returns the variables of the container, for the tools whose command lines initbox itself understands.
// What the manifest does not have is a text that none of them takes for anything.
func environment(c *manifest.Container) (translate.Environment, error) {
	values := map[string]string{}
	for _, e := range c.Env {
		switch v := lookup(e.Name, c); v.origin {
		case inManifest:
			values[e.Name] = v.value
		case inPod, inConfigMap, inSecret:
			values[e.Name] = "x"
		default:
			return translate.Environment{}, &shell.Error{Word: e.Name, Why: v.why}
		}
	}
	return translate.Environment{
		Lookup:   func(name string) (string, bool) { v, ok := values[name]; return v, ok },
		ReadFile: func(string) ([]byte, error) { return nil, errNotHere },
		Exists:   func(string) bool { return false },
	}, nil
}

// rootOfHome matches the images of git-sync whose default of --root is $HOME/git, with HOME=/tmp:
// https://github.com/kubernetes/git-sync/blob/release-3.x/Dockerfile.in
var rootOfHome = lazy.Regexp(`/git-sync:v3\.[1-9]\.`)

// compatible is a tool whose command line a subcommand understands as it is, with --compat.
func compatible(subcommand, name string, translated func([]string, translate.Environment) (translate.Line, error)) tool {
	return func(words []shell.Word, c *manifest.Container) ([]Step, error) {
		list, err := args(words, c)
		if err != nil {
			return nil, err
		}
		env, err := environment(c)
		if err != nil {
			return nil, err
		}
		if _, set := env.Lookup("GIT_SYNC_ROOT"); name == "git-sync" && !set && rootOfHome().MatchString(c.Image) && !strings.Contains(strings.Join(list, " "), "-root") {
			list = append([]string{"--root=/tmp/git"}, list...)
		}
		if len(c.EnvFrom) > 0 {
			return nil, &shell.Error{Word: "envFrom", Why: "variables that may change what " + name + " does"}
		}
		line, err := translated(list, env)
		if err != nil {
			return nil, err
		}
		s := Step{Subcommand: subcommand, Writes: true, Args: append([]string{"--compat=" + name}, list...), Why: subcommand + " understands the command line and the variables of " + name}
		for _, f := range line.Flags {
			switch {
			case f.Name == "watch":
				return nil, &shell.Error{Word: name, Why: "it keeps running, and so the Pod would never start"}
			case strings.HasSuffix(f.Name, "exechook-command"):
				return nil, &shell.Error{Word: f.Name, Why: "a program of the image, which the image of initbox does not have"}
			}
		}
		s.differs(line.Warnings...)
		k := &files{c: c}
		if p, err := k.place(shell.Word{{Text: line.Arguments[len(line.Arguments)-1]}}, &shell.Call{}); err != nil || p.mount == nil {
			return nil, &shell.Error{Word: name, Why: "what it writes is in no volume"}
		}
		return []Step{s}, nil
	}
}
