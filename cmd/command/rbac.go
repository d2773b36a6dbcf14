package command

import (
	"cmp"
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/internal/kube"
	"initbox/volume/kubeget"
	"initbox/waitfor"
)

func rbac(e *env) *cli.Command {
	var (
		name, serviceAccount, namespace string
		wait                            waitFlags
	)
	own := append([]cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the printed objects (default: initbox-ACCOUNT; of ClusterRoles, and in other namespaces, initbox-NAMESPACE-ACCOUNT)", Destination: &name},
		&cli.StringFlag{Name: "service-account", Usage: "`[NAMESPACE/]NAME` of the Pod's service account; NAMESPACE if it is not that of --namespace", Value: "default", Destination: &serviceAccount},
		&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of the Pod, and of targets that name none (default: the one that the objects are applied to)", Destination: &namespace},
	}, fromFlags()...)
	flags := append(own, hidden(slices.Concat(settingFlags(waitfor.Kinds()...), wait.flags()), own)...)
	other := e.otherStep(flags)
	if other != nil {
		flags = append(flags, hidden(slices.Clone(other.Flags), append(e.commonFlags(rbacName), flags...))...)
	}
	return &cli.Command{
		Usage:     "print the Role that the Pod's service account needs",
		ArgsUsage: "[SUBCOMMAND] TARGET… [-- SUBCOMMAND …]",
		Description: `Prints the smallest Role and RoleBinding, for kubectl apply, that let wait-for-service
wait for every TARGET, and kube-get, trust-bundle and generate do what their command
lines say; for objects without a namespace, a ClusterRole. It does not contact the
cluster. Give it the args of a manifest as they are: targets of other kinds than k8s
need no rights, and neither do other subcommands; their flags are accepted, and a
program after -- is ignored.

Examples:
  initbox rbac k8s:job/migrate k8s:service/mydb | kubectl apply -n shop -f -
  initbox rbac wait-for-service k8s:job/migrate --timeout 10m -- /app/server
  initbox rbac kube-get 'k8s:secret/db#key=password' /out/password
  initbox rbac prepare /data#owner=1000 -- wait-for-service k8s:job/migrate
  initbox rbac k8s:pods?selector=app=web --namespace shop --service-account shop`,
		Flags: flags,
		Action: func(c *cli.Context) error {
			var needs []kube.Permission
			var err error
			switch {
			case other == nil:
				o := waitfor.Options{Getenv: os.Getenv, Gone: wait.o.Gone, Settings: settings(c, waitfor.Kinds()...)}
				if needs, err = e.needsOfTargets(c, o); wait.tells {
					needs = append(needs, eventsNeed)
				}
			case slices.Contains(asking, other.Name):
				needs, err = e.needsOfStep(c.Context, other, flags)
			}
			if err == nil && len(e.next) > 0 && isSubcommand(e.next[0]) {
				var rest []kube.Permission
				rest, err = e.needsOfChain(c.Context, e.next)
				needs = append(needs, rest...)
			}
			switch {
			case err != nil:
				return err
			case e.found != nil: // by the rbac of the step in front
				*e.found = needs
				return nil
			case len(needs) == 0:
				return usagef("no Role is needed: nothing here sends requests to the API server; of targets, only those that begin with k8s: do")
			}
			return e.printRoles(needs, name, serviceAccount, namespace)
		},
	}
}

// printRoles prints the Roles that the needs are, for a service account NAME or NAMESPACE/NAME. The namespace is that
// of needs without one.
func (e *env) printRoles(needs []kube.Permission, name, account, namespace string) error {
	in, account, found := strings.Cut(account, "/")
	switch {
	case !found && namespace == kubeget.AllNamespaces:
		return usagef("--namespace '*' is for the objects, and the Pod is in one namespace").hint("add it to the service account, as in --service-account shop/web")
	case !found:
		in, account = namespace, in
	case in == "" || account == "":
		return usagef("--service-account: want NAME or NAMESPACE/NAME")
	}
	for i := range needs {
		if !needs[i].Cluster && namespace != kubeget.AllNamespaces {
			needs[i].Namespace = cmp.Or(needs[i].Namespace, namespace)
		}
	}
	var roles strings.Builder
	if err := kube.WriteRBAC(&roles, needs, name, account, in); err != nil {
		return usageError{err}
	}
	return e.print(roles.String())
}

const rbacName = "rbac"

// asking are the subcommands, apart from wait-for-service, that may send requests to the API server. Their checks set
// step.needs.
var asking = []string{"generate", kubeGetName, trustBundleName, "wait-for-dns"}

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

// needsOfTargets returns what the targets in the command of a manifest need.
func (e *env) needsOfTargets(c *cli.Context, o waitfor.Options) ([]kube.Permission, error) {
	targets, err := e.targets(c, "k8s:job/migrate")
	if err != nil {
		return nil, err
	}
	checks, err := e.parseTargets(targets, o)
	if err != nil {
		return nil, err
	}
	needs, err := waitfor.Permissions(checks)
	if err != nil {
		return nil, usageError{err}
	}
	return needs, nil
}

// needsOfStep returns what the command line of a subcommand needs, among whose flags may be those of rbac.
func (e *env) needsOfStep(ctx context.Context, cmd *cli.Command, flags []cli.Flag) ([]kube.Permission, error) {
	var words []string
	named := false
	for args := e.args; len(args) > 0; {
		o, isOption := readOption(args, flags)
		if !isOption {
			o.words = args[:1]
		}
		switch {
		case isOption && !hasFlag(cmd.Flags, o.name): // of rbac
		case !isOption && !named: // the program, and the subcommand
			named = path.Base(args[0]) == cmd.Name
		default:
			words = append(words, o.words...)
		}
		args = args[len(o.words):]
	}
	step := e.newStep(0, cmd.Name)
	if err := step.read(words); err != nil {
		return nil, err
	}
	err := step.check(ctx)
	return step.needs, err
}

// needsOfChain returns what the steps that words begin with need.
func (e *env) needsOfChain(ctx context.Context, words []string) (needs []kube.Permission, err error) {
	next := e.newStep(0, rbacName)
	next.command, next.found = e.command, &needs
	if err := next.read(words); err != nil {
		return nil, err
	}
	if err := next.check(ctx); err != nil {
		return nil, err
	}
	err = next.work(ctx)
	return needs, err
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

func hasFlag(flags []cli.Flag, name string) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// hidden returns those of the flags that are not among others, which have the same meaning, so that the help does not
// show them.
func hidden(flags, others []cli.Flag) []cli.Flag {
	flags = slices.DeleteFunc(slices.Clone(flags), func(f cli.Flag) bool {
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
