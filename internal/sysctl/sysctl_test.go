package sysctl

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fake returns a directory with the parameters of a kernel, by path below it.
func fake(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for path, text := range map[string]string{
		"/proc/sys/vm/max_map_count":                   "65530\n",
		"/proc/sys/fs/file-max":                        "9223372036854775807\n",
		"/proc/sys/kernel/core_pattern":                "core\n",
		"/proc/sys/kernel/shmmax":                      "18446744073692774399\n",
		"/proc/sys/net/core/somaxconn":                 "4096\n",
		"/proc/sys/net/ipv4/ip_local_port_range":       "32768\t60999\n",
		"/proc/sys/net/ipv4/conf/eth0.100/rp_filter":   "0\n",
		"/proc/sys/net/ipv4/ip_local_reserved_ports":   "\n",
		"/sys/kernel/mm/transparent_hugepage/enabled":  "always [madvise] never\n",
		"/sys/kernel/mm/transparent_hugepage/pmd_size": "2097152\n",
	} {
		if err := os.MkdirAll(root+filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// apply applies settings, as they are typed, to the parameters below root, and returns the log.
func apply(t *testing.T, root string, texts ...string) (log string, err error) {
	t.Helper()
	var settings []Setting
	for _, text := range texts {
		text, ifExists := strings.CutSuffix(text, "#if-exists")
		text, lenient := strings.CutPrefix(text, "-")
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s.IfExists, s.Lenient = ifExists, lenient
		settings = append(settings, s)
	}
	var b bytes.Buffer
	err = Apply(t.Context(), settings, Options{Root: root, Log: slog.New(slog.NewTextHandler(&b, nil))})
	return b.String(), err
}

func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRightAlready pins that what is right already is not opened for writing, however it is spelt.
func TestRightAlready(t *testing.T) {
	root := fake(t)
	for _, text := range []string{
		"vm.max_map_count=65530", "vm.max_map_count>=65530", "vm.max_map_count>=1000", "vm/max_map_count=0xfffa", " vm.max_map_count = 65530 ",
		"/proc/sys/vm/max_map_count=65530", "fs.file-max>=65536", "kernel.shmmax>=68719476736", "net.ipv4.ip_local_port_range=32768 60999",
		"net.ipv4.conf.eth0/100.rp_filter=0", "net/ipv4/conf/eth0.100/rp_filter=0", "net.ipv4.ip_local_reserved_ports=",
		"/sys/kernel/mm/transparent_hugepage/enabled=madvise",
	} {
		s, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		before, _ := os.Stat(root + s.Path)
		log, err := apply(t, root, text)
		after, _ := os.Stat(root + s.Path)
		if err != nil || !strings.Contains(log, "nothing to change in 1 parameter") || before == nil || !before.ModTime().Equal(after.ModTime()) {
			t.Errorf("%s: %v, %s", text, err, log)
		}
	}
}

// TestSet pins what is written, and what is logged.
func TestSet(t *testing.T) {
	for _, test := range []struct{ text, file, want, log string }{
		{"vm.max_map_count=262144", "/proc/sys/vm/max_map_count", "262144\n", "vm.max_map_count: set to 262144, was 65530"},
		{"vm.max_map_count>=65531", "/proc/sys/vm/max_map_count", "65531\n", "set to 65531"},
		{"kernel.core_pattern=|/usr/bin/keep %p %e", "/proc/sys/kernel/core_pattern", "|/usr/bin/keep %p %e\n", "was core"},
		{"net.ipv4.ip_local_port_range=1024 65000", "/proc/sys/net/ipv4/ip_local_port_range", "1024 65000\n", "was 32768 60999"},
		{"net/ipv4/conf/eth0.100/rp_filter=1", "/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "1\n", "was 0"},
		{"-net.core.somaxconn=1", "/proc/sys/net/core/somaxconn", "1\n", "was 4096"},
	} {
		root := fake(t)
		log, err := apply(t, root, test.text)
		if got := content(t, root+test.file); err != nil || got != test.want || !strings.Contains(log, test.log) {
			t.Errorf("%s: %q, %v, %s", test.text, got, err, log)
		}
	}
}

// TestLastCounts pins that of several settings of a parameter the last one is written, and no other.
func TestLastCounts(t *testing.T) {
	root := fake(t)
	for range 2 {
		log, err := apply(t, root, "vm.max_map_count=1", "vm/max_map_count=2")
		if got := content(t, root+"/proc/sys/vm/max_map_count"); err != nil || got != "2\n" || strings.Contains(log, "set to 1") {
			t.Errorf("%q, %v, %s", got, err, log)
		}
	}
}

// TestAllChecked pins that nothing is written if one of the parameters cannot be.
func TestAllChecked(t *testing.T) {
	for _, test := range []struct{ text, want, hint string }{
		{"vm.max_map_cuont=1", "vm.max_map_cuont: the kernel has no such parameter", "did you mean vm.max_map_count?"},
		{"nett.core.somaxconn=1", "no such parameter", "did you mean net.core.somaxconn?"},
		{"net.core.rmem_max=1", "no such parameter", "hostNetwork: true"},
		{"abi.vsyscall32=1", "no such parameter", "#if-exists"},
		{"net.core=1", "net.core: a directory of parameters, and not one itself", ""},
		{"/sys/kernel/mm/transparent_hugepage/enabled=off", "want one of always, madvise, never, got off", ""},
		{"kernel.core_pattern>=3", "its value is core, not a number", ""},
	} {
		root := fake(t)
		_, err := apply(t, root, "vm.max_map_count=262144", test.text)
		var hint interface{ Hint() string }
		if err == nil || !strings.Contains(err.Error(), test.want) || test.hint != "" && (!errors.As(err, &hint) || !strings.Contains(hint.Hint(), test.hint)) {
			t.Errorf("%s: %v, %v", test.text, err, hint)
		}
		if got := content(t, root+"/proc/sys/vm/max_map_count"); got != "65530\n" {
			t.Errorf("%s: max_map_count was set to %s", test.text, got)
		}
		if _, err := apply(t, root, "-"+test.text); err != nil {
			t.Errorf("-%s: %v", test.text, err)
		}
	}
	log, err := apply(t, fake(t), "net.core.rmem_max=1#if-exists", "vm.max_map_count=1")
	if err != nil || !strings.Contains(log, "net.core.rmem_max: left out") || !strings.Contains(log, "set to 1") {
		t.Errorf("#if-exists: %v, %s", err, log)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"vm.max_map_count": "want KEY=VALUE", "vm.max_map_count>=many": "want a whole number", "=1": "not the name of a parameter",
		"net.ipv4.conf.*.rp_filter=0": "patterns are not expanded", "/proc/1/oom_score_adj=1": "not below /proc/sys or /sys", "/proc/sys/../1/x=1": "not the name",
		"../x=1": "not the name", "vm..x=1": "not the name", "vm.x y=1": "not the name", "vm.x=1\n2": "line break",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestParseFile(t *testing.T) {
	settings, err := ParseFile("# comment\n; another\n\nvm.max_map_count = 262144\n-net.ipv6.conf.all.forwarding=1\nkernel.core_pattern=core # not a comment\nfs.file-max >= 5")
	if err != nil || len(settings) != 4 {
		t.Fatal(settings, err)
	}
	if s := settings[1]; !s.Lenient || s.Path != "/proc/sys/net/ipv6/conf/all/forwarding" || settings[0].Lenient || settings[2].Value != "core # not a comment" || !settings[3].AtLeast {
		t.Errorf("%+v", settings)
	}
	for line, want := range map[string]string{
		"nonsense": "want KEY=VALUE, as in vm.max_map_count=262144", "net.ipv4.conf.*.rp_filter=1": "patterns are not expanded: name each parameter",
		"secret word=": "not the name of a parameter such as vm.max_map_count, nor the path of its file", "vm.swappiness>=word": "want a whole number after >=",
	} {
		if _, err := ParseFile("vm.swappiness=1\n" + line + "\n"); err == nil || err.Error() != "line 2: "+want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestDeadline pins that nothing is done once the deadline has passed.
func TestDeadline(t *testing.T) {
	root := fake(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, _ := Parse("vm.max_map_count=1")
	if err := Apply(ctx, []Setting{s}, Options{Root: root}); !errors.Is(err, context.Canceled) || content(t, root+s.Path) != "65530\n" {
		t.Error(err)
	}
}

// TestHints pins which of three a parameter that may not be written is: one of the Pod, one of the node, or none.
func TestHints(t *testing.T) {
	for text, want := range map[string]string{
		"net.core.somaxconn=1024":   "securityContext: {sysctls: [{name: net.core.somaxconn, value: \"1024\"}]}\nthe kubelet must allow what Kubernetes does not count as safe: --allowed-unsafe-sysctls=net.core.somaxconn",
		"net.ipv4.tcp_syncookies=1": "securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: \"1\"}]}",
		"kernel.msgmax=1":           "--allowed-unsafe-sysctls=kernel.msgmax",
		"vm.max_map_count=1":        "the node has one vm.max_map_count for all Pods: set it in the node's configuration (/etc/sysctl.d, the node pool), or give this container\nsecurityContext: {privileged: true, runAsUser: 0}",
	} {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var hint interface{ Hint() string }
		if err := refused([]problem{{s, unix.EROFS}}, ""); !errors.As(err, &hint) || !strings.HasSuffix(hint.Hint(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if !slices.IsSorted(safe) {
		t.Error("the safe parameters are not sorted")
	}
}

// TestNetworkNamespace sets parameters of the kernel's own, in a network namespace of this test's.
func TestNetworkNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	done := make(chan struct{})
	go func() { // whose thread ends with it, and the namespace too
		defer close(done)
		runtime.LockOSThread()
		before, err := os.Readlink("/proc/thread-self/ns/net")
		if err == nil {
			err = unix.Unshare(unix.CLONE_NEWNET)
		}
		after, _ := os.Readlink("/proc/thread-self/ns/net")
		if err != nil || before == after {
			t.Errorf("no network namespace: %v", err)
			return
		}
		texts := []string{"net.ipv4.ip_local_port_range=1024 65000", "net.core.somaxconn>=70000", "net.ipv4.ip_forward=1", "net.ipv4.conf.lo.rp_filter=2"}
		for i, want := range []string{"was 32768", "nothing to change in 4 parameters"} {
			if log, err := apply(t, "", texts...); err != nil || !strings.Contains(log, want) {
				t.Errorf("run %d: %v, %s", i+1, err, log)
			}
		}
		if got := strings.Fields(content(t, "/proc/sys/net/ipv4/ip_local_port_range")); !slices.Equal(got, []string{"1024", "65000"}) {
			t.Errorf("the range of ports is %s", got)
		}
		// A file for writing only is written each time, and a value that the kernel does not take is reported.
		if log, err := apply(t, "", "net.ipv4.route.flush=1"); err != nil || !strings.Contains(log, "net.ipv4.route.flush: set to 1") {
			t.Errorf("%v, %s", err, log)
		}
		if _, err := apply(t, "", "net.ipv4.ip_local_port_range=70000 80000"); err == nil || !strings.Contains(err.Error(), "invalid argument") {
			t.Errorf("%v, want an invalid argument", err)
		}
	}()
	<-done
}

// TestOtherFileSystem pins that a path outside /proc/sys and /sys must be of the kernel's file systems.
func TestOtherFileSystem(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"=2", "=1", ">=2"} {
		if _, err := apply(t, "", name+text); err == nil || !strings.HasSuffix(err.Error(), "neither in a procfs nor in a sysfs") || content(t, name) != "1\n" {
			t.Error(err)
		}
	}
	if os.Geteuid() == 0 {
		mounted := t.TempDir() // as where a Pod mounts the node's /sys
		if err := unix.Mount("/sys", mounted, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("cannot mount here: %v", err)
		}
		defer unix.Unmount(mounted, unix.MNT_DETACH)
		if log, err := apply(t, "", mounted+"/kernel/mm/transparent_hugepage/hpage_pmd_size>=1"); err != nil || !strings.Contains(log, "nothing to change") {
			t.Error(err, log)
		}
	}
}
