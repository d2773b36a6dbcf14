package real_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"initbox/test/servers"
)

// A netns is a test's own network namespace. Nothing outside it is changed or reached. It has no name, so it ends with
// the process that holds it, even if the test is killed.
type netns struct{ file string }

// newNetns creates a namespace in the initial state of a Pod's: even loopback is down.
func newNetns(t *testing.T) netns {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can create network namespaces")
	}
	holder := exec.Command("cat")
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := holder.Start(); err != nil {
		t.Skipf("this machine does not allow network namespaces: %v", err)
	}
	t.Cleanup(func() {
		stdin.Close()
		holder.Wait()
	})
	return netns{fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)}
}

// command runs a program in the namespace. nsenter execs it, so the process ID and signals are the program's own.
func (n netns) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(servers.Need(t, "nsenter"), append([]string{"--net=" + n.file, name}, args...)...)
}

// ip runs ip(8) commands, one per line.
func (n netns) ip(t *testing.T, commands string) {
	t.Helper()
	ip := servers.Need(t, "ip")
	for line := range strings.Lines(commands) {
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		if out, err := n.command(t, ip, args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", strings.TrimSpace(line), err, out)
		}
	}
}

// enter calls f in the namespace. Sockets that f creates remain in it.
func (n netns) enter(t *testing.T, f func() error) {
	t.Helper()
	runtime.LockOSThread() // a namespace belongs to a thread
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := setNetns(n.file); err != nil {
		t.Fatal(err)
	}
	err = f()
	// The thread must return to its namespace. If it remained locked, it would end with its goroutine, which would kill
	// the processes that it started before: see servers.DieWithParent.
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err)
	}
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatal(err)
	}
}

func setNetns(file string) error {
	ns, err := os.Open(file)
	if err != nil {
		return err
	}
	defer ns.Close()
	return unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
}

// serveHTTP answers 200 at an address in the namespace until the test ends.
func (n netns) serveHTTP(t *testing.T, addr string) {
	t.Helper()
	var l net.Listener
	n.enter(t, func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	server := http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}

// serveDNS answers every query for an address with ip, at an address in the namespace.
func (n netns) serveDNS(t *testing.T, addr, ip string) {
	t.Helper()
	var c net.PacketConn
	n.enter(t, func() (err error) {
		c, err = net.ListenPacket("udp", addr)
		return err
	})
	answer := func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			header := dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5}
			m.Answer = []dns.RR{&dns.A{Hdr: header, A: net.ParseIP(ip)}}
		}
		w.WriteMsg(m)
	}
	server := dns.Server{PacketConn: c, Handler: dns.HandlerFunc(answer)}
	go server.ActivateAndServe()
	t.Cleanup(func() { server.Shutdown() })
}

func (n netns) start(t *testing.T, args ...string) *waiter {
	t.Helper()
	return startCommand(t, n.command(t, program, args...), args)
}

const (
	// A network on which this host is .1, and .2 is in the neighbor table but gone: packets to it leave by eth0 and are
	// lost without an error, a real black hole.
	network = `
		link set lo up
		link add eth0 type veth peer name far
		addr add 10.77.0.1/24 dev eth0
		link set eth0 up
		link set far up
		neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev eth0`
	host    = "10.77.0.1"
	silence = "10.77.0.2"

	// From now on, this host is also .2.
	silenceEnds = "addr add 10.77.0.2/32 dev lo"
)

// TestNetworkAppearsLate covers network plugins with which an init container starts before the Pod has its interface,
// and meshes with which it starts before the routes exist.
func TestNetworkAppearsLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ target, log string }{
		"tcp":          {"tcp://" + host + ":8080", `(?i)network is unreachable|no route`},
		"http":         {"http://" + host + ":8080/", `(?i)network is unreachable|no route`},
		"name server":  {"http://api.example.test:8080/", `(?i)network is unreachable|no route`},
		"wait-for-dns": {"", `(?i)network is unreachable|no route`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetns(t)
			conf := resolvConf(t, host)
			args := []string{"wait-for-service", c.target}
			if c.target == "" {
				args = []string{"wait-for-dns", "api.example.test"}
			}
			w := n.start(t, append(args, "--resolv-conf="+conf, "--timeout=60s")...)
			w.untilLogged(c.log)
			w.stillWaiting(500 * time.Millisecond)
			n.ip(t, network)
			n.serveDNS(t, host+":53", host)
			n.serveHTTP(t, host+":8080")
			w.wantWithin(soon, ready)
		})
	}
}

func resolvConf(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	text := "nameserver " + server + "\noptions timeout:1 attempts:1\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// A network policy drops forbidden packets, and packets to the address of a deleted Pod are lost: no answer arrives
// until there is a server.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	n := newNetns(t)
	n.ip(t, network)
	for name, args := range map[string][]string{
		"tcp":          {"wait-for-service", "tcp://" + silence + ":8080"},
		"http":         {"wait-for-service", "http://" + silence + ":8080/"},
		"grpc":         {"wait-for-service", "grpc://" + silence + ":8080"},
		"gone":         {"wait-for-service", "--gone", "tcp://" + silence + ":8080"}, // silence does not count as a refusal
		"dns":          {"wait-for-dns", "api.example.test", "--server=" + silence},
		"gone from it": {"wait-for-dns", "--gone", "api.example.test", "--server=" + silence},
	} {
		t.Run("never opens/"+name, func(t *testing.T) {
			t.Parallel()
			const timeout = 3 * time.Second
			w := n.start(t, append(args, "--timeout=3s", "--attempt-timeout=1s")...)
			if r := w.want(deadline, `(?i)timed out|no answer`); r.Took > timeout+soon {
				t.Errorf("gave up after %v, want %v", r.Took, timeout)
			}
		})
	}
	for name, args := range map[string][]string{
		"tcp":  {"wait-for-service", "tcp://" + silence + ":8080"},
		"http": {"wait-for-service", "http://" + silence + ":8080/"},
		"dns":  {"wait-for-dns", "api.example.test", "--server=" + silence},
	} {
		t.Run("opens/"+name, func(t *testing.T) {
			t.Parallel()
			n := newNetns(t)
			n.ip(t, network)
			w := n.start(t, append(args, "--timeout=60s")...)
			w.stillWaiting(2500 * time.Millisecond) // by now the kernel's retries are seconds apart
			n.ip(t, silenceEnds)
			n.serveHTTP(t, silence+":8080")
			n.serveDNS(t, silence+":53", silence)
			w.wantWithin(soon, ready)
		})
	}
}

// TestRouteRefuses has routes that reject packets, until they are removed.
func TestRouteRefuses(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"unreachable", "prohibit", "blackhole"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			n := newNetns(t)
			n.ip(t, network)
			route := kind + " 10.88.0.2/32"
			n.ip(t, "route add "+route)
			w := n.start(t, "wait-for-service", "tcp://10.88.0.2:8080", "--timeout=60s")
			w.untilLogged("no route to the host")
			n.ip(t, "route del "+route+"\naddr add 10.88.0.2/32 dev lo")
			n.serveHTTP(t, "10.88.0.2:8080")
			w.wantWithin(soon, ready)
		})
	}
}

// Targets on the machine itself become ready in a Pod whose network never appears.
func TestNoNetworkNeeded(t *testing.T) {
	t.Parallel()
	n := newNetns(t)
	file := filepath.Join(t.TempDir(), "done")
	w := n.start(t, "wait-for-service", "file://"+file, "--timeout=60s")
	w.stillWaiting(300 * time.Millisecond)
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.wantWithin(soon, ready)
}
