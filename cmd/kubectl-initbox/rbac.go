package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/grants"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/cmd/kubectl-initbox/program"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/words"
)

func (s *streams) rbac() *cli.Command {
	var namespace string
	return &cli.Command{
		Name:  "rbac",
		Usage: "print the Roles that the containers of manifests need",
		Description: `Prints, for kubectl apply, the smallest Roles and RoleBindings that let the containers of
initbox in the manifests do what their command lines say: one for each service account,
with the rights of all its Pods; for objects without a namespace, ClusterRoles. A service
account is left out if the Roles in the manifests grant it all of that already. It does
not contact the cluster.

Examples:
  helm template . | kubectl initbox rbac -f - | kubectl apply -f -
  kubectl initbox rbac -f deploy/ -n shop >rbac.yaml`,
		Flags: append(fileFlags(),
			&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Usage: "`NAMESPACE` of objects that name none (default: the one that the Roles are applied to)", Destination: &namespace}),
		Action: func(c *cli.Context) error {
			objects, err := s.objects(c)
			if err != nil {
				return err
			}
			accounts, containers, err := neededBy(objects, c.StringSlice("image"), namespace)
			if err != nil {
				return err
			}
			given := grants.Of(objects)
			var roles []string
			for _, a := range accounts {
				text, err := a.roles(s.stderr, given)
				if err != nil {
					return err
				}
				if text != "" {
					roles = append(roles, text)
				}
			}
			switch {
			case containers == 0:
				fmt.Fprintln(s.stderr, "no container in the input runs initbox; --image names other images that hold it")
			case len(accounts) == 0:
				fmt.Fprintln(s.stderr, "no Role is needed: no container of initbox sends requests to the API server")
			case len(roles) == 0:
				fmt.Fprintln(s.stderr, "no Role is missing: those of the input grant what is needed")
			}
			_, err = io.WriteString(s.stdout, strings.Join(roles, "---\n"))
			return err
		},
	}
}

// account is a service account, with what its Pods need.
type account struct {
	kube.Account
	needs []kube.Permission
	first *manifest.Container // that needs some of it
}

// neededBy returns what the containers of initbox need, by service account, and how many such containers there are.
// The error names all containers whose needs cannot be told.
func neededBy(objects []*manifest.Object, images []string, namespace string) (accounts []*account, containers int, err error) {
	byName := map[kube.Account]*account{}
	var problems []error
	for _, o := range objects {
		if o.Pod == nil {
			continue
		}
		who := kube.Account{Namespace: cmp.Or(o.Namespace, namespace), Name: o.Pod.ServiceAccount()}
		for _, c := range o.Pod.Containers {
			if !program.Runs(c, images) {
				continue
			}
			containers++
			needs, err := needsOf(c, who.Namespace)
			if err != nil {
				problems = append(problems, err)
			}
			if len(needs) == 0 {
				continue
			}
			if byName[who] == nil {
				byName[who] = &account{Account: who, first: c}
				accounts = append(accounts, byName[who])
			}
			byName[who].needs = append(byName[who].needs, needs...)
		}
	}
	if len(problems) == 0 {
		return accounts, containers, nil
	}
	return nil, containers, failure.WithHint(errors.Join(problems...), cmp.Or(failure.Hint(problems[0]), "kubectl initbox lint says more"))
}

// unknown is in what depends on a value that the manifest does not have; see [command.Opaque].
const unknown = "unknown"

// needsOf returns what a container of initbox needs. An error begins with its place.
func needsOf(c *manifest.Container, namespace string) (needs []kube.Permission, err error) {
	steps, err := command.Inspect(program.Words(c), program.Environment(c))
	if err = cmp.Or(c.Err, err); err != nil {
		return nil, errorf(c, "%w", err)
	}
	for _, step := range steps {
		for _, n := range step.Needs {
			if step.Unknown && n.Namespace == unknown {
				if namespace == "" {
					return nil, failure.WithHint(errorf(c, "the namespace of a target is a variable whose value the manifest does not have"),
						"if it is the Pod's, add it: -n NAMESPACE")
				}
				n.Namespace = namespace
			}
			if step.Unknown && strings.Contains(strings.Join(n.Names, " "), unknown) {
				n.Names, n.Comment = nil, "for all, since the manifest does not have the name"
			}
			if !n.Cluster {
				n.Namespace = cmp.Or(n.Namespace, namespace)
			}
			needs = append(needs, n)
		}
	}
	return needs, nil
}

// roles returns the Roles and bindings that the account needs, or "" if those of the input grant all of it. Of what
// they do not grant, it says so.
func (a *account) roles(messages io.Writer, given *grants.Grants) (string, error) {
	missing, _ := given.Missing(a.needs, a.Account)
	missing = slices.DeleteFunc(missing, func(p kube.Permission) bool { return strings.HasSuffix(p.Comment, kube.Optional) })
	switch {
	case len(missing) == 0:
		return "", nil
	case a.Namespace == "" && slices.ContainsFunc(a.needs, func(p kube.Permission) bool { return p.Cluster || p.Namespace != "" }):
		return "", failure.WithHint(a.errorf("needs rights in the cluster or in another namespace, and its own is not known"), "add it: -n NAMESPACE")
	case given.Bound(a.Account):
		lacks := words.Each(missing, func(p kube.Permission) string {
			return strings.Join(p.Verbs, ",") + " " + strings.TrimSuffix(p.Resource+"."+p.Group, ".") + strings.TrimSuffix(" "+strings.Join(p.Names, ","), " ")
		})
		fmt.Fprintf(messages, "service account %s: the Roles in the input do not grant %s\n", a.Name, failure.Printable(strings.Join(lacks, "; ")))
	}
	var text strings.Builder
	if err := kube.WriteRBAC(&text, a.needs, "", a.Name, a.Namespace); err != nil {
		return "", failure.WithHint(a.errorf("%w", err), failure.Hint(err))
	}
	return text.String(), nil
}

// errorf returns an error that names the first container of the account that needs something.
func (a *account) errorf(format string, args ...any) error { return errorf(a.first, format, args...) }

// errorf returns an error that begins with the place and the name of a container.
func errorf(c *manifest.Container, format string, args ...any) error {
	return fmt.Errorf("%s: container %s of %v: %w", c.Place(), c.Name, c.Pod.Object, fmt.Errorf(format, args...))
}
