package convert

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

// prints returns the command of a program that prints: to the log, which is left out, or into a file, which f does.
func prints(f fileCommand) command {
	return func(call *shell.Call, c *manifest.Container) ([]Step, error) {
		intoFile := call.Stdout != nil && call.Stdout.File != nil
		switch {
		case call.Pipe == nil && !intoFile && showsFiles[call.Name]:
			return deferred((*files).show)(call, c)
		case call.Pipe == nil && !intoFile:
			return nil, nil
		case f == nil && intoFile:
			return nil, stop(call.Stdout.File, "what "+call.Name+" prints, in a file")
		case f == nil:
			return nil, &shell.Error{Pos: call.Pos, Word: call.Name + " |", Why: "what it prints is used"}
		}
		return deferred(f)(call, c)
	}
}

// showsFiles are the programs that print what is known of files, and fail if there is none.
var showsFiles = set("ls stat du cat")

// show leaves a call out that prints what certainly exists.
func (k *files) show(call *shell.Call) ([]Step, error) {
	for _, w := range call.Args {
		if strings.HasPrefix(leading(w), "-") {
			continue
		}
		p, err := k.place(w, call)
		if err != nil {
			return nil, err
		}
		if what := k.kinds[p.value]; p.pattern != "" || !p.root() && (what == unknown || what == absent) {
			return nil, stop(w, call.Name+" fails if it does not exist, and the script may depend on that")
		}
	}
	return nil, nil
}

// output is where what a call prints goes.
func (k *files) output(call *shell.Call) (p location, appended bool, err error) {
	switch {
	case call.Pipe != nil && call.Pipe.Name == "tee" && call.Stdout == nil && call.Pipe.Pipe == nil:
		o, words, err := readOptions(call.Pipe.Args, "a append")
		if err != nil || len(words) != 1 {
			return p, false, &shell.Error{Word: "tee", Why: "not one file"}
		}
		p, err = k.place(words[0], call)
		return p, o.has("a"), err
	case call.Pipe != nil:
		return p, false, &shell.Error{Word: call.Name + " | " + call.Pipe.Name, Why: "what it prints is used"}
	case call.Stdout == nil || call.Stdout.File == nil:
		return p, false, &shell.Error{Word: call.Name, Why: "without a file to write to"}
	}
	p, err = k.place(call.Stdout.File, call)
	return p, call.Stdout.Append, err
}

// write writes the text of echo, printf and : to a file, or the value of a parameter of the kernel.
func (k *files) write(call *shell.Call) ([]Step, error) {
	if call.Pipe != nil && strings.HasPrefix(call.Pipe.Name, "sha") {
		return k.checksum(call)
	}
	text, err := k.printed(call)
	if err != nil {
		return nil, err
	}
	if target := call.Stdout; target != nil && call.Pipe == nil {
		if name, ok := target.File.Literal(); ok && (strings.HasPrefix(name, "/proc/sys/") || strings.HasPrefix(name, "/sys/")) {
			return writeParameter(name, text, target.File)
		}
	}
	p, appended, err := k.output(call)
	if err != nil {
		return nil, err
	}
	if p.volume != nil && p.kernels() && p.value != "/" && !appended {
		return writeParameter(p.text, text, p.word)
	}
	return k.writeText(call, p, text, appended)
}

// printed is the template of what a call prints.
func (k *files) printed(call *shell.Call) (template, error) {
	switch {
	case call.Name == "echo":
		return k.echo(call)
	case call.Name == "printf":
		return k.printf(call)
	case len(call.Args) > 0:
		return template{}, &shell.Error{Word: call.Name, Why: "with arguments"}
	}
	return template{}, nil
}

// template is a text for render, and the variables from Secrets and the directory with files that it has.
type template struct {
	text    string
	secrets []string
	files   string
	differs []string
}

func (t *template) add(other template) {
	if strings.HasSuffix(t.text, "{") && strings.HasPrefix(other.text, "{") {
		t.text = strings.TrimSuffix(t.text, "{") + `{{ "{" }}`
	}
	t.text += other.text
	t.secrets = append(t.secrets, other.secrets...)
	t.files = cmp.Or(t.files, other.files)
	t.differs = append(t.differs, other.differs...)
}

// literal is the template of a text.
func literal(text string) template {
	return template{text: escape(strings.ReplaceAll(text, "{{", `{{ "{{" }}`), false)}
}

// template returns that of a word. What the shell would still split or expand is an error.
func (k *files) template(w shell.Word) (template, error) {
	var t template
	for _, p := range w {
		if p.Glob {
			return t, stop(w, "a pattern")
		}
		if p.Env == "" {
			t.add(literal(p.Text))
			continue
		}
		if file, found := strings.CutPrefix(p.Env, shell.FileText); found {
			if err := k.textOf(file, p, w, &t); err != nil {
				return t, err
			}
			continue
		}
		v := lookup(p.Env, k.c)
		fallback, plain := "", true
		if p.Default != nil {
			fallback, plain = p.Default.Literal()
		}
		empty := v.origin == nowhere || v.origin == inManifest && v.value == ""
		switch {
		case !plain:
			return t, stop(w, "a default that is not a plain text")
		case v.origin == uncertain:
			return t, stop(w, "the variable "+p.Env+": "+v.why)
		case p.Default != nil && empty:
			t.add(literal(fallback))
			continue
		case v.origin == nowhere:
			return t, stop(w, "the variable "+p.Env+" is not set")
		case !shellName().MatchString(p.Env):
			return t, stop(w, "the name of the variable")
		case p.Split && v.origin == inManifest && strings.ContainsAny(v.value, " \t\n*?[\\"), p.Split && v.origin == uncertain:
			return t, stop(w, "the value of "+p.Env+", without quotes, is not known to be one word")
		}
		action := template{text: "{{ .Env." + p.Env + " }}"}
		if p.Default != nil {
			action.text = "{{ .Env." + p.Env + " | default " + strconv.Quote(fallback) + " }}"
		}
		if v.origin == inSecret {
			action.secrets = []string{p.Env}
		}
		t.add(action)
	}
	return t, nil
}

// textOf adds what $(cat FILE) prints, if FILE is one that only the kubelet writes, or that generate has made.
func (k *files) textOf(file string, part shell.Part, w shell.Word, t *template) error {
	file, joined := strings.CutSuffix(file, shell.Joined)
	from, err := k.place(shell.Word{{Text: file}}, &shell.Call{})
	text, dir := "(.Files.Get "+strconv.Quote(path.Base(from.value))+")", path.Dir(from.value)
	switch {
	case err != nil:
		return err
	case part.Split:
		return stop(w, "what is in a file, without quotes, is not known to be one word")
	case t.files != "" && t.files != dir:
		return stop(w, "a file of a second directory")
	case k.generated[from.value] && !joined:
		t.add(template{text: "{{ regexReplaceAll `\\n+\\z` " + text + " `` }}", files: dir})
		return nil
	case !from.flat() && !(from.projected() && from.root()), from.root() != (from.mount.SubPath != ""), dir == "/":
		return stop(w, "not a file that is mounted from a ConfigMap or a Secret")
	case joined:
		text = "{{ " + text + ` | trimSuffix "\n" | replace "\n" "\\n" }}`
	default:
		text = "{{ regexReplaceAll `\\n+\\z` " + text + " `` }}"
	}
	t.add(template{text: text, files: dir, differs: []string{"the container fails if " + from.value + " is missing, where the text would be empty"}})
	return nil
}

var shellName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// echo is its words, with a space between them. Shells differ about a backslash, and about -e.
func (k *files) echo(call *shell.Call) (template, error) {
	words := call.Args
	end := "\n"
	if len(words) > 0 {
		if text, ok := words[0].Literal(); ok && text == "-n" {
			words, end = words[1:], ""
		} else if ok && strings.HasPrefix(text, "-") && strings.Trim(text[1:], "neE") == "" && text != "-" {
			return template{}, stop(words[0], "a flag that shells understand differently")
		}
	}
	var all template
	for i, w := range words {
		if i > 0 {
			all.add(literal(" "))
		}
		t, err := k.template(w)
		if err != nil {
			return t, err
		}
		for n, p := range w {
			v := lookup(p.Env, k.c)
			switch {
			case n == 0 && p.Env != "" && v.origin == inManifest && strings.HasPrefix(v.value, "-"):
				return t, stop(w, "a value that echo may take for a flag")
			case p.Env == "" && strings.Contains(p.Text, `\`), p.Env != "" && v.origin == inManifest && strings.Contains(v.value, `\`):
				return t, stop(w, "a backslash, which shells understand differently")
			case strings.HasPrefix(p.Env, shell.FileText):
				t.differs = append(t.differs, "a backslash in what $("+p.Env+") prints stays as it is, whatever the echo of the image makes of it")
			case p.Env != "" && (v.origin == inSecret || v.origin == inConfigMap):
				t.differs = append(t.differs, "a backslash in the value of "+p.Env+" stays as it is, and so does a value such as -n, whatever the echo of the image makes of it")
			}
		}
		all.add(t)
	}
	all.add(literal(end))
	return all, nil
}

// printf knows %s and %%, and the escapes \n, \t, \" and \\.
func (k *files) printf(call *shell.Call) (template, error) {
	words := call.Args
	if len(words) > 0 {
		if text, ok := words[0].Literal(); ok && text == "--" {
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return template{}, &shell.Error{Word: "printf", Why: "too few arguments"}
	}
	format, ok := words[0].Literal()
	if !ok || strings.HasPrefix(format, "-") {
		return template{}, stop(words[0], "a format that is not a plain text")
	}
	var all template
	values := words[1:]
	for i := 0; i < len(format); i++ {
		two := format[i:min(i+2, len(format))]
		if plain, ok := printfEscapes[two]; ok {
			all.add(literal(plain))
			i++
			continue
		}
		switch {
		case two == "%s" && len(values) > 0:
			t, err := k.template(values[0])
			if err != nil {
				return t, err
			}
			all.add(t)
			values = values[1:]
			i++
		case format[i] == '%' || format[i] == '\\':
			return all, stop(words[0], "a format that is not understood")
		default:
			all.add(literal(format[i : i+1]))
		}
	}
	if len(values) > 0 {
		return all, stop(values[0], "more arguments than the format has places")
	}
	return all, nil
}

var printfEscapes = map[string]string{`\n`: "\n", `\t`: "\t", `\\`: `\`, `\"`: `"`, "%%": "%"}

// writeText returns the step that writes a text to a file, or adds it to the one that a step before writes.
func (k *files) writeText(call *shell.Call, p location, t template, appended bool) ([]Step, error) {
	switch err := cmp.Or(k.writable(p), k.noLink(p)); {
	case err != nil:
		return nil, err
	case p.pattern != "" || p.slash || k.kind(p) == directory:
		return nil, stop(p.word, "not the name of a file")
	case strings.ContainsAny(p.value, "#%="):
		return nil, stop(p.word, "a character that would have another meaning in initbox's arguments")
	case strings.ContainsRune(t.text, 0):
		return nil, stop(p.word, "a text with a null byte")
	case appended && strings.TrimSpace(t.text) == "" && k.joinsCertificates(p):
		return nil, nil
	case appended && t.files != "":
		return nil, stop(p.word, ">> of what is in another file")
	case appended && !k.texts[p.value]:
		return nil, stop(p.word, ">> of a file that no command before has written, so that a second run would add the text again")
	}
	mode := ""
	if umask(call) == "77" {
		mode = "0600"
	} else if err := usualMask(call); err != nil {
		return nil, err
	}
	if (len(t.secrets) > 0 || t.files != "") && mode == "" {
		mode = "0644"
	}
	s := Step{Subcommand: "render", Writes: true, writes: p.value, Why: "render writes the same text", Differs: t.differs}
	s.Flags = []Flag{{"inline", p.text + "=" + t.text}}
	for _, name := range t.secrets {
		s.Flags = append(s.Flags, Flag{"secret-env", name})
	}
	if t.files != "" {
		s.Flags = append(s.Flags, Flag{"files", t.files})
	}
	if mode != "" {
		s.Flags = append(s.Flags, Flag{"mode", mode})
	}
	s.differs(k.linkNote(p)...)
	s.differs(k.parentNote(p)...)
	if err := k.replaces(copying{}, p, &s); err != nil {
		return nil, err
	}
	if appended {
		s.appends = func(before Step) Step { return appendText(before, s, t) }
	}
	k.made(p, file)
	if mode == "0600" {
		k.gives(p, false)
	}
	k.texts[p.value] = true
	delete(k.contents, p.value)
	return []Step{s}, nil
}

// appendText adds a template to the step that writes the beginning of the file.
func appendText(before, s Step, t template) Step {
	before.Flags = slices.Clone(before.Flags)
	whole := template{text: before.Flags[0].Value}
	whole.add(t)
	before.Flags[0].Value = whole.text
	for _, f := range s.Flags[1:] {
		if !slices.Contains(before.Flags, f) {
			before.Flags = append(before.Flags, f)
		}
	}
	before.differs(s.Differs...)
	return before
}

// cat writes a here-document, or what is in files, to a file.
func (k *files) cat(call *shell.Call) ([]Step, error) {
	if len(call.Args) == 1 && printsRandom[call.Args[0].String()] {
		return k.random(call)
	}
	_, words, err := readOptions(call.Args, "")
	if err != nil {
		return nil, err
	}
	p, appended, err := k.output(call)
	if err != nil {
		return nil, err
	}
	if call.Stdin != nil && call.Stdin.File != nil && len(words) == 0 {
		words = []shell.Word{call.Stdin.File}
	}
	if len(words) == 1 && call.Stdin != nil && call.Stdin.Text != nil {
		if text, ok := words[0].Literal(); ok && text == "-" {
			words = nil
		}
	}
	switch {
	case len(words) == 0 && call.Stdin != nil && call.Stdin.Text != nil:
		t, err := k.template(unsplit(call.Stdin.Text))
		if err != nil {
			return nil, err
		}
		return k.writeText(call, p, t, appended)
	case len(words) == 0:
		return nil, &shell.Error{Word: "cat", Why: "what it reads is not known"}
	}
	sources, err := k.placesOf(words, call)
	if err != nil {
		return nil, err
	}
	if value := sources[0].value; len(sources) == 1 && value == "/dev/null" {
		return k.writeText(call, p, template{}, false)
	}
	if appended {
		return k.bundle(call, sources, p, true)
	}
	return k.concatenate(call, sources, p)
}

// unsplit returns a word in which nothing is split, as in a here-document.
func unsplit(w shell.Word) shell.Word {
	w = slices.Clone(w)
	for i := range w {
		w[i].Split, w[i].Glob = false, false
	}
	return w
}

// concatenate copies one file, or several of one mounted volume in their order, or joins certificates.
func (k *files) concatenate(call *shell.Call, sources []location, to location) ([]Step, error) {
	if err := usualMask(call); err != nil {
		return nil, err
	}
	if err := noPattern(sources[0]); len(sources) == 1 && err == nil && k.unread == nil {
		steps, err := k.copyAll(copying{mode: "mode=0644", exactTarget: true, follow: true}, sources, to)
		return steps, err
	}
	dir, text := path.Dir(sources[0].value), template{}
	for _, from := range sources {
		if from.pattern != "" || !from.flat() || path.Dir(from.value) != dir || strings.Contains(from.value, "\x00") {
			return k.bundle(call, sources, to, false)
		}
		text.add(template{text: "{{ .Files.Get " + strconv.Quote(path.Base(from.value)) + " }}"})
	}
	steps, err := k.writeText(call, to, text, false)
	if err != nil {
		return nil, err
	}
	steps[0].Flags = append(steps[0].Flags, Flag{"files", dir}, Flag{"mode", "0644"})
	delete(k.texts, to.value)
	return steps, nil
}

// envsubst renders a file with the variables of the container.
func (k *files) envsubst(call *shell.Call) ([]Step, error) {
	_, words, err := readOptions(call.Args, "")
	switch {
	case err != nil:
		return nil, err
	case call.Stdin == nil || call.Stdin.File == nil:
		return nil, &shell.Error{Word: "envsubst", Why: "what it reads is not a file"}
	case len(words) > 1:
		return nil, stop(words[1], "a second argument")
	}
	from, err := k.place(call.Stdin.File, call)
	if err != nil {
		return nil, err
	}
	to, appended, err := k.output(call)
	switch {
	case err != nil:
		return nil, err
	case appended:
		return nil, stop(to.word, "not a file that it writes as a whole")
	}
	flags := []Flag{{"engine", "envsubst"}}
	if len(words) == 1 {
		vars, ok := words[0].Literal()
		if !ok {
			return nil, stop(words[0], "a list of variables that is not a plain text")
		}
		for _, name := range envsubstName().FindAllStringSubmatch(vars, -1) {
			if v := lookup(name[1], k.c); v.origin == uncertain {
				return nil, stop(words[0], "the variable "+name[1]+": "+v.why)
			}
		}
		flags = append(flags, Flag{"vars", escape(vars, false)}, Flag{"missing-key", "zero"})
	}
	s, err := k.rendered(from, to, flags)
	if err != nil {
		return nil, err
	}
	s.Why = "render replaces the same variables"
	if len(words) == 0 {
		s.differs("a variable of the template that is not set is an error, where envsubst writes nothing")
	}
	return []Step{s}, nil
}

// rendered returns the step that makes a file of a template with the variables of the container.
func (k *files) rendered(from, to location, flags []Flag) (Step, error) {
	switch err := cmp.Or(k.writable(to), k.noLink(to)); {
	case err != nil:
		return Step{}, err
	case from.pattern != "" || to.pattern != "" || to.slash || k.kind(to) == directory || from.value == to.value:
		return Step{}, stop(to.word, "not a file that it writes as a whole")
	case strings.ContainsAny(from.value+to.value, "#%"):
		return Step{}, stop(to.word, "a character that would have another meaning in initbox's arguments")
	}
	s := Step{Subcommand: "render", Writes: true, Inside: k.inImage(from), Args: []string{from.text + ":" + to.text}, Flags: flags}
	secrets := []Flag(nil)
	for _, e := range k.c.Env {
		if lookup(e.Name, k.c).origin == inSecret {
			secrets = append(secrets, Flag{"secret-env", e.Name})
		}
	}
	s.Flags = append(s.Flags, secrets...)
	if from.volume == nil || from.volume.ConfigMap == nil || len(secrets) > 0 {
		s.Flags = append(s.Flags, Flag{"mode", "0644"})
	}
	s.differs(k.linkNote(to)...)
	s.differs(k.parentNote(to)...)
	s.differs(k.intoNote(to)...)
	if err := k.replaces(copying{}, to, &s); err != nil {
		return Step{}, err
	}
	k.made(to, file)
	delete(k.contents, to.value)
	return s, nil
}

// gomplate is not converted: its template is in an image or a ConfigMap, and has to be changed.
func gomplate([]shell.Word, *manifest.Container) ([]Step, error) {
	return nil, &shell.Error{Word: "gomplate", Why: "some of its functions have other names in render, or another order of arguments, so that the template must change"}
}

// dockerizeTemplates returns the steps that dockerize -template SRC:DST takes before it waits.
func dockerizeTemplates(g given) (steps []Step) {
	for _, w := range g.options["template"] {
		steps = append(steps, Step{settle: func(k *files) ([]Step, error) {
			src, dst, err := cutWord(w, ":")
			switch {
			case err != nil:
				return nil, stop(w, "a template whose result goes to the log")
			case !strings.HasPrefix(leading(src), "/") || !strings.HasPrefix(leading(dst), "/"):
				return nil, stop(w, "a path that is relative to the working directory")
			}
			from, err := k.place(src, &shell.Call{})
			if err != nil {
				return nil, err
			}
			to, err := k.place(dst, &shell.Call{})
			switch {
			case err != nil:
				return nil, err
			case k.kind(from) != file && !k.mountedFile(from):
				return nil, stop(src, "perhaps a directory, of which initbox renders only the files that end in .tmpl")
			}
			flags := []Flag{{"compat", "dockerize"}}
			if delims := g.get("delims"); delims != nil {
				text, ok := delims.Literal()
				if !ok || strings.Count(text, ":") != 1 || strings.ContainsAny(text, "$") {
					return nil, stop(delims, "not two delimiters")
				}
				flags = append(flags, Flag{"delims", text})
			}
			if g.has("no-overwrite") {
				flags = append(flags, Flag{"no-overwrite", ""})
			}
			s, err := k.rendered(from, to, flags)
			s.Why = "render has dockerize's functions"
			s.differs("a variable of the template that is not set is an error, where dockerize writes <no value>",
				"a template that asks with exists for a file of the container is an error")
			return []Step{s}, err
		}})
	}
	return steps
}

var envsubstName = lazy.Regexp(`\$\{?([A-Za-z_][A-Za-z0-9_]*)`)
