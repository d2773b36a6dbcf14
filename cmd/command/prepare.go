package command

import (
	"context"

	"github.com/urfave/cli/v2"

	"initbox/internal/words"
	"initbox/volume/prepare"
)

// Categories of prepare's flags, which are also settings.
const categoryPrepare = "Settings, also after # in one PATH"

func prepareCommand(e *env) *cli.Command {
	var o prepare.Options
	return &cli.Command{
		Usage:     "make directories, files and links; change owners and modes where they differ",
		ArgsUsage: "PATH[#SETTINGS]…",
		Description: `Makes each PATH be as its settings say, in the order given: by default a directory,
with its parents. Settings are joined by &; a flag holds for every PATH that does
not set or contradict it. In a path, # is written %23, and {1..9} stands for the
numbers. What is right already is not touched, what is of another kind is not
replaced, and no link is followed below PATH.

Examples:
  initbox prepare /data/db /data/logs --owner 999:999 --mode 0750
  initbox prepare '/data#owner=999:999&recursive=on-root-mismatch'
  initbox prepare '/run/pids#empty' '/data/lost+found#absent' '/etc/app#link=/data/etc'`,
		Flags: append(flagsOf(prepare.Settings, categoryPrepare),
			onFlag("force", "remove also what is in a mount point, in / or in no volume, and change also what is below /", categoryFiles, &o.Force),
			onFlag("dry-run", "say what would change", categoryFiles, &o.DryRun),
			onFlag("follow", "follow symbolic links in a volume that PATH is or leads through, which other programs may have made", categoryFiles, &o.Follow),
		),
		Action: e.action(func(c *cli.Context) (work, error) {
			args := c.Args().Slice()
			if len(args) == 0 {
				return nil, usagef("no path given").hint("as in: initbox prepare '/data#owner=999:999&recursive'")
			}
			flags := settingsOf(c, prepare.Settings)
			for _, arg := range args {
				if flag := map[string]string{"on-root-mismatch": "recursive", "file": "absent"}[arg]; flag != "" && flags.On(flag) {
					return nil, usagef("%s is the value of a flag, not a path", arg).hint("write --" + flag + "=" + arg + ", or ./" + arg)
				}
				p, err := prepare.Parse(arg, flags)
				if err != nil {
					return nil, usagef("%s: %w", arg, err)
				}
				o.Paths = append(o.Paths, p)
			}
			o.Log = e.log
			return func(ctx context.Context) error {
				if err := untilDone(ctx, func() error { return prepare.Run(ctx, o) }); err != nil {
					return err
				}
				e.warnNowhere(words.Each(o.Paths, func(p prepare.Path) string {
					if p.Kind == prepare.Absent || p.IfExists && checkFile(p.Path) != nil {
						return ""
					}
					return p.Path
				})...)
				return nil
			}, nil
		}),
	}
}
