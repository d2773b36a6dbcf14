package e2e_test

import (
	"testing"
	"time"
)

// The order of containers, as in docs/ordering.md, case by case.

// started returns the start time of a container that is running, or has run.
func (c container) started(t *testing.T) time.Time {
	t.Helper()
	switch {
	case c.State.Running != nil:
		return c.State.Running.StartedAt
	case c.State.Terminated != nil:
		return c.State.Terminated.StartedAt
	}
	t.Fatalf("container %s was not started", c.Name)
	return time.Time{}
}

// requireOrder requires that each container was started once, and the second at least this much later than the first.
func requireOrder(t *testing.T, first, second container, least time.Duration) {
	t.Helper()
	between := second.started(t).Sub(first.started(t))
	t.Logf("%s was started %v after %s", second.Name, between, first.Name)
	if between < least-time.Second { // the kubelet's times have whole seconds
		t.Errorf("%s was started %v after %s, want at least %v", second.Name, between, first.Name, least)
	}
	for _, c := range []container{first, second} {
		if c.RestartCount > 0 {
			t.Errorf("%s was started %d times", c.Name, c.RestartCount+1)
		}
	}
}

func TestOrderByGate(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("ordering-gate.yaml")
	status := n.watchPod("gate")
	status.until(` 2/2 +Running `)
	p := n.pod("gate")
	requireOrder(t, p.containerNamed(t, "server"), p.containerNamed(t, "client"), 3*time.Second)
	contains(t, "the client's log", n.logs("gate", "client"), `200 OK: hello`)
	t.Logf("kubectl showed\n%s", status)
}

// The message of a gate that gives up, and where it appears. The kubelet still starts the next container.
func TestOrderByFailingGate(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("ordering-gate-fails.yaml")
	events := n.follow("get", "events", "--watch", "--no-headers", "--field-selector", "reason=FailedPostStartHook")
	t.Logf("the event says: %s", trimmed(events.until(`FailedPostStartHook`).text))
	server := n.followPod("gate", "-o",
		`jsonpath={.status.containerStatuses[?(@.name=="server")].state.waiting}{.status.containerStatuses[?(@.name=="server")].lastState}{"\n"}`)
	killed := server.until(`"terminated":.*"message":"not ready within [3-9](\.\d+)?s: http://127.0.0.1:8080/: connection refused`)
	t.Logf("the server's status: %s", trimmed(killed.text)) // also contains the hook's output, until the next status replaces it
	client := n.followPod("gate", "-o",
		`jsonpath={.status.containerStatuses[?(@.name=="client")].state}{.status.containerStatuses[?(@.name=="client")].lastState}{"\n"}`)
	client.until(`startedAt`)
	t.Log("the client was started all the same, when the gate had given up")
}

// A gate delays the deletion of the Pod while it waits.
func TestOrderByGateDeleted(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("ordering-gate-deleted.yaml")
	n.follow("get", "events", "--watch", "--no-headers", "--field-selector", "reason=Started").until(`Started container server`)
	pods := n.watchPodEvents("gate")
	_, deleted := request(t, "DELETE", "/api/v1/namespaces/"+n.name+"/pods/gate", "application/json", "")
	gone := pods.until(`"DELETED"`)
	t.Logf("the Pod was gone %v after it was deleted, with a grace period of 5s and a gate of at most 20s",
		gone.at.Sub(deleted).Round(time.Millisecond))
}

func TestOrderBySidecar(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("ordering-sidecar.yaml")
	status := n.watchPod("sidecar")
	status.until(` 2/2 +Running `)
	p := n.pod("sidecar")
	requireOrder(t, p.containerNamed(t, "proxy"), p.containerNamed(t, "migrate"), 3*time.Second)
	requireOrder(t, p.containerNamed(t, "migrate"), p.containerNamed(t, "app"), 0)
	contains(t, "the init container's log", n.logs("sidecar", "migrate"), `200 OK: hello`)
	contains(t, "the app's log", n.logs("sidecar", "app"), `200 OK: hello`)
	t.Logf("kubectl showed\n%s", status)
}
