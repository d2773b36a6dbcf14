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
	needCluster(t)
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	server := n.newServer()
	t.Cleanup(func() {
		n.try("delete", "clusterrole/initbox-"+n.name+"-web", "clusterrolebinding/initbox-"+n.name+"-web")
	})
	n.applyText(n.helmTemplate("testdata/chart"))
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

// helmTemplate renders the chart in a directory with the real helm 4, as release shop, with the library chart as its
// dependency.
func (n namespace) helmTemplate(dir string) string {
	n.Helper()
	helm := filepath.Join(filepath.Dir(os.Getenv("E2E_HELM")), "helm4")
	if _, err := os.Stat(helm); err != nil {
		n.Skip("needs helm: test/chart/build.sh")
	}
	work := n.TempDir()
	for name, from := range map[string]string{"shop": dir, "shop/charts/initbox": "../../charts/initbox"} {
		if err := os.CopyFS(filepath.Join(work, name), os.DirFS(from)); err != nil {
			n.Fatal(err)
		}
	}
	cmd := exec.CommandContext(n.Context(), helm, "template", "shop", work+"/shop", "--namespace", n.name)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+work, "HELM_CONFIG_HOME="+work, "HELM_DATA_HOME="+work)
	out, err := cmd.Output()
	if err != nil {
		if failed, is := err.(*exec.ExitError); is {
			out = failed.Stderr
		}
		n.Fatalf("helm template: %v\n%s", err, out)
	}
	return string(out)
}
