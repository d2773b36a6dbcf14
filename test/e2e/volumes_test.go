package e2e_test

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"initbox/test/servers"
)

// What is right already needs no privilege; the hint of a refusal has the YAML with which Pod pods has its parameter;
// and with privilege a Pod sets its own, which the node does not get.
func TestVolumesSysctl(t *testing.T) {
	t.Parallel()
	const parameter = "/proc/sys/net/ipv4/tcp_keepalive_time"
	node, err := os.ReadFile(parameter)
	if err != nil {
		t.Fatal(err)
	}
	n := newNamespace(t)
	n.apply("volumes-sysctl.yaml")
	for _, pod := range []string{"already", "pods", "written"} {
		n.wait("jsonpath={.status.phase}=Succeeded", "pod/"+pod)
	}
	contains(t, "the log where it is right already", n.logs("already", "sysctl"), ` nothing to change in 2 parameters$`)
	contains(t, "the log where Kubernetes has set it", n.logs("pods", "sysctl"), ` nothing to change in 1 parameter$`)
	contains(t, "the log where it was written", n.logs("written", "sysctl"),
		`net.ipv4.tcp_keepalive_time: set to 602, was 7200$`, `ip_local_port_range: set to 1024 65000, was 32768`, `net.core.no_such_thing: left out`)
	contains(t, "the log of the next container", n.logs("written", "again"), ` nothing to change in 2 parameters$`)
	contains(t, "what the app found", n.logs("written", "app"), parameter+`: .*"602\\n"`)

	n.watchPod("refused").until(`Init:Error`)
	message := n.pod("refused").containerNamed(t, "sysctl").State.Terminated.Message
	contains(t, "the termination message", message,
		`^net.ipv4.tcp_keepalive_time: set it to 601: `, `^ *vm.max_map_count: set it to 9999999999: `,
		`^securityContext: \{sysctls: \[\{name: net.ipv4.tcp_keepalive_time, value: "601"\}\]\}$`, `^securityContext: \{privileged: true, runAsUser: 0\}$`)
	t.Logf("kubectl describe says: %s", message)
	if after, err := os.ReadFile(parameter); err != nil || string(after) != string(node) {
		t.Errorf("%s of this machine is %s, and was %s: %v", parameter, after, node, err)
	}
}

// Three steps in one container; and a chain whose second step fails.
func TestVolumesChain(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.apply("volumes-chain.yaml")
	n.wait("jsonpath={.status.phase}=Succeeded", "pod/chain")
	log := n.logs("chain", "init")
	contains(t, "the log of the chain", log, ` step 1, copy: `, ` step 2, prepare: `, ` step 3, wait-for-service: http://web/: ready`)
	contains(t, "what the app found", n.logs("chain", "app"), `/config/app.properties: .*"greeting = hello\\n"`, `/config/cache: .*, drwxr-x---, `)
	took := n.pod("chain").containerNamed(t, "init").State.Terminated
	t.Logf("the container with three steps took %v:\n%s", took.FinishedAt.Sub(took.StartedAt), log)

	n.watchPod("stuck").until(`Init:Error`)
	ended := n.pod("stuck").containerNamed(t, "init").State.Terminated
	contains(t, "the termination message", ended.Message, `^step 2, wait-for-dns: not ready within .*no-such-service`)
	if log := n.logs("stuck", "init"); ended.ExitCode != 124 || strings.Contains(log, "step 3") {
		t.Errorf("status %d, and the log\n%s", ended.ExitCode, log)
	}
}

// The data directory of a database gets its owner once. The second Pod finds it right, and writes nothing. Without the
// capability the message names it.
func TestVolumesDatabase(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	if ours == "" {
		t.Skip("only test/cluster has a directory for a volume, which is removed with it")
	}
	volume := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "volumes", n.name)
	if err := os.MkdirAll(volume+"/base", 0o755); err != nil {
		n.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(volume) }) // the Pods that use it have ended
	for _, name := range []string{"PG_VERSION", "base/1"} {
		if err := os.WriteFile(filepath.Join(volume, name), []byte("16\n"), 0o644); err != nil {
			n.Fatal(err)
		}
	}
	t.Cleanup(func() { n.try("delete", "pv", n.name, "--wait=false") })

	start := func(name, capabilities string) {
		n.apply("volumes-database.yaml", "UNIQUE", n.name, "HOSTPATH", volume, "NAME", name, "CAPABILITIES", capabilities)
	}
	start("without", "[DAC_OVERRIDE]")
	n.watchPod("without").until(`Init:Error`)
	message := n.pod("without").containerNamed(t, "data").State.Terminated.Message
	contains(t, "the termination message", message, `/data`, `CHOWN`)
	t.Logf("without the capability, kubectl describe says: %s", message)

	var before string
	for _, c := range []struct{ pod, log string }{{"first", `owner of \d of \d `}, {"second", `nothing to change`}} {
		start(c.pod, "[CHOWN, FOWNER, DAC_OVERRIDE]")
		n.wait("jsonpath={.status.phase}=Succeeded", "pod/"+c.pod)
		log := n.logs(c.pod, "data")
		contains(t, "the log of the "+c.pod+" run", log, c.log)
		found := n.logs(c.pod, "database")
		contains(t, "what the database found", found, `/data/PG_VERSION: .*, -rw-------, owner 999:999, .*"16\\n"`, `/data/base: .*, drwx------, owner 999:999, `)
		ctimes := changed(t, volume, volume+"/PG_VERSION", volume+"/base/1")
		if before != "" && ctimes != before {
			t.Errorf("the %s run has changed what was right: %s, and before %s", c.pod, ctimes, before)
		}
		before = ctimes
		t.Logf("the %s run: %s", c.pod, log)
	}
}

// changed returns when files were last changed, which no program can set.
func changed(t *testing.T, names ...string) (times string) {
	t.Helper()
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		times += fmt.Sprint(info.Sys().(*syscall.Stat_t).Ctim, " ")
	}
	return times
}

// PostgreSQL's TLS files, Grafana's dashboards and a theme out of another image, without any privilege.
func TestVolumesCopy(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.apply("volumes-copy.yaml")
	for _, c := range []struct {
		pod  string
		says []string
	}{
		{"postgres", []string{`/tls/tls.key: .*, -rw-------, owner 999:999, .*"key\\n"`, `/tls/tls.crt: .*, owner 999:999, .*"certificate\\n"`}},
		{"grafana", []string{`/nodes.json: .*\{\\"title\\": \\"Nodes\\"\}`, `/overview.json: .*\{\\"title\\": \\"Overview\\", `}},
		{"keycloak", []string{`/themes/ours/login/theme.properties: .*"parent=base\\n"`, `/themes/ours/login/resources: .*, d`}},
	} {
		n.wait("jsonpath={.status.phase}=Succeeded", "pod/"+c.pod)
		contains(t, "what "+c.pod+" found", n.logs(c.pod, c.pod), c.says...)
	}
	contains(t, "the log of the first copy", n.logs("grafana", "dashboards"), `dashboards: `)
	contains(t, "the log of the second copy", n.logs("grafana", "again"), `nothing to change`)
	t.Logf("%s%s%s", n.logs("postgres", "tls"), n.logs("grafana", "dashboards"), n.logs("keycloak", "theme"))
}

// A driver with its checksum, and with a wrong one, which leaves nothing; and a theme out of an image, from a registry.
func TestVolumesFetch(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	if ours == "" {
		t.Skip("only in test/cluster can the test push an image to a Pod")
	}
	n.apply("volumes-registry.yaml")
	n.wait("condition=Ready", "pod/registry")
	registry := servers.RegistryAt(n.kubectl("get", "pod", "registry", "-o", "jsonpath={.status.podIP}") + ":5000")
	registry.Push(t, "theme", "1.4", servers.NewImage(t, runtime.GOARCH, servers.Gzip(t, servers.Tar(t,
		map[string]string{"theme/login/theme.properties": "parent=base\n", "other/file": "other\n"},
		tar.Header{Name: "theme/"}, tar.Header{Name: "theme/login/"}, tar.Header{Name: "theme/login/theme.properties", Mode: 0o644}, tar.Header{Name: "other/file"}))))
	n.apply("volumes-fetch.yaml")
	for _, c := range []struct{ pod, app, found string }{
		{"driver", "app", `/drivers/driver.jar: .*"hello\\n"`},
		{"keycloak-fetch", "keycloak", `/themes/ours/login/theme.properties: .*"parent=base\\n"`},
	} {
		n.wait("jsonpath={.status.phase}=Succeeded", "pod/"+c.pod)
		contains(t, "what "+c.pod+" found", n.logs(c.pod, c.app), c.found)
	}
	contains(t, "the log of the second run", n.logs("driver", "again"), `nothing to change`)
	t.Logf("%s%s%s", n.logs("driver", "fetch"), n.logs("driver", "again"), n.logs("keycloak-fetch", "theme"))
	n.watchPod("other-driver").until(`Init:Error`)
	message := n.pod("other-driver").containerNamed(t, "fetch").State.Terminated.Message
	contains(t, "the termination message", message, `http://files/driver.jar: .*5891b5b5`)
	t.Logf("with another checksum, kubectl describe says: %s", message)
}

// The theme out of an image that the kubelet mounts.
func TestVolumesImage(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	if ours == "" {
		t.Skip("needs the gate ImageVolume, which test/cluster has")
	}
	n.apply("volumes-image.yaml")
	n.wait("jsonpath={.status.phase}=Succeeded", "pod/keycloak-image")
	contains(t, "what keycloak found", n.logs("keycloak-image", "keycloak"), `/themes/ours/login/theme.properties: .*"parent=base\\n"`)
	t.Logf("%s", n.logs("keycloak-image", "theme"))
}
