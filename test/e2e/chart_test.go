package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A chart that uses the library chart: its Pods come up, with the rights of initbox.rbac and no others, and their hook
// deregisters them.
func TestChart(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	helm := n.helm("4")
	chart := n.copies(map[string]string{"shop": "test/e2e/testdata/chart", "shop/charts/initbox": "charts/initbox"}) + "/shop"
	server := n.newServer()
	t.Cleanup(func() {
		n.try("delete", "clusterrole/initbox-"+n.name+"-web", "clusterrolebinding/initbox-"+n.name+"-web")
	})
	n.applyText(helm("template", "shop", chart))
	n.rollout("web")

	pods := n.livePods("app=web")
	for name := range pods {
		contains(t, "the configuration of "+name, n.found(name, "web"), `from: templates`, `colour: teal`, `port: 80`)
	}
	if len(pods) != 2 {
		t.Errorf("%d Pods", len(pods))
	}
	server.requireLive(pods)
	n.requireRights("web")

	deaths := n.watchPods("app=web")
	n.kubectl("scale", "deployment/web", "--replicas=0")
	n.untilDeleted(deaths, pods)
	server.requireLive(nil)
}

// requireRights requires that a service account may do what the chart's steps do, and not what is next to it.
func (n namespace) requireRights(account string) {
	n.Helper()
	for _, r := range []struct{ verb, what, want string }{
		{"list", "jobs/shop-migrate", "yes"},
		{"watch", "services/management", "yes"},
		{"list", "endpointslices", "yes"},
		{"create", "secrets", "yes"},
		{"get", "secrets/shop-db", "yes"},
		{"get", "nodes/any", "yes"}, // the node's name is known only in the Pod
		{"list", "jobs", "no"},
		{"get", "secrets/shop-colour", "no"},
		{"update", "secrets/shop-db", "no"},
		{"get", "configmaps/shop-values", "no"},
		{"list", "nodes", "no"},
		{"patch", "nodes/any", "no"},
	} {
		// kubectl exits with status 1 for a no.
		out, _ := n.try("auth", "can-i", r.verb, r.what, "--as", "system:serviceaccount:"+n.name+":"+account, "--quiet=false")
		if lines := strings.Fields(out); len(lines) == 0 || lines[len(lines)-1] != r.want {
			n.Errorf("may the Pods %s %s? want %s, got %s", r.verb, r.what, r.want, out)
		}
	}
}

// helm returns a function that runs the real helm, of a major version, in the namespace, and returns what it prints to
// stdout.
func (n namespace) helm(major string) func(args ...string) string {
	n.Helper()
	program := filepath.Join(os.Getenv("E2E_HELMS"), "helm"+major)
	if _, err := os.Stat(program); err != nil {
		n.Skip("needs helm: test/chart/build.sh")
	}
	home := n.TempDir()
	return func(args ...string) string {
		n.Helper()
		cmd := exec.CommandContext(n.Context(), program, append(args, "--namespace", n.name)...)
		cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
		var diagnosis strings.Builder
		cmd.Stderr = &diagnosis
		out, err := cmd.Output()
		if err != nil {
			n.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, out, &diagnosis)
		}
		return string(out)
	}
}

// copies returns a temporary directory with copies of directories of the repository, since helm writes into charts.
func (n namespace) copies(dirs map[string]string) string {
	n.Helper()
	work := n.TempDir()
	for name, from := range dirs {
		if err := os.CopyFS(filepath.Join(work, name), os.DirFS(filepath.Join("..", "..", from))); err != nil {
			n.Fatal(err)
		}
	}
	return work
}
