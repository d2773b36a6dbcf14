// Package mounts knows what is mounted where: whether a path lies in a volume, which volumes a container has, and how
// to reach a directory without following a link that another program made in one.
//
//	dir, err := mounts.OpenDir("/work/conf.d", false) // an error if /work/conf.d is a link
//	warning := mounts.Nowhere("/wrok/app.yaml")       // "no volume is mounted there …, did you mean /work?"
package mounts

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"initbox/internal/lazy"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// Point is a line of /proc/self/mountinfo.
type Point struct {
	ID, Parent int    // of the mount, and of the mount that it is mounted on
	Path       string // where it is mounted
	Root       string // the directory or file, in the file system, that is seen there
	Type       string // of the file system, such as "tmpfs"
	ReadOnly   bool   // the mount, or the file system
}

// All returns the mounts that this process sees, in the order in which they were mounted. Without /proc, it returns
// none.
func All() []Point {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return Parse(bytes.NewReader(text))
}

// Parse reads lines in the format of proc_pid_mountinfo(5).
func Parse(r io.Reader) (points []Point) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ") // optional fields end there
		fields := strings.Fields(before)
		if len(fields) < 6 {
			continue
		}
		id, errID := strconv.Atoi(fields[0])
		parent, errParent := strconv.Atoi(fields[1])
		if errID != nil || errParent != nil {
			continue
		}
		kind, rest, _ := strings.Cut(after, " ")
		_, super, _ := strings.Cut(rest, " ") // options of the file system, after the device
		points = append(points, Point{
			ID: id, Parent: parent, Path: unescape(fields[4]), Root: unescape(fields[3]), Type: kind,
			ReadOnly: readOnly(fields[5]) || readOnly(super),
		})
	}
	return points
}

// readOnly reports whether ro is one of the options, which commas separate.
func readOnly(options string) bool { return slices.Contains(strings.Split(options, ","), "ro") }

// unescape replaces \040 and the like, which the kernel writes for spaces, tabs, line breaks and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		if s[0] == '\\' && len(s) >= 4 {
			if c, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				s = s[4:]
				continue
			}
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}

// resolve returns the absolute path, without symbolic links in its directories as far as they exist.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := filepath.Base(path)
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if found, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(found, rest), nil
		}
		if dir == "/" {
			return path, nil
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// pointOf returns the path of the mount that a path is on, or "/". It walks down from the root as the kernel does: of
// the mounts on the one that it is on, it enters the one nearest to the root, which hides what is mounted below it on
// the same mount.
func pointOf(points []Point, path string) string {
	listed := map[int]bool{}
	for _, p := range points {
		listed[p.ID] = p.ID != p.Parent
	}
	at, isChild := "/", func(p Point) bool { return !listed[p.Parent] } // the root, and in a chroot all mounts of the outside
	for {
		var next *Point
		for i, p := range points {
			if isChild(p) && within(p.Path, path) && (next == nil || len(p.Path) < len(next.Path)) {
				next = &points[i]
			}
		}
		if next == nil {
			return at
		}
		at = next.Path
		id := next.ID
		isChild = func(p Point) bool { return p.Parent == id && p.ID != id }
	}
}

// Below returns the names of the mount points directly in a directory, and the path of
// one further down, which would move with its parent directory.
func Below(points []Point, path string) (direct []string, deep string) {
	prefix := strings.TrimSuffix(path, "/") + "/"
	for _, p := range points {
		below, ok := strings.CutPrefix(p.Path, prefix)
		if !ok || below == "" {
			continue
		}
		if strings.Contains(below, "/") {
			deep = p.Path
		} else if !slices.Contains(direct, below) {
			direct = append(direct, below)
		}
	}
	// A mount point below another mount point stays with that.
	if top, _, ok := strings.Cut(strings.TrimPrefix(deep, prefix), "/"); ok && slices.Contains(direct, top) {
		deep = ""
	}
	return direct, deep
}

// System returns whether a directory belongs to the system and must not be replaced. Some of them may be if a volume is
// mounted there.
func System(path string, mounted bool) bool {
	never := []string{"/", "/dev", "/proc", "/sys"}
	system := []string{
		"/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt", "/opt", "/root", "/run",
		"/sbin", "/srv", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/local", "/usr/local/bin",
		"/usr/sbin", "/usr/share", "/var", "/var/lib", "/var/log", "/var/run", "/var/tmp",
	}
	return slices.Contains(never, path) || !mounted && slices.Contains(system, path)
}

// within returns whether path is dir or lies below it.
func within(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// kubeletFiles are single files that a container runtime mounts into each container.
var kubeletFiles = []string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log"}

// inContainer returns whether the mounts are those of a container: a runtime has mounted a file such as
// /etc/resolv.conf.
func inContainer(points []Point) bool {
	return slices.ContainsFunc(points, func(p Point) bool { return slices.Contains(kubeletFiles, p.Path) })
}

// PodUID returns the UID of the Pod whose container this is, or "". The kubelet mounts files such as /etc/hosts from a
// directory with that name, and mountinfo shows it.
func PodUID() string { return podUID(All()) }

func podUID(points []Point) string {
	for _, p := range points {
		if m := kubeletRoot().FindStringSubmatch(p.Root); m != nil && slices.Contains(kubeletFiles, p.Path) {
			return m[1]
		}
	}
	return ""
}

// kubeletRoot matches a file in a Pod's directory, see pkg/kubelet/kubelet_getters.go in Kubernetes. The UID of a
// static Pod has no hyphens.
var kubeletRoot = lazy.Regexp(`/pods/([0-9a-f-]{32,36})/(?:etc-hosts$|containers/)`)

// runtimeDirs are where a container runtime or the kubelet mounts what is not a volume of the Pod.
var runtimeDirs = []string{"/proc", "/sys", "/dev", "/run/secrets", "/var/run/secrets", "/run/.containerenv"}

// volumes returns the paths of [Volumes], sorted.
func volumes(points []Point) (paths []string) {
	for _, p := range Volumes(points) {
		paths = append(paths, p.Path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Volumes returns the mounts that a user has asked for: without /, those of the kernel such as /proc, and those of the
// container runtime.
func Volumes(points []Point) (volumes []Point) {
	for _, p := range points {
		ofRuntime := p.Path == "/" || slices.Contains(kubeletFiles, p.Path) ||
			slices.ContainsFunc(runtimeDirs, func(dir string) bool { return within(dir, p.Path) })
		if !ofRuntime {
			volumes = append(volumes, p)
		}
	}
	return volumes
}

// Volume returns the kind and the name that a mount has in the Pod's manifest: emptyDir, and data. They are empty where
// the mount does not tell, as that of a file system of its own, which a Secret in memory is.
func (p Point) Volume() (kind, name string) {
	m := kubeletVolume().FindStringSubmatch(p.Root)
	if m == nil {
		return "", ""
	}
	kind, name = m[1], m[2]
	if own := volumeKinds[kind]; own != "" {
		kind = own
	}
	return kind, name
}

// kubeletVolume matches the directory of a volume, or a file or directory in it, see pkg/kubelet/kubelet_getters.go in
// Kubernetes.
var kubeletVolume = lazy.Regexp(`/pods/[0-9a-f-]+/volumes/kubernetes\.io~([a-z-]+)/([^/]+)`)

// volumeKinds are names of the kubelet's plugins, with those that manifests have for them.
var volumeKinds = map[string]string{
	"empty-dir": "emptyDir", "configmap": "configMap", "downward-api": "downwardAPI", "csi": "persistent volume",
	"local-volume": "persistent volume", "nfs": "NFS",
}

// Nowhere returns, for a path that is written in a container and is not in a volume, that no other container will see
// it, which volumes there are, and which one may have been meant. Otherwise, or if the mounts are unknown, it returns
// "".
func Nowhere(path string) string {
	found, err := filepath.EvalSymlinks(path)
	if err != nil {
		found = path // it is still to be made
	}
	if found, err = resolve(found); err != nil {
		return ""
	}
	return nowhere(All(), found)
}

func nowhere(points []Point, path string) string {
	if !inContainer(points) || pointOf(points, path) != "/" {
		return ""
	}
	there := volumes(points)
	if len(there) == 0 {
		return "no volume is mounted in this container (volumeMounts): what is written to its own file system is lost when it ends"
	}
	text := "no volume is mounted there, and what is written to the container's own file system is lost when it ends; volumes are mounted at " + words.List(there)
	if meant := closest(path, there); meant != "" {
		text += ": did you mean " + meant + "?"
	}
	return text
}

// WriteHint returns the hint for an error of writing to path: that of a [*LinkError], or what [Nowhere] says if the
// file system is to blame, or otherwise.
func WriteHint(err error, path, otherwise string) string {
	var link *LinkError
	if errors.As(err, &link) {
		return link.Hint()
	}
	blamed := errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EROFS)
	if nowhere := Nowhere(path); blamed && nowhere != "" {
		return nowhere
	}
	return otherwise
}

// closest returns the volume whose path is most like that of path or of a directory of it, or "".
func closest(path string, volumes []string) string {
	for ; path != "/"; path = filepath.Dir(path) {
		if meant := suggest.Closest(path, volumes); meant != "" {
			return meant
		}
	}
	return ""
}
