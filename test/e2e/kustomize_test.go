package e2e_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// applyRole grants a service account what a wait without arguments needs for the targets, as initbox rbac prints it.
func (n namespace) applyRole(serviceAccount, targets string) {
	n.Helper()
	rbac := exec.CommandContext(n.Context(), program, "rbac", "wait-for-service", "--service-account", serviceAccount, "--namespace", n.name)
	rbac.Env = append(os.Environ(), "INITBOX_TARGETS="+targets)
	role, err := rbac.Output()
	if err != nil {
		n.Fatal(err)
	}
	n.applyText(string(role))
}

// An annotation is all that a workload needs to wait: of several targets, in a Deployment, a DaemonSet and a Job, under
// the restricted Pod Security Standard.
func TestKustomizeWait(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.kubectl("apply", "-k", "testdata/kustomize")
	n.applyRole("web", "k8s:job/migrate")
	n.wait("condition=Complete", "job/migrate")
	n.wait("condition=Available", "deployment/web")
	n.kubectl("rollout", "status", "daemonset/agent", "--timeout="+patience.String())
	for _, pod := range strings.Fields(n.kubectl("get", "pods", "-l", "app=web", "-o", "name")) {
		log := n.kubectl("logs", pod, "-c", "initbox-wait")
		contains(t, "the log of "+pod, log, `k8s:job/migrate: ready`)
		contains(t, "the log of "+pod, log, `http://cache:8080/: ready`)
	}
	forgotten := n.follow("get", "pods", "-l", "app=forgotten", "--watch", "-o",
		`jsonpath={.status.initContainerStatuses[0].state}{.status.initContainerStatuses[0].lastState}{"\n"}`)
	said := forgotten.until(`"exitCode":2`)
	contains(t, "the status of the Pod without the annotation", said.text, `no target given, and \$INITBOX_TARGETS is empty`)
	contains(t, "the status of the Pod without the annotation", said.text, `hint: is the annotation, .* missing or misspelt`)
}
