package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// Pods that register with a server in their namespace, as documented in docs/register.md, and as seen by that server.

// journal is the server's log in register-server.yaml: a line of JSON for each event.
type journal struct{ *stream }

type instant struct {
	At                 time.Time
	What, Instance, IP string   // what: register, ask, alive, deregister; the app's started, stopped
	Entries            []string // the addresses of the instance, after it
	All                int      // entries of all instances, after it
	Status             int
}

// newServer starts the server. Once it exists, Pods have the variables with its address.
func (n namespace) newServer() journal {
	n.Helper()
	n.apply("register-server.yaml")
	n.wait("condition=Ready", "pod/management")
	return journal{n.follow("logs", "management", "--follow")}
}

// instants returns the events so far, in order.
func (j journal) instants() (all []instant) {
	lines, _, _ := j.read()
	for _, l := range lines {
		var i instant
		if json.Unmarshal([]byte(l.text), &i) == nil && i.What != "" {
			all = append(all, i)
		}
	}
	return all
}

// of returns the events of the kind.
func (j journal) of(what string) (some []instant) {
	for _, i := range j.instants() {
		if i.What == what {
			some = append(some, i)
		}
	}
	return some
}

// untilInstant waits for the first event for which ok is true.
func (j journal) untilInstant(what string, ok func(instant) bool) (found instant) {
	j.n.Helper()
	j.untilLine(what, func(l line) bool {
		var i instant
		if json.Unmarshal([]byte(l.text), &i) != nil || !ok(i) {
			return false
		}
		found = i
		return true
	})
	return found
}

// upToNow waits until all earlier events are in the log, which may be delayed.
func (j journal) upToNow() {
	j.n.Helper()
	mark := fmt.Sprintf("%x", time.Now().UnixNano())
	request(j.n.T, "GET", "/api/v1/namespaces/"+j.n.name+"/pods/management:8080/proxy/app/mark/"+mark, "", "")
	j.untilInstant("the mark", func(i instant) bool { return i.Instance == mark })
}

// registered returns the registered instances, with their addresses.
func (j journal) registered() map[string][]string {
	j.n.Helper()
	j.upToNow()
	now := map[string][]string{}
	for _, i := range j.instants() {
		delete(now, i.Instance)
		if len(i.Entries) > 0 {
			now[i.Instance] = i.Entries
		}
	}
	return now
}

// requireOnce requires that no instance ever had a duplicate, or was told about one.
func (j journal) requireOnce() {
	j.n.Helper()
	j.upToNow()
	times := map[string]int{}
	for _, i := range j.instants() {
		if i.What == "register" {
			times[i.Instance]++
		}
		if len(i.Entries) > 1 || i.What == "register" && times[i.Instance] > 1 {
			j.n.Errorf("%s was registered %d times, and has the entries %v", i.Instance, times[i.Instance], i.Entries)
		}
	}
}

// requireLive requires that exactly the Pods with the label are registered, with their addresses.
func (j journal) requireLive(pods map[string]livePod) {
	j.n.Helper()
	registered := j.registered()
	for name, p := range pods {
		if got := registered[name]; len(got) != 1 || got[0] != p.Status.PodIP {
			j.n.Errorf("Pod %s with the address %s is registered with %v", name, p.Status.PodIP, got)
		}
	}
	for name, entries := range registered {
		if _, live := pods[name]; !live {
			j.n.Errorf("%s is registered with %v, and there is no such Pod", name, entries)
		}
	}
}

// livePod is the data with which a Pod is registered.
type livePod struct {
	Metadata struct {
		Name              string
		DeletionTimestamp time.Time
	}
	Status struct{ PodIP string }
}

// livePods returns the Pods with a label that are not being deleted, by name.
func (n namespace) livePods(label string) map[string]livePod {
	n.Helper()
	var list struct{ Items []livePod }
	if err := json.Unmarshal([]byte(n.kubectl("get", "pods", "--selector", label, "-o", "json")), &list); err != nil {
		n.Fatal(err)
	}
	live := map[string]livePod{}
	for _, p := range list.Items {
		if p.Metadata.DeletionTimestamp.IsZero() {
			live[p.Metadata.Name] = p
		}
	}
	return live
}

// watchPods watches the Pods with a label.
func (n namespace) watchPods(label string) *watched {
	n.Helper()
	return watchObject(n.T, "/api/v1/namespaces/"+n.name+"/pods?labelSelector="+url.QueryEscape(label))
}

// rollout waits until the rollout of a Deployment is complete.
func (n namespace) rollout(name string) {
	n.Helper()
	n.kubectl("rollout", "status", "deployment/"+name, "--timeout="+patience.String())
}

// stopwatch returns a function that logs the duration of a step.
func (n namespace) stopwatch() func(step string) {
	began := time.Now()
	return func(step string) {
		n.Helper()
		n.Logf("%s: %v", step, time.Since(began).Round(time.Second))
		began = time.Now()
	}
}

// untilAll waits until there are at least n entries.
func (j journal) untilAll(number int) instant {
	j.n.Helper()
	return j.untilInstant(fmt.Sprintf("%d entries", number), func(i instant) bool { return i.All >= number })
}

// Twenty Pods register with the init container from the documentation, once each.
func TestRegister(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	server := n.newServer()
	n.apply("register.yaml")
	n.rollout("plain")
	last := server.untilAll(20)
	pods := n.livePods("app=plain")
	server.requireLive(pods)
	server.requireOnce()
	first := server.of("register")[0]
	if len(pods) != 20 {
		n.Errorf("%d Pods, want 20", len(pods))
	}
	if ours != "" { // in the network of test/cluster, where the suite can reach a Service's address
		ip := n.kubectl("get", "service", "management", "-o", "jsonpath={.spec.clusterIP}")
		wait := n.await("k8s:service/management", "tcp://"+ip+":80")
		if status, _ := wait.exit(); status != 0 {
			n.Errorf("the wait for the Service's address: exit status %d:\n%s", status, wait)
		}
	}
	t.Logf("%d of %d Pods are registered, once each, within %v", len(server.registered()), len(pods), last.At.Sub(first.At).Round(time.Millisecond))
}

// With a sidecar and a preStop hook, exactly the serving Pods are registered, through a rolling restart and to the end.
func TestRegisterHold(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	server := n.newServer()
	step := n.stopwatch()
	n.apply("register-hold.yaml")
	n.rollout("web")
	before := n.livePods("app=web")
	server.requireLive(before)
	step(fmt.Sprintf("%d Pods", len(before)))

	deaths := n.watchPods("app=web")
	sofar := len(server.instants())
	n.kubectl("rollout", "restart", "deployment/web")
	n.rollout("web")
	n.untilDeleted(deaths, before)
	after := n.livePods("app=web")
	server.requireLive(after)
	fewest, most := len(before), len(before)
	for _, i := range server.instants()[sofar:] {
		fewest, most = min(fewest, i.All), max(most, i.All)
	}
	step(fmt.Sprintf("a rolling restart to %d others, from %d to %d registered at a time", len(after), fewest, most))

	n.kubectl("scale", "deployment/web", "--replicas=0")
	n.untilDeleted(deaths, after)
	server.requireLive(nil)
	step("to none")

	server.requireOnce()
	gone := deaths.deleted()
	if len(before) != 20 || len(after) != 20 || len(gone) != 40 {
		t.Errorf("%d Pods before the restart, %d after it, %d gone; want 20, 20 and 40", len(before), len(after), len(gone))
	}
	for name := range gone {
		server.requireStory(name, "register:1 started:1 deregister:0 stopped:0")
	}
	n.requireSidecarsEnded("register", gone)
	t.Logf("%d registrations, %d heartbeats", len(server.of("register")), len(server.of("alive")))
}

// requireStory requires that exactly these events happened to an instance, each with the number of its entries after
// it.
func (j journal) requireStory(instance, want string) {
	j.n.Helper()
	var story []string
	for _, i := range j.instants() {
		if i.Instance == instance && i.What != "alive" && i.What != "ask" {
			story = append(story, fmt.Sprintf("%s:%d", i.What, len(i.Entries)))
		}
	}
	// The app repeats the request if there was no answer in time. A sidecar whose heartbeat and the hook's deregistration
	// were under way at the same time does not know which of them the server got last, so it deregisters once more.
	got := strings.Join(slices.Compact(story), " ")
	if got != want && got != want+" deregister:0" {
		j.n.Errorf("what has happened to %s is %s, want %s", instance, got, want)
	}
}

// untilDeleted waits until all the Pods are gone.
func (n namespace) untilDeleted(events *watched, pods map[string]livePod) {
	n.Helper()
	deadline := time.After(patience)
	for {
		gone := events.deleted()
		left := slices.DeleteFunc(slices.Collect(maps.Keys(pods)), func(name string) bool { return gone[name] != nil })
		if len(left) == 0 {
			return
		}
		select {
		case <-events.more:
		case <-deadline:
			n.Fatalf("not deleted: %s", strings.Join(left, ", "))
		}
	}
}

// deleted returns the last known state of the deleted objects, by name.
func (w *watched) deleted() map[string]object {
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := map[string]object{}
	for _, e := range w.events {
		if name, ok := e.Object.at("metadata", "name").(string); ok && e.Type == "DELETED" {
			gone[name] = e.Object
		}
	}
	return gone
}

// requireSidecarsEnded requires that the containers with this name in all deleted Pods have ended by themselves, and in
// time: one that is killed after the grace period ends with 137.
func (n namespace) requireSidecarsEnded(sidecar string, pods map[string]object) {
	n.Helper()
	var after []time.Duration
	for name, o := range pods {
		text, err := json.Marshal(o)
		if err != nil {
			n.Fatal(err)
		}
		var p pod
		if err := json.Unmarshal(text, &p); err != nil {
			n.Fatal(err)
		}
		ended, app := p.containerNamed(n.T, sidecar).State.Terminated, p.containerNamed(n.T, "app").State.Terminated
		if ended == nil || app == nil || ended.ExitCode != 0 {
			n.Errorf("Pod %s is gone, and of its sidecar is known %+v, of its app %+v; want both ended, the sidecar with status 0", name, ended, app)
			continue
		}
		after = append(after, ended.FinishedAt.Sub(app.FinishedAt))
	}
	if len(after) == 0 {
		n.Fatal("no Pod is known to be gone")
	}
	slices.Sort(after)
	n.Logf("%d sidecars ended with status 0, in the median %v after the app, at most %v (the kubelet's times are whole seconds)",
		len(after), after[len(after)/2], after[len(after)-1])
}

// A sidecar that was killed asks for its entry after the restart, and does not register again. A Pod with a new address
// is registered with only that one. Without a preStop hook, the sidecar deregisters on SIGTERM, after the app has
// ended.
func TestRegisterRestarted(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	server := n.newServer()
	step := n.stopwatch()
	n.apply("register-hold.yaml", "replicas: 20", "replicas: 1",
		"automountServiceAccountToken: false", "automountServiceAccountToken: false\n      shareProcessNamespace: true", // so that the app can kill it
		"        lifecycle:\n          preStop: {exec: {command: [/tools/initbox, deregister, --state, /state/registered, --timeout, 60s]}}\n", "")
	n.rollout("web")
	name := server.untilAll(1).Instance
	step("a Pod")

	n.kubectl("exec", name, "--container", "app", "--", "/app", "-kill", "initbox", "-exit", "0")
	restarts := n.followPod(name, "-o", `jsonpath={.status.initContainerStatuses[?(@.name=="register")].restartCount} {.status.initContainerStatuses[?(@.name=="register")].ready}{"\n"}`)
	restarts.until(`^[1-9]\d* true$`)
	server.untilInstant("a question", func(i instant) bool { return i.What == "ask" && i.Status == 200 })
	server.requireOnce()
	server.requireLive(n.livePods("app=web"))
	contains(t, "the sidecar's log", n.logs(name, "register"), `is already registered`)
	step("the sidecar killed")

	if ours != "" { // a test can only kill a Pod's sandbox in test/cluster
		old := server.registered()[name]
		n.script("kill-sandbox.sh", n.name, name)
		ip := server.untilInstant("another address", func(i instant) bool { return i.What == "register" && !slices.Contains(old, i.IP) }).IP
		n.followPod(name, "-o", `jsonpath={.status.podIP} {.status.containerStatuses[0].ready}{"\n"}`).until(`^` + ip + ` true$`)
		server.requireLive(n.livePods("app=web"))
		step(fmt.Sprintf("with a new sandbox, %v in place of %v", server.registered()[name], old))
	}

	n.kubectl("delete", "pod", "management")
	server = n.newServer()
	step("another server, without entries")
	server.untilAll(1)
	step("registered again")
	pods := n.livePods("app=web")
	server.requireLive(pods)
	server.requireOnce()

	deaths := n.watchPods("app=web")
	n.kubectl("scale", "deployment/web", "--replicas=0")
	n.untilDeleted(deaths, pods)
	left := server.untilInstant("a deregistration", func(i instant) bool { return i.What == "deregister" })
	server.requireLive(nil)
	server.requireStory(name, "register:1 stopped:1 deregister:0")
	n.requireSidecarsEnded("register", deaths.deleted())
	step("to none")
	for _, stopped := range server.of("stopped") {
		t.Logf("the sidecar deregistered %v after the app's last word", left.At.Sub(stopped.At).Round(time.Millisecond))
	}
}

// For a Pod that cannot register, kubectl describe shows the reason, and what to do.
func TestRegisterStuck(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("register-stuck.yaml")
	for _, c := range []struct {
		pod     string
		status  int
		message []string // patterns; the first must match the first line
	}{
		// The failure of a Service without endpoints depends on the cluster's network.
		{"no-server", 124, []string{`http://[0-9.]+:80/register: register no-server: the deadline of 20s passed .*(refused|no route|no answer|timed out)`, `^hint: `}},
		{"no-name", 124, []string{`http://manegement/register: register no-name: the deadline of 20s passed .*no such name`, `^hint: `}},
		{"no-service", 2, []string{`--url contains \$\(REGISTRY_SERVICE_HOST\), \$\(REGISTRY_SERVICE_PORT\), which Kubernetes did not replace`, `^hint: .* are set only if it existed before the Pod`}},
		{"no-ip", 1, []string{`the Pod's IP is not known`, `^- name: POD_IP\n +valueFrom:\n +fieldRef: {fieldPath: status.podIP}$`}},
	} {
		const state = `{.status.initContainerStatuses[0].state.terminated}{.status.initContainerStatuses[0].lastState.terminated}{"\n"}`
		n.followPod(c.pod, "-o", "jsonpath="+state).until(fmt.Sprintf(`"exitCode":%d,.*"message":"%s`, c.status, c.message[0]))
		describe := n.kubectl("describe", "pod", c.pod)
		contains(t, "kubectl describe", describe, fmt.Sprintf(`Exit Code: +%d$`, c.status), `Message: +`+c.message[0])
		contains(t, "kubectl describe", describe, c.message...)
		_, message, _ := strings.Cut(describe, "Message:")
		message, _, _ = strings.Cut(message, "Exit Code:")
		t.Logf("kubectl describe says of %s: %s", c.pod, strings.TrimSpace(message))
	}
}
