package command

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/waitfor"
)

func waitForService(e *env) *cli.Command {
	var wait waitFlags
	return &cli.Command{
		Usage:       "wait until servers, databases, files and Kubernetes objects are ready",
		ArgsUsage:   "TARGET… [-- COMMAND ARG…]",
		Description: describeTargets(false),
		Flags:       slices.Concat(settingFlags(waitfor.Kinds()...), fromFlags(), wait.flags()),
		Action: func(c *cli.Context) error {
			targets, command, err := e.targets(c, "tcp://mydb:5432")
			if err != nil {
				return err
			}
			o, err := wait.options(c, e, len(targets))
			if err != nil {
				return err
			}
			o.Settings = settings(c, waitfor.Kinds()...)
			checks, err := parseTargets(targets, o)
			if err != nil {
				return err
			}
			if err := e.doOnce(func() error { return waitfor.All(c.Context, o, checks...) }); err != nil {
				return err
			}
			if len(command) > 0 {
				return e.replaceProcess(command)
			}
			return nil
		},
	}
}

// replaceProcess runs command in place of this process (execve), so that it gets the signals and gives the exit status.
// It returns only if that fails, or if a signal came after the wait: it was meant for this process.
func (e *env) replaceProcess(command []string) error {
	path, err := exec.LookPath(command[0])
	if err == nil {
		if stop := e.releaseSignals(); stop != nil {
			return fmt.Errorf("not running %s: %w", command[0], stop)
		}
		err = syscall.Exec(path, command, os.Environ())
	}
	return failure.WithHint(fmt.Errorf("run %s: %w", command[0], err), "the image of initbox has no other program: is the command on a volume, or in the image that initbox was copied into?")
}

// describeTargets returns the description of wait-for-service, with the table of targets: in detail with when they are
// ready.
func describeTargets(detail bool) string {
	var b strings.Builder
	b.WriteString("Waits until every TARGET is ready, and then replaces itself with COMMAND, if there is one.\n\n")
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
		fmt.Fprintf(&b, "  %s\n", strings.Join(wrap(usage, helpWidth-2), "\n      "))
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
