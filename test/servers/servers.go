// Package servers starts the real servers that tests run against. Each listens on free loopback ports, is configured in
// a temporary directory, is running when the function that starts it returns, and is stopped by its process ID when the
// test ends:
//
//	func TestReady(t *testing.T) {
//		t.Parallel()
//		nginx := servers.StartNGINX(t, servers.NGINXOptions{})
//		nginx.SetReady(t)
//		resp, err := http.Get("http://" + nginx.HTTP + "/ready")
//
// A test is skipped if the machine lacks something that it needs ([Need], [Absent]), and under -short if it starts a
// server ([Slow]). A package that mostly waits for servers runs its tests with [Main].
//
// Debian's servers are installed by test/install-servers.sh. CoreDNS, the gRPC health server and others are separate
// modules next to this package, built on first use. Consul is built by make consul.
package servers

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/template"
)

// debian maps each program to its Debian package.
var debian = map[string]string{
	"bash":     "bash",
	"busybox":  "busybox-static",
	"curl":     "curl",
	"dig":      "bind9-dnsutils",
	"envsubst": "gettext-base",
	"etcd":     "etcd-server",
	"fish":     "fish",
	"git":      "git", "git-lfs": "git-lfs", "gpg": "gnupg",
	"haproxy": "haproxy",
	"ip":      "iproute2",
	"java":    "default-jre-headless", "keytool": "default-jre-headless",
	"mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server", "mysqladmin": "mariadb-client", "mariadb": "mariadb-client",
	"memcached":   "memcached",
	"named":       "bind9",
	"nc":          "netcat-openbsd",
	"nats-server": "nats-server",
	"nginx":       "nginx-light",
	"nsenter":     "util-linux",
	"initdb":      "postgresql", "postgres": "postgresql", "pg_isready": "postgresql", "psql": "postgresql", "pg_basebackup": "postgresql",
	"rabbitmq-server": "rabbitmq-server", "rabbitmqctl": "rabbitmq-server", "epmd": "erlang-base",
	"redis-server": "redis-server", "redis-cli": "redis-server", "redis-sentinel": "redis-server",
	"openssl":  "openssl",
	"promtool": "prometheus", "prometheus": "prometheus",
	"ssh-keygen": "openssh-client",
	"sshd":       "openssh-server",
	"unbound":    "unbound",
	"wget":       "wget",
	"zsh":        "zsh",
}

// Need returns the path of a program from a Debian package. If it is not installed, the test is skipped, see [Absent].
func Need(t testing.TB, program string) string {
	t.Helper()
	pkg, ok := debian[program]
	if !ok {
		t.Fatalf("servers.Need: no Debian package known for %q", program)
	}
	path, err := lookPath(program)
	if err != nil {
		Absent(t, "%s is not installed: run test/install-servers.sh, or apt-get install %s", program, pkg)
	}
	return path
}

// lookPath also searches the directories of servers in Debian, which an ordinary user's PATH lacks.
func lookPath(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	if path, err := exec.LookPath("/usr/sbin/" + program); err == nil {
		return path, nil
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if len(versions) == 0 {
		return "", exec.ErrNotFound
	}
	return versions[len(versions)-1], nil
}

// Absent skips a test because this machine lacks something, or fails it if CI=true: there, a skipped test would go
// unnoticed.
func Absent(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Slow skips a test under -short: one that starts a real server, or takes more than about a second. Every function here
// that starts a server calls it.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Testing() && testing.Short() { // bench starts servers, too, and is no test
		t.Skip("-short: no real servers, and nothing slow")
	}
}

// Main runs the tests of a package that mostly waits, for servers or for timeouts. go test runs as many parallel tests
// as there are processors, which would idle; Main runs eight, unless -parallel says otherwise. It returns the exit
// status:
//
//	func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
func Main(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err) // the testing package no longer has this flag
		}
	}
	return m.Run()
}

// MainInMemory is [Main] with temporary files in memory where possible, for tests that would otherwise wait for the
// disk. $TMPDIR wins.
func MainInMemory(m *testing.M) int {
	if dir := inMemory(); dir != "" {
		defer os.RemoveAll(dir)
		os.Chmod(dir, 0o755) // as /tmp: tests run programs as other users
		os.Setenv("TMPDIR", dir)
	}
	return Main(m)
}

// MemoryDir returns a temporary directory in memory where possible, for tests whose processes are killed: what they
// leave is the same there, and a disk would have to write it all each time. $TMPDIR wins.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir := inMemory()
	if dir == "" {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// inMemory makes a temporary directory in memory, and returns "" where that is impossible or $TMPDIR says where
// temporary files go.
func inMemory() string {
	if os.Getenv("TMPDIR") != "" {
		return ""
	}
	dir, _ := os.MkdirTemp("/dev/shm", "initbox")
	return dir
}

// RanAsUser runs the test in a process of a user who is not root, if this process is root's, and returns whether it
// did.
func RanAsUser(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		return false
	}
	const nobody = 65534
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
	return true
}

// FreeAddr returns a loopback address that is reserved for the test until it ends: nothing listens on its port, over
// TCP or UDP, and no other call of FreeAddr returns it, in any process of this user. The port is below those that the
// kernel assigns to outgoing connections (ip_local_port_range).
func FreeAddr(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		release, err := lock(filepath.Join(cache, "initbox-test", "ports", port(addr)), syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { release() })
		if free(addr) {
			return addr
		}
	}
	t.Fatal("no free port between 20000 and 32000")
	return ""
}

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer l.Close()
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// writeConfig fills in a configuration template and writes it to file.
func writeConfig(t testing.TB, file, text string, data any) {
	t.Helper()
	tmpl, err := template.New(file).Option("missingkey=error").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := tmpl.Execute(&b, data); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, b.String())
}

func writeFile(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
