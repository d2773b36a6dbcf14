package mounts

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	got := Parse(strings.NewReader(`22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
36 35 98:0 /mnt\0111 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw
40 35 0:55 /..2026_01_01/key /etc/a\040b\134\012 rw shared:1 - tmpfs tmpfs ro,size=1k
41 35 0:56 / /not\9escaped\04 ro - proc proc rw
garbage
x 35 0:56 / /no-id rw - proc proc rw
`))
	want := []Point{
		{22, 1, "/", "/", "ext4", false}, {36, 35, "/mnt2", "/mnt\t1", "ext3", false}, {40, 35, "/etc/a b\\\n", "/..2026_01_01/key", "tmpfs", true},
		{41, 35, `/not\9escaped\04`, "/", "proc", true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// pod has the mounts of a container, as the kubelet and containerd make them.
const pod = `700 600 0:60 / / ro,relatime - overlay overlay rw
701 700 0:61 / /proc rw - proc proc rw
702 700 0:62 / /dev rw - tmpfs tmpfs rw
703 702 0:63 / /dev/pts rw - devpts devpts rw
704 700 0:64 / /sys ro - sysfs sysfs ro
705 704 0:65 / /sys/fs/cgroup ro - cgroup2 cgroup rw
706 700 8:1 /pods/1/volumes/work /work rw - ext4 /dev/sda1 rw
707 700 8:1 /pods/1/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw
708 702 8:1 /pods/1/containers/c/1 /dev/termination-log rw - ext4 /dev/sda1 rw
709 700 8:1 /sandboxes/1/hostname /etc/hostname rw - ext4 /dev/sda1 rw
710 700 8:1 /sandboxes/1/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda1 rw
711 702 0:66 / /dev/shm rw - tmpfs shm rw
712 706 0:67 / /work/cache rw - tmpfs tmpfs rw
713 700 8:1 /pods/1/volumes/tools /tools rw - ext4 /dev/sda1 rw
714 700 0:68 / /run/secrets/kubernetes.io/serviceaccount ro - tmpfs tmpfs rw
`

func TestPointOf(t *testing.T) {
	hidden := pod + "720 700 0:70 / /hidden/below rw - tmpfs tmpfs rw\n721 700 0:71 / /hidden rw - tmpfs tmpfs rw\n722 713 0:72 / /tools rw - tmpfs tmpfs rw\n"
	// In a chroot, the mount that the root directory is on is listed only if it begins there.
	chroot := "50 9 0:50 / /work rw - tmpfs tmpfs rw\n51 50 0:51 / /work/cache rw - tmpfs tmpfs rw\n"
	stacked := "1 1 0:2 / / rw - rootfs rootfs rw\n20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 0:5 / /data rw - tmpfs tmpfs rw\n"
	for _, test := range []struct{ info, path, want string }{
		{pod, "/", "/"},
		{pod, "/work", "/work"},
		{pod, "/work/a/b", "/work"},
		{pod, "/work/cache/x", "/work/cache"},
		{pod, "/workshop", "/"},
		{pod, "/wrok/a", "/"},
		{pod, "/etc/hosts", "/etc/hosts"},
		{pod, "/etc/app.conf", "/"},
		{hidden, "/hidden/below/x", "/hidden"},
		{hidden, "/tools/x", "/tools"},
		{chroot, "/work/cache/x", "/work/cache"},
		{chroot, "/other", "/"},
		{stacked, "/data/x", "/data"},
		{stacked, "/x", "/"},
		{"", "/work", "/"},
	} {
		if got := pointOf(Parse(strings.NewReader(test.info)), test.path); got != test.want {
			t.Errorf("%s is on %s, want %s", test.path, got, test.want)
		}
	}
}

func TestVolumes(t *testing.T) {
	if got := volumes(Parse(strings.NewReader(pod))); !slices.Equal(got, []string{"/tools", "/work", "/work/cache"}) {
		t.Errorf("volumes %q", got)
	}
}

func TestNowhere(t *testing.T) {
	const only = "no volume is mounted there, and what is written to the container's own file system is lost when it ends; " +
		"volumes are mounted at /tools, /work, /work/cache"
	bare := pod[:strings.Index(pod, "706 ")] + "707 700 8:1 /pods/1/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
	host := "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n23 22 0:5 / /data rw - tmpfs tmpfs rw\n"
	for _, test := range []struct{ info, path, want string }{
		{pod, "/work/a", ""},
		{pod, "/work", ""},
		{pod, "/wrok", only + ": did you mean /work?"},
		{pod, "/wrok/etc/app.yaml", only + ": did you mean /work?"},
		{pod, "/work/cahce", ""},
		{pod, "/config/x", only},
		{pod, "/dev/shm/x", ""},
		{bare, "/config/x", "no volume is mounted in this container (volumeMounts): what is written to its own file system is lost when it ends"},
		{host, "/config/x", ""},
		{"", "/config/x", ""},
	} {
		if got := nowhere(Parse(strings.NewReader(test.info)), test.path); got != test.want {
			t.Errorf("%s: %q, want %q", test.path, got, test.want)
		}
	}
}

func TestPodUID(t *testing.T) {
	const uid = "0b3a7c1e-9d2f-4e5a-8c6b-7f1e2d3c4b5a"
	for root, want := range map[string]string{
		"/var/lib/kubelet/pods/" + uid + "/etc-hosts":                            uid,
		"/pods/" + uid + "/containers/wait/1a2b3c4d":                             uid,
		"/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir/work": "",
		"/var/lib/kubelet/pods/0123456789abcdef0123456789abcdef/etc-hosts":       "0123456789abcdef0123456789abcdef",
		"/home/me/pods/" + uid + "/notes":                                        "",
		"/pods/web-0/etc-hosts":                                                  "",
		"/":                                                                      "",
	} {
		info := "700 600 0:60 / / ro - overlay overlay rw\n707 700 8:1 " + root + " /etc/hosts rw - ext4 /dev/sda1 rw\n"
		if got := podUID(Parse(strings.NewReader(info))); got != want {
			t.Errorf("%s: %q, want %q", root, got, want)
		}
	}
}

func TestBelow(t *testing.T) {
	const info = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
36 22 0:30 / /repo rw - tmpfs tmpfs rw
37 36 0:31 / /repo/a\040b rw shared:1 - tmpfs tmpfs rw
38 37 0:32 / /repo/a\040b/c rw - tmpfs tmpfs rw
39 22 0:33 / /repository/x rw - tmpfs tmpfs rw
garbage
40 22 0:34 / /deep/er/still rw - tmpfs tmpfs rw
`
	for _, c := range []struct {
		path   string
		direct []string
		deep   string
	}{
		{"/repo", []string{"a b"}, ""},
		{"/repository", []string{"x"}, ""},
		{"/deep", nil, "/deep/er/still"},
		{"/none", nil, ""},
	} {
		direct, deep := Below(Parse(strings.NewReader(info)), c.path)
		if !slices.Equal(direct, c.direct) || deep != c.deep {
			t.Errorf("%s: %q, %q", c.path, direct, deep)
		}
	}
}

func TestSystem(t *testing.T) {
	if System("/srv", true) || !System("/srv", false) || !System("/proc", true) || System("/srv/app", false) {
		t.Error("a volume in place of /srv, and what is in it, may be replaced")
	}
}

func TestVolume(t *testing.T) {
	for root, want := range map[string][2]string{
		"/var/lib/kubelet/pods/0b7e-1/volumes/kubernetes.io~empty-dir/data":  {"emptyDir", "data"},
		"/kubelet/pods/0b7e-1/volumes/kubernetes.io~empty-dir/data/sub/path": {"emptyDir", "data"},
		"/var/lib/kubelet/pods/0b7e-1/volumes/kubernetes.io~csi/pvc-1/mount": {"persistent volume", "pvc-1"},
		"/var/lib/kubelet/pods/0b7e-1/volumes/kubernetes.io~host-path/x":     {"host-path", "x"},
		"/":                                      {},
		"/var/lib/kubelet/pods/0b7e-1/etc-hosts": {},
	} {
		if kind, name := (Point{Root: root}).Volume(); kind != want[0] || name != want[1] {
			t.Errorf("%s: %q %q, want %q", root, kind, name, want)
		}
	}
}
