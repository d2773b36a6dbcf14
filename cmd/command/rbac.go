package command

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/waitfor"
)

func rbac(e *env) *cli.Command {
	var (
		name, serviceAccount, namespace string
		wait                            waitFlags
	)
	own := append([]cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the printed objects (default: initbox- and the service account)", Destination: &name},
		&cli.StringFlag{Name: "service-account", Usage: "`NAME` of the Pod's service account", Value: "default", Destination: &serviceAccount},
		&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of the Pod, and of targets that name none (default: the one that the objects are applied to)", Destination: &namespace},
	}, fromFlags()...)
	flags := append(own, hidden(slices.Concat(settingFlags(waitfor.Kinds()...), wait.flags()), own)...)
	other := e.otherStep(flags)
	if other != nil {
		flags = append(flags, hidden(other.Flags, append(e.commonFlags(rbacName), flags...))...)
	}
	return &cli.Command{
		Usage:     "print the Role that a wait for Kubernetes objects needs",
		ArgsUsage: "[SUBCOMMAND] TARGET… [-- SUBCOMMAND …]",
		Description: `Prints the smallest Role and RoleBinding that let wait-for-service wait for every
TARGET, for kubectl apply; for objects without a namespace, a ClusterRole. It does
not contact the cluster. Give it the args of a manifest as they are: targets of other
kinds than k8s need no rights, and neither do other subcommands; their flags are
accepted, and a program after -- is ignored.

Examples:
  initbox rbac k8s:job/migrate k8s:service/mydb | kubectl apply -n shop -f -
  initbox rbac wait-for-service k8s:job/migrate --timeout 10m -- /app/server
  initbox rbac prepare /data#owner=1000 -- wait-for-service k8s:job/migrate
  initbox rbac k8s:pods?selector=app=web --namespace shop --service-account shop`,
		Flags: flags,
		Action: func(c *cli.Context) error {
			var checks []waitfor.Check
			if other == nil {
				o := waitfor.Options{Getenv: os.Getenv, Gone: wait.o.Gone, Settings: settings(c, waitfor.Kinds()...)}
				var err error
				if checks, err = e.targetsOfManifest(c, o); err != nil {
					return err
				}
			}
			if len(e.next) > 0 && isSubcommand(e.next[0]) {
				rest, err := e.checksOf(c.Context, e.next)
				if err != nil {
					return err
				}
				checks = append(checks, rest...)
			}
			if e.found != nil { // by the rbac of the step in front
				*e.found = checks
				return nil
			}
			var roles strings.Builder
			if err := waitfor.RBAC(&roles, checks, name, serviceAccount, namespace); err != nil {
				return usageError{err}
			}
			return e.print(roles.String())
		},
	}
}

const rbacName = "rbac"

// otherStep returns the subcommand, if it is not wait-for-service, whose command line rbac is to read. The flags are
// rbac's own.
func (e *env) otherStep(flags []cli.Flag) *cli.Command {
	words := withoutProgram(topics(e.args, flags))
	if len(words) == 0 {
		return nil
	}
	name := path.Base(words[0])
	if !isSubcommand(name) || name == rbacName || name == waitForServiceName || strings.Contains(words[0], ":") {
		return nil
	}
	return e.newStep(0, name).newApp(name).Command(name)
}

// targetsOfManifest returns the checks of the targets in the command of a manifest.
func (e *env) targetsOfManifest(c *cli.Context, o waitfor.Options) ([]waitfor.Check, error) {
	targets, err := e.targets(c, "k8s:job/migrate")
	if err != nil {
		return nil, err
	}
	if targets = withoutProgram(targets); len(targets) == 0 {
		return nil, usagef("no target given").hint("as in: initbox rbac wait-for-service k8s:job/migrate")
	}
	var checks []waitfor.Check
	for i, text := range targets {
		check, err := waitfor.Parse(text, o)
		if err != nil && len(targets) > 1 {
			err = fmt.Errorf("target %d: %w", i+1, err)
		}
		if err != nil {
			return nil, usageError{err}
		}
		checks = append(checks, check)
	}
	return checks, nil
}

// checksOf returns the checks of the steps that words begin with.
func (e *env) checksOf(ctx context.Context, words []string) (checks []waitfor.Check, err error) {
	next := e.newStep(0, rbacName)
	next.command, next.found = e.command, &checks
	if err := next.read(words); err != nil {
		return nil, err
	}
	if err := next.check(ctx); err != nil {
		return nil, err
	}
	err = next.work(ctx)
	return checks, err
}

// withoutProgram removes the words before the targets in the command of a manifest: the program, and its subcommand.
func withoutProgram(words []string) []string {
	for _, name := range []string{programName, waitForServiceName} {
		if len(words) > 0 && path.Base(words[0]) == name && !strings.Contains(words[0], ":") {
			words = words[1:]
		}
	}
	return words
}

// hidden returns those of the flags that are not among others, which have the same meaning, so that the help does not
// show them.
func hidden(flags, others []cli.Flag) []cli.Flag {
	flags = slices.DeleteFunc(flags, func(f cli.Flag) bool {
		return slices.ContainsFunc(others, func(o cli.Flag) bool { return o.Names()[0] == f.Names()[0] })
	})
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.BoolFlag:
			f.Hidden = true
		case *cli.StringFlag:
			f.Hidden = true
		case *cli.StringSliceFlag:
			f.Hidden = true
		case *cli.IntFlag:
			f.Hidden = true
		case *cli.GenericFlag:
			f.Hidden = true
		}
	}
	return flags
}
