package values

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"initbox/internal/dirfd"
	"initbox/internal/mounts"
)

// secretMounts knows what is mounted where.
type secretMounts struct {
	isTmpfs func(name string) bool // whether the file is on a tmpfs
	roots   map[string]string      // by mount point of a tmpfs, the directory or file of the tmpfs that is mounted there
}

// OnSecretMount returns whether the file or directory is, or is in, a mounted Secret, as far as
// that can be determined, see [Load].
func OnSecretMount(name string) bool { return machineMounts().inSecret(name) }

// isSecret returns whether the file's content is secret: other users may not read it, or it is in a mounted Secret.
func (m *secretMounts) isSecret(name string, stat fs.FileInfo) bool {
	return Private(stat.Mode()) || m.inSecret(name)
}

// Private returns whether other users may not read a file of that mode.
func Private(mode fs.FileMode) bool { return mode&0o004 == 0 }

// inSecret returns whether name is, or is in, a mounted Secret. The kubelet keeps Secrets in a tmpfs and switches
// versions by a link. ConfigMaps are on the disk, and an emptyDir in memory has no such link. With subPath the link is
// invisible, but the mounted file is in the directory of a version, whose name begins with "..". Projected volumes and
// the downward API look like Secrets, and are treated as such.
func (m *secretMounts) inSecret(name string) bool {
	name, err := filepath.Abs(name)
	if err != nil {
		return false
	}
	for dir := name; ; dir = filepath.Dir(dir) {
		if root, ok := m.roots[dir]; ok && strings.HasPrefix(root, "/..") {
			return true
		}
		if target, err := os.Readlink(filepath.Join(dir, dataLink)); err == nil && strings.HasPrefix(target, "..") && m.isTmpfs(dir) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// machineMounts returns the mounts that this process sees. Without /proc, only the links count.
func machineMounts() *secretMounts {
	return &secretMounts{isTmpfs: dirfd.OnTmpfs, roots: tmpfsRoots(mounts.All())}
}

func tmpfsRoots(points []mounts.Point) map[string]string {
	roots := map[string]string{}
	for _, p := range points {
		if p.Type == "tmpfs" {
			roots[p.Path] = p.Root
		}
	}
	return roots
}
