package completion

import (
	"embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Shell is a shell that completions are written for.
type Shell struct {
	Name string
	// File returns the name under which the shell finds the completions of a program in its directory of completions.
	File   func(program string) string
	syntax syntax
}

// The shells: bash 4.4 or later, zsh 5, and fish 3.
var (
	Bash = Shell{"bash", func(program string) string { return program + ".bash" }, posix}
	Zsh  = Shell{"zsh", func(program string) string { return "_" + program }, posix}
	Fish = Shell{"fish", func(program string) string { return program + ".fish" }, fish}
)

// Shells returns all of them.
func Shells() []Shell { return []Shell{Bash, Zsh, Fish} }

//go:embed engine.*
var engines embed.FS

// Write writes the completions of p for a shell. The same program gives the same bytes.
func (p *Program) Write(w io.Writer, shell Shell) error {
	engine, err := engines.ReadFile("engine." + shell.Name)
	if err != nil {
		return err
	}
	_, err = strings.NewReplacer(
		"@program@", p.Name,
		"@function@", p.function(),
		"@start@", strings.Join(p.start, " "),
		"@names@", p.links(true),
		"@common-names@", p.links(false),
		"@data@", p.data(shell.syntax),
	).WriteString(w, string(engine))
	return err
}

// function returns what the names of the functions begin with.
func (p *Program) function() string {
	return strings.NewReplacer("-", "_", ".", "_", "+", "_").Replace(p.Name)
}

// links returns the names of subcommands that are completed as names of links: those with a hyphen, which no other
// program has, or those that are also the names of other programs, such as sleep.
func (p *Program) links(hyphen bool) string {
	var names []string
	for _, c := range p.Commands {
		if strings.Contains(c.Name, "-") == hyphen {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " ")
}

// syntax is how a shell writes a function that sets a variable according to its argument.
type syntax struct {
	begin, end string // of the function, whose name is formatted into it
	row        string // patterns, and what the variable is set to
	separator  string // between patterns
	quote      *strings.Replacer
}

var (
	posix = syntax{
		begin: "__%s() {\n\tcase $1 in\n", end: "\t*) %s= ;;\n\tesac\n}\n",
		row: "\t%s) %s='%s' ;;\n", separator: " | ", quote: strings.NewReplacer("'", `'\''`),
	}
	fish = syntax{
		begin: "function __%s --no-scope-shadowing\n\tswitch $argv[1]\n", end: "\tcase '*'\n\t\tset %s\n\tend\nend\n",
		row: "\tcase %s\n\t\tset %s '%s'\n", separator: " ", quote: strings.NewReplacer("'", `\'`, `\`, `\\`),
	}
)

// data returns the functions that know the command line. Each sets a variable by its argument: the flags of a
// subcommand, as lines with a tab before the usage; its arguments; and the values of a flag, as SUBCOMMAND--FLAG.
func (p *Program) data(s syntax) string {
	var out strings.Builder
	function := func(name, variable string, rows func(row func(value string, patterns ...string))) {
		fmt.Fprintf(&out, s.begin, p.function()+"_"+name)
		rows(func(value string, patterns ...string) {
			fmt.Fprintf(&out, s.row, strings.Join(patterns, s.separator), variable, s.quote.Replace(value))
		})
		fmt.Fprintf(&out, s.end, variable)
	}
	function("commands", "lines", func(row func(string, ...string)) {
		var lines, names []string
		for _, c := range p.Commands {
			lines = append(lines, c.Name+"\t"+c.Usage)
			names = append(names, c.Name)
		}
		row(strings.Join(lines, "\n"), "all")
		row(strings.Join(append(names, p.topics...), "\n"), "topics")
		row("is one", names...)
	})
	function("flags", "lines", func(row func(string, ...string)) {
		for _, c := range p.Commands {
			row(strings.Join(flagLines(c), "\n"), c.Name)
		}
	})
	function("settings", "lines", func(row func(string, ...string)) {
		for _, k := range p.kinds {
			row(strings.Join(k.settings, "\n"), k.schemes...)
		}
	})
	function("arguments", "values", func(row func(string, ...string)) {
		for _, c := range p.Commands {
			if len(c.arguments) > 0 {
				row(strings.Join(c.arguments, "\n"), c.Name)
			}
		}
	})
	function("values", "values", func(row func(string, ...string)) {
		rows := p.valueRows()
		for _, value := range slices.Sorted(maps.Keys(rows)) {
			row(value, rows[value]...)
		}
	})
	return strings.TrimRight(out.String(), "\n")
}

func flagLines(c Command) []string {
	var lines []string
	for _, f := range c.Flags {
		lines = append(lines, "--"+f.Name+"\t"+f.Usage)
	}
	slices.Sort(lines)
	return lines
}

// optional stands before the values of a flag whose value is not a separate word.
const optional = "@optional"

// valueRows returns the flags that take each list of values.
func (p *Program) valueRows() map[string][]string {
	rows := map[string][]string{}
	for _, c := range p.Commands {
		for _, f := range c.Flags {
			if f.Switch {
				continue
			}
			values := f.values
			if f.Optional {
				values = append([]string{optional}, values...)
			}
			key := strings.Join(values, "\n")
			rows[key] = append(rows[key], c.Name+"--"+f.Name)
			if f.Short != "" {
				rows[key] = append(rows[key], c.Name+"-"+f.Short)
			}
		}
	}
	return rows
}
