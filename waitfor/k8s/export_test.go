package k8s

import (
	"initbox/internal/kube"
	"initbox/waitfor/target"
)

// GrantToUser returns the Roles and bindings that let a user, instead of a service account, wait for the checks.
func GrantToUser(checks []target.Check, user, name, namespace string) string {
	needs, _ := Permissions(checks)
	return kube.RBAC(needs, kube.Account{User: user}, name, namespace)
}
