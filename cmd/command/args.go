package command

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/cmd/help"
)

// option is a flag on a command line, with its value.
type option struct {
	flag  cli.Flag // nil if there is no such flag
	name  string
	words []string // one, or two if the value is a separate word
	value string
	bare  bool // needs a value and has none
}

// readOption reads the option that args begin with; ok is false if they begin with an argument, or with "--".
func readOption(args []string, flags []cli.Flag) (o option, ok bool) {
	word := args[0]
	if len(word) < 2 || word[0] != '-' || word == "--" || '0' <= word[1] && word[1] <= '9' || word[1] == ':' {
		return o, false // "-" stands for stdin, also in "-:DST", and "-5" is a number
	}
	name, value, valued := strings.Cut(strings.TrimLeft(word, "-"), "=")
	o = option{name: name, value: value, words: args[:1]}
	if i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }); i >= 0 {
		o.flag = flags[i]
	}
	switch {
	case valued || !o.takesValue():
	case len(args) < 2 || args[1] == "--":
		o.bare = true
	default:
		o.value, o.words = args[1], args[:2]
	}
	return o, true
}

func (o option) takesValue() bool {
	_, isBool := o.flag.(*cli.BoolFlag)
	return o.flag != nil && !isBool && !help.ValueOptional(o.flag)
}

// check refuses an option that needs a value and has none. An empty value, such as that of a variable that is not set,
// would look as if the option were absent.
func (o option) check() error {
	empty := o.takesValue() && o.value == "" && o.name != flagTerminationLog // where it means no file
	if o.bare || empty {
		value, _ := help.Usage(o.flag)
		return usagef("--%s needs a value: --%s=%s", o.name, o.name, value)
	}
	return nil
}

// foreign reports whether what follows is the command line of another tool.
func (o option) foreign() bool {
	return o.name == flagFromK8sWaitFor && o.value != "false" || o.name == flagCompat && (o.value == compatGitSync || o.value == compatK8sSidecar)
}

// permute moves the flags before the arguments, since people write flags last and the library stops reading them at the
// first argument. The arguments follow after "--". If help is asked for, the result is --help and the words after it,
// which are topics. A "--" that the user wrote ends the command line; next is what follows it, and not nil. If another
// tool's command line follows the arguments, it stays together, after a second "--".
func permute(args []string, flags []cli.Flag) (line, next []string, err error) {
	var options, arguments []string
	for next == nil && len(args) > 0 {
		o, ok := readOption(args, flags)
		switch {
		case args[0] == "--":
			next = args[1:]
		case !ok:
			arguments = append(arguments, args[0])
			args = args[1:]
		case o.name == "help" || o.name == "h":
			return append([]string{"--help"}, topics(args[1:], flags)...), nil, nil
		default:
			if err := o.check(); err != nil {
				return nil, nil, err
			}
			options = append(options, o.words...)
			args = args[len(o.words):]
			if o.foreign() { // as if "--" followed
				if slices.Contains(args, "--help") {
					return []string{"--help"}, nil, nil
				}
				if len(args) > 0 && args[0] == "--" {
					args = args[1:]
				}
				arguments = append(append(arguments, "--"), args...)
				args = nil
			}
		}
	}
	return append(append(options, "--"), arguments...), next, nil
}

// topics returns the words before "--" that are not flags.
func topics(args []string, flags []cli.Flag) (words []string) {
	for len(args) > 0 && args[0] != "--" {
		o, ok := readOption(args, flags)
		if ok {
			args = args[len(o.words):]
			continue
		}
		words = append(words, args[0])
		args = args[1:]
	}
	return words
}

// setReporting reads the two flags that say how a failure is reported, and their variables. They also count if the
// command line has a mistake before them, so the library cannot read them.
func (e *env) setReporting(args []string, flags []cli.Flag) {
	for variable, value := range map[string]*string{variableLogFormat: &e.logFormat, variableTerminationLog: &e.terminationLog} {
		if v := os.Getenv(variable); v != "" {
			*value = v
		}
	}
	for len(args) > 0 && args[0] != "--" {
		o, ok := readOption(args, flags)
		switch {
		case !ok:
			args = args[1:]
			continue
		case o.bare:
		case o.name == flagLogFormat:
			e.logFormat = o.value
		case o.name == flagTerminationLog:
			e.terminationLog = o.value
		}
		args = args[len(o.words):]
	}
}

// arguments returns the arguments and, apart from them, the command line of another tool; see [permute].
func arguments(c *cli.Context) (own, foreign []string) {
	args := c.Args().Slice()
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i], args[i+1:]
	}
	return args, nil
}
