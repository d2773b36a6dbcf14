package command

import (
	"context"

	"github.com/urfave/cli/v2"

	"initbox/register"
)

func deregister(e *env) *cli.Command {
	var o register.Options
	var names resolverFlags
	return &cli.Command{
		Usage: "deregister this Pod, as in a preStop hook",
		Description: `Removes the entry that initbox register with the same --state has made, from the same
server and with the same credentials, whose files are read again. In a preStop hook it
runs before the application is stopped, so that the application gets no new requests.
A register --hold that keeps the entry alive does not restore it.

Example:
  initbox deregister --state /state/registered --timeout 10s`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "state", Usage: "`FILE` that register has written", Category: categoryOnce, Destination: &o.State},
		}, tryFlags(&o.AttemptTimeout, &o.Spread, &o.RetryTLS, &names)...),
		Action: e.action(func(c *cli.Context) (work, error) {
			if words := c.Args().Slice(); len(words) > 0 {
				return nil, usagef("unexpected argument: %s", words[0])
			}
			if o.State == "" {
				return nil, usagef("--state is missing").hint("as in: initbox deregister --state /state/registered")
			}
			if err := e.setSurroundings(&o, &names); err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				registration, err := register.Load(o)
				if err != nil {
					return err
				}
				return registration.Leave(ctx)
			}, nil
		}),
	}
}
