package command

import (
	"context"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"initbox/internal/setting"
	"initbox/internal/stage"
	"initbox/render/format"
	"initbox/render/merge"
	"initbox/render/values"
)

func mergeCommand(e *env) *cli.Command {
	var o merge.Options
	var out outputFlags
	var formats, schemas, set, setString, setFile, remove cli.StringSlice
	var expand bool
	const result, written = "The result", "What is written"
	return &cli.Command{
		Usage:     "merge configuration files into one, or join their bytes",
		ArgsUsage: "SRC[#optional]… DST",
		Description: `Merges YAML, JSON, TOML, INI, .env and .properties files, in their order, into the
file DST, in the format of its name: maps key by key, the later value wins. SRC is a
file, a directory, whose files are merged in the order of their names, or a pattern
such as '/config/*.yaml'. DST is only read if it is also a SRC.

Examples:
  initbox merge /defaults/app.yaml '/overrides/app.yaml#optional' /config/app.yaml
  initbox merge /conf.d /config/app.json --set server.port=8080 --delete debug
  initbox merge /config/app.ini /extra/app.ini /config/app.ini
  initbox merge --concat /etc/ssl/ca.pem '/company/*.crt' /trust/ca.pem`,
		Flags: slices.Concat(flagsOf(merge.Settings, "Settings, also after # in one SRC"), []cli.Flag{
			textsFlag("format", "`[PATTERN=]FORMAT` of files whose extension does not tell it, as in '*.conf=ini'", result, &formats),
			textFlag("lists", "`replace|append|by-key=NAME`: the later list wins, is appended, or its maps are merged into those with the same value of NAME (default replace)", result, &o.Lists),
			textsFlag("delete", "`PATH` of a key that is removed, as in a.b or a[0].b, before any is set", result, &remove),
			textsFlag("set", "`PATH=VALUE` as in Helm: a.b[0]=v,c={x,y}", result, &set),
			textsFlag("set-string", "`PATH=VALUE` whose value stays text", result, &setString),
			textsFlag("set-file", "`PATH=FILE` whose content is the value", result, &setFile),
			onFlag("expand", "replace ${NAME} and ${NAME:-text} in values of sources by variables of the environment", result, &expand),
			onFlag("concat", "join the bytes of the files instead, with a line break between two where it is missing", result, &o.Concat),
			textsFlag("schema", "`[PATTERN=]FILE` with a JSON Schema that the result must match", result, &schemas),
			onFlag("dry-run", "say what would change", written, &o.DryRun),
		}, out.flags(written, "0644, or 0600 with a secret in it; that of DST if it is a SRC")),
		Action: e.action(func(c *cli.Context) (_ work, err error) {
			args := c.Args().Slice()
			if len(args) < 2 {
				return nil, usagef("want SRC… DST").hint("as in: initbox merge /defaults/app.yaml /overrides/app.yaml /config/app.yaml")
			}
			for _, arg := range slices.Concat(args, set.Value(), setString.Value(), setFile.Value(), remove.Value()) {
				if err := unreplaced("the argument", arg); err != nil {
					return nil, err
				}
			}
			for _, arg := range args[:len(args)-1] {
				path, s, err := merge.Settings.Argument(arg, settingsOf(c, merge.Settings))
				if err != nil {
					return nil, usagef("%s: %w", arg, err)
				}
				o.Sources = append(o.Sources, merge.Source{Path: path, Optional: s.On("optional")})
			}
			var s setting.Settings
			if o.To, s, err = merge.Settings.Argument(args[len(args)-1], nil); err != nil || len(s) > 0 {
				return nil, usagef("%s: DST takes no settings; in its path, # is written %%23", args[len(args)-1])
			}
			if o.Formats, err = rules("format", formats, format.Named); err != nil {
				return nil, err
			}
			if o.Schemas, err = rules("schema", schemas, func(s string) (string, error) { return s, nil }); err != nil {
				return nil, err
			}
			if err := out.check(); err != nil {
				return nil, err
			}
			o.Edit.Delete = remove.Value()
			add := func(kind values.Kind, texts cli.StringSlice) {
				for _, text := range texts.Value() {
					o.Edit.Set = append(o.Edit.Set, values.Source{Kind: kind, Text: text})
				}
			}
			add(values.Set, set)
			add(values.SetString, setString)
			add(values.SetFile, setFile)
			o.Elsewhere = e.inspecting
			o.Log, o.Follow, o.Mode, o.Owner = e.log, out.follow, out.of, out.perm
			if expand {
				o.Expand = os.LookupEnv
			}
			if err := o.Check(); err != nil {
				return nil, usageError{err}
			}
			return func(ctx context.Context) error { return e.merge(ctx, o) }, nil
		}),
	}
}

// merge merges, and logs what was done.
func (e *env) merge(ctx context.Context, o merge.Options) error {
	var done merge.Summary
	err := untilDone(ctx, func() (err error) {
		done, err = merge.Run(ctx, o)
		return err
	})
	if err != nil {
		return err
	}
	if done.InPlace {
		e.log.Warn(stage.InPlace(o.To))
	}
	e.log.Info(done.String())
	if !o.DryRun {
		e.warnNowhere(o.To)
	}
	return nil
}
