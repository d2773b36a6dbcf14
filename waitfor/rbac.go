package waitfor

import (
	"io"

	"initbox/waitfor/k8s"
)

// RBAC writes, as YAML for kubectl apply, the smallest Roles and RoleBindings with which a service account may wait for
// the targets of checks; see [k8s.WriteRBAC].
func RBAC(w io.Writer, checks []Check, name, serviceAccount, namespace string) error {
	return k8s.WriteRBAC(w, checks, name, serviceAccount, namespace)
}
