package command

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/test/servers"
)

// doctored returns what initbox doctor prints, run by cmd.
func doctored(t *testing.T, cmd *exec.Cmd, stderr *bytes.Buffer) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, stderr)
	}
	return string(out)
}

func requireLines(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(text) {
			t.Errorf("no match of %s in\n%s", pattern, text)
		}
	}
}

// TestDoctorVolumes has a user without privileges look at volumes: one that is full, one that is read-only, and one of
// another user. What is mounted on a path that would start another line stays on one.
func TestDoctorVolumes(t *testing.T) {
	vol, _ := servers.Volume(t)
	if err := os.Chmod(filepath.Dir(vol), 0o755); err != nil {
		t.Fatal(err)
	}
	servers.Tmpfs(t, vol+"/full", "size=64k,mode=1777")
	servers.Mount(t, "tmpfs", vol+"/fixed", "tmpfs", unix.MS_RDONLY, "")
	servers.Tmpfs(t, vol+"/foreign", "mode=0700")
	servers.Tmpfs(t, vol+"/own", "mode=1777,nr_inodes=2")
	servers.Tmpfs(t, vol+"/two\nproblem: lines", "mode=1777")
	if err := os.WriteFile(vol+"/full/x", make([]byte, 1<<20), 0o644); err == nil {
		t.Fatal("the volume is not full")
	}
	if err := os.WriteFile(vol+"/own/x", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := initboxCommand(t, "doctor")
	cmd.Path, cmd.Dir = installedForAll(t), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65533, Groups: []uint32{2000}}}
	at := regexp.QuoteMeta(vol)
	text := doctored(t, cmd, stderr)
	requireLines(t, text,
		`^  user +65534$`, `^  groups +65533; supplementary: 2000$`, `^  capabilities +none$`,
		`^! `+at+`/full +tmpfs, read-write, owner 0:0 mode 1777, 0 B of 65\.5 kB free, .*, writable$`,
		`^  `+at+`/fixed +tmpfs, read-only, .*, not writable$`,
		`^! `+at+`/foreign +tmpfs, read-write, owner 0:0 mode 0700, .*, not writable$`,
		`^! `+at+`/own .* 0 of 2 inodes, writable$`,
		`^  `+at+`/two\\nproblem: lines `,
		`^problem: `+at+`/full: no space is free\n  fix: remove files`,
		`^problem: `+at+`/foreign: user 65534 may not write there: owner 0:0, mode 0700\n  fix: securityContext: \{fsGroup: 65533\}`,
		`^problem: `+at+`/own: no inode is free`,
	)
	if strings.Contains(text, "\nproblem: lines") {
		t.Errorf("a path is a problem:\n%s", text)
	}
}

// TestDoctorNames looks at name servers in a network of its own: one that drops what it gets, one where nothing
// listens, and none. The Pod has no token.
func TestDoctorNames(t *testing.T) {
	if testing.Short() {
		t.Skip("makes network namespaces")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for namespaces")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	ip := servers.Need(t, "ip")
	script := `mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/hosts && "$3" link set lo up && "$3" link add dead type veth peer name end &&
		"$3" addr add 192.0.2.1/24 dev dead && "$3" link set dead up && "$3" link set end up &&
		"$3" neigh add 192.0.2.53 lladdr 02:00:00:00:00:53 dev dead && exec "$4" doctor`
	for _, test := range []struct {
		name, resolv, hosts string
		want                []string
	}{
		{"dead", "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 192.0.2.53\noptions ndots:5\n", "127.0.0.1 localhost\n10.0.0.9 db.example\n", []string{
			`^  search +shop\.svc\.cluster\.local, svc\.cluster\.local, cluster\.local$`, `^  options +ndots:5 `,
			`^! 192\.0\.2\.53:53 +no answer in `, `^problem: 192\.0\.2\.53:53: the name server does not answer: timed out\n  fix: look for a NetworkPolicy`,
			`^  other names +db\.example = 10\.0\.0\.9$`,
			`^  account +this Pod has no service account token$`,
		}},
		{"refused", "nameserver 127.0.0.1\n", "10.0.0.9\n127.0.0.1 localhost\n", []string{
			`^! search +none$`, `^problem: search: no search domain is the cluster's`,
			`^! 127\.0\.0\.1:53 +refused \(connection refused\)$`, `^! line 1 +10\.0\.0\.9$`,
		}},
		{"none", "search a.svc.b svc.b b\n", "", []string{`^problem: options: resolv\.conf names no name server`, `^! localhost +missing$`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			resolv, hosts := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "hosts")
			for name, text := range map[string]string{resolv: test.resolv, hosts: test.hosts} {
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			self, stderr := initboxCommand(t)
			cmd := exec.Command(unshare, "--mount", "--net", "sh", "-c", script, "sh", resolv, hosts, ip, filepath.Join(linkedTo(t, self.Path), "initbox"))
			cmd.Env = append(slices.DeleteFunc(self.Env, func(v string) bool { return strings.HasPrefix(v, "KUBECONFIG=") }), "KUBERNETES_SERVICE_HOST=192.0.2.9")
			cmd.Stderr = stderr
			requireLines(t, doctored(t, cmd, stderr), test.want...)
		})
	}
}

// linkedTo returns a directory with a link called initbox to a program.
func linkedTo(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(program, dir+"/initbox"); err != nil {
		t.Fatal(err)
	}
	return dir
}
