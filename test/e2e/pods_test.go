package e2e_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/test/soak"
)

// The documentation's example, with the output of kubectl that it shows: Init:0/2, Init:1/2, Running.
func TestMyApp(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("myapp.yaml")
	status := n.watchPod("myapp-pod")
	status.until(` Init:0/2 `)
	for _, step := range []struct{ service, container, then string }{
		{"myservice", "init-myservice", ` Init:1/2 `},
		{"mydb", "init-mydb", ` Running `},
	} {
		wait := n.followLog("myapp-pod", step.container)
		wait.until(`no such name`)
		_, created := request(t, "POST", "/api/v1/namespaces/"+n.name+"/services", "application/json",
			`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "`+step.service+`"}, "spec": {"ports": [{"port": 80, "targetPort": 9376}]}}`)
		ready := wait.until(step.service + `.*: ready after`)
		shown := status.until(step.then)
		t.Logf("Service %s: the wait ended %v after it was created, and kubectl showed%safter %v", step.service,
			timeOf(t, ready).Sub(created).Round(time.Millisecond), step.then, shown.at.Sub(created).Round(time.Millisecond))
	}
	if text := n.logs("myapp-pod", "myapp-container"); !strings.Contains(text, "The app is running!") {
		n.Errorf("the app says %q", text)
	}
}

// followLog follows the log of a container, with timestamps, as soon as it exists.
func (n namespace) followLog(pod, container string) *stream {
	n.Helper()
	n.untilStarted(pod, container)
	return n.follow("logs", pod, "--container", container, "--follow", "--timestamps")
}

// untilStarted waits until an init container of a Pod is running, or has run.
func (n namespace) untilStarted(pod, container string) {
	n.Helper()
	status := `.status.initContainerStatuses[?(@.name=="` + container + `")]`
	n.followPod(pod, "-o", `jsonpath={`+status+`.state}{`+status+`.lastState}{"\n"}`).until(`startedAt`)
}

// The messages of a stuck Pod: its log while it waits, and kubectl describe after it has given up.
func TestStuck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		log  []string // patterns
	}{
		{"missing-name", []string{`mydb\S*: no such name`, `^initbox wait-for-dns: not ready within 2\d(\.\d+)?s: mydb`}},
		{"no-endpoints", []string{`k8s:service/mydb: .*endpoint`, `^initbox wait-for-service: not ready within 2\d(\.\d+)?s: k8s:service/mydb`}},
		{"wrong-password", []string{`status 401 Unauthorized`, `^initbox wait-for-service: not ready within 2\d(\.\d+)?s: http://`}},
		{"denied", []string{`may not (list|get|watch) jobs`, `kind: Role\b`, `^initbox wait-for-service: not ready within 2\d(\.\d+)?s: k8s:job/migrate`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t)
			n.apply("stuck-" + c.name + ".yaml")
			n.watchPod("stuck").until(` Init:Error `)
			contains(t, "kubectl logs", n.logs("stuck", "wait"), c.log...)
			describe := n.kubectl("describe", "pod", "stuck")
			contains(t, "kubectl describe", describe, `Exit Code: +124`, `Message: +not ready within`)
			if strings.Contains(n.logs("stuck", "wait")+describe, "yesterdays-password") {
				n.Error("the password is in the log, or in what kubectl describe shows")
			}
			message := n.pod("stuck").Status.InitContainerStatuses[0].State.Terminated.Message
			t.Logf("kubectl describe says: %s", message)
		})
	}
}

func TestRestartPolicies(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("restart-policies.yaml")
	never, always, onFailure := n.watchPod("never"), n.watchPod("always"), n.watchPod("on-failure")
	never.until(` Init:Error `)
	n.wait("jsonpath={.status.phase}=Failed", "pod/never")
	if p := n.pod("never"); p.Status.Phase != "Failed" || p.Status.InitContainerStatuses[0].RestartCount != 0 {
		n.Errorf("restartPolicy Never: phase %s, %d restarts", p.Status.Phase, p.Status.InitContainerStatuses[0].RestartCount)
	}
	for name, status := range map[string]*stream{"always": always, "on-failure": onFailure} {
		status.until(` Init:CrashLoopBackOff `)
		if p := n.pod(name); p.Status.Phase != "Pending" {
			n.Errorf("Pod %s: phase %s, want Pending", name, p.Status.Phase)
		}
	}
	n.kubectl("create", "service", "clusterip", "late", "--tcp=80")
	always.until(` Running `)
	onFailure.until(` Completed `)
	t.Logf("kubectl showed\n%s%s", always, onFailure)
	for _, name := range []string{"always", "on-failure"} {
		if restarts := n.pod(name).Status.InitContainerStatuses[0].RestartCount; restarts == 0 {
			n.Errorf("Pod %s: the wait was not started again", name)
		}
	}
}

func TestActiveDeadline(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("deadline.yaml")
	n.wait("jsonpath={.status.phase}=Failed", "pod/deadline")
	n.wait("jsonpath={.status.initContainerStatuses[0].state.terminated}", "pod/deadline") // the kubelet updates the status a little later
	p := n.pod("deadline")
	if p.Status.Reason != "DeadlineExceeded" {
		n.Errorf("reason %s, want DeadlineExceeded", p.Status.Reason)
	}
	ended := p.Status.InitContainerStatuses[0].State.Terminated
	if ended == nil || ended.ExitCode != 143 {
		n.Fatalf("the wait: %+v, want it ended with status 143", ended)
	}
	contains(t, "the termination message", ended.Message, `stopped by signal: terminated`)
	t.Logf("started at %s, stopped at %s: %s", ended.StartedAt.Format(time.TimeOnly), ended.FinishedAt.Format(time.TimeOnly), ended.Message)
}

// A Pod that is deleted while it waits is gone at once, not after its grace period.
func TestDeletion(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("deletion.yaml")
	log := n.followLog("deleted", "wait")
	log.until(`no such name`)
	pods := n.watchPodEvents("deleted")
	_, deleted := request(t, "DELETE", "/api/v1/namespaces/"+n.name+"/pods/deleted", "application/json", "")
	said := log.until(`stopped by signal: terminated`)
	gone := pods.until(`"DELETED"`)
	t.Logf("the wait ended %v after the deletion, the Pod was gone after %v",
		timeOf(t, said).Sub(deleted).Round(time.Millisecond), gone.at.Sub(deleted).Round(time.Millisecond))

	type event struct{ Object pod }
	var ended []container
	for _, e := range decodeLines[event](t, pods) {
		for _, c := range e.Object.Status.InitContainerStatuses {
			if c.State.Terminated != nil {
				ended = append(ended, c)
			}
		}
	}
	if len(ended) == 0 {
		t.Fatalf("no status with the wait ended was seen:\n%s", pods)
	}
	terminated := ended[len(ended)-1].State.Terminated
	if terminated.ExitCode != 143 {
		t.Errorf("exit status %d, want 143: %s", terminated.ExitCode, terminated.Message)
	}
	// In whole seconds, including the time until the kubelet learns of it. A kill would take 30 s.
	if took := terminated.FinishedAt.Sub(deleted); took > 20*time.Second {
		t.Errorf("the wait ended only %v after the deletion", took)
	}
}

func TestRestricted(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	user := fmt.Sprint(100_000 + soak.Rand(t).IntN(1_000_000_000))
	n.apply("restricted.yaml", "1234567", user)
	n.watchPod("restricted").until(` Running `)
	for _, c := range n.pod("restricted").Status.InitContainerStatuses {
		if c.RestartCount > 0 {
			n.Errorf("%s was started %d times", c.Name, 1+c.RestartCount)
		}
	}
	contains(t, "the app's log", n.logs("restricted", "app"), `/tools/addresses: inode`)
	t.Logf("ran as user %s", user)

	// Proof that the standard is enforced: a Pod without the restrictions is rejected.
	out, err := n.try("run", "unrestricted", "--image=app:e2e")
	if err == nil || !strings.Contains(out, "violates PodSecurity") {
		t.Errorf("a Pod without restrictions: %v: %s", err, out)
	}
}

// When the sandbox is lost, the init containers run again, and touch nothing that is already right.
func TestSandboxRestarted(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	if ours == "" {
		t.Skip("only test/cluster lets a test kill a Pod's sandbox")
	}
	n.apply("sandbox.yaml")
	status := n.watchPod("again")
	status.until(` Running `)
	const runs = `jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}{"\n"}`
	before, first := n.kubectl("logs", "again"), n.pod("again")
	n.script("kill-sandbox.sh", n.name, "again")
	n.followPod("again", "-o", runs).until(`^[1-9]\d* true$`)
	after, second := n.kubectl("logs", "again"), n.pod("again")
	for i, c := range second.Status.InitContainerStatuses {
		// Their restartCount is not reliable: the kubelet may have removed the old ones before.
		if c.ContainerID == first.Status.InitContainerStatuses[i].ContainerID {
			n.Errorf("%s did not run again", c.Name)
		}
	}
	if before != after || !strings.Contains(before, "inode") {
		n.Errorf("on the volume was\n%sand is now\n%s", before, after)
	}
	t.Logf("before and after: %s", trimmed(after))
}

// With --once, a Pod whose sandbox is lost starts again although the Job that it waited for is gone, with the right to
// see it, as after an upgrade that failed.
func TestOnce(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	if ours == "" {
		t.Skip("only test/cluster lets a test kill a Pod's sandbox")
	}
	n.apply("once.yaml")
	n.watchPod("once").until(` Running `)
	if log := n.logs("once", "misspelt"); !strings.Contains(log, "WARN /sttae/app.conf: no volume is mounted there") ||
		!strings.Contains(log, "volumes are mounted at /state: did you mean /state?") {
		n.Errorf("the misspelt path: %s", log)
	}
	n.kubectl("delete", "job/migrate", "role/wait")
	const runs = `jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}{"\n"}`
	n.script("kill-sandbox.sh", n.name, "once")
	n.followPod("once", "-o", runs).until(`^[1-9]\d* true$`)
	if log := n.logs("once", "wait"); !strings.Contains(log, "done already, at ") || !strings.Contains(log, " according to /state/wait") {
		n.Errorf("it waited again: %s", log)
	}
}

// script runs a script of test/cluster.
func (n namespace) script(name string, args ...string) {
	n.Helper()
	out, err := exec.CommandContext(n.Context(), filepath.Join(ours, name), args...).CombinedOutput()
	if err != nil {
		n.Fatalf("%s: %v: %s", name, err, out)
	}
}
