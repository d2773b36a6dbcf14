package e2e_test

import (
	"regexp"
	"testing"
)

// A Pod waits for a real Redis, with its password from a Secret, as a variable and as a file. The Redis is running, and
// reports that it is not ready; when it is ready, the Pod starts.
func TestDatabase(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("databases.yaml")
	status := n.watchPod("web")
	n.wait("condition=Ready", "pod/redis")
	n.apply("databases-stuck.yaml") // the Pod has its own deadline
	status.until(` Init:0/2 `)
	wait := n.followLog("web", "env")
	t.Logf("the log: %s", wait.until(`redis://redis/0: MASTERDOWN Link with MASTER is down`).text)

	n.apply("databases-master.yaml")
	ready := wait.until(`redis://redis/0: ready after`)
	shown := status.until(` Running `)
	t.Logf("%s; kubectl showed Running %v after", ready.text, shown.at.Sub(timeOf(t, ready)))

	n.watchPod("stuck").until(` Init:Error `)
	contains(t, "kubectl logs", n.logs("stuck", "wait"), `redis://redis:6379/0: WRONGPASS `, `^initbox wait-for-service: not ready within 2\d(\.\d+)?s: redis://redis:6379/0: WRONGPASS `)
	describe := n.kubectl("describe", "pod", "stuck")
	contains(t, "kubectl describe", describe, `Exit Code: +124`, `Message: +not ready within .*WRONGPASS`)

	all := n.logs("web", "env") + n.logs("web", "file") + n.logs("stuck", "wait") + describe
	if told := regexp.MustCompile(`(t0days|yesterdays)-\w*`).FindString(all); told != "" {
		t.Errorf("a password is in a log, or in what kubectl describe shows: %s", told)
	}
}
