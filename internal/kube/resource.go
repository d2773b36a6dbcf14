package kube

import (
	"slices"
	"strings"
	"sync"

	"initbox/internal/lazy"
)

// Resource is a kind of object, as the API server's paths name it.
type Resource struct {
	Group      string // empty for the core group
	Version    string
	Name       string // lower case and plural: "pods"
	Kind       string // "Pod"
	Namespaced bool
}

// String is the resource as kubectl and RBAC name it: "pods", "jobs.batch".
func (r Resource) String() string {
	if r.Group == "" {
		return r.Name
	}
	return r.Name + "." + r.Group
}

// path returns the path of the resource's objects on the server, or of the one object if name is not empty.
func (r Resource) path(namespace, name string) []string {
	path := []string{"api", r.Version}
	if r.Group != "" {
		path = []string{"apis", r.Group, r.Version}
	}
	if r.Namespaced && namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	path = append(path, r.Name)
	if name != "" {
		path = append(path, name)
	}
	return path
}

// A known resource is one with the other names that people use for it.
type known struct {
	Resource
	singular string
	short    []string
}

// builtin lists what every cluster of Kubernetes 1.33 has and can be listed, in
// the order in which kubectl prefers one to another of the same name.
//
// https://kubernetes.io/docs/reference/kubectl/#resource-types
var builtin = sync.OnceValue(func() []known {
	return []known{
		core("configmaps", "ConfigMap", "cm"),
		core("endpoints", "Endpoints", "ep"),
		core("events", "Event", "ev"),
		core("limitranges", "LimitRange", "limits"),
		wide("", "v1", "namespaces", "Namespace", "ns"),
		wide("", "v1", "nodes", "Node", "no"),
		core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc"),
		wide("", "v1", "persistentvolumes", "PersistentVolume", "pv"),
		core("pods", "Pod", "po"),
		core("podtemplates", "PodTemplate"),
		core("replicationcontrollers", "ReplicationController", "rc"),
		core("resourcequotas", "ResourceQuota", "quota"),
		core("secrets", "Secret"),
		core("serviceaccounts", "ServiceAccount", "sa"),
		core("services", "Service", "svc"),
		wide("apiregistration.k8s.io", "v1", "apiservices", "APIService"),
		within("apps", "v1", "controllerrevisions", "ControllerRevision"),
		within("apps", "v1", "daemonsets", "DaemonSet", "ds"),
		within("apps", "v1", "deployments", "Deployment", "deploy"),
		within("apps", "v1", "replicasets", "ReplicaSet", "rs"),
		within("apps", "v1", "statefulsets", "StatefulSet", "sts"),
		within("events.k8s.io", "v1", "events", "Event", "ev"),
		within("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa"),
		within("batch", "v1", "cronjobs", "CronJob", "cj"),
		within("batch", "v1", "jobs", "Job"),
		wide("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", "csr"),
		wide("networking.k8s.io", "v1", "ingressclasses", "IngressClass"),
		within("networking.k8s.io", "v1", "ingresses", "Ingress", "ing"),
		within("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol"),
		within("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb"),
		wide("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"),
		wide("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"),
		within("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
		within("rbac.authorization.k8s.io", "v1", "roles", "Role"),
		wide("storage.k8s.io", "v1", "csidrivers", "CSIDriver"),
		wide("storage.k8s.io", "v1", "csinodes", "CSINode"),
		within("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
		wide("storage.k8s.io", "v1", "storageclasses", "StorageClass", "sc"),
		wide("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment"),
		wide("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
		wide("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
		wide("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
		wide("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
		wide("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "crd", "crds"),
		wide("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc"),
		within("coordination.k8s.io", "v1", "leases", "Lease"),
		wide("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass"),
		within("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
		wide("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema"),
		wide("flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration"),
	}
})

func core(name, kind string, short ...string) known { return within("", "v1", name, kind, short...) }

func within(group, version, name, kind string, short ...string) known {
	return known{Resource{group, version, name, kind, true}, strings.ToLower(kind), short}
}

func wide(group, version, name, kind string, short ...string) known {
	k := within(group, version, name, kind, short...)
	k.Namespaced = false
	return k
}

// Lookup returns the built-in resource that kubectl would take name for: its plural, singular or short name or its
// kind, in any case, alone or with the group ("jobs.batch") or version and group ("jobs.v1.batch").
func Lookup(name string) (Resource, bool) { return find(builtin(), name) }

// Builtin is a resource that every cluster has, with what else it is called. [Lookup] takes each name alone, as
// NAME.GROUP and as NAME.VERSION.GROUP.
type Builtin struct {
	Resource
	Names []string // lower case, the plural first
	Short []string // these count only where no resource has them among its Names
}

// Builtins returns the resources that [Lookup] knows, in the order in which it prefers one to another of the same name.
func Builtins() []Builtin {
	var all []Builtin
	for _, k := range builtin() {
		names := []string{k.Name, k.singular, strings.ToLower(k.Kind)} // most are equal to their neighbour
		all = append(all, Builtin{k.Resource, slices.Compact(names), k.short})
	}
	return all
}

// Guess makes a resource of a name that no server was asked about, as kubectl
// guesses the plural. It takes it to have a namespace.
func Guess(name string) Resource {
	kind, _, group := split(name)
	switch {
	case strings.HasSuffix(kind, "s"):
	case strings.HasSuffix(kind, "y"):
		kind = strings.TrimSuffix(kind, "y") + "ies"
	default:
		kind += "s"
	}
	return Resource{Group: group, Name: kind, Namespaced: true}
}

// find returns the first that is called name: a short name counts only if nothing has it as its full one.
func find(list []known, name string) (Resource, bool) {
	name = strings.ToLower(name)
	for _, called := range []func(known, string) bool{known.full, known.shortened} {
		for _, k := range list {
			if called(k, name) {
				return k.Resource, true
			}
		}
	}
	return Resource{}, false
}

func (k known) full(name string) bool {
	return k.is(name, k.Name) || k.is(name, k.singular) || k.is(name, strings.ToLower(k.Kind))
}

func (k known) shortened(name string) bool {
	for _, s := range k.short {
		if k.is(name, s) {
			return true
		}
	}
	return false
}

// is reports whether name is call, call.GROUP or call.VERSION.GROUP; the last
// dot of the core group's "pods.v1." may be left out.
func (k known) is(name, call string) bool {
	rest, ok := strings.CutPrefix(name, call)
	if !ok || call == "" {
		return false
	}
	switch rest {
	case "", "." + k.Version + "." + k.Group:
		return true
	case "." + k.Group:
		return k.Group != ""
	case "." + k.Version:
		return k.Group == ""
	}
	return false
}

// version matches what stands for a version in KIND.VERSION.GROUP.
var version = lazy.Regexp(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// split takes name apart: KIND, KIND.GROUP or KIND.VERSION.GROUP.
func split(name string) (kind, ver, group string) {
	kind, group, _ = strings.Cut(strings.ToLower(name), ".")
	if first, rest, ok := strings.Cut(group, "."); ok && version().MatchString(first) {
		return kind, first, rest
	}
	return kind, "", group
}
