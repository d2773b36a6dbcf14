package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/cmd/help"
	"initbox/waitfor"
)

func waitForService(e *env) *cli.Command {
	var wait waitFlags
	return &cli.Command{
		Usage:       "wait until servers, databases, files and Kubernetes objects are ready",
		ArgsUsage:   "TARGET…",
		Description: describeTargets(false),
		Flags:       slices.Concat(settingFlags(waitfor.Kinds()...), fromFlags(), wait.flags()),
		Action: e.action(func(c *cli.Context) (work, error) {
			targets, err := e.targets(c, "tcp://mydb:5432")
			if err != nil {
				return nil, err
			}
			o, err := wait.options(c, e, len(targets))
			if err != nil {
				return nil, err
			}
			o.Settings = settings(c, waitfor.Kinds()...)
			checks, err := e.parseTargets(targets, o)
			if err == nil {
				err = unusedFlag(o, checks)
			}
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error { return wait.all(ctx, e, o, checks) }, nil
		}),
	}
}

// describeTargets returns the description of wait-for-service, with the table of targets: in detail with when they are
// ready.
func describeTargets(detail bool) string {
	var b strings.Builder
	b.WriteString("Waits until every TARGET is ready. Without TARGET, those in $" + variableTargets + ",\nseparated by white space.\n\n")
	if detail {
		b.WriteString("Targets, and when they are ready:\n")
	} else {
		b.WriteString("Targets, of which initbox help KIND says when they are ready and which settings they take, as in\n\"initbox help postgres\"; initbox help wait-for-service all says it of all kinds:\n")
	}
	for _, k := range waitfor.Kinds() {
		usage := k.Usage
		if detail && len(k.Schemes) > 1 {
			usage += " (" + strings.Join(k.Schemes[1:], ", ") + ")"
		}
		fmt.Fprintf(&b, "  %s\n", strings.Join(help.Wrap(usage, help.Width-2), "\n      "))
		if detail {
			fmt.Fprintf(&b, "      %s\n", k.Ready)
		}
	}
	b.WriteString(`
A setting is a flag, which holds for all targets of the kind, or stands in the
fragment of one target: http://api/health#status=200,401-403&json=.status==UP
Every target takes #gone: wait until it no longer answers.
Refer to a secret instead of writing it: http://app:${file:/secrets/password}@api/

Examples:
  initbox wait-for-service tcp://cache:8080 http://api/healthz --timeout 10m
  initbox wait-for-service 'postgres://app:${env:PGPASSWORD}@mydb/app' redis://cache
  initbox wait-for-service '${env:DATABASE_URL}#query=SELECT count(*) FROM migrations'
  initbox wait-for-service k8s:job/migrate 'k8s:pods?selector=app=web#count=2'
  initbox wait-for-service 'https://app:${file:/secrets/password}@api/#ca-file=/tls/ca.crt'
  initbox wait-for-service file:///shared/ready tcp://old:80#gone -- /app/server --port 8080`)
	return b.String()
}
