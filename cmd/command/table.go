package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/cmd/duration"
	"initbox/cmd/help"
	"initbox/waitfor"
	"initbox/waitfor/target"
)

// Table describes the command line for other programs, such as those that generate completions, schemas or checks.
// initbox --list --format json prints it. The names of its fields are stable: fields may be added, but none is renamed,
// removed or given another meaning. Subcommands, flags and kinds are in the order of the help. Empty lists and
// texts are included.
type Table struct {
	Version     string       `json:"version"`
	Subcommands []Subcommand `json:"subcommands"`
	Kinds       []Kind       `json:"kinds"`    // of the targets of wait-for-service
	Settings    []Setting    `json:"settings"` // that targets of every kind take
}

// Subcommand describes a subcommand.
type Subcommand struct {
	Name      string `json:"name"`
	Usage     string `json:"usage"`     // what it is for, in one line
	Arguments string `json:"arguments"` // as in the help: TARGET… [-- COMMAND ARG…]
	Flags     []Flag `json:"flags"`     // the common ones included
}

// Flag describes a flag of a subcommand.
type Flag struct {
	Name     string   `json:"name"` // without dashes
	Aliases  []string `json:"aliases"`
	Type     string   `json:"type"`    // bool, int, string, duration (30s, 1m30s, or seconds) or bytes (500Mi)
	Value    string   `json:"value"`   // the form of the value, as in the help: FILE, KEY=VALUE, keep|remove|DIR; "" for a bool
	Default  string   `json:"default"` // as one would give it; "" for the zero value of the type
	Env      string   `json:"env"`     // the variable that sets the flag if it is not given
	Category string   `json:"category"`
	Usage    string   `json:"usage"`
	Repeated bool     `json:"repeated"` // may be given more than once
	File     bool     `json:"file"`     // the value is the name of a file, or one of its forms has one in it
	Optional bool     `json:"optional"` // may be given without its value; with one, it is written --NAME=VALUE
}

// Kind describes a kind of target.
type Kind struct {
	Schemes  []string  `json:"schemes"` // the first one names the kind
	Usage    string    `json:"usage"`   // how a target is written
	Ready    string    `json:"ready"`   // when a target is ready
	Settings []Setting `json:"settings"`
}

// Setting describes what stands in the fragment of a target. A setting of a kind is a flag of wait-for-service as well.
type Setting struct {
	Name     string `json:"name"`
	Value    string `json:"value"` // the form of the value; "" for a switch
	Usage    string `json:"usage"`
	Needs    string `json:"needs"` // the setting without which this one is refused; may be ""
	Repeated bool   `json:"repeated"`
	File     bool   `json:"file"`
}

// newTable describes app, all of whose subcommands are made.
func newTable(app *cli.App) Table {
	t := Table{Version: app.Version, Settings: describeSettings(target.Common)}
	for _, cmd := range app.Commands {
		s := Subcommand{Name: cmd.Name, Usage: cmd.Usage, Arguments: cmd.ArgsUsage, Flags: []Flag{}}
		for _, f := range append(cmd.Flags, cli.HelpFlag) {
			s.Flags = append(s.Flags, describeFlag(f))
		}
		t.Subcommands = append(t.Subcommands, s)
	}
	for _, k := range waitfor.Kinds() {
		t.Kinds = append(t.Kinds, Kind{k.Schemes, k.Usage, k.Ready, describeSettings(k.Settings)})
	}
	return t
}

func describeSettings(list []target.Setting) []Setting {
	described := []Setting{}
	for _, s := range list {
		described = append(described, Setting{s.Name, s.Value, s.Usage, s.Needs, s.Multi, namesFile(s.Value)})
	}
	return described
}

func describeFlag(f cli.Flag) Flag {
	value, usage := help.Usage(f)
	names := f.Names()
	described := Flag{
		Name: names[0], Aliases: append([]string{}, names[1:]...),
		Type: "string", Value: value, Default: help.Default(f), Category: help.Category(f), Usage: usage, File: namesFile(value),
	}
	if d, ok := f.(cli.DocGenerationFlag); ok {
		described.Env = strings.Join(d.GetEnvVars(), " ")
	}
	switch f := f.(type) {
	case *cli.BoolFlag:
		described.Type = "bool"
	case *cli.IntFlag:
		described.Type = "int"
	case *cli.StringSliceFlag:
		described.Repeated = true
	case *cli.GenericFlag:
		switch f.Value.(type) {
		case *duration.Value:
			described.Type = "duration"
		case *byteCount:
			described.Type = "bytes"
		case *optionalText:
			described.Optional = true
		}
	}
	return described
}

// namesFile reports whether a value of the form may be, or hold, the name of a file.
func namesFile(form string) bool { return strings.Contains(form, "FILE") }

// printList prints the names of the subcommands, or all that there is to know of them.
func printList(w io.Writer, app *cli.App, format string) error {
	switch format {
	case "text":
		for _, cmd := range app.Commands {
			fmt.Fprintln(w, cmd.Name)
		}
		return nil
	case "json":
		text, err := encodeJSON(newTable(app))
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	return usagef("--format: want text or json, got %q", format)
}

// encodeJSON returns v as JSON for people, too: indented, with < and & as they are.
func encodeJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(v)
	return text.Bytes(), err
}
