package k8s

import (
	"initbox/internal/kube"
	"initbox/waitfor/target"
)

// State returns nil if an object that the caller has read is ready for a target of this package's kind, and otherwise
// why not. The parts are the EndpointSlices of a Service, or the Pods of a Job.
func State(parsed target.Check, r kube.Resource, o kube.Object, parts []kube.Object) error {
	c := unwrap(parsed)
	return c.judgeOne(view{Object: o, resource: r, expect: c.expect, alone: c.Name != "", slices: parts, pods: func() []kube.Object { return parts }})
}

// ObjectsOf returns the objects that a target means, and whether it is of this package's kind.
func ObjectsOf(parsed target.Check) (kube.Objects, bool) {
	if c := unwrap(parsed); c != nil {
		return c.Objects, true
	}
	return kube.Objects{}, false
}
