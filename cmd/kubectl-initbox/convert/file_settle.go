package convert

import (
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// kind is what is known to be at a path.
type kind int

const (
	unknown kind = iota
	directory
	file
	link
	absent
)

// files is what is known of a container's files while its steps are settled, one after the other: what the steps so far
// have made decides what the next one means.
type files struct {
	c         *manifest.Container
	kinds     map[string]kind // by place.value
	downloads map[string]*download
	guarded   string          // the path that a condition is about, which what follows makes or changes
	assumed   bool            // that its kind is known only from the condition
	mayFail   bool            // the script ignores the failure of the call
	generated map[string]bool // files that generate has made, whose content stays, by place.value
	texts     map[string]bool // files whose whole text a step has written, by place.value
	filled    []string        // directories into which a step has copied or unpacked files whose names are not known
	clones    map[string]bool // directories of git clone
	setid     map[string]bool // what a step has given setuid or setgid bits that chown clears; true: what is below it, too
	given     map[string]bool // files whose mode or owner a step has changed, or that of directories: of files in them
	contents  map[string]content
	flat      map[string]bool       // directories with nothing but files that a step has copied, by place.value
	stores    map[string]store      // files of certificates, by place.value
	added     map[string][]location // certificates that were copied into the image, by distribution.anchors
	updated   *distribution         // whose program has changed the certificates of the image
	installed bool                  // whether the script installs them, which an official image without them has
	unread    shell.Word            // a path of the call to what that, or another command, has made in the image; nil if the command knows
	omitted   Step                  // what is different because of calls that have no step
	changed   bool                  // that an owner or a mode in the image is left out
	lost      *location             // a directory of the image in which a command has changed more than the volumes
}

// fileCommand is a [command] that needs to know what the ones before it have made.
type fileCommand func(k *files, call *shell.Call) ([]Step, error)

// deferred returns the command whose step is only understood by [settle].
func deferred(f fileCommand) command {
	return func(call *shell.Call, c *manifest.Container) ([]Step, error) {
		return []Step{{settle: func(k *files) ([]Step, error) {
			if err := usualMask(call); err != nil && !masking[call.Name] {
				return nil, at(call, err)
			}
			steps, err := f(k, call)
			if err == nil && k.unread != nil {
				err = stop(k.unread, "what an earlier command has made or changed in the image")
			}
			return steps, at(call, err)
		}}}, nil
	}
}

// at gives the error of a word the place of its call.
func at(call *shell.Call, err error) error {
	if e, ok := err.(*shell.Error); ok && e.Pos.Line == 0 {
		e.Pos = call.Pos
	}
	return err
}

// settle returns the steps of a container, now that all are known: those of file commands are understood by what the
// ones before have made, and neighbours are joined.
func settle(steps []Step, c *manifest.Container, installs ...*shell.Call) ([]Step, error) {
	k := &files{c: c, kinds: map[string]kind{}, downloads: map[string]*download{}, flat: map[string]bool{}, generated: map[string]bool{}, texts: map[string]bool{}, clones: map[string]bool{}, setid: map[string]bool{}, given: map[string]bool{}, contents: map[string]content{}, stores: map[string]store{}, added: map[string][]location{}}
	k.installed = official(c.Image) && slices.ContainsFunc(installs, func(call *shell.Call) bool {
		return slices.ContainsFunc(call.Args, func(w shell.Word) bool { return w.String() == "ca-certificates" })
	})
	settled, err := k.settle(steps)
	if err != nil {
		return nil, err
	}
	if settled, err = withoutUsed(settled); err != nil {
		return nil, err
	}
	if err := owned(settled); err != nil {
		return nil, err
	}
	if k.lost != nil && slices.ContainsFunc(settled, func(s Step) bool {
		return s.Inside && s.Subcommand != "prepare" || k.changed && s.Subcommand == "fetch" // of a file there
	}) {
		return nil, stop(k.lost.word, "in no volume: what changes there may matter to what else runs in the image")
	}
	if len(settled) > 0 {
		settled[len(settled)-1].differs(k.omitted.Differs...)
	}
	return join(settled), nil
}

func (k *files) settle(steps []Step) ([]Step, error) {
	var settled []Step
	for _, s := range steps {
		if s.settle == nil {
			settled = append(settled, s)
			continue
		}
		more, err := s.settle(k)
		if err != nil {
			return nil, err
		}
		if settled, err = k.appended(settled, more); err != nil {
			return nil, err
		}
	}
	return settled, nil
}

// ignoreErrors is the setting of prepare that makes a failure a warning.
const ignoreErrors = "ignore-errors"

// ignoring returns the step for a call whose failure the script ignores: CALL || true.
func ignoring(call *shell.Call, steps []Step) Step {
	return Step{settle: func(k *files) ([]Step, error) {
		before := maps.Clone(k.kinds)
		k.mayFail = true
		settled, err := k.settle(steps)
		k.mayFail = false
		if err != nil {
			return nil, err
		}
		prepared := true
		for i, s := range settled {
			s.Args = slices.Clone(s.Args)
			keeps := slices.ContainsFunc(s.Args, func(a string) bool { return strings.Contains(a, "#keep") || strings.Contains(a, "&keep") })
			switch {
			case s.Subcommand == "prepare":
				for n, a := range s.Args {
					s.Args[n] = setting(a, ignoreErrors)
				}
				s.Differs = slices.DeleteFunc(slices.Clone(s.Differs), func(d string) bool { return strings.HasPrefix(d, noFailure) })
			case s.Subcommand == "copy" && !keeps && (call.Stdout == nil || isNull(call.Stdout.File)): // which may fail for want of privileges
				for n, a := range s.Args {
					s.Args[n] = setting(a, "optional")
				}
				s.Differs = slices.DeleteFunc(slices.Clone(s.Differs), func(d string) bool { return strings.HasSuffix(d, " is empty") })
				s.differs("only the failure of " + call.Name + " for want of a source is ignored: if anything else fails, the container fails and starts again")
				prepared = false
			case s.Subcommand == "sleep":
			default:
				return nil, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "its failure is ignored, and initbox would end with it"}
			}
			settled[i] = s
		}
		k.perhaps(before, func(_ string, what kind) bool { return prepared && what == directory })
		return settled, nil
	}}
}

// noFailure begins what is different where a command would fail, and initbox does not.
const noFailure = "it is no failure if "

// anError is what an error of the call is.
func (k *files) anError() string {
	if k.mayFail {
		return "a warning"
	}
	return "an error"
}

// parentNote returns what is different where the directory of a place may be missing, for which a command fails.
func (k *files) parentNote(p location) []string {
	up := path.Dir(p.value)
	if p.slash && k.kinds[p.value] != directory && p.pattern == "" && !p.root() {
		return []string{"the directory " + p.value + " is made, too, if it is missing"}
	}
	mounted := slices.ContainsFunc(k.c.VolumeMounts, func(m corev1.VolumeMount) bool { return path.Clean(m.MountPath) == up })
	if p.root() || k.kinds[up] == directory || mounted {
		return nil
	}
	return []string{"the directory of " + p.value + " is made, too, if it is missing"}
}

// intoNote returns what is different where there may be a directory in place of a file, for which a command fails.
func (k *files) intoNote(p location) []string {
	if k.kind(p) != unknown || k.guarded == p.value || k.untouched(p) {
		return nil
	}
	return []string{"if " + p.value + " is a directory, a file is made in it, where the command fails"}
}

// perhaps forgets what is known of the paths that may be as they were before or as they are now, unless keep says that
// the latter is certain enough.
func (k *files) perhaps(before map[string]kind, keep func(path string, what kind) bool) {
	for path, what := range k.kinds {
		if before[path] != what && !keep(path, what) {
			delete(k.kinds, path)
		}
	}
	for path, what := range before {
		if k.kinds[path] != what {
			delete(k.kinds, path)
		}
	}
}

// appended adds steps, or adds a text to the file that an earlier step writes.
func (k *files) appended(settled, more []Step) (_ []Step, err error) {
	for _, s := range more {
		if s.instead != "" {
			if settled, err = without(settled, s); err != nil {
				return nil, err
			}
		}
		if s.appends == nil {
			settled = append(settled, s)
			continue
		}
		i := len(settled) - 1
		for i >= 0 && settled[i].writes != s.writes {
			if settled[i].Subcommand != s.Subcommand || settled[i].writes == "" {
				return nil, &shell.Error{Word: s.writes, Why: "a command between this and the one that writes the beginning of the file may read it"}
			}
			i--
		}
		if i < 0 {
			return nil, &shell.Error{Word: s.writes, Why: "the file is written elsewhere"}
		}
		settled[i] = s.appends(settled[i])
	}
	return settled, nil
}

// without removes the last step if it wrote a file which s writes from the same source.
func without(settled []Step, s Step) ([]Step, error) {
	for i := len(settled) - 1; i >= 0; i-- {
		switch before := settled[i]; {
		case before.Subcommand == "copy" && s.instead == "copy "+strings.Join(before.Args, " "), before.Subcommand == "render" && s.instead == "render "+before.Flags[0].Value:
			if i < len(settled)-1 { // what follows it may read the file as it is before
				return settled, nil
			}
			return settled[:i], nil
		case before.Subcommand != "copy" && before.Subcommand != "render":
			return nil, &shell.Error{Word: s.writes, Why: "a command between this and the one that made the file may have changed it"}
		}
	}
	return nil, &shell.Error{Word: s.writes, Why: "the file is made elsewhere"}
}

// made records what a step has made, and that everything above it is a directory.
func (k *files) made(p location, what kind) {
	if p.pattern != "" {
		return
	}
	for below := range k.kinds {
		if below != p.value && within(p.value, below) && what != directory {
			delete(k.kinds, below)
		}
	}
	k.kinds[p.value] = what
	delete(k.stores, p.value)
	delete(k.generated, p.value)
	if what == absent {
		maps.DeleteFunc(k.given, func(name string, _ bool) bool { return within(p.value, name) })
		return
	}
	for up := path.Dir(p.value); up != "/"; up = path.Dir(up) {
		k.kinds[up] = directory
	}
}

// kind returns what is known to be at a place.
func (k *files) kind(p location) kind {
	switch what, ok := k.kinds[p.value]; {
	case ok:
		return what
	case p.root() && !k.mountedFile(p), p.slash && p.pattern == "":
		return directory
	case p.root() && p.projected(), k.flat[path.Dir(p.value)] && p.pattern == "", p.flat() && path.Dir(p.value) == path.Clean(p.mount.MountPath):
		return file
	}
	return unknown
}

// mountedFile reports whether what is mounted at p may be a file.
func (k *files) mountedFile(p location) bool {
	if p.projected() || p.volume == nil && !k.claimed(p) {
		return p.mount.SubPath != "" || p.mount.SubPathExpr != ""
	}
	if p.volume != nil && p.volume.HostPath != nil && p.volume.HostPath.Type != nil {
		return !slices.Contains([]string{"", "Directory", "DirectoryOrCreate"}, string(*p.volume.HostPath.Type))
	}
	return false
}

// claimed reports whether the volume is a claim of a StatefulSet.
func (k *files) claimed(p location) bool {
	claims := manifest.Get(k.c.Pod.Object.Node, "spec", "volumeClaimTemplates")
	return claims != nil && slices.ContainsFunc(claims.Content, func(claim *yaml.Node) bool {
		name := manifest.Get(claim, "metadata", "name")
		return name != nil && name.Value == p.mount.Name
	})
}

// linkNote returns what is different where a place in a volume is behind a symbolic link, which may be there only in a
// volume that others have written to.
func (k *files) linkNote(p location) []string {
	if p.above != "" {
		return []string{"a symbolic link in the image between " + p.above + " and the volume " + p.value + " is followed, where the command leaves it alone"}
	}
	if p.fresh() || p.root() {
		return nil
	}
	where := " in the volume " + path.Clean(p.mount.MountPath)
	if where == " in the volume /" { // of a script without a manifest
		where = ""
	}
	return []string{"a symbolic link to a directory" + where + " is not followed, but " + k.anError()}
}

// owned refuses the steps that make files for root which had, or kept, another owner, unless a later step gives them
// one.
func owned(steps []Step) error {
	for i, s := range steps {
		if s.ownerless == nil {
			continue
		}
		given := slices.ContainsFunc(steps[i+1:], func(t Step) bool {
			return slices.ContainsFunc(t.owns, func(dir string) bool { return within(dir, s.ownerless.value) })
		})
		if !given {
			return s.ownerless.err
		}
	}
	return nil
}

// ownerless is where a step makes files whose owner would be another one.
type ownerless struct {
	value string
	err   error
}

// join makes one step of neighbours that are the same subcommand with the same flags.
func join(steps []Step) []Step {
	var joined []Step
	for _, s := range steps {
		if n := len(joined); n > 0 && joins(joined[n-1], s) {
			last := &joined[n-1]
			last.Args = append(last.Args, s.Args...)
			if s.Subcommand == "render" {
				last.Flags = append(last.Flags, inlines(s)...)
			}
			last.AsRoot = last.AsRoot || s.AsRoot
			for _, d := range s.Differs {
				if !slices.Contains(last.Differs, d) {
					last.Differs = append(last.Differs, d)
				}
			}
			if last.Why != s.Why {
				last.Why += "; " + s.Why
			}
			continue
		}
		s.Args = slices.Clone(s.Args)
		joined = append(joined, s)
	}
	for i, s := range joined {
		if s.Subcommand == "prepare" {
			joined[i].Args = joinPaths(s.Args)
		}
	}
	return joined
}

func joins(a, b Step) bool {
	if a.Subcommand != b.Subcommand || a.Inside != b.Inside {
		return false
	}
	switch a.Subcommand {
	case "prepare":
		return slices.Equal(a.Flags, b.Flags)
	case "copy": // which reads everything before it writes anything
		return slices.Equal(a.Flags, b.Flags) && !slices.ContainsFunc(a.Args, func(x string) bool {
			return slices.ContainsFunc(b.Args, func(y string) bool { return dependent(x, y) })
		})
	case "render": // which refuses to write a file twice
		return slices.Equal(notInline(a), notInline(b)) && len(a.Args)+len(b.Args) == 0 && !slices.ContainsFunc(inlines(a), func(x Flag) bool {
			return slices.ContainsFunc(inlines(b), func(y Flag) bool { return inlined(x) == inlined(y) }) || slices.ContainsFunc(b.Flags, func(y Flag) bool { return y.Name == "files" && within(y.Value, inlined(x)) })
		})
	case "sysctl":
		return slices.Equal(a.Flags, b.Flags)
	}
	return false
}

// dependent reports whether one of two pairs of copy may change what the other one reads, or whether it copies.
func dependent(x, y string) bool {
	if strings.Contains(x+y, "if-empty") || strings.Contains(x+y, "unless=") {
		return true
	}
	_, to, _ := strings.Cut(x, ":")
	to, _, _ = strings.Cut(to, "#")
	from, _, _ := strings.Cut(y, ":")
	if !path.IsAbs(from) {
		return true
	}
	to = strings.TrimSuffix(to, "/")
	return within(to, path.Dir(from)) || within(to, from) || within(from, to)
}

// inlines and notInline are the flags --inline of a step, and all but those.
func inlines(s Step) []Flag {
	return slices.DeleteFunc(slices.Clone(s.Flags), func(f Flag) bool { return f.Name != "inline" })
}

// inlined returns the file that a flag --inline writes.
func inlined(f Flag) string {
	file, _, _ := strings.Cut(f.Value, "=")
	return path.Clean(file)
}

func notInline(s Step) []Flag {
	return slices.DeleteFunc(slices.Clone(s.Flags), func(f Flag) bool { return f.Name == "inline" })
}

// joinPaths makes one argument of prepare of neighbours about the same path: mkdir and chown and chmod.
func joinPaths(args []string) []string {
	var joined []string
	for _, a := range args {
		if n := len(joined); n > 0 {
			if both, ok := joinPath(joined[n-1], a); ok {
				joined[n-1] = both
				continue
			}
		}
		joined = append(joined, a)
	}
	return joined
}

func joinPath(a, b string) (string, bool) {
	path, first, _ := strings.Cut(a, "#")
	otherPath, second, _ := strings.Cut(b, "#")
	other := func(setting string) bool { // one that would hold for what the other argument sets
		name, _, _ := strings.Cut(setting, "=")
		return setting != "" && !set("owner mode recursive file if-exists any-kind " + ignoreErrors)[name]
	}
	only := func(setting string) bool { // one of both has it
		return slices.Contains(strings.Split(first, "&"), setting) != slices.Contains(strings.Split(second, "&"), setting)
	}
	switch {
	case path != otherPath, only(ignoreErrors), only("any-kind"), first != second && slices.ContainsFunc(strings.Split(first+"&"+second, "&"), other):
		return "", false
	case first == second, second == "":
		return a, true
	case first == "":
		return path + "#" + strings.TrimSuffix(strings.ReplaceAll(second+"&", "if-exists&", ""), "&"), true
	}
	settings := strings.Split(first, "&")
	for _, s := range strings.Split(second, "&") {
		name, _, _ := strings.Cut(s, "=")
		had := slices.ContainsFunc(settings, func(t string) bool { return t == name || strings.HasPrefix(t, name+"=") })
		switch {
		case had && !slices.Contains(settings, s):
			return "", false
		case !had && name != "owner" && name != "mode" && name != "if-exists":
			return "", false
		case !had && name == "if-exists": // an earlier step has made it
		case !had:
			settings = append(settings, s)
		}
	}
	if slices.Contains(settings, "recursive") && !slices.Contains(strings.Split(second, "&"), "recursive") {
		return "", false
	}
	return path + "#" + strings.Join(settings, "&"), true
}
