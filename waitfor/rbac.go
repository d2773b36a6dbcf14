package waitfor

import (
	"fmt"
	"io"

	"initbox/waitfor/k8s"
	"initbox/waitfor/target"
)

// RBAC writes, as YAML for kubectl apply, the smallest Roles and RoleBindings with which a service account may wait for
// the targets; see [k8s.WriteRBAC]. It also returns the error of a target that [Parse] refuses.
func RBAC(w io.Writer, targets []string, name, serviceAccount, namespace string, o target.Options) error {
	var checks []target.Check
	for i, text := range targets {
		check, err := kinds.Parse(text, o)
		if err != nil && len(targets) > 1 {
			err = fmt.Errorf("target %d: %w", i+1, err)
		}
		if err != nil {
			return err
		}
		checks = append(checks, check)
	}
	return k8s.WriteRBAC(w, checks, name, serviceAccount, namespace)
}
