package command

import (
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
	return &cli.Command{
		Usage:     "print the Role that a wait for Kubernetes objects needs",
		ArgsUsage: "[wait-for-service] TARGET…",
		Description: `Prints the smallest Role and RoleBinding that let wait-for-service wait for every
TARGET, for kubectl apply; for objects without a namespace, a ClusterRole. It does
not contact the cluster. Give it the args of a manifest as they are: targets of other
kinds than k8s need no rights, all flags of wait-for-service are accepted, and a
command after -- is ignored.

Examples:
  initbox rbac k8s:job/migrate k8s:service/mydb | kubectl apply -n shop -f -
  initbox rbac wait-for-service k8s:job/migrate --timeout 10m -- /app/server
  initbox rbac k8s:pods?selector=app=web --namespace shop --service-account shop`,
		Flags: slices.Concat(own, hidden(slices.Concat(settingFlags(waitfor.Kinds()...), wait.flags()), own)),
		Action: func(c *cli.Context) error {
			targets, _, err := e.targets(c, "k8s:job/migrate")
			if err != nil {
				return err
			}
			targets = withoutProgram(targets)
			if len(targets) == 0 {
				return usagef("no target given").hint("as in: initbox rbac wait-for-service k8s:job/migrate")
			}
			o := waitfor.Options{Getenv: os.Getenv, Gone: wait.o.Gone, Settings: settings(c, waitfor.Kinds()...)}
			var roles strings.Builder
			if err := waitfor.RBAC(&roles, targets, name, serviceAccount, namespace, o); err != nil {
				return usageError{err}
			}
			return e.print(roles.String())
		},
	}
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
