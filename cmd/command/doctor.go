package command

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"initbox/internal/inpod"
)

func doctor(e *env) *cli.Command {
	format := "text"
	return &cli.Command{
		Usage: "print what this container sees: user, volumes, name servers, API server",
		Description: `Looks at the container that it runs in, and says what is wrong and how to fix that. It
changes nothing, needs no rights, and prints no secret. What it cannot read, it names.
The status is 0 if there are problems, too.

Examples:
  kubectl exec mypod -c wait -- /bin/initbox doctor   # in the init container that waits
  initbox doctor --format json`,
		Flags: []cli.Flag{
			textFlag("format", "`text|json`: form of the report", "", &format),
		},
		Action: e.action(func(c *cli.Context) (work, error) {
			if c.Args().Present() {
				return nil, usagef("want no argument, got %d", c.NArg())
			}
			if format != "text" && format != "json" {
				return nil, usagef("--format: want text or json, got %q", format)
			}
			return func(ctx context.Context) error {
				report := inpod.Look(ctx, inpod.Options{Version: e.version, Getenv: os.Getenv, Environ: os.Environ()})
				if ctx.Err() != nil {
					return fmt.Errorf("look at the container: %w", context.Cause(ctx))
				}
				text := report.Text()
				if format == "json" {
					data, err := encodeJSON(report)
					if err != nil {
						return err
					}
					text = string(data)
				}
				if err := e.print(text); err != nil {
					return fmt.Errorf("print the report: %w", err)
				}
				return nil
			}, nil
		}),
	}
}
