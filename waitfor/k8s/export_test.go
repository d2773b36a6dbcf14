package k8s

import "initbox/waitfor/target"

// GrantToUser returns the Roles and bindings that let a user, instead of a service account, wait for the checks.
func GrantToUser(checks []target.Check, user, name, namespace string) string {
	return rbacYAML(permissions(checks, namespace), account{user: user}, name, namespace)
}
