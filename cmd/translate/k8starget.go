package translate

import (
	"net/url"
	"strings"

	"initbox/internal/kube"
)

// k8sTarget returns the target of the objects, with the settings NAME or NAME=VALUE.
func k8sTarget(o kube.Objects, settings ...string) string {
	o.Name = url.PathEscape(o.Name)
	s := o.Text(escape)
	for i, setting := range settings {
		sign := "&"
		if i == 0 {
			sign = "#"
		}
		name, value, valued := strings.Cut(setting, "=")
		s += sign + name
		if valued {
			s += "=" + escape(value)
		}
	}
	return s
}

// escape escapes what would end a value in a target, or begin a reference to a secret.
func escape(value string) string {
	return strings.NewReplacer("%", "%25", "&", "%26", "#", "%23", "${", "%24%7B", "\n", "%0A", "\t", "%09").Replace(value)
}
