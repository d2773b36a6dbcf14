package convert

import (
	"maps"
	"slices"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// conditional returns the steps that do what then does if a file exists or not, or a directory is empty. Where the
// subcommands have no setting for that, it is an error.
func conditional(cond shell.Cond, then []Step, c *manifest.Container) ([]Step, error) {
	test, err := fileTestOf(cond)
	if err != nil {
		return nil, err
	}
	return []Step{{settle: func(k *files) ([]Step, error) {
		steps, err := k.conditional(test, then)
		return steps, at(test.call, err)
	}}}, nil
}

// fileTest is a condition on a path.
type fileTest struct {
	call  *shell.Call
	path  shell.Word
	op    string // -e, -f, -d, ls: that it has something in it, or stat: that its user is owner
	owner string
	holds bool // rather than that it does not
}

func (t fileTest) stop() error {
	return stop(t.path, "a condition that the commands it decides about have no setting for")
}

// fileTestOf reads [ -f PATH ], [ ! -e PATH ], [ -z "$(ls -A PATH)" ], and [ "$(stat -c %u PATH)" = 999 ].
func fileTestOf(cond shell.Cond) (fileTest, error) {
	t := fileTest{holds: !cond.Not}
	switch {
	case cond.Call != nil && cond.Call.Name == "test":
		t.call = cond.Call
		words := cond.Call.Args
		if len(words) == 3 && words[0].String() == "!" {
			t.holds, words = !t.holds, words[1:]
		}
		if len(words) == 2 {
			t.op, t.path = words[0].String(), words[1]
		}
		if t.op == "-e" || t.op == "-f" || t.op == "-d" {
			return t, nil
		}
	case cond.Match != nil && cond.Match.Call.Name == "ls" && (cond.Match.Op == "-z" || cond.Match.Op == "-n"):
		t.call = cond.Match.Call
		g, err := optionsOf("A almost-all; 1").read(t.call.Args)
		if t.holds = t.holds == (cond.Match.Op == "-n"); err == nil && len(g.args) == 1 && g.has("A") {
			t.op, t.path = "ls", g.args[0]
			return t, nil
		}
	}
	if m := cond.Match; m != nil && m.Call.Name == "stat" && m.Call.Pipe == nil && (m.Op == "=" || m.Op == "-eq" || m.Op == "!=" || m.Op == "-ne") {
		g, err := optionsOf("c format=").read(m.Call.Args)
		owner, literal := m.Pattern.Literal()
		if err == nil && literal && len(g.args) == 1 && g.get("c").String() == "%u" && owner != "" && strings.Trim(owner, "0123456789") == "" {
			t.call, t.op, t.path, t.owner = m.Call, "stat", g.args[0], owner
			t.holds = t.holds == (m.Op == "=" || m.Op == "-eq")
			return t, nil
		}
	}
	return t, &shell.Error{Word: "if", Why: "a condition that is not on a file or a directory"}
}

func (k *files) conditional(t fileTest, then []Step) ([]Step, error) {
	p, err := k.place(t.path, t.call)
	switch {
	case err != nil:
		return nil, err
	case p.pattern != "":
		return nil, noPattern(p)
	case p.mount == nil && !t.holds:
		return nil, stop(t.path, "whether it exists depends on the image")
	}
	bare := p
	bare.slash = false
	prior := k.kind(bare)
	before, updated, added := maps.Clone(k.kinds), k.updated, len(slices.Concat(slices.Collect(maps.Values(k.added))...))
	k.assumed = t.holds && t.op != "-e" && prior == unknown
	if k.assumed {
		k.kinds[p.value] = map[string]kind{"-f": file, "-d": directory, "ls": directory}[t.op]
	}
	k.guarded = p.value
	steps, err := k.settle(then)
	k.guarded, k.assumed = "", false
	switch {
	case err != nil:
		return nil, err
	case k.updated != updated || added != len(slices.Concat(slices.Collect(maps.Values(k.added))...)):
		return nil, t.stop()
	}
	k.perhaps(before, func(path string, _ kind) bool { return path == p.value && !t.holds })
	if steps, err = k.finalDownloads(steps); err != nil {
		return nil, err
	}
	steps = slices.Clone(join(steps))
	switch {
	case t.op == "stat":
		return steps, t.ifOther(p, steps)
	case t.op == "ls" && !t.holds:
		return steps, t.ifEmpty(p, steps)
	case t.op == "ls":
		return nil, t.stop()
	case p.mount == nil && !strings.HasPrefix(p.value, "/proc/sys/") && slices.ContainsFunc(steps, func(s Step) bool { return !s.Inside }):
		return nil, stop(t.path, "whether it exists depends on the image")
	case t.holds:
		return steps, t.ifExists(p, prior, steps)
	}
	return steps, t.unlessExists(p, k.untouched(p), steps)
}

// finalDownloads returns the steps with their downloads as they are now: no later command uses what may not be there.
func (k *files) finalDownloads(steps []Step) ([]Step, error) {
	steps, err := withoutUsed(steps)
	for i := range steps {
		if d := steps[i].download; d != nil {
			delete(k.downloads, d.at.value)
			steps[i].download = nil
		}
	}
	return steps, err
}

// ifOther returns an error unless the steps give the path the owner that it does not have.
func (t fileTest) ifOther(p location, steps []Step) error {
	if t.holds || len(steps) != 1 || steps[0].Subcommand != "prepare" || len(steps[0].Args) != 1 {
		return t.stop()
	}
	path, settings, _ := strings.Cut(steps[0].Args[0], "#")
	owner, isOwner := strings.CutPrefix(strings.Split(settings, "&")[0], "owner=")
	if user, _, _ := strings.Cut(owner, ":"); path != p.text || !isOwner || user != t.owner {
		return t.stop()
	}
	steps[0].differs("owners and groups are changed also if only the user of " + p.value + " is right already")
	return nil
}

// ifEmpty adds the setting that makes a copy only fill an empty directory.
func (t fileTest) ifEmpty(p location, steps []Step) error {
	if len(steps) != 1 || steps[0].Subcommand != "copy" || len(steps[0].Args) != 1 || !copiesTo(steps[0].Args[0], p.text) {
		return t.stop()
	}
	steps[0].Args[0] = setting(steps[0].Args[0], "if-empty")
	steps[0].differs("lost+found in " + p.value + " does not count")
	return nil
}

func copiesTo(pair, to string) bool {
	_, destination, _ := strings.Cut(pair, ":")
	destination, _, _ = strings.Cut(destination, "#")
	return strings.TrimSuffix(destination, "/") == to
}

// setting adds a setting to an argument, unless it has that.
func setting(argument, name string) string {
	path, settings, any := strings.Cut(argument, "#")
	if slices.Contains(strings.Split(settings, "&"), name) {
		return argument
	}
	if !any {
		return path + "#" + name
	}
	return argument + "&" + name
}

// ifExists adds the settings that make steps do nothing if the path does not exist. Prior is what it was before. If
// that is not known, the test is false also for another kind, which no step may remove or copy.
func (t fileTest) ifExists(p location, prior kind, steps []Step) error {
	tested := map[string]kind{"-f": file, "-d": directory}[t.op]
	if prior == link || prior == absent || prior != unknown && tested != unknown && prior != tested {
		return t.stop()
	}
	uncertain := prior == unknown && tested != unknown
	removed := false
	for n := range steps {
		s := &steps[n]
		for i, a := range s.Args {
			name, settings, _ := strings.Cut(a, "#")
			source, _, _ := strings.Cut(name, ":")
			if removed { // if-exists would leave out what makes it again
				return t.stop()
			}
			switch {
			case s.Subcommand == "prepare" && name == p.text && strings.HasPrefix(settings, "absent=file") && uncertain && t.op == "-f":
				removed = true
				s.differs("a socket or a pipe at " + p.value + ", and a symbolic link that leads to no file, is removed, too")
			case s.Subcommand == "prepare" && name == p.text && strings.HasPrefix(settings, "absent") && !uncertain:
				removed = true
				s.differs(t.dangling(p, prior)...)
			case s.Subcommand == "prepare" && name == p.text && !strings.HasPrefix(settings, "absent") && settings != "" && !strings.HasPrefix(settings, "link="):
				s.Args[i] = setting(a, "if-exists")
				if uncertain {
					s.differs("it is an error if " + p.value + " is " + map[kind]string{file: "not a file", directory: "not a directory"}[tested] + ", where the script leaves it alone")
				}
			case s.Subcommand == "sysctl" && strings.HasPrefix(a, strings.ReplaceAll(strings.TrimPrefix(p.text, "/proc/sys/"), "/", ".")+"=") && !strings.Contains(p.text, "."):
				s.Args[i] = setting(a, "if-exists")
			case s.Subcommand == "copy" && (source == p.text || strings.HasPrefix(source, p.text+"/")) && (!uncertain || p.mount == nil):
				s.Args[i] = setting(a, "optional")
				s.Differs = slices.DeleteFunc(slices.Clone(s.Differs), func(d string) bool { return strings.HasSuffix(d, " is empty") })
				s.differs(t.dangling(p, prior)...)
				if uncertain {
					s.differs("if " + p.value + " in the image is " + map[kind]string{file: "a directory", directory: "a file"}[tested] + ", it is copied, too")
				}
			default:
				return t.stop()
			}
		}
		if !slices.Contains([]string{"prepare", "copy", "sysctl"}, s.Subcommand) || s.ownerless != nil && s.Subcommand == "prepare" {
			return t.stop()
		}
	}
	return nil
}

// dangling returns what is different where the path is a link for which [ -e PATH ] is false.
func (t fileTest) dangling(p location, prior kind) []string {
	if t.op != "-e" || prior != unknown || p.projected() {
		return nil
	}
	return []string{"a symbolic link " + p.value + " that leads nowhere is not left alone, where the script leaves it alone"}
}

// unlessExists adds the settings that make steps do nothing if the path exists. Only the last step may make the path:
// of several downloads, the one that makes it becomes the last.
func (t fileTest) unlessExists(p location, untouched bool, steps []Step) error {
	i := slices.IndexFunc(steps, func(s Step) bool { return len(s.Args) == 2 && s.Args[1] == p.text })
	if i >= 0 && !slices.ContainsFunc(steps, func(s Step) bool { return s.Subcommand != "fetch" }) {
		guard := steps[i]
		copy(steps[i:], steps[i+1:])
		steps[len(steps)-1] = guard
	}
	for i := range steps {
		s := &steps[i]
		last := i == len(steps)-1
		switch {
		case last && s.Subcommand == "prepare" && t.onlyMakes(p, s.Args):
		case s.Subcommand == "prepare" && !last && t.directoriesBeside(p, s.Args):
			s.differs("directories are made even if " + p.value + " exists")
		case last && s.Subcommand == "copy" && len(s.Args) == 1:
			s.Args[0] = setting(s.Args[0], "unless="+escapeValue(p.text))
		case last && s.Subcommand == "fetch" && len(s.Args) == 2 && s.Args[1] == p.text:
			s.Args[0] = setting(s.Args[0], "unless="+escapeValue(p.text))
		case s.Subcommand == "fetch" && len(s.Args) == 2 && (last || !within(s.Args[1], p.text) && !within(p.text, s.Args[1])):
			s.Args[0] = setting(s.Args[0], "unless="+escapeValue(p.text))
		case last && s.Subcommand == "generate" && (s.Args[1] == p.text || strings.HasPrefix(p.text, s.Args[1]+"/tls.")): // which keeps what is there
			s.Differs = slices.DeleteFunc(slices.Clone(s.Differs), func(d string) bool { return d == keepsWhatIsThere })
		case last && s.Subcommand == "render" && s.writes == p.value && len(s.Args) == 0:
			s.Flags = append(slices.Clone(s.Flags), Flag{"no-overwrite", ""})
		default:
			return t.stop()
		}
		if last && (s.writes == p.value || len(s.Args) > 0 && (copiesTo(s.Args[0], p.text) || s.Args[len(s.Args)-1] == p.text)) {
			s.ownerless = nil // nothing is there that had another owner
		}
		s.writes = ""
		if last && !untouched {
			s.differs(t.counts(p, s.Subcommand)...)
		}
	}
	return nil
}

// counts returns what is different where a step of a subcommand finds another kind of file than the test looks for.
func (t fileTest) counts(p location, subcommand string) (notes []string) {
	leaves := subcommand == "copy" || subcommand == "fetch" // anything that is there
	switch {
	case leaves && t.op != "-e":
		notes = append(notes, "nothing is done either if "+p.value+" is "+map[string]string{"-f": "a directory", "-d": "a file"}[t.op])
	case !leaves && t.op == "-e":
		notes = append(notes, "it is an error if "+p.value+" is of another kind, where the script leaves it alone")
	}
	return append(notes, "a symbolic link "+p.value+" that leads nowhere is left alone, or replaced, but not written through")
}

// onlyMakes reports whether the arguments of prepare only make the path, which does nothing if it is there.
func (t fileTest) onlyMakes(p location, args []string) bool {
	return !slices.ContainsFunc(args, func(a string) bool {
		a = strings.TrimSuffix(strings.TrimSuffix(a, ignoreErrors), "&")
		return !(strings.TrimSuffix(a, "#") == p.text && t.op != "-f") && !(a == p.text+"#file" && t.op != "-d")
	})
}

// directoriesBeside reports whether the arguments of prepare only make directories, which the path is none of.
func (t fileTest) directoriesBeside(p location, args []string) bool {
	return !slices.ContainsFunc(args, func(a string) bool {
		return strings.Contains(a, "#") || within(p.text, a)
	})
}
