package convert

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/internal/lazy"
)

// plain returns an error if a call has an input, an output or a pipe, which the commands of this file do not use.
func plain(call *shell.Call) error {
	switch {
	case call.Pipe != nil:
		return &shell.Error{Word: call.Name + " |", Why: "what it prints is used"}
	case call.Stdout != nil && call.Stdout.File != nil:
		return stop(call.Stdout.File, "what "+call.Name+" prints, in a file")
	case call.Stderr != nil && call.Stderr.File != nil:
		return stop(call.Stderr.File, "what "+call.Name+" prints, in a file")
	}
	return usualMask(call)
}

// umask returns the umask of a call without zeros in front of it, 22 if it has set none.
func umask(call *shell.Call) string {
	if call.Umask == "" {
		return "22"
	}
	return cmp.Or(strings.TrimLeft(call.Umask, "0"), "0")
}

// usualMask returns an error for a umask other than 022.
func usualMask(call *shell.Call) error {
	if umask(call) == "22" {
		return nil
	}
	return &shell.Error{Word: "umask " + call.Umask, Why: "a umask other than 022"}
}

// masking are the commands that know the umask of the call, or make nothing.
var masking = set("echo printf : cat sed cd openssl ssh-keygen uuidgen test rm ls")

// places reads the flags of a call, and its other words as at least n paths.
func (k *files) places(call *shell.Call, syntax string, n int) (given, []location, error) {
	if err := plain(call); err != nil {
		return given{}, nil, err
	}
	o, words, err := readOptions(call.Args, syntax)
	if err == nil && len(words) < n {
		err = &shell.Error{Word: call.Name, Why: "too few arguments"}
	}
	if err != nil {
		return given{}, nil, err
	}
	all, err := k.placesOf(words, call)
	return o, all, err
}

func (k *files) placesOf(words []shell.Word, call *shell.Call) ([]location, error) {
	all := make([]location, 0, len(words))
	for _, w := range words {
		p, err := k.place(w, call)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// each returns the step of prepare that has an argument for each place.
func (k *files) each(all []location, argument func(p location, s *Step) (string, error)) ([]Step, error) {
	if len(all) == 0 {
		return nil, nil
	}
	s := Step{Subcommand: "prepare", Writes: true}
	for _, p := range all {
		if err := k.writable(p); err != nil {
			return nil, err
		}
		text, err := argument(p, &s)
		if err != nil {
			return nil, err
		}
		s.Args = append(s.Args, text)
		s.differs(k.linkNote(p)...)
	}
	return []Step{s}, nil
}

// differs adds what is different, once. What is not known of a path is shown as *.
func (s *Step) differs(notes ...string) {
	for _, note := range notes {
		note = strings.ReplaceAll(strings.ReplaceAll(note, imageDir+"/", ""), "\x00", "*")
		if !strings.Contains(strings.Join(s.Differs, "\n")+"\n", note+"\n") {
			s.Differs = append(s.Differs, note)
		}
	}
}

// noPattern returns an error for a place with a pattern.
func noPattern(p location) error {
	if p.pattern != "" {
		return stop(p.word, "a pattern, which prepare does not expand")
	}
	return nil
}

func (k *files) mkdir(call *shell.Call) ([]Step, error) {
	o, all, err := k.places(call, "p parents; v verbose; m mode=", 1)
	if err != nil {
		return nil, err
	}
	mode := ""
	if o.has("m") {
		if mode, err = modeSetting(o.get("m")); err != nil {
			return nil, err
		}
	}
	if o.has("p") { // which does nothing where the volumes below show that the directory is there
		all = slices.DeleteFunc(all, k.above)
		if mode == "" {
			all = k.left(all, directory)
		}
	}
	return k.each(all, func(p location, s *Step) (string, error) {
		s.Why = "prepare makes the directory and those above it"
		switch existing := !p.fresh() || p.root(); {
		case p.pattern != "":
			return "", noPattern(p)
		case k.kinds[p.value] == link:
			return "", k.noLink(p)
		case k.kind(p) == file:
			return "", stop(p.word, "a file, where a directory is to be")
		case existing && !o.has("p") && k.guarded != p.value && !k.mayFail:
			return "", stop(p.word, "mkdir without -p fails if the directory is there from an earlier run, and the script may depend on that")
		case existing && mode != "":
			return "", stop(p.word, "mkdir -m only sets the mode of a directory that it makes, and it may exist")
		case !o.has("p") && k.guarded != p.value:
			s.differs(noFailure + "the directory " + p.value + " exists")
		}
		if !o.has("p") {
			s.differs(k.parentNote(p)...)
		}
		if k.mayFail && !p.fresh() {
			s.differs("if " + p.value + " cannot be made, what needs it as a directory fails")
		}
		k.made(p, directory)
		if mode != "" {
			s.differs("the mode of " + p.value + " is set at each run, and not only when it is made")
			return p.text + "#" + mode, nil
		}
		return p.text, nil
	})
}

const chownFlags = "R recursive; v verbose; c changes; f silent; quiet; h no-dereference; P; preserve-root"

func (k *files) chown(call *shell.Call) ([]Step, error) {
	return k.give(call, func(text string) (string, bool) {
		if m := ownerText().FindStringSubmatch(text); m != nil {
			return number(m[1]+m[3]) + owned2(m[2]+m[4]), true
		}
		if m := groupText().FindStringSubmatch(text); m != nil {
			return ":" + number(m[1]), true
		}
		return "", false
	})
}

func (k *files) chgrp(call *shell.Call) ([]Step, error) {
	return k.give(call, func(text string) (string, bool) {
		m := groupText().FindStringSubmatch(":" + text)
		return ":" + number(strings.TrimPrefix(text, ":")), m != nil
	})
}

var (
	ownerText = lazy.Regexp(`^(\d{1,10}|root)(?:[:.](\d{1,10}|root))?$|^(` + idPattern + `)(?::(` + idPattern + `))?$`)
	groupText = lazy.Regexp(`^:(` + idPattern + `)$`)
	nameText  = lazy.Regexp(`[A-Za-z_]`)
)

// idPattern matches a number, or the name of a user or a group, without the dot that some versions of chown read as a
// colon.
const idPattern = `\d{1,10}|[A-Za-z_][A-Za-z0-9_-]*`

func number(text string) string {
	if text == "root" {
		return "0"
	}
	return text
}

func owned2(group string) string {
	if group == "" {
		return ""
	}
	return ":" + number(group)
}

// give is chown and chgrp. A name stands for the number that the image gives it, except root: the step runs there.
func (k *files) give(call *shell.Call, parse func(string) (string, bool)) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	o, words, err := readOptions(call.Args, chownFlags)
	if err != nil {
		return nil, err
	}
	if len(words) < 2 {
		return nil, &shell.Error{Word: call.Name, Why: "too few arguments"}
	}
	text, ok := known(words[0], k.c)
	owner, valid := parse(text)
	switch {
	case !ok:
		return nil, stop(words[0], "an owner that is not in the manifest")
	case !valid, owner == "auto": // which prepare reads as the user that runs it
		return nil, stop(words[0], "neither the number nor the name of an owner")
	}
	all, err := k.placesOf(words[1:], call)
	if err != nil {
		return nil, err
	}
	steps, err := k.each(k.changing(all, o.has("R")), func(p location, s *Step) (string, error) {
		s.AsRoot = true
		s.Inside = s.Inside || nameText().MatchString(owner)
		if err := k.clearsSetid(p, o.has("R")); err != nil {
			return "", err
		}
		s.Why = "prepare changes the owner where it differs"
		if user, group, both := strings.Cut(owner, ":"); o.has("R") && both && user != "" && group != "" && p.pattern == "" {
			s.owns = append(s.owns, p.value)
		}
		return k.change(p, s, "owner="+owner, o.has("R"))
	})
	return steps, err
}

// change returns the argument of prepare that changes what exists: its owner or mode.
func (k *files) change(p location, s *Step, setting string, recursive bool) (string, error) {
	if p.pattern != "" {
		return k.changeMatching(p, s, setting, recursive)
	}
	below := ""
	if recursive {
		below = "&recursive"
		for _, m := range k.c.VolumeMounts {
			if at, err := k.place(shell.Word{{Text: m.MountPath}}, &shell.Call{}); err == nil && at.value != p.value && within(p.value, at.value) && k.writable(at) != nil {
				s.differs(noFailure + "the volume " + at.value + " is mounted read-only, and it stays as it is")
			}
		}
	}
	k.gives(p, recursive)
	what := k.kind(p)
	_, made := k.kinds[p.value]
	switch {
	case what == directory && !made && !p.root(): // by its slash
		s.differs(noFailure + p.value + " does not exist")
		return p.text + "#" + setting + below + "&if-exists", nil
	case what == directory:
		return p.text + "#" + setting + below, nil
	case what == file && made:
		return p.text + "#file&" + setting + "&if-exists", nil
	case what == file, what == unknown: // which may be missing
		return p.text + "#any-kind&" + setting + below, nil
	}
	return "", stop(p.word, "a link, or what an earlier command has removed")
}

// setsID records that a mode has setuid or setgid bits. Chown does not clear those of a directory.
func (k *files) setsID(p location, mode string, recursive bool) {
	mode = strings.TrimPrefix(mode, "mode=")
	octal, err := strconv.ParseUint(mode, 8, 32)
	if bits := err == nil && octal&0o6000 != 0 || err != nil && strings.Contains(mode, "s"); bits && (recursive || p.pattern != "" || k.kind(p) != directory) {
		k.setid[p.value] = k.setid[p.value] || recursive || p.pattern != ""
	}
}

// clearsSetid returns an error for a chown that clears setuid and setgid bits which an earlier command has set: prepare
// keeps them.
func (k *files) clearsSetid(p location, recursive bool) error {
	for name, below := range k.setid {
		if name == p.value || (recursive || p.pattern != "") && within(p.value, name) || below && within(name, p.value) {
			return stop(p.word, "chown clears the setuid and setgid bits that an earlier command has set")
		}
	}
	return nil
}

// gives records that a step gives a path, or what is below it, another mode or owner, which a later command that writes
// to the file keeps.
func (k *files) gives(p location, recursive bool) {
	if k.kind(p) != directory {
		k.given[p.value] = true
	}
	for name, what := range k.kinds {
		if recursive && what == file && within(p.value, name) {
			k.given[name] = true
		}
	}
}

// changeMatching changes what matches a pattern, such as *.key, directly in a directory that has nothing but files
// which an earlier step has copied there.
func (k *files) changeMatching(p location, s *Step, setting string, recursive bool) (string, error) {
	if k.flat[p.value] && !recursive && p.fresh() && p.root() {
		for _, name := range visible(p.pattern) {
			setting += "&name=" + escapeValue(name)
		}
		k.given[p.value+"/*"] = true
		s.differs(noFailure+"no file matches "+p.value+"/"+p.pattern, "files below "+p.value+" that match "+p.pattern+" are changed, too")
		return p.text + "#children&" + setting, nil
	}
	if p.pattern == "*" && recursive && k.kind(p) == directory {
		k.gives(p, true)
		s.differs(noFailure+"there is nothing in "+p.value, "what has a name that begins with a dot in "+p.value+" is changed, too")
		if strings.Contains(setting, "mode=") {
			s.differs("what a symbolic link in " + p.value + " leads to is not changed")
		}
		return p.text + "#children&" + setting, nil
	}
	return "", noPattern(p)
}

func (k *files) chmod(call *shell.Call) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	words := call.Args
	const flags = "R recursive; v verbose; c changes; f silent; quiet; preserve-root"
	var mode []shell.Word
	for i, w := range words { // -x and -w are modes, and not flags
		if text, ok := w.Literal(); ok && len(text) > 1 && text[0] == '-' && strings.Trim(text[1:], "rwxXst,+-=ugoa") == "" {
			mode, words = words[i:i+1], append(append([]shell.Word{}, words[:i]...), words[i+1:]...)
			break
		}
	}
	o, words, err := readOptions(words, flags)
	if err != nil {
		return nil, err
	}
	words = append(mode, words...)
	if len(words) < 2 {
		return nil, &shell.Error{Word: "chmod", Why: "too few arguments"}
	}
	if text, _ := words[0].Literal(); k.busybox() && ownOfBusybox().MatchString(text) {
		return nil, stop(words[0], "a mode that BusyBox reads in its own way")
	}
	setting, err := modeSetting(words[0])
	if err != nil {
		return nil, err
	}
	all, err := k.placesOf(words[1:], call)
	if err != nil {
		return nil, err
	}
	if d := k.downloads[all[0].value]; d != nil && len(all) == 1 && !d.used {
		k.gives(all[0], false)
		k.setsID(all[0], setting, false)
		d.settings = append(slices.DeleteFunc(d.settings, func(s string) bool { return strings.HasPrefix(s, "mode=") }), setting)
		return nil, nil
	}
	return k.each(k.changing(all, o.has("R")), func(p location, s *Step) (string, error) {
		s.Why = "prepare changes the mode where it differs"
		k.setsID(p, setting, o.has("R"))
		mode := setting
		if directories := o.has("R") || p.pattern != "" || k.kind(p) != file; directories && k.clearsSetgid(p) {
			if octal, ok := strings.CutPrefix(setting, "mode=0"); ok && len(octal) == 3 {
				mode = "mode=00" + octal
			} else if setsGroup().MatchString(setting) {
				mode += ",g-s"
			}
		}
		if k.busybox() && setsOthers().MatchString(setting) {
			s.differs("a sticky bit is cleared, which the chmod of BusyBox keeps")
		}
		return k.change(p, s, mode, o.has("R"))
	})
}

// modeSetting returns the setting of a mode as chmod reads it, with a umask of 022.
func modeSetting(w shell.Word) (string, error) {
	text, ok := w.Literal()
	switch {
	case !ok:
		return "", stop(w, "a mode that is not a plain text")
	case text != "" && strings.Trim(text, "01234567") == "":
		text = strings.TrimLeft(text, "0")
		if len(text) > 4 {
			return "", stop(w, "not a mode")
		}
		if all, _ := w.Literal(); len(all) > 4 { // which also clears the setuid and setgid bits of directories
			return "mode=0" + strings.Repeat("0", 4-len(text)) + text, nil
		}
		text = strings.Repeat("0", 3-min(3, len(text))) + text
		if len(text) == 3 {
			text = "0" + text
		}
		return "mode=" + text, nil
	}
	var parts []string
	for _, part := range strings.Split(text, ",") {
		m := modePart().FindStringSubmatch(part)
		switch {
		case m == nil:
			return "", stop(w, "a mode that is not understood")
		case m[1] != "", m[4] != "":
			parts = append(parts, part)
		case m[2] == "+" && strings.Contains(m[3], "w") && strings.Trim(m[3], "rwxX") == "":
			if rest := strings.ReplaceAll(m[3], "w", ""); rest != "" {
				parts = append(parts, "a+"+rest)
			}
			parts = append(parts, "u+w")
		case strings.Trim(m[3], "rxX") == "" && m[2] != "=":
			parts = append(parts, "a"+part)
		default:
			return "", stop(w, "a mode that depends on the umask")
		}
	}
	return "mode=" + strings.Join(parts, ","), nil
}

var modePart = lazy.Regexp(`^([ugoa]*)([-+=])([rwxXst]+|[ugo])$|^([ugoa]+)=$`)

// setsGroup and setsOthers match a mode that says all that a group may, or all others. ownOfBusybox matches one in
// which BusyBox looks at the mode when it has cleared a part of it, and one with a sticky bit for some.
var (
	setsGroup    = lazy.Regexp(`[=,][uo]*[ga][ugoa]*=`)
	setsOthers   = lazy.Regexp(`[=,][ug]*[oa][ugoa]*=`)
	ownOfBusybox = lazy.Regexp(`=[^,]*[Xst]|=.*s|[ugoa][-+][^,]*t`)
)

func (k *files) touch(call *shell.Call) ([]Step, error) {
	_, all, err := k.places(call, "", 1)
	if err != nil {
		return nil, err
	}
	return k.each(all, func(p location, s *Step) (string, error) {
		s.Why = "prepare makes an empty file"
		s.differs(k.parentNote(p)...)
		if err := k.noLink(p); err != nil {
			return "", err
		}
		if p.pattern != "" || k.kind(p) == directory {
			return "", stop(p.word, "a directory or a pattern, whose time would be set")
		}
		if k.kind(p) != file {
			s.differs("the time of " + p.value + " is not changed if it exists, and it must be a file")
		}
		k.made(p, file)
		return p.text + "#file", nil
	})
}

func (k *files) rm(call *shell.Call) ([]Step, error) {
	o, all, err := k.places(call, "f force; r R recursive; v verbose; preserve-root", 1)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, p := range all {
		if d := k.downloads[p.value]; d != nil && p.pattern == "" && !d.removed {
			d.removed = true
			k.made(p, absent)
			continue
		}
		if k.stores[p.value].key != nil && p.mount == nil && p.pattern == "" {
			k.made(p, absent)
			k.unread = nil
			continue
		}
		if len(k.left([]location{p}, absent)) == 0 {
			continue
		}
		s, err := k.remove(p, o.has("r"), o.has("f") || k.mayFail)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// remove returns the step that removes what a place names.
func (k *files) remove(p location, recursive, force bool) (s Step, err error) {
	if p.pattern == "" {
		s, err = k.removeOne(p, recursive, force)
	} else {
		s, err = k.removeMatching(p, recursive, force)
	}
	if err != nil {
		return s, err
	}
	s.Subcommand, s.Writes = "prepare", true
	s.differs(k.linkNote(p)...)
	return s, nil
}

func (k *files) removeOne(p location, recursive, force bool) (Step, error) {
	s := Step{Args: []string{p.text + "#absent"}, Why: "prepare removes it, if it exists"}
	what := k.kind(p)
	assumed := k.guarded == p.value && k.assumed && what == file
	if !recursive && what == unknown || assumed { // a directory has to stay
		s.Args[0] += "=file"
	}
	switch err := k.writable(p); {
	case err != nil:
		return s, err
	case p.root(), k.mountsIn(p):
		return s, stop(p.word, "a volume is mounted there, or below it, which rm cannot remove")
	case p.slash:
		return s, stop(p.word, "rm of a path with a slash at its end")
	case k.clones[path.Dir(p.value)] && path.Base(p.value) == ".git":
		return s, stop(p.word, "the repository of a clone, without which git-clone takes the directory for another one at a second run")
	case !force && what == unknown && k.guarded != p.value:
		return s, stop(p.word, "rm without -f fails if it does not exist, and the script may depend on that")
	case !recursive && what == directory:
		return s, stop(p.word, "a directory, which rm without -r does not remove")
	case !recursive && what == unknown:
		s.differs(noFailure + p.value + " is a directory, which stays")
	}
	k.made(p, absent)
	return s, nil
}

// removeMatching removes what matches a pattern in a directory.
func (k *files) removeMatching(p location, recursive, force bool) (Step, error) {
	s := Step{Why: "prepare removes what matches in the directory"}
	switch err := cmp.Or(k.writable(p), k.noLink(p)); {
	case err != nil:
		return s, err
	case !force:
		return s, stop(p.word, "rm without -f fails if nothing matches, and the script may depend on that")
	case k.mountsIn(p) && strings.ContainsAny(p.pattern, `*?[`):
		return s, stop(p.word, "volumes are mounted below it, whose files rm would remove")
	case k.kind(p) == file:
		return s, stop(p.word, "a pattern below a file, which is not a directory")
	case k.clones[p.value] && recursive && strings.HasPrefix(p.pattern, "."):
		return s, stop(p.word, "the repository of a clone, without which git-clone takes the directory for another one at a second run")
	}
	names := visible(p.pattern)
	if names == nil {
		return s, stop(p.word, "a pattern that is not understood")
	}
	text := p.text + "#empty"
	if k.kinds[p.value] != directory && !p.root() {
		text += "&if-exists"
	}
	if k.kind(p) == unknown {
		s.differs("it is " + k.anError() + " if " + p.value + " is a file")
	}
	for _, name := range names {
		text += "&name=" + escapeValue(name)
	}
	if !recursive { // directories stay
		text += "&older-than=0"
		s.differs(noFailure + "a directory matches, which stays")
	}
	s.Args = []string{text}
	s.Flags = []Flag{{"force", ""}}
	if !p.root() {
		s.Flags = nil
	}
	if strings.ContainsAny(p.pattern, `*?[`) || p.pattern == "lost+found" || p.pattern == ".snapshot" {
		s.differs("lost+found and .snapshot stay in " + p.value)
	}
	k.emptied(p)
	return s, nil
}

// visible returns the patterns of prepare, for which a leading dot is no different, that match what a pattern of the
// shell does. It returns nil for one that it does not know.
func visible(pattern string) []string {
	rest, star := strings.CutPrefix(pattern, "*")
	switch {
	case strings.ContainsAny(rest, "[]") || strings.HasPrefix(pattern, "?") || star && strings.HasPrefix(rest, "?"):
		if pattern == ".[!.]*" || pattern == ".[^.]*" {
			return []string{".[^.]*"}
		}
		if pattern == "..?*" {
			return []string{"..?*"}
		}
		return nil
	case pattern == "..?*":
		return []string{"..?*"}
	case strings.HasPrefix(pattern, "."):
		if strings.HasPrefix(pattern, ".*") {
			return nil // . and .., in some shells
		}
		return []string{pattern}
	case !star:
		return []string{pattern}
	case strings.HasPrefix(rest, "*"):
		return nil
	case rest == "", rest[0] == '.':
		return []string{"[^.]*" + rest}
	}
	return []string{rest, "[^.]*" + rest}
}

func (k *files) ln(call *shell.Call) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	o, words, err := readOptions(call.Args, "s symbolic; f force; n no-dereference; T no-target-directory; v verbose")
	switch {
	case err != nil:
		return nil, err
	case !o.has("s"):
		return nil, &shell.Error{Word: "ln", Why: "a hard link"}
	case len(words) != 2:
		return nil, &shell.Error{Word: "ln", Why: "want one target and one link"}
	}
	target, err := arg(words[0], k.c)
	if err != nil {
		return nil, err
	}
	all, err := k.placesOf(words[1:], call)
	if err != nil {
		return nil, err
	}
	return k.each(all, func(p location, s *Step) (string, error) {
		s.Why = "prepare makes the link, or gives it another target"
		s.differs(k.parentNote(p)...)
		text := p.text
		into := k.kind(p) == directory && !o.has("T")
		switch {
		case p.pattern != "", k.kind(p) == file && !o.has("f"):
			return "", stop(p.word, "something else is there")
		case into:
			value, ok := known(words[0], k.c)
			if base := path.Base(value); !ok || strings.ContainsAny(base, "#%{}:") || base == "." || base == "/" || base == ".." {
				return "", stop(words[0], "a target whose name is not known")
			}
			text += "/" + path.Base(value)
			p.value += "/" + path.Base(value)
		}
		switch known := k.kinds[p.value]; {
		case known == link || known == absent:
		case !p.fresh() && !o.has("f"):
			return "", stop(p.word, "ln without -f fails if the link is there from an earlier run, and the script may depend on that")
		case !p.fresh() && !into && !o.has("n") && !o.has("T"):
			return "", stop(p.word, "if it is a directory, the link would be made in it; -n or -T makes sure")
		}
		s.differs("a file or a directory at " + p.value + " is not replaced, but " + k.anError())
		k.made(p, link)
		return text + "#link=" + escapeTarget(target), nil
	})
}

// escapeTarget escapes the target of a link, in which the variables of the container stand.
func escapeTarget(text string) string { return escapeValue(text) }

// readOptions reads the flags of a call, and returns its other words, too.
func readOptions(words []shell.Word, known string) (given, []shell.Word, error) {
	g, err := optionsOf(known).read(words)
	return g, g.args, err
}
