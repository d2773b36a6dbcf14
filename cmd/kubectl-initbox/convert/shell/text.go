package shell

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"initbox/internal/lazy"
)

// filters are the programs whose output is known if their arguments and their input are. They return false for what
// they do not know. The input is nil for a command at the beginning of a pipeline.
var filters = map[string]func(args []string, input *string) (string, bool){
	"seq": seq, "echo": echo, "printf": printf, "basename": basename, "dirname": dirname,
	"cut": cut, "tr": tr, "head": head, "awk": awk,
}

// secretName matches the names of variables whose values must not become part of a command line.
var secretName = lazy.Regexp(`(?i)pass|pwd|secret|token|key|credential`)

// open returns the text of a word whose variables have known values, none of which may be a secret.
func (p *parser) open(w Word) (string, bool) {
	for _, part := range w {
		if part.Glob || secretName().MatchString(part.Env) {
			return "", false
		}
	}
	text, ok := p.known(w)
	return text, ok && isASCII(text)
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= 0x7f || r < ' ' && r != '\n' && r != '\t' })
}

// substituted returns what the commands in $( … ) print, without line breaks at the end, if it is known without running
// them.
func (p *parser) substituted(sub *syntax.CmdSubst) (string, error) {
	unknown := refuse(sub, "the output of a command")
	if len(sub.Stmts) != 1 || sub.TempFile || sub.ReplyVar {
		return "", unknown
	}
	text, ok, err := p.filtered(sub.Stmts[0], nil)
	if err == nil && (!ok || len(text) > maxText) {
		err = unknown
	}
	return strings.TrimRight(text, "\n"), err
}

// substitution returns the word that $( … ) is: a variable for $(hostname), and what stands for $(cat FILE), else what
// is known without running it.
func (p *parser) substitution(sub *syntax.CmdSubst) (Word, error) {
	if len(sub.Stmts) == 1 {
		s := sub.Stmts[0]
		call, ok := s.Cmd.(*syntax.CallExpr)
		alone := ok && len(call.Args) > 0 && len(call.Assigns) == 0 && len(s.Redirs) == 0 && !s.Negated && !s.Background
		if alone && p.functions[call.Args[0].Lit()] != nil {
			return p.substituteFunction(sub, call)
		}
		switch {
		case alone && call.Args[0].Lit() == "hostname" && len(call.Args) == 1 && p.o.Hostname != "":
			return Word{{Env: p.o.Hostname}}, nil
		case alone && call.Args[0].Lit() == "cat" && len(call.Args) == 2:
			if file, err := p.text(call.Args[1]); err == nil && plainPath().MatchString(file) {
				return Word{{Env: FileText + file}}, nil
			}
		case alone && call.Args[0].Lit() == "sed" && len(call.Args) == 3:
			program, err1 := p.text(call.Args[1])
			file, err2 := p.text(call.Args[2])
			if err1 == nil && err2 == nil && program == `:a;N;$!ba;s/\n/\\n/g` && plainPath().MatchString(file) {
				return Word{{Env: FileText + file + Joined}}, nil
			}
		}
	}
	text, err := p.substituted(sub)
	return Word{{Text: text}}, err
}

// substituteFunction returns the word that $(NAME …) is, of a function that is one command.
func (p *parser) substituteFunction(sub *syntax.CmdSubst, call *syntax.CallExpr) (Word, error) {
	block, ok := p.functions[call.Args[0].Lit()].Cmd.(*syntax.Block)
	p.depth++
	defer func() { p.depth-- }()
	if !ok || len(block.Stmts) != 1 || p.depth > maxDepth {
		return nil, refuse(sub, "the output of a command")
	}
	restore, err := p.enter(call)
	if err != nil {
		return nil, err
	}
	defer restore()
	return p.substitution(&syntax.CmdSubst{Left: sub.Left, Stmts: block.Stmts})
}

var plainPath = lazy.Regexp(`^/[A-Za-z0-9_./-]+$`)

// filtered returns what a pipeline prints.
func (p *parser) filtered(s *syntax.Stmt, input *string) (string, bool, error) {
	if len(s.Redirs) > 0 || s.Negated || s.Background || s.Coprocess {
		return "", false, nil
	}
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.Pipe {
		text, ok, err := p.filtered(b.X, input)
		if err != nil || !ok {
			return "", false, err
		}
		return p.filtered(b.Y, &text)
	}
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || len(call.Assigns) > 0 {
		return "", false, nil
	}
	name := call.Args[0].Lit()
	filter, found := filters[name]
	if !found || p.functions[name] != nil {
		return "", false, nil
	}
	list, err := p.expand(call.Args[1:])
	if err != nil {
		return "", false, err
	}
	var args []string
	for _, w := range list {
		text, ok := p.open(w)
		if !ok {
			return "", false, nil
		}
		args = append(args, text)
	}
	text, ok := filter(args, input)
	return text, ok, nil
}

func seq(args []string, _ *string) (string, bool) {
	first, step, last := 1, 1, 0
	var numbers []int
	for _, text := range args {
		n, err := strconv.Atoi(text)
		if err != nil || text != strconv.Itoa(n) {
			return "", false
		}
		numbers = append(numbers, n)
	}
	switch len(numbers) {
	case 1:
		last = numbers[0]
	case 2:
		first, last = numbers[0], numbers[1]
	case 3:
		first, step, last = numbers[0], numbers[1], numbers[2]
	default:
		return "", false
	}
	if step < 1 || last-first > 100000*step {
		return "", false
	}
	var b strings.Builder
	for n := first; n <= last && b.Len() <= maxText; n += step {
		b.WriteString(strconv.Itoa(n) + "\n")
	}
	return b.String(), true
}

// echo does not know backslashes, which shells understand differently.
func echo(args []string, _ *string) (string, bool) {
	end := "\n"
	if len(args) > 0 && args[0] == "-n" {
		args, end = args[1:], ""
	}
	text := strings.Join(args, " ")
	return text + end, !strings.HasPrefix(text, "-") && !strings.Contains(text, `\`)
}

// printf knows %s and %%, and the escapes \n, \t and \\. It uses the format until no argument is left.
func printf(args []string, _ *string) (string, bool) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return "", false
	}
	format, args := args[0], args[1:]
	var b strings.Builder
	for {
		used := 0
		for i := 0; i < len(format); i++ {
			two := format[i:min(i+2, len(format))]
			if plain, known := map[string]string{`\n`: "\n", `\t`: "\t", `\\`: `\`, "%%": "%"}[two]; known {
				b.WriteString(plain)
				i++
				continue
			}
			switch {
			case two == "%s" && used < len(args):
				b.WriteString(args[used])
				fallthrough
			case two == "%s":
				used++
				i++
			case format[i] == '%' || format[i] == '\\':
				return "", false
			default:
				b.WriteByte(format[i])
			}
		}
		if used == 0 && len(args) > 0 || b.Len() > maxText {
			return "", false
		}
		if args = args[min(used, len(args)):]; len(args) == 0 {
			return b.String(), true
		}
	}
}

func basename(args []string, _ *string) (string, bool) {
	if len(args) == 0 || len(args) > 2 || args[0] == "" || strings.HasPrefix(args[0], "-") {
		return "", false
	}
	text := strings.TrimRight(args[0], "/")
	if text == "" {
		return "/\n", true
	}
	text = text[strings.LastIndexByte(text, '/')+1:]
	if len(args) == 2 && text != args[1] {
		text = strings.TrimSuffix(text, args[1])
	}
	return text + "\n", true
}

func dirname(args []string, _ *string) (string, bool) {
	if len(args) != 1 || args[0] == "" || strings.HasPrefix(args[0], "-") || strings.HasPrefix(args[0], "//") {
		return "", false
	}
	text := strings.TrimRight(args[0], "/")
	at := strings.LastIndexByte(text, '/')
	switch {
	case text != "" && at < 0:
		return ".\n", true
	case text != "":
		text = strings.TrimRight(text[:at], "/")
	}
	if text == "" {
		text = "/"
	}
	return text + "\n", true
}

// eachLine returns the lines of the input as f changes them.
func eachLine(input *string, f func(line string) string) (string, bool) {
	if input == nil {
		return "", false
	}
	var b strings.Builder
	for line := range strings.Lines(*input) {
		b.WriteString(f(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String(), true
}

var cutField = lazy.Regexp(`^(\d{0,4})(-?)(\d{0,4})$`)

// cut knows one field or one range of them, of fields or of characters.
func cut(args []string, input *string) (string, bool) {
	delimiter, list, fields := "\t", "", false
	for i := 0; i < len(args); i++ {
		flag, value := args[i], ""
		if len(flag) < 2 || flag[0] != '-' {
			return "", false
		}
		if flag, value = flag[:2], flag[2:]; value == "" {
			if i++; i == len(args) {
				return "", false
			}
			value = args[i]
		}
		switch flag {
		case "-d":
			delimiter = value
		case "-f", "-c":
			if list != "" {
				return "", false
			}
			list, fields = value, flag == "-f"
		default:
			return "", false
		}
	}
	m := cutField().FindStringSubmatch(list)
	if m == nil || m[1] == "" && m[3] == "" || m[2] == "" && m[3] != "" || len(delimiter) != 1 {
		return "", false
	}
	from, _ := strconv.Atoi(m[1])
	to, _ := strconv.Atoi(m[3])
	switch {
	case m[2] == "":
		to = from
	case m[3] == "":
		to = 1 << 20
	}
	if m[1] == "" {
		from = 1
	}
	if from < 1 || to < from {
		return "", false
	}
	return eachLine(input, func(line string) string {
		separator := ""
		if fields {
			if separator = delimiter; !strings.Contains(line, delimiter) {
				return line
			}
		}
		parts := strings.Split(line, separator)
		return strings.Join(parts[min(from-1, len(parts)):min(to, len(parts))], separator)
	})
}

// tr knows sets of single characters, ranges of letters or digits, and the classes of letters.
func tr(args []string, input *string) (string, bool) {
	if input == nil || len(args) != 2 {
		return "", false
	}
	if args[0] == "-d" {
		set, ok := characters(args[1])
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(set, r) {
				return -1
			}
			return r
		}, *input), ok
	}
	from, ok := characters(args[0])
	to, okTo := characters(args[1])
	if !ok || !okTo || len(from) != len(to) && len(to) != 1 || strings.HasPrefix(args[0], "-") {
		return "", false
	}
	return strings.Map(func(r rune) rune {
		if i := strings.LastIndexByte(from, byte(r)); i >= 0 {
			return rune(to[min(i, len(to)-1)])
		}
		return r
	}, *input), true
}

const upper, lower, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"

// characters returns those of a set of tr.
func characters(set string) (string, bool) {
	if all, known := map[string]string{
		"A-Z": upper, "a-z": lower, "0-9": digits, "[:upper:]": upper, "[:lower:]": lower, "[:digit:]": digits, `\n`: "\n", `\t`: "\t",
	}[set]; known {
		return all, true
	}
	return set, set != "" && !strings.ContainsAny(set, `\[]`) && !strings.Contains(strings.Trim(set, "-"), "-")
}

// head knows the number of lines.
func head(args []string, input *string) (string, bool) {
	text := strings.TrimPrefix(strings.TrimPrefix(strings.Join(args, ""), "-"), "n")
	n, err := strconv.Atoi(text)
	if input == nil || err != nil || n < 1 || !strings.HasPrefix(strings.Join(args, ""), "-") || len(args) > 2 {
		return "", false
	}
	lines := slices.Collect(strings.Lines(*input))
	return strings.Join(lines[:min(n, len(lines))], ""), true
}

var awkPrint = lazy.Regexp(`^\s*\{\s*print\s+\$([1-9])\s*;?\s*\}\s*$`)

// awk knows '{print $1}', also with -F.
func awk(args []string, input *string) (string, bool) {
	separator := ""
	if len(args) > 1 && strings.HasPrefix(args[0], "-F") {
		if separator, args = args[0][2:], args[1:]; separator == "" {
			separator, args = args[0], args[1:]
		}
		if len(separator) != 1 || strings.Contains(` \^$.|?*+()[]{}t`, separator) {
			return "", false
		}
	}
	if len(args) != 1 || !awkPrint().MatchString(args[0]) {
		return "", false
	}
	n, _ := strconv.Atoi(awkPrint().FindStringSubmatch(args[0])[1])
	return eachLine(input, func(line string) string {
		parts := strings.Fields(line)
		if separator != "" {
			parts = strings.Split(line, separator)
		}
		if n > len(parts) {
			return ""
		}
		return parts[n-1]
	})
}

var bracket = lazy.Regexp(`^\[(!?[A-Za-z0-9_.]+|!?(?:a-z|A-Z|0-9)+)\]`)

// pattern returns the expression that matches what a pattern of case, or of ${NAME#PATTERN}, does.
func (p *parser) pattern(w *syntax.Word) (string, error) {
	var b strings.Builder
	for _, part := range w.Parts {
		lit, plain := part.(*syntax.Lit)
		if !plain {
			text, ok, err := "", false, error(nil)
			var word Word
			if word, err = p.one(&syntax.Word{Parts: []syntax.WordPart{part}}); err != nil {
				return "", err
			}
			_, variable := part.(*syntax.ParamExp)
			if text, ok = p.open(word); !ok || variable && strings.ContainsAny(text, `*?[\`) {
				return "", refuse(w, "a pattern that is not known")
			}
			b.WriteString(regexp.QuoteMeta(text))
			continue
		}
		for text := lit.Value; text != ""; {
			n := 1
			switch text[0] {
			case '*':
				b.WriteString(".*")
			case '?':
				b.WriteString(".")
			case '[':
				set := bracket().FindString(text)
				if n = len(set); n == 0 {
					return "", refuse(w, "a pattern that is not understood")
				}
				b.WriteString(strings.Replace(set, "[!", "[^", 1))
			case '\\', '~':
				return "", refuse(w, "a pattern that is not understood")
			default:
				b.WriteString(regexp.QuoteMeta(text[:1]))
			}
			text = text[n:]
		}
	}
	return `(?s)^(?:` + b.String() + `)$`, nil
}

// caseClause reads case WORD in … of a known word.
func (p *parser) caseClause(s *syntax.CaseClause, c context) ([]Statement, error) {
	word, err := p.one(s.Word)
	if err != nil {
		return nil, err
	}
	text, ok := p.open(word)
	if !ok {
		return nil, refuse(s.Word, "its value is not known")
	}
	for _, item := range s.Items {
		if item.Op != syntax.Break {
			return nil, refuse(s, "a list of case that goes on with the next one")
		}
		for _, w := range item.Patterns {
			expression, err := p.pattern(w)
			if err != nil {
				return nil, err
			}
			matched, err := regexp.MatchString(expression, text)
			if err != nil {
				return nil, refuse(w, "a pattern that is not understood")
			}
			if matched {
				return p.statements(item.Stmts, c)
			}
		}
	}
	return nil, nil
}

// transformed adds the value of ${NAME#PATTERN}, ${NAME:=DEFAULT} and their like.
func (p *parser) transformed(f *fields, w *syntax.Word, param *syntax.ParamExp, quoted, split bool) error {
	name, op := param.Param.Value, param.Exp.Op
	_, tracked := p.vars[name]
	_, state := p.o.Lookup(name)
	if !variableName().MatchString(name) {
		return refuse(param, "an expansion of this form")
	}
	v := Word{}
	if tracked || state != Unset {
		var err error
		if v, err = p.variable(param, name); err != nil {
			return err
		}
	}
	add := func(v Word) error {
		p.addValue(f, v, quoted || !split)
		return nil
	}
	if !tracked && state == Opaque && op == syntax.AssignUnsetOrNull {
		word, err := p.one(param.Exp.Word)
		if err != nil {
			return err
		}
		p.vars[name] = value{word: Word{{Env: name, Default: word}}}
		f.add(Part{Env: name, Default: word, Split: !quoted && split})
		return nil
	}
	text, known := p.known(v)
	if !known {
		return refuse(param, "its value is not known")
	}
	has := text != "" || (tracked || state != Unset) && (op == syntax.AssignUnset || op == syntax.ErrorUnset || op == syntax.AlternateUnset)
	switch op {
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if !has {
			word, err := p.one(param.Exp.Word)
			if err != nil {
				return err
			}
			if p.vars[name], v = (value{word: word}), word; state == Literal {
				p.exported[name] = true
			}
		}
		return add(v)
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		if has {
			return p.defaultValue(f, w, param, quoted, split)
		}
		return nil
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		if !has {
			return refuse(param, "it ends the script")
		}
		return add(v)
	case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
	default:
		return refuse(param, "an expansion of this form")
	}
	if text, known = p.open(v); !known || len(text) > 1000 {
		return refuse(param, "its value is not known")
	}
	if param.Exp.Word == nil {
		return add(v)
	}
	expression, err := p.pattern(param.Exp.Word)
	if err != nil {
		return err
	}
	matching, err := regexp.Compile(expression)
	if err != nil {
		return refuse(param, "a pattern that is not understood")
	}
	prefix := op == syntax.RemSmallPrefix || op == syntax.RemLargePrefix
	for i := range len(text) + 1 {
		if op == syntax.RemLargePrefix || op == syntax.RemSmallSuffix {
			i = len(text) - i
		}
		if prefix && matching.MatchString(text[:i]) {
			return add(Word{{Text: text[i:]}})
		}
		if !prefix && matching.MatchString(text[i:]) {
			return add(Word{{Text: text[:i]}})
		}
	}
	return add(Word{{Text: text}})
}
