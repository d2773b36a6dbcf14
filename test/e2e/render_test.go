package e2e_test

import (
	"strings"
	"testing"
)

// A Pod's configuration is rendered from mounted files, and again to the same bytes when its sandbox is lost.
func TestRender(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("render.yaml")
	n.watchPod("web-0").until(` 3/3 +Running `)
	app := n.logs("web-0", "app")
	contains(t, "the app's configuration", app,
		`-rw-------`, // it contains a password
		`server.name = web-0.`+n.name+`\\n`, `server.label = web\\n`, `db.host = mydb\\n`, `db.password = hunter22\\n`, `jvm = -Xmx48m\\n`)
	contains(t, "the file with the Pod's name", n.logs("web-0", "named"), `/config/web-0.txt: inode \d+, -rw-r--r--.*"[0-9.]+:80\\n"`)
	contains(t, "the file that is a mount", n.logs("web-0", "single-app"), `db.host = mydb\\n`)
	contains(t, "the log of its container", n.logs("web-0", "single"), `/etc/app.properties.*in place`)
	for _, container := range []string{"config", "single"} {
		if log := n.logs("web-0", container); strings.Contains(log, "hunter22") {
			n.Errorf("the log of %s has the password: %s", container, log)
		}
	}
	t.Logf("the app found %s", trimmed(app))

	if ours != "" { // a test can only kill a Pod's sandbox in test/cluster
		const runs = `jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}{"\n"}`
		n.script("kill-sandbox.sh", n.name, "web-0")
		n.followPod("web-0", "-o", runs).until(`^[1-9]\d* true$`)
		// The file is unchanged, with the same time: it does not contain the Pod's new address.
		if again := n.logs("web-0", "app"); again != app {
			t.Errorf("the app found\n%sand after the restart\n%s", app, again)
		}
	}
}

// kubectl describe shows all missing inputs together.
func TestRenderMissing(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply("render.yaml")
	n.watchPod("missing").until(`Init:Error`)
	message := n.pod("missing").Status.InitContainerStatuses[0].State.Terminated.Message
	contains(t, "the termination message", message,
		`inputs are missing:`, `/templates/app.properties.tmpl:2:\d+: .Pod.Labels`, `/templates/app.properties.tmpl:3:\d+: .Values.host`, `.Values.password`, `hint: .*downward API`)
	t.Logf("kubectl describe says: %s", message)
}
