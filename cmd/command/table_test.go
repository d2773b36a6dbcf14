package command

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/urfave/cli/v2"

	"initbox/waitfor"
)

// TestTable pins that every subcommand, flag, kind and setting is in the JSON that --list prints, described.
func TestTable(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := Run("1.2.3", []string{"initbox", "--list", "--format", "json"}, nil, &stdout, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	var table Table
	if err := decoder.Decode(&table); err != nil {
		t.Fatal(err)
	}
	app := new(env).newApp("")
	if table.Version != "1.2.3" || len(table.Subcommands) != len(app.Commands) || len(table.Kinds) != len(waitfor.Kinds()) {
		t.Fatalf("version %s, %d subcommands, %d kinds", table.Version, len(table.Subcommands), len(table.Kinds))
	}
	for i, cmd := range app.Commands {
		s := table.Subcommands[i]
		if s.Name != cmd.Name || s.Usage != cmd.Usage || s.Arguments != cmd.ArgsUsage {
			t.Errorf("%s is described as %+v", cmd.Name, s)
		}
		requireFlags(t, s, append(cmd.Flags, cli.HelpFlag))
	}
	for i, k := range waitfor.Kinds() {
		described := table.Kinds[i]
		if !slices.Equal(described.Schemes, k.Schemes) || described.Usage != k.Usage || described.Ready != k.Ready || len(described.Settings) != len(k.Settings) {
			t.Errorf("%s is described as %+v", k.Schemes[0], described)
		}
	}
	for _, s := range table.Settings {
		if _, err := waitfor.Parse("tcp://h:1#"+s.Name, waitfor.Options{}); err != nil {
			t.Errorf("setting of every kind: %v", err)
		}
	}
}

func requireFlags(t *testing.T, s Subcommand, flags []cli.Flag) {
	t.Helper()
	if len(s.Flags) != len(flags) {
		t.Fatalf("%s: %d flags are described, want %d", s.Name, len(s.Flags), len(flags))
	}
	for i, f := range flags {
		d := s.Flags[i]
		if !slices.Equal(append([]string{d.Name}, d.Aliases...), f.Names()) {
			t.Errorf("%s --%s: want %v here", s.Name, d.Name, f.Names())
		}
		if d.Usage == "" || (d.Type == "bool") != (d.Value == "") {
			t.Errorf("%s --%s: %+v", s.Name, d.Name, d)
		}
		if _, generic := f.(*cli.GenericFlag); generic && d.Type == "string" && !d.Optional {
			t.Errorf("%s --%s: the type is not described: %+v", s.Name, d.Name, d)
		}
	}
}
