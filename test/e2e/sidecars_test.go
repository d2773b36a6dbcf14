package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"initbox/test/servers"
)

// Sidecars as they are operated: docs/sidecars.md.

// sidecars are those of sidecars.yaml by the names of their ports, with the subcommand and the port of each.
var sidecars = map[string]struct{ command, port string }{
	"sidecar-git": {"git-clone", "9001"}, "sidecar-objects": {"kube-get", "9002"}, "sidecar-stores": {"keystore", "9003"},
	"sidecar-render": {"render", "9004"}, "sidecar-reg": {"register", "9005"},
}

// A Prometheus finds the sidecars by the names of their ports, and understands what they answer.
func TestSidecarMetrics(t *testing.T) {
	t.Parallel()
	servers.Need(t, "promtool")
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.newServer()
	commit := n.newGitServer().push("config.git", "main", map[string]string{"settings.txt": "first\n"})
	n.allow("web", "kube-get", "k8s:configmap/web", "/data/objects/", "--watch=10s")
	n.apply("sidecars.yaml")
	n.wait("condition=Ready", "pod/web")
	n.wait("condition=Ready", "pod/prometheus")

	n.untilScraped("up", func(s sample) bool { return s.value == "1" })
	n.untilScraped("initbox_last_success_timestamp_seconds", func(s sample) bool { return s.value > "1700000000" })
	n.untilScraped("initbox_build_info", func(s sample) bool { return s.labels["command"] == sidecars[s.labels["sidecar"]].command })
	if found := n.query(`initbox_revision_info{sidecar="sidecar-git"}`); len(found) != 1 || found[0].labels["revision"] != commit {
		n.Errorf("the revision in Prometheus is %v, want %s", found, commit)
	}
	if old := n.query(`time() - initbox_last_success_timestamp_seconds > 900`); len(old) > 0 { // the alert of the page
		n.Errorf("sidecars are out of date: %v", old)
	}
	for name, s := range sidecars {
		metrics, _ := request(t, "GET", "/api/v1/namespaces/"+n.name+"/pods/web:"+s.port+"/proxy/metrics", "", "")
		check := exec.CommandContext(n.Context(), "promtool", "check", "metrics")
		check.Stdin = strings.NewReader(string(metrics))
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 || len(metrics) == 0 {
			n.Errorf("promtool check metrics, of %s: %v\n%s\n%s", name, err, out, metrics)
		}
	}
}

// sample is a value in an answer of Prometheus.
type sample struct {
	labels map[string]string
	value  string
}

// query asks the Prometheus of the namespace.
func (n namespace) query(expression string) (found []sample) {
	n.Helper()
	answer, _ := request(n.T, "GET", "/api/v1/namespaces/"+n.name+"/pods/prometheus:9090/proxy/api/v1/query?query="+url.QueryEscape(expression), "", "")
	var result struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any // the time, and the value as a string
			}
		}
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		n.Fatalf("Prometheus answered %s: %v", answer, err)
	}
	for _, r := range result.Data.Result {
		found = append(found, sample{r.Metric, fmt.Sprint(r.Value[1])})
	}
	return found
}

// untilScraped waits until Prometheus has a good sample of the metric for each sidecar, and no other.
func (n namespace) untilScraped(metric string, good func(sample) bool) {
	n.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		found, of := n.query(metric), map[string]bool{}
		for _, s := range found {
			if good(s) {
				of[s.labels["sidecar"]] = true
			}
		}
		if len(found) == len(sidecars) && slices.Equal(slices.Sorted(maps.Keys(of)), slices.Sorted(maps.Keys(sidecars))) {
			n.Logf("%s: %v", metric, found)
			return
		}
		if time.Now().After(deadline) {
			n.Fatalf("Prometheus has of %s: %v", metric, found)
		}
	}
}

// A ConfigMap changes, its file is rendered again, and the program in the other container gets a signal: if the Pod
// shares its process namespace, and the sidecar has the program's user. Else the log says what is missing. A wrong
// template leaves the file as it was.
func TestSidecarSignal(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.apply("sidecar-signal.yaml")
	n.apply("sidecar-signal.yaml", "name: signalled", "name: apart", "shareProcessNamespace: true", "shareProcessNamespace: false")
	n.apply("sidecar-signal.yaml", "name: signalled", "name: stranger", "      runAsUser: 1234567", "      runAsUser: 2345678")
	for _, pod := range []string{"signalled", "apart", "stranger"} {
		n.wait("condition=Ready", "pod/"+pod)
	}
	app := n.follow("logs", "signalled", "--container", "app", "--follow")
	app.until(`/config/app.conf: .*"greeting = FIRST\\n"`)

	change := func(template string) {
		t.Helper()
		n.kubectl("patch", "configmap", "app", "--patch", fmt.Sprintf(`{"data": {"app.conf.tmpl": %q}}`, template))
	}
	change("greeting = {{ upper `second` }}\n")
	app.until(`told by hangup$`)
	app.until(`/config/app.conf: .*"greeting = SECOND\\n"`)
	sidecar := n.follow("logs", "signalled", "--container", "config", "--follow")
	sidecar.until(`app: SIGHUP sent to process \d+$`)
	n.eventuallyLogs("apart", "config", `this container sees only its own processes.* add shareProcessNamespace: true to the Pod's spec`)
	n.eventuallyLogs("stranger", "config", `send SIGHUP to app, process \d+: .*not permitted.* both containers need the same runAsUser, or this one the capability KILL`)
	for _, pod := range []string{"apart", "stranger"} {
		if file := n.config(pod); !strings.Contains(file, "SECOND") {
			n.Errorf("the file in Pod %s is %s", pod, file)
		}
		if log := n.logs(pod, "app"); strings.Contains(log, "told by") {
			n.Errorf("the app in Pod %s got a signal:\n%s", pod, log)
		}
	}

	change("greeting = {{ uper `third` }}\n")
	sidecar.until(`app.conf.tmpl:1.*uper`)
	if file := n.config("signalled"); !strings.Contains(file, "SECOND") {
		n.Errorf("a template that is wrong has changed the file: %s", file)
	}
	change("greeting = {{ upper `third` }}\n")
	app.until(`/config/app.conf: .*"greeting = THIRD\\n"`)
	t.Logf("the sidecar said\n%s", sidecar)
	t.Logf("the one without shareProcessNamespace said\n%s", n.logs("apart", "config"))
	t.Logf("the one with another user said\n%s", n.logs("stranger", "config"))
}

// config returns what the application of sidecar-signal.yaml finds in its configuration.
func (n namespace) config(pod string) string {
	n.Helper()
	return n.kubectl("exec", pod, "--container", "app", "--", "/app", "-stat", "/config/app.conf", "-exit", "0")
}

// kubectl describe shows why a Pod waits, that the reason has changed, and that the wait is over. A Pod without the
// Role waits just as well, and its log says what it lacks.
func TestEvents(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.allow("web", "wait-for-service", "http://mydb/", "--events")
	n.apply("events.yaml")
	n.apply("events.yaml", "name: web}\nspec", "name: denied}\nspec", "serviceAccountName: web", "serviceAccountName: default")
	events := n.follow("get", "events", "--watch", "--no-headers", "--field-selector", "involvedObject.name=web,source=initbox")
	t.Logf("kubectl get events: %s", trimmed(events.until(`Warning +Waiting .*http://mydb/: .*no such name`).text))
	n.applyText("{apiVersion: v1, kind: Service, metadata: {name: mydb}, spec: {selector: {app: mydb}, ports: [{port: 80, targetPort: 8080}]}}")
	// How a Service without endpoints fails depends on the cluster's network.
	t.Logf("kubectl get events: %s", trimmed(events.until(`Warning +Waiting .*http://mydb/: .*(refused|no route|no answer|timed out)`).text))
	n.kubectl("run", "mydb", "--image=app:e2e", "--labels=app=mydb", "--overrides",
		`{"spec": {"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}, "containers": [{"name": "mydb", "image": "app:e2e",
			"args": ["-listen", ":8080"], "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`)
	events.until(`Normal +Ready .*wait-for-service: ready after`)
	n.wait("condition=Ready", "pod/web")
	n.wait("condition=Ready", "pod/denied")

	describe := n.kubectl("describe", "pod", "web")
	contains(t, "kubectl describe", describe, `^ +Warning +Waiting +\S+ +initbox +wait-for-service: waiting for 30s, 1 of 1 target left: http://mydb/: .*no such name`,
		`^ +Normal +Ready +\S+ +initbox +wait-for-service: ready after`)
	_, shown, _ := strings.Cut(describe, "\nEvents:")
	t.Logf("kubectl describe:%s", shown)

	log := n.logs("denied", "wait")
	contains(t, "the log of the one without a Role", log, `WARN no Event is written: .*may not create events`, `resources: \[events\]`, `http://mydb/: ready after`)
	if warnings := strings.Count(log, "no Event is written"); warnings != 1 || strings.Contains(n.kubectl("describe", "pod", "denied"), "wait-for-service: ") {
		n.Errorf("without the Role, there are Events, or %d warnings:\n%s", warnings, log)
	}
	t.Logf("the log of the one without a Role:\n%s", log)
}
