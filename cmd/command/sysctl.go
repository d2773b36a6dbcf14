package command

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/readfile"
	"initbox/internal/setting"
	"initbox/internal/sysctl"
)

// sysctlSettings are what a parameter of sysctl takes.
var sysctlSettings = setting.List{
	{Name: "if-exists", Usage: "leave out a parameter that the kernel does not have"},
}

func sysctlCommand(e *env) *cli.Command {
	var (
		files cli.StringSlice
		dry   bool
	)
	return &cli.Command{
		Usage:     "set parameters of the kernel, if they are not right already",
		ArgsUsage: "KEY=VALUE…",
		Description: `Gives each parameter its value. All are checked before the first one is written, and
each is read back. What is right already is not written, and needs no privilege.

KEY is a name such as vm.max_map_count, or a path such as
/sys/kernel/mm/transparent_hugepage/enabled. KEY>=VALUE raises a number that is less.
A setting is a flag, or stands in the fragment of one argument: KEY=VALUE#if-exists

Examples:
  initbox sysctl vm.max_map_count=262144
  initbox sysctl 'fs.file-max>=65536' net.ipv4.ip_local_port_range='1024 65000'
  initbox sysctl --file /config/sysctl.conf -- /app/server`,
		Flags: append(flagsOf(sysctlSettings, ""),
			textsFlag("file", "`FILE` of lines KEY = VALUE, as sysctl.conf; arguments override it", "", &files),
			onFlag("dry-run", "say what would change", "", &dry),
		),
		Action: e.action(func(c *cli.Context) (work, error) {
			settings, err := parseSysctls(c.Args().Slice(), settingsOf(c, sysctlSettings))
			if err != nil {
				return nil, err
			}
			if len(settings) == 0 && len(files.Value()) == 0 {
				return nil, usagef("no parameter given").hint("as in: initbox sysctl vm.max_map_count=262144")
			}
			return func(ctx context.Context) error {
				all, err := readSysctls(files.Value(), c.Bool("if-exists"))
				if err != nil {
					return err
				}
				return untilDone(ctx, func() error {
					return sysctl.Apply(ctx, append(all, settings...), sysctl.Options{DryRun: dry, Log: e.log})
				})
			}, nil
		}),
	}
}

// parseSysctls returns what arguments say.
func parseSysctls(args []string, flags setting.Settings) (settings []sysctl.Setting, err error) {
	for _, arg := range args {
		text, own, err := sysctlSettings.Argument(arg, flags)
		if err != nil {
			return nil, usagef("%s: %w", arg, err)
		}
		s, err := sysctl.Parse(text)
		if err != nil {
			return nil, usageError{err}
		}
		s.IfExists = own.On("if-exists")
		settings = append(settings, s)
	}
	return settings, nil
}

// readSysctls returns what the files say.
func readSysctls(names []string, ifExists bool) (settings []sysctl.Setting, err error) {
	for _, name := range names {
		text, err := readfile.All(name)
		if err != nil {
			return nil, failure.WithHint(fmt.Errorf("read the --file: %w", err), "is the ConfigMap mounted, and may this user read it?")
		}
		list, err := sysctl.ParseFile(string(text))
		if err != nil {
			return nil, fmt.Errorf("--file %s: %w", name, err)
		}
		for i := range list {
			list[i].IfExists = ifExists
		}
		settings = append(settings, list...)
	}
	return settings, nil
}
