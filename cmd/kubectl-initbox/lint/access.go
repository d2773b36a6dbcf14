package lint

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/kube"
)

// tokenDir is where the kubelet mounts the token of the service account.
const tokenDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// asks returns whether a step sends requests to the API server as the Pod's service account.
func (r *run) asks(s command.Inspected) bool {
	if s.Flags["kubeconfig"] != nil || r.sets("KUBECONFIG") || len(s.Needs) == 0 {
		return false
	}
	return !slices.ContainsFunc(s.Args, func(arg string) bool { return strings.Contains(arg, "kubeconfig=") })
}

// account returns the service account of the Pod.
func (p *pod) account() kube.Account {
	return kube.Account{Namespace: p.Object.Namespace, Name: p.ServiceAccount()}
}

// serviceAccountToken reports requests without a token.
func serviceAccountToken(r *run, report report) {
	m, _ := r.mount(tokenDir)
	if r.err != nil || m != nil {
		return
	}
	for _, s := range r.steps {
		if !r.asks(s) {
			continue
		}
		switch mounts := r.pod.Spec.AutomountServiceAccountToken; {
		case mounts != nil && !*mounts:
			report(r.container, r.node("k8s:", s.Name), "set automountServiceAccountToken: true in the Pod", "it asks the API server, and automountServiceAccountToken is false in the Pod, so there is no token")
		case mounts == nil && r.pod.untokened():
			report(r.container, r.node("k8s:", s.Name), "set automountServiceAccountToken: true in the Pod, which wins",
				"it asks the API server, and automountServiceAccountToken is false in the ServiceAccount %s, so there is no token", r.pod.account().Name)
		default:
			continue
		}
		return
	}
}

// untokened returns whether the ServiceAccount, if the input has it, gives its Pods no token.
func (p *pod) untokened() bool {
	node := manifest.Get(p.accountNode(), "automountServiceAccountToken")
	return node != nil && node.Value == "false"
}

func (p *pod) accountNode() (node *yaml.Node) {
	for _, o := range p.input.accounts[p.account().Name] {
		if o.Namespace == p.Object.Namespace || o.Namespace == "" || p.Object.Namespace == "" {
			node = o.Node
		}
	}
	return node
}

// rbac reports what no Role of the input allows. The Roles may be elsewhere: it is silent unless the input has some for
// the service account, or has the account itself, and if a Role is bound that the input does not have.
func rbac(r *run, report report) {
	if r.err != nil || !slices.ContainsFunc(r.steps, r.asks) {
		return
	}
	given, who := r.pod.input.grants(), r.pod.account()
	bound := given.Bound(who)
	if !bound && (r.pod.accountNode() == nil || !r.pod.input.hasRoles) {
		return
	}
	for _, s := range r.steps {
		needs := slices.DeleteFunc(slices.Clone(s.Needs), func(n kube.Permission) bool { return n.Comment != "" }) // optional, or a guess
		if !r.asks(s) || s.Unknown {
			continue
		}
		missing, elsewhere := given.Missing(needs, who)
		if len(missing) == 0 || len(elsewhere) > 0 {
			continue
		}
		n := missing[0]
		of := n.Resource
		if len(n.Names) > 0 {
			of += " " + strings.Join(n.Names, ", ")
		}
		report(r.container, r.node(append(slices.Clone(n.Names), "k8s:")...), "kubectl initbox rbac -f FILE prints the Role",
			"the service account %s may not %s %s: no Role in the input allows it", who.Name, strings.Join(n.Verbs, ", "), of)
	}
}
