package command

import (
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/waitfor"
)

func rbac(e *env) *cli.Command {
	var name, serviceAccount, namespace string
	return &cli.Command{
		Usage:     "print the Role that a wait for Kubernetes objects needs",
		ArgsUsage: "TARGET…",
		Description: `Prints the smallest Role and RoleBinding that let wait-for-service wait for every
TARGET, for kubectl apply; for objects without a namespace, a ClusterRole. It does
not contact the cluster. Targets of other kinds than k8s need no rights, and a command
after -- is ignored, so you can give it the arguments of a wait as they are.

Examples:
  initbox rbac k8s:job/migrate k8s:service/mydb | kubectl apply -f -
  initbox rbac k8s:pods?selector=app=web --namespace shop --service-account shop`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the printed objects (default: initbox- and the service account)", Destination: &name},
			&cli.StringFlag{Name: "service-account", Usage: "`NAME` of the Pod's service account", Value: "default", Destination: &serviceAccount},
			&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of the Pod, and of targets that name none", Value: "default", Destination: &namespace},
		}, fromFlags()...),
		Action: func(c *cli.Context) error {
			targets, _, err := e.targets(c, "k8s:job/migrate")
			if err != nil {
				return err
			}
			var roles strings.Builder
			if err := waitfor.RBAC(&roles, targets, name, serviceAccount, namespace, waitfor.Options{Getenv: os.Getenv}); err != nil {
				return usageError{err}
			}
			_, err = e.stdout.Write([]byte(roles.String()))
			return err
		},
	}
}
