package command

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/words"
	"initbox/waitfor"
)

func waitForDNS(e *env) *cli.Command {
	var (
		wait    waitFlags
		printed bool
		output  string
		follow  bool
		dns     = waitfor.KindOf("dns")
	)
	return &cli.Command{
		Usage:     "wait until names resolve",
		ArgsUsage: "NAME…",
		Description: `Waits until every NAME has an address, or the records asked for. A short name
goes through the search list of resolv.conf, as in a Pod; a name that ends in a
dot does not.

Examples:
  initbox wait-for-dns mydb cache --timeout 2m
  initbox wait-for-dns _pg._tcp.mydb --type SRV    # through the search list, too
  initbox wait-for-dns mydb --expect 10.0.0.0/8 --output /shared/mydb.txt`,
		Flags: slices.Concat(settingFlags(dns), []cli.Flag{
			&cli.BoolFlag{Name: "print", Usage: "write the records to stdout, one per line", Category: categoryResult, Destination: &printed},
			&cli.StringFlag{Name: "output", Usage: "`FILE` to write the records to, one per line", Category: categoryResult, Destination: &output},
			followFlag(categoryResult, &follow),
		}, wait.flags()),
		Action: e.action(func(c *cli.Context) (work, error) {
			names := c.Args().Slice()
			if len(names) == 0 {
				hint := "as in: initbox wait-for-dns mydb"
				if os.Getenv(variableTargets) != "" {
					hint += "; $" + variableTargets + " is for wait-for-service, which waits for names, too: dns:mydb"
				}
				return nil, usagef("no name given").hint(hint)
			}
			if wait.o.Gone && (printed || output != "") {
				return nil, usagef("with --gone there is nothing to print or to write")
			}
			o, err := wait.options(c, e, len(names))
			if err != nil {
				return nil, err
			}
			o.Settings = settings(c, dns)
			checks, err := e.parseTargets(words.Each(names, waitfor.DNSTarget), o)
			if err != nil && slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "/") }) {
				return nil, failure.WithHint(err, "wait-for-dns takes names only; for other targets use wait-for-service, as in: initbox wait-for-service tcp://mydb:5432")
			}
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				if err := wait.all(ctx, e, o, checks); err != nil {
					return err
				}
				if err := e.writeAnswers(printed, output, follow, checks); err != nil {
					return err
				}
				e.warnNowhere(output)
				return nil
			}, nil
		}),
	}
}

// writeAnswers writes the records of all names, one per line.
func (e *env) writeAnswers(printed bool, output string, follow bool, checks []waitfor.Check) error {
	var lines strings.Builder
	for _, check := range checks {
		for _, answer := range waitfor.Answers(check) {
			lines.WriteString(answer + "\n")
		}
	}
	if printed {
		if err := e.print(lines.String()); err != nil {
			return fmt.Errorf("print the records: %w", err)
		}
	}
	if output != "" {
		if err := (atomicfile.Writer{Follow: follow}).Write(output, []byte(lines.String()), 0o644); err != nil {
			return failure.WithHint(fmt.Errorf("write the records to %s: %w", output, err), mounts.WriteHint(err, output, writableHint))
		}
	}
	return nil
}
