package e2e_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// allow applies what initbox rbac prints for the arguments of a container. The Roles have the namespace's name, since a
// ClusterRole is not removed with it.
func (n namespace) allow(account string, args ...string) {
	n.Helper()
	cmd := exec.CommandContext(n.Context(), program, append([]string{"rbac", "--service-account", account, "--namespace", n.name, "--name", n.name}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		n.Fatalf("initbox rbac: %v", err)
	}
	n.Logf("initbox rbac %s:\n%s", strings.Join(args, " "), out)
	n.applyText(string(out))
	n.Cleanup(func() {
		n.try("delete", "clusterrole,clusterrolebinding", n.name, "--ignore-not-found", "--wait=false")
	})
}

// twice requires that the second run of a container has changed nothing.
func (n namespace) twice(pod string) {
	n.Helper()
	contains(n.T, "the log of the second run in "+pod, n.logs(pod, "again"), `nothing to change`)
}

// A CA is created in a Secret; a Pod of a StatefulSet gets a certificate of it for its name in the headless Service, a
// client trusts it by a bundle in an emptyDir, and another Pod has it in keystores.
func TestFilesCertificates(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.allow("ca", "generate", "certificate", "--subject", "CN=Company CA", "--is-ca", "--secret", "k8s:secret/company-ca")
	n.apply("certificates.yaml")
	n.wait("jsonpath={.status.phase}=Succeeded", "pod/ca")
	n.wait("condition=Ready", "pod/web-0")
	n.twice("web-0")
	contains(t, "what web found", n.logs("web-0", "web"), `/tls/web/tls.key: .*, -rw-------, owner 1234567:`, `/tls/web/ca.crt: .*BEGIN CERTIFICATE`)
	n.wait("jsonpath={.status.phase}=Succeeded", "pod/client")
	n.twice("client")
	contains(t, "what the client got", n.logs("client", "client"), `https://web-0.web:8443/: 200 OK`)
	n.wait("jsonpath={.status.phase}=Succeeded", "pod/broker")
	n.twice("broker")
	contains(t, "the broker's keystores", n.logs("broker", "broker"), `/stores/keystore.jks: .*, -rw-------, `, `/stores/keystore.p12: .*, -rw-------, `, `/stores/keystore.pem: .*ENCRYPTED PRIVATE KEY`)
	t.Logf("%s%s%s%s", n.logs("ca", "generate"), n.logs("web-0", "certificate"), n.logs("client", "trust"), n.logs("broker", "keystore"))
}

// Two Pods generate one password at the same time: one of them creates the Secret, and both have what it has.
func TestFilesGenerateRace(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.allow("db", "generate", "password", "/run/app/password", "--secret", "k8s:secret/db#key=password")
	n.apply("generate-race.yaml")
	n.wait("jsonpath={.status.readyReplicas}=2", "deployment/db")
	password := n.kubectl("get", "secret", "db", "-o", "go-template={{.data.password | base64decode}}")
	if len(password) != 24 {
		n.Errorf("the password has %d characters", len(password))
	}
	pods := strings.Fields(n.kubectl("get", "pods", "-l", "app=db", "-o", "jsonpath={.items[*].metadata.name}"))
	for _, pod := range pods {
		if log := n.logs(pod, "app"); !strings.Contains(log, fmt.Sprintf("%q", password)) {
			n.Errorf("%s has another password than the Secret: %s", pod, log)
		}
		log := n.logs(pod, "password")
		if strings.Contains(log, password) {
			n.Errorf("the log of %s has the password", pod)
		}
		t.Logf("%s", log)
	}
}

// A label of the Pod's node, and a key of a Secret that is created while the init container waits for it.
func TestFilesKubeGet(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	node := n.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
	n.allow("web", "kube-get", `k8s:node/`+node+`#jsonpath=.metadata.labels.kubernetes\.io/os&to=os`, "k8s:secret/db#key=password", "/out/")
	n.apply("kube-get.yaml")
	n.eventuallyLogs("web", "known", `k8s:secret/db: no such Secret`)
	n.applyText("{apiVersion: v1, kind: Secret, metadata: {name: db}, stringData: {password: hunter22}}")
	n.wait("jsonpath={.status.phase}=Succeeded", "pod/web")
	contains(t, "what web found", n.logs("web", "web"), `/out/os: .*, -rw-r--r--, .*"linux"`, `/out/password: .*, -rw-------, .*"hunter22"`)
	n.twice("web")
	log := n.logs("web", "known")
	if strings.Contains(log, "hunter22") {
		n.Errorf("the log has the password: %s", log)
	}
	t.Logf("%s", log)
}

// eventuallyLogs waits until a container has logged a line, before it has ended or afterwards.
func (n namespace) eventuallyLogs(pod, container, pattern string) {
	n.Helper()
	n.eventually("logs", pod, "--container", container)
	n.follow("logs", pod, "--container", container, "--follow").until(pattern)
}

// ConfigMaps are added, changed and removed, and the files and the application follow.
func TestFilesKubeGetWatch(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.allow("grafana", "kube-get", "k8s:configmaps?selector=grafana_dashboard=1#optional", "/dashboards/", "--watch=1m")
	n.apply("kube-get-watch.yaml")
	n.wait("condition=Ready", "pod/grafana")
	contains(t, "what grafana found at first", n.logs("grafana", "grafana"), `/dashboards/first.json: .*\{\\"title\\": \\"First\\"\}`, `/datasources/prometheus.yaml: .*"apiVersion: 1\\n"`)
	app := n.follow("logs", "grafana", "--container", "grafana", "--follow")
	app.untilLine("the first webhook", func(line) bool { return len(webhooks(app)) == 1 })
	told := 0
	change := func(manifest string, changed func(files string) bool) {
		t.Helper()
		before := len(webhooks(app))
		n.applyText(manifest)
		told++
		app.untilLine("a webhook", func(line) bool { return len(webhooks(app)) > before })
		if files := n.kubectl("exec", "grafana", "--container", "grafana", "--", "/app", "-stat", "/dashboards/*", "-exit", "0"); !changed(files) {
			n.Errorf("after change %d, the files are\n%s", told, files)
		}
	}
	configMap := func(name, content string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, labels: {grafana_dashboard: %q}}, data: {%s.json: '{%q: %q}'}}", name, "1", name, "title", content)
	}
	change(configMap("second", "Second"), func(files string) bool { return strings.Contains(files, `Second`) && strings.Contains(files, `First`) })
	change(configMap("first", "Changed"), func(files string) bool {
		return strings.Contains(files, `Changed`) && !strings.Contains(files, `First`)
	})
	before := len(webhooks(app))
	n.kubectl("delete", "configmap", "second")
	app.untilLine("a webhook", func(line) bool { return len(webhooks(app)) > before })
	if files := n.kubectl("exec", "grafana", "--container", "grafana", "--", "/app", "-stat", "/dashboards/*", "-exit", "0"); strings.Contains(files, "second.json") {
		n.Errorf("the file of the removed ConfigMap is still there:\n%s", files)
	}
	t.Logf("%s", n.logs("grafana", "dashboards"))
}

// webhooks returns the lines of the application's log that have a webhook.
func webhooks(s *stream) (found []line) {
	lines, _, _ := s.read()
	for _, l := range lines {
		if strings.HasPrefix(l.text, "POST /api/admin/provisioning/dashboards/reload") {
			found = append(found, l)
		}
	}
	return found
}

// Defaults and overrides become one file.
func TestFilesMerge(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.apply("merge.yaml")
	n.wait("jsonpath={.status.phase}=Succeeded", "pod/merged")
	contains(t, "what the app found", n.logs("merged", "app"), `/config/app.yaml: .*, -rw-r--r--, .*"server: # for all\\n +port: 8080\\n +threads: 16\\n +name: merged\\n"`)
	n.twice("merged")
	t.Logf("%s", n.logs("merged", "merge"))
}

// A request is repeated until its server is there, and another one is sent once.
func TestFilesRequest(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.apply("request.yaml")
	n.wait("jsonpath={.status.phase}=Succeeded", "pod/setup")
	log := n.logs("search", "search")
	contains(t, "the server's log", log, `PUT /_index_template/logs: .*logs-\*`, `POST /hooks: .*setup starts`)
	if count := strings.Count(log, "POST /hooks"); count != 1 {
		n.Errorf("the server was told %d times:\n%s", count, log)
	}
	contains(t, "the answer", n.logs("setup", "app"), `/state/answer: .*"hello\\n"`)
	t.Logf("%s%s%s", n.logs("setup", "template"), n.logs("setup", "tell"), n.logs("setup", "again"))
}
