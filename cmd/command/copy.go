package command

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/stage"
	"initbox/internal/words"
	"initbox/volume/copy"
)

func copyCommand(e *env) *cli.Command {
	var o copy.Options
	maxSize := byteCount(4 << 30)
	return &cli.Command{
		Usage:     "copy files, directories and mounted ConfigMaps and Secrets into volumes",
		ArgsUsage: "SRC:DST[#SETTINGS]…",
		Description: `Copies each SRC to DST: the content of a directory into the directory DST, a file to the
file DST, or into it if it is a directory or ends in a slash. SRC may be a pattern, such
as '/certs/*.pem'. Each file appears as a whole, and what is right already is left
alone. A setting is a flag, for all pairs, or stands in the fragment of one pair, which
wins. In paths, # is written %23.

Examples:
  initbox copy /opt/themes:/themes
  initbox copy '/certs:/tls#owner=70:70' --mode 0644 --mode '*.key=0600'
  initbox copy /defaults:/config --no-overwrite
  initbox copy '/dashboards:/var/lib/dashboards/#unpack&prune'`,
		Flags: append(flagsOf(copy.Settings, "Settings, also after # in one SRC:DST"),
			&cli.GenericFlag{Name: "max-size", Usage: "`SIZE` of all that is unpacked, as in 500Mi", Value: &maxSize, DefaultText: "4Gi", Category: categoryFiles},
			onFlag("atomic-dir", "make DST a link to a directory that is replaced as a whole", categoryFiles, &o.Atomic),
			onFlag("dry-run", "say what would change", categoryFiles, &o.DryRun),
			followFlag(categoryFiles, &o.Follow),
		),
		Action: e.action(func(c *cli.Context) (work, error) {
			pairs := c.Args().Slice()
			if len(pairs) == 0 {
				return nil, usagef("no SRC:DST given").hint("as in: initbox copy /defaults:/config")
			}
			o.MaxSize, o.Log = int64(maxSize), e.log
			for _, text := range pairs {
				pair, err := copy.ParsePair(text, settingsOf(c, copy.Settings))
				if err != nil {
					return nil, usagef("%s: %w", text, err)
				}
				o.Pairs = append(o.Pairs, pair)
			}
			if err := o.Check(); err != nil {
				return nil, usageError{err}
			}
			return func(ctx context.Context) error {
				err := e.copy(ctx, o)
				if err == nil && !o.DryRun {
					e.warnNowhere(words.Each(o.Pairs, func(p copy.Pair) string { return filepath.Clean(p.To) })...)
				}
				return err
			}, nil
		}),
	}
}

// copy copies, and logs what was done to each destination.
func (e *env) copy(ctx context.Context, o copy.Options) error {
	var done []copy.Summary
	err := untilDone(ctx, func() (err error) {
		done, err = copy.Run(ctx, o)
		return err
	})
	if ctx.Err() != nil && err != nil {
		return err // done may still be written to
	}
	for _, s := range done {
		log := e.log.With(failure.Fields(failure.Printable(s.Path), 0, nil))
		for _, path := range s.InPlace {
			log.Warn(stage.InPlace(path))
		}
		if s.NotKept > 0 {
			log.Warn(fmt.Sprintf("%s: the owner or an attribute of %s is not kept: that takes root and the capability CHOWN, or a file system that has such attributes", failure.Printable(s.Path), words.Plural(s.NotKept, "file")))
		}
		log.Info(s.String(), failure.Seconds(s.Duration))
	}
	return err
}
