package translate

import (
	"net/url"
	"strings"
)

// k8sObjects says which objects a target of the scheme k8s means.
type k8sObjects struct {
	kind, name, namespace   string
	selector, fieldSelector string
	all                     bool // of the kind, in the namespace
}

// target writes the target, with the settings NAME or NAME=VALUE.
func (o k8sObjects) target(settings ...string) string {
	s := "k8s:" + o.kind
	if o.name != "" {
		s += "/" + url.PathEscape(o.name)
	}
	var query []string
	for _, part := range [][2]string{{"selector", o.selector}, {"field-selector", o.fieldSelector}, {"namespace", o.namespace}} {
		if part[1] != "" {
			query = append(query, part[0]+"="+escape(part[1]))
		}
	}
	if o.all {
		query = append(query, "all")
	}
	if len(query) > 0 {
		s += "?" + strings.Join(query, "&")
	}
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
