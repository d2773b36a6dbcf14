package waitfor

import (
	"initbox/internal/kube"
	"initbox/waitfor/k8s"
)

// Permissions returns the rules of a Role with which a service account may wait for the targets of checks; see
// [kube.WriteRBAC].
func Permissions(checks []Check) ([]kube.Permission, error) { return k8s.Permissions(checks) }
