package convert

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/kubectl-initbox/convert/shell"
)

// content is how a Go template makes the text of a file: of a file in dir, which --files gives it.
type content struct {
	expr, dir string
	secrets   []string // the variables from Secrets in it
	differs   []string
	writes    string // the step that has written it so far, as "SUBCOMMAND ARGUMENT", which the next one replaces
}

// sed replaces in a file, or in what it reads: each s command becomes a function of a Go template.
func (k *files) sed(call *shell.Call) ([]Step, error) {
	for _, w := range call.Args {
		if flags, _, _ := strings.Cut(leading(w), "e"); len(flags) > 1 && flags[0] == '-' && flags[1] != '-' {
			if i := strings.IndexByte(flags, 'i'); i > 0 && (i+1 < len(leading(w)) || len(w) > 1) {
				return nil, stop(w, "the suffix of a copy that sed -i keeps")
			}
		}
	}
	o, words, err := readOptions(call.Args, "i in-place; e expression=; E r regexp-extended; u unbuffered; s separate")
	if err != nil {
		return nil, err
	}
	programs := o.options["e"]
	if len(programs) == 0 && len(words) > 0 {
		programs, words = words[:1], words[1:]
	}
	var edits []substitution
	for _, program := range programs {
		more, err := k.substitutions(program, o.has("E"))
		if err != nil {
			return nil, err
		}
		edits = append(edits, more...)
	}
	switch {
	case len(edits) == 0:
		return nil, &shell.Error{Word: "sed", Why: "without a command"}
	case o.has("i"):
		return k.sedInPlace(call, edits, words)
	case len(words) == 0 && call.Stdin != nil && call.Stdin.File != nil:
		words = []shell.Word{call.Stdin.File}
	case len(words) == 0 || call.Stdin != nil:
		return nil, &shell.Error{Word: "sed", Why: "what it reads is not a file"}
	}
	return k.sedOutput(call, edits, words)
}

// sedOutput writes what sed, or several of them in a pipeline, prints.
func (k *files) sedOutput(call *shell.Call, edits []substitution, words []shell.Word) ([]Step, error) {
	if len(words) > 1 {
		return nil, stop(words[1], "a second file")
	}
	from, err := k.place(words[0], call)
	if err != nil {
		return nil, err
	}
	if next := call.Pipe; next != nil && next.Name == "sed" && call.Stdout == nil {
		o, programs, err := readOptions(next.Args, "e expression=; E r regexp-extended")
		programs = append(programs, o.options["e"]...)
		if err != nil || len(programs) == 0 || next.Stdin != nil || len(programs) > 1 && !o.has("e") {
			return nil, &shell.Error{Word: "sed", Why: "behind a pipe, in a form that is not understood"}
		}
		for _, program := range programs {
			more, err := k.substitutions(program, o.has("E"))
			if err != nil {
				return nil, err
			}
			edits = append(edits, more...)
		}
		rest := *next
		rest.Dir, rest.Umask = call.Dir, call.Umask
		return k.sedOutput(&rest, edits, words)
	}
	to, appended, err := k.output(call)
	switch {
	case err != nil:
		return nil, err
	case appended:
		return nil, stop(to.word, ">> of what sed prints")
	case to.value == from.value:
		return nil, stop(to.word, "the file that sed reads, which the shell empties first")
	}
	source, err := k.contentOf(from)
	if err != nil {
		return nil, err
	}
	return k.writeContent(call, from, to, source.edited(edits))
}

// sedInPlace edits files. What was copied in the same script is edited on its way, so that no reader finds it as it was
// copied.
func (k *files) sedInPlace(call *shell.Call, edits []substitution, words []shell.Word) (steps []Step, err error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	if len(words) == 0 {
		return nil, &shell.Error{Word: "sed", Why: "without a file"}
	}
	places, err := k.placesOf(words, call)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		source, copied := k.contents[p.value]
		switch {
		case copied:
		case k.texts[p.value] && call.Umask == "":
			if source, err = k.contentOf(p); err != nil {
				return nil, err
			}
		default:
			return nil, stop(p.word, "a file that the script has not made from one of a ConfigMap or Secret: its mode is not known")
		}
		more, err := k.writeContent(call, p, p, source.edited(edits))
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	return steps, nil
}

// contentOf returns the content of a file.
func (k *files) contentOf(from location) (content, error) {
	dir := path.Dir(from.value)
	switch {
	case from.pattern != "" || from.slash || k.kind(from) == directory || strings.Contains(from.value, "\x00"):
		return content{}, stop(from.word, "not the name of a file")
	case dir == "/" || from.kernels():
		return content{}, stop(from.word, "render would have to search all of "+dir)
	case k.kinds[from.value] == absent:
		return content{}, stop(from.word, "what an earlier command has removed")
	}
	text := content{expr: ".Files.Get " + strconv.Quote(path.Base(from.value)), dir: dir}
	if !from.projected() && !k.texts[from.value] {
		text.differs = []string{"a symbolic link out of " + dir + " is not followed, but an error"}
	}
	return text, nil
}

// writeContent returns the step that writes the text to a file.
func (k *files) writeContent(call *shell.Call, from, to location, text content) ([]Step, error) {
	t := template{text: escape("{{ "+text.expr+" }}", false), secrets: text.secrets, differs: text.differs}
	steps, err := k.writeText(call, to, t, false)
	if err != nil {
		return nil, err
	}
	s := &steps[0]
	s.Why, s.Inside = "render replaces the same texts", s.Inside || k.inImage(from)
	s.Flags = slices.DeleteFunc(s.Flags, func(f Flag) bool { return f.Name == "mode" && f.Value == "0644" })
	s.Flags = append(s.Flags, Flag{"files", text.dir}, Flag{"mode", "0644"})
	if umask(call) == "77" {
		s.Flags = slices.DeleteFunc(s.Flags, func(f Flag) bool { return f == Flag{"mode", "0644"} })
	}
	s.instead = text.writes
	delete(k.texts, to.value) // >> would need the same --files
	text.writes = "render " + s.Flags[0].Value
	if call.Umask == "" {
		k.contents[to.value] = text
	}
	return steps, nil
}

// copiedFile records that a step has copied one file, whose text a template may read, or its certificates trust-bundle.
func (k *files) copiedFile(c copying, from, to location, into bool, s Step) {
	if into {
		to.value = path.Join(to.value, path.Base(from.value))
	}
	replaced := func(name string) bool {
		return within(path.Dir(to.value), name) && (from.pattern != "" || c.recursive) || name == to.value
	}
	maps.DeleteFunc(k.contents, func(name string, _ content) bool { return replaced(name) })
	maps.DeleteFunc(k.stores, func(name string, _ store) bool { return replaced(name) })
	if !c.recursive && from.pattern == "" && !c.noOverwrite && !c.update && (c.mode == "" || c.mode == "mode=0644") && (from.mount == nil || from.mount.ReadOnly || from.projected()) {
		k.stores[to.value] = store{from: &from, step: "copy " + s.Args[0]}
	}
	if mode, ok := from.keyMode(); !ok || mode&^0o022 != 0o644 || c.recursive || c.mode != "" || c.noOverwrite || c.update {
		return
	}
	if text, err := k.contentOf(from); err == nil {
		text.writes = "copy " + s.Args[0]
		k.contents[to.value] = text
	}
}

// keyMode returns the mode of a file of a ConfigMap or Secret.
func (p location) keyMode() (mode int32, ok bool) {
	if !p.flat() || p.pattern != "" || p.volume.Projected != nil {
		return 0, false
	}
	var all *int32
	var items []corev1.KeyToPath
	if v := p.volume.ConfigMap; v != nil {
		all, items = v.DefaultMode, v.Items
	} else if v := p.volume.Secret; v != nil {
		all, items = v.DefaultMode, v.Items
	}
	mode = 0o644
	if all != nil {
		mode = *all
	}
	for _, i := range items {
		if i.Path == path.Base(p.value) && i.Mode != nil {
			mode = *i.Mode
		}
	}
	return mode, true
}

// edited returns the content after substitutions.
func (t content) edited(edits []substitution) content {
	t.secrets, t.differs = slices.Clone(t.secrets), slices.Clone(t.differs)
	for _, e := range edits {
		value := e.value.expr
		switch {
		case e.text != "":
			t.expr += " | replace " + strconv.Quote(e.text) + " " + value
		case e.first:
			before := `(print "${1}" (` + value + ` | replace "$" "$$"))`
			if text, err := strconv.Unquote(value); err == nil {
				before = strconv.Quote("${1}" + strings.ReplaceAll(text, "$", "$$"))
			}
			t.expr = "regexReplaceAll " + strconv.Quote("(?m)^(.*?)"+e.regexp) + " (" + t.expr + ") " + before
		default:
			t.expr = "regexReplaceAllLiteral " + strconv.Quote("(?m)"+e.regexp) + " (" + t.expr + ") " + value
		}
		t.secrets = append(t.secrets, e.value.secrets...)
		t.differs = append(t.differs, e.value.differs...)
	}
	return t
}

// substitution is s/PATTERN/VALUE/.
type substitution struct {
	text   string // the pattern, if it is a text that is replaced wherever it stands; else regexp
	regexp string
	first  bool // only the first match of each line is replaced
	value  operand
}

// operand is an expression of a Go template.
type operand struct {
	expr             string
	secrets, differs []string
}

// sedChar is a character of sed's program, or a variable whose value is not known.
type sedChar struct {
	byte
	variable *shell.Part
}

// substitutions reads a program of sed that has nothing but s commands.
func (k *files) substitutions(program shell.Word, extended bool) (list []substitution, err error) {
	var text []sedChar
	for i, p := range program {
		value := p.Text
		switch {
		case p.Glob:
			return nil, stop(program, "a pattern")
		case p.Env != "":
			v, plain := lookup(p.Env, k.c), true
			switch value = v.value; {
			case p.Default != nil && (v.origin == nowhere || v.origin == inManifest && value == ""):
				value, plain = p.Default.Literal()
			case v.origin != inManifest:
				text = append(text, sedChar{0, &program[i]})
				continue
			}
			if !plain || p.Split && strings.ContainsAny(value, " \t\n*?[") {
				return nil, stop(program, "the value of "+p.Env+", which is not a plain text or, without quotes, not one word")
			}
		}
		for j := range len(value) {
			text = append(text, sedChar{value[j], nil})
		}
	}
	r := &sedReader{k: k, program: program, rest: text, extended: extended}
	for {
		for len(r.rest) > 0 && r.rest[0].variable == nil && strings.IndexByte("; \t\n", r.rest[0].byte) >= 0 {
			r.rest = r.rest[1:]
		}
		if len(r.rest) == 0 {
			return list, nil
		}
		s, err := r.substitution()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
}

type sedReader struct {
	k        *files
	program  shell.Word
	rest     []sedChar
	extended bool
	delim    byte
}

func (r *sedReader) stop(why string) error { return stop(r.program, why) }

func (r *sedReader) substitution() (s substitution, err error) {
	if len(r.rest) < 2 || r.rest[0].byte != 's' || r.rest[1].variable != nil || strings.IndexByte("/|,#:@!%~_;", r.rest[1].byte) < 0 {
		return s, r.stop("a command of sed other than s")
	}
	r.delim, r.rest = r.rest[1].byte, r.rest[2:]
	pattern, err := r.part()
	if err != nil {
		return s, err
	}
	value, err := r.part()
	if err != nil {
		return s, err
	}
	global := false
	for ; len(r.rest) > 0 && r.rest[0].byte != ';' && r.rest[0].byte != '\n'; r.rest = r.rest[1:] {
		switch c := r.rest[0]; {
		case c.variable == nil && c.byte == 'g' && !global:
			global = true
		case c.variable == nil && c.byte == ' ':
		default:
			return s, r.stop("a flag of s other than g")
		}
	}
	if err := r.pattern(pattern, &s); err != nil {
		return s, err
	}
	once := strings.HasPrefix(s.regexp, "^") || strings.HasSuffix(s.regexp, "$") || strings.HasSuffix(s.regexp, ".*") // in a line
	if s.first = !global && !once; s.first || !s.plain() {
		s.text = ""
	}
	s.value, err = r.value(value)
	return s, err
}

// plain reports whether the pattern is a text.
func (s substitution) plain() bool { return s.text != "" && regexp.QuoteMeta(s.text) == s.regexp }

// part returns what stands before the next delimiter. A backslash in front of that is removed.
func (r *sedReader) part() (part []sedChar, err error) {
	for i := 0; i < len(r.rest); i++ {
		c := r.rest[i]
		switch {
		case c.variable != nil:
		case c.byte == r.delim:
			r.rest = r.rest[i+1:]
			return part, nil
		case c.byte == '\\' && i+1 < len(r.rest) && r.rest[i+1].variable == nil:
			i++
			switch {
			case r.rest[i].byte != r.delim:
				part = append(part, c)
			case r.delim == '|':
				return nil, r.stop(`\| where | is the delimiter, which means different things`)
			}
			part = append(part, r.rest[i])
			continue
		}
		part = append(part, c)
	}
	return nil, r.stop("a command of sed without an end")
}

// pattern reads a regular expression of literal characters, of . and one .*, with ^ at its beginning and $ at its end.
func (r *sedReader) pattern(part []sedChar, s *substitution) error {
	special, escaped := `.[*`, `.[]*^$\/`
	if r.extended {
		special, escaped = special+"+?(){}|^$", escaped+"+?(){}|"
	}
	var b strings.Builder
	stars := 0
	for i := 0; i < len(part); i++ {
		c := part[i]
		last := i == len(part)-1
		switch {
		case c.variable != nil:
			return r.stop("a variable in a pattern, whose value is not known")
		case c.byte == '\n' || c.byte >= 0x80:
			return r.stop("a pattern that is not understood")
		case c.byte == '\\':
			if i++; last || strings.IndexByte(escaped, part[i].byte) < 0 {
				return r.stop("a pattern that is not understood")
			}
			c = part[i]
		case c.byte == '^' && i == 0, c.byte == '$' && last:
			b.WriteByte(c.byte)
			continue
		case c.byte == '.' && !last && part[i+1].variable == nil && part[i+1].byte == '*':
			b.WriteString(".*")
			i++
			if stars++; stars > 1 {
				return r.stop("a pattern that is not understood")
			}
			continue
		case strings.IndexByte(special, c.byte) >= 0:
			return r.stop("a pattern that is not understood")
		}
		s.text += string(c.byte)
		b.WriteString(regexp.QuoteMeta(string(c.byte)))
	}
	s.regexp = b.String()
	if s.text == "" {
		return r.stop("a pattern without a text")
	}
	return nil
}

// value reads what replaces the pattern.
func (r *sedReader) value(part []sedChar) (o operand, err error) {
	var operands []string
	var text []byte
	flush := func() {
		if len(text) > 0 {
			operands = append(operands, strconv.Quote(string(text)))
		}
		text = nil
	}
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c.variable != nil {
			flush()
			t, err := r.k.template(shell.Word{*c.variable})
			if err == nil && t.files != "" {
				err = r.stop("what is in another file")
			}
			if err != nil {
				return o, err
			}
			expr := strings.TrimSuffix(strings.TrimPrefix(t.text, "{{ "), " }}")
			if strings.Contains(expr, " ") {
				expr = "(" + expr + ")"
			}
			operands = append(operands, expr)
			o.secrets = append(o.secrets, t.secrets...)
			if lookup(c.variable.Env, r.k.c).origin != inPod || strings.IndexByte(",:", r.delim) >= 0 {
				o.differs = append(o.differs, "a "+string(r.delim)+`, & or \ in the value of `+c.variable.Env+" is taken literally: to sed it had a meaning")
			}
			continue
		}
		switch c.byte {
		case '\\':
			if i++; i == len(part) || part[i].variable != nil || strings.IndexByte(`\&/"'$.|[]*^-{}()`, part[i].byte) < 0 {
				return o, r.stop("a replacement that is not understood")
			}
			c = part[i]
		case '&':
			return o, r.stop("& in a replacement, which is the text found")
		case '\n':
			return o, r.stop("a replacement that is not understood")
		}
		text = append(text, c.byte)
	}
	flush()
	switch len(operands) {
	case 0:
		o.expr = `""`
	case 1:
		o.expr = operands[0]
	default:
		o.expr = "(print " + strings.Join(operands, " ") + ")"
	}
	return o, nil
}

// withoutCat returns a call that reads a file for cat FILE | COMMAND.
func withoutCat(call *shell.Call) *shell.Call {
	next := call.Pipe
	if call.Name != "cat" || next == nil || next.Name != "sed" && next.Name != "envsubst" || next.Stdin != nil || len(call.Args) != 1 || call.Stdin != nil ||
		call.Stdout != nil || len(call.Set)+len(next.Set) > 0 || strings.HasPrefix(leading(call.Args[0]), "-") {
		return call
	}
	rest := *next
	rest.Dir, rest.Umask, rest.Stdin, rest.Pos = call.Dir, call.Umask, &shell.Input{File: call.Args[0]}, call.Pos
	if rest.Stderr == nil {
		rest.Stderr = call.Stderr
	}
	return &rest
}
