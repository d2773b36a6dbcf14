package convert

import (
	"path"
	"slices"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/internal/lazy"
)

// search is what find looks for, and what it does with that.
type search struct {
	dirs    []shell.Word
	below   bool   // -mindepth 1: not the directory itself
	shallow bool   // -maxdepth 1
	oneDisk bool   // -xdev
	kind    string // f or d: -type
	name    string // -name
	exclude string // ! -name, as settings
	not     []test // ! -user, ! -group and ! -perm
	tested  shell.Word

	change  []shell.Word // the command that is called for what it finds
	delete  bool
	single  bool // -exec … ;, whose failure changes nothing
	unquote bool // the names go through xargs, which splits them at white space
}

type test struct {
	name string
	word shell.Word
}

// readFind reads the words of find and, behind a pipe, of xargs.
func readFind(call *shell.Call) (s search, err error) {
	words := call.Args
	for len(words) > 0 && !strings.HasPrefix(leading(words[0]), "-") && leading(words[0]) != "!" {
		s.dirs, words = append(s.dirs, words[0]), words[1:]
	}
	zero := false
	for len(words) > 0 && s.change == nil && !s.delete {
		n := s.read(words)
		if n == 0 {
			return s, stop(words[0], "a test or an action of find that prepare does not know")
		}
		zero = zero || leading(words[0]) == "-print0"
		words = words[n:]
	}
	if pipe := call.Pipe; pipe != nil && pipe.Name == "xargs" && s.change == nil && !s.delete {
		s.unquote = !zero
		for s.change = pipe.Args; len(s.change) > 0 && slices.Contains([]string{"-r", "-0", "-0r", "-r0", "--no-run-if-empty", "-t"}, leading(s.change[0])); {
			s.change = s.change[1:]
		}
	}
	if len(words) > 0 {
		return s, stop(words[0], "a test or an action of find behind another action")
	}
	if len(s.dirs) != 1 || len(s.change) == 0 && !s.delete {
		return s, &shell.Error{Word: "find", Why: "not chown, chmod or rm of what is in one directory"}
	}
	return s, nil
}

// read reads a test or an action, and returns of how many words that is; 0 if it is not known.
func (s *search) read(words []shell.Word) int {
	text := func(i int) string {
		if i < len(words) {
			if text, ok := words[i].Literal(); ok {
				return text
			}
		}
		return ""
	}
	name, value := text(0), text(1)
	if name == "!" || name == "-not" {
		switch of := text(2); {
		case value == "-name" && plainPattern().MatchString(of):
			s.exclude += "&exclude=" + of
		case (value == "-user" || value == "-group" || value == "-perm") && of != "":
			s.not = append(s.not, test{value, words[2]})
		default:
			return 0
		}
		s.tested = words[1]
		return 3
	}
	switch {
	case name == "-mindepth" && value == "1":
		s.below = true
	case name == "-maxdepth" && value == "1":
		s.shallow = true
	case name == "-type" && (value == "f" || value == "d") && s.kind == "":
		s.kind, s.tested = value, words[0]
	case name == "-name" && plainPattern().MatchString(value) && s.name == "":
		s.name, s.tested = value, words[0]
	case name == "-xdev" || name == "-mount":
		s.oneDisk = true
		return 1
	case name == "-print0" || name == "-print" || name == "-depth":
		return 1
	case name == "-delete":
		s.delete = true
		return 1
	case name == "-exec" && len(words) > 3:
		if end := text(len(words) - 1); text(len(words)-2) == "{}" && (end == ";" || end == "+") {
			s.change, s.single = words[1:len(words)-2], end == ";"
			return len(words)
		}
		return 0
	default:
		return 0
	}
	return 2
}

var plainPattern = lazy.Regexp(`^[A-Za-z0-9._+*?-]+$`)

// find changes the owner or mode of what it finds, or removes that.
func (k *files) find(call *shell.Call) ([]Step, error) {
	s, err := readFind(call)
	if err != nil {
		return nil, err
	}
	p, err := k.place(s.dirs[0], call)
	switch {
	case err != nil:
		return nil, err
	case p.pattern != "":
		return nil, noPattern(p)
	case k.kinds[p.value] == link:
		return nil, stop(p.word, "a link, which find does not follow")
	case s.oneDisk && k.mountsIn(p):
		return nil, stop(p.word, "volumes are mounted below it, which prepare does not leave out")
	}
	var steps []Step
	if s.delete || leading(s.change[0]) == "rm" {
		steps, err = k.findRemove(p, s)
	} else {
		steps, err = k.findChange(p, s, call)
	}
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	if s.single && !k.mayFail {
		steps[0].differs("if it fails for one file, the container fails; find -exec with ; goes on and succeeds")
	}
	if s.unquote {
		steps[0].differs("a name with white space is one name, and not several")
	}
	if s.exclude != "" {
		steps[0].differs("what has a name that find leaves out is left out at any depth")
	}
	return steps, nil
}

// findRemove returns the step that removes what find does.
func (k *files) findRemove(p location, s search) ([]Step, error) {
	recursive := false
	if !s.delete {
		o, words, err := readOptions(s.change[1:], "f force; r R recursive; v verbose")
		if err != nil {
			return nil, err
		}
		if len(words) > 0 {
			return nil, stop(words[0], "more than what find has found")
		}
		recursive = o.has("r")
	}
	step := Step{Subcommand: "prepare", Writes: true, Why: "prepare removes the same files"}
	text := p.text + "#empty"
	if k.kinds[p.value] != directory && !p.root() {
		step.differs(noFailure + p.value + " does not exist")
		text += "&if-exists"
	}
	switch err := k.writable(p); {
	case err != nil:
		return nil, err
	case len(s.not) > 0, s.kind == "d":
		return nil, stop(s.tested, "a test that prepare does not know where it removes files")
	case k.kind(p) == file:
		return nil, stop(p.word, "a file")
	case k.mountsIn(p):
		return nil, stop(p.word, "volumes are mounted below it, whose files find would remove")
	case s.kind == "f":
		return nil, &shell.Error{Word: "-type f", Why: "prepare would remove links, sockets and pipes, too"}
	case s.below && s.shallow && recursive:
	case s.below && !s.shallow && (s.delete || k.mayFail && recursive) && s.name == "" && s.exclude == "":
	default:
		return nil, &shell.Error{Word: "find", Why: "it may remove the directory itself, or only directories that are empty"}
	}
	if s.name != "" {
		text += "&name=" + s.name
	}
	step.Args = []string{text + s.exclude}
	if p.root() {
		step.Flags = []Flag{{"force", ""}}
	}
	step.differs("lost+found and .snapshot stay in " + p.value)
	step.differs(k.linkNote(p)...)
	k.emptied(p)
	return []Step{step}, nil
}

// emptied forgets what is known of what is in a directory.
func (k *files) emptied(p location) {
	for below := range k.kinds {
		if below != p.value && within(p.value, below) {
			delete(k.kinds, below)
		}
	}
}

// findChange returns the step for the command that find calls for each file.
func (k *files) findChange(p location, s search, call *shell.Call) ([]Step, error) {
	name := leading(s.change[0])
	give, known := map[string]fileCommand{"chown": (*files).chown, "chgrp": (*files).chgrp, "chmod": (*files).chmod}[name]
	if !known {
		return nil, stop(s.change[0], "not chown, chmod or rm")
	}
	g, words, err := readOptions(s.change[1:], chownFlags)
	switch {
	case err != nil:
		return nil, err
	case len(words) != 1:
		return nil, &shell.Error{Word: name, Why: "not called with one owner or mode"}
	case s.shallow && !g.has("R"), (s.exclude != "" || s.name != "") && s.shallow != g.has("R"), s.shallow && s.name != "":
		return nil, &shell.Error{Word: "find", Why: "what is changed only directly in the directory, or at any depth but for a name"}
	case !g.has("R") && strings.ReplaceAll(s.exclude, "&exclude=lost+found", "") != "":
		return nil, stop(s.tested, "find goes on below what has this name, and prepare leaves that out, too")
	case s.kind != "" && (name != "chmod" || g.has("R")):
		return nil, stop(s.tested, "a test that prepare does not know where it changes files")
	case k.kind(p) != directory:
		return nil, stop(p.word, "whether it is a directory is not known")
	}
	if matches, err := path.Match(s.name, path.Base(p.value)); s.name != "" && (err != nil || matches) {
		return nil, stop(s.tested, "a pattern that the directory itself may match")
	}
	inner := &shell.Call{Pos: call.Pos, Name: name, Args: append([]shell.Word{{{Text: "-R"}}}, append(slices.Clone(s.change[1:]), p.word)...), Dir: call.Dir, Umask: call.Umask}
	steps, err := give(k, inner)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	step := &steps[0]
	for _, t := range s.not {
		if err := t.same(name, words[0], step); err != nil {
			return nil, err
		}
	}
	if s.kind != "" {
		if s.kind == "f" { // which has no setgid bit to clear
			step.Args[0] = strings.Replace(step.Args[0], "#mode=00", "#mode=0", 1)
		}
		step.Args[0] = strings.Replace(step.Args[0], "#mode=", map[string]string{"f": "#file-mode=", "d": "#dir-mode="}[s.kind], 1)
	}
	switch {
	case s.kind == "f":
		step.differs("sockets and pipes are changed, too, and not only regular files")
	case s.kind == "" && !g.has("R") && !g.has("h"):
		step.differs("what a symbolic link leads to is not changed, unless that is found, too")
		if name != "chmod" {
			step.differs("the owner of a symbolic link itself is changed")
		}
	}
	if s.below {
		step.Args[0] = strings.Replace(step.Args[0], "&recursive", "&children", 1)
	}
	if s.name != "" {
		step.Args[0] += "&name=" + s.name
	}
	if step.Args[0] += s.exclude; s.below || s.exclude != "" || s.name != "" || len(s.not) > 0 {
		step.owns = nil
	}
	return steps, nil
}

// same returns an error unless a test leaves out what chown or chmod would not change anyway.
func (t test) same(command string, to shell.Word, s *Step) error {
	want, text := t.word.String(), to.String()
	user, group, both := strings.Cut(text, ":")
	if command == "chgrp" {
		user, group = "", text
	}
	switch {
	case command == "chmod" && t.name == "-perm" && text != "" && strings.Trim(text, "01234567") == "" && strings.TrimLeft(want, "0") == strings.TrimLeft(text, "0"):
		return nil
	case command != "chmod" && t.name == "-user" && number(want) == number(user), command != "chmod" && t.name == "-group" && number(want) == number(group):
		if both && user != "" {
			s.differs("what has only one of user and group right is changed, too, where find leaves it out")
		}
		return nil
	}
	return stop(t.word, "a test that prepare does not know")
}
