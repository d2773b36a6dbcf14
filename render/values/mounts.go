package values

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"initbox/internal/dirfd"
)

// mounts tells what is mounted where.
type mounts struct {
	isTmpfs func(name string) bool // whether the file is on a tmpfs
	roots   map[string]string      // of each place where a tmpfs is mounted, the folder or file of the tmpfs that is seen there
}

// OnSecretMount reports whether the file or folder is a mounted Secret or lies
// in one, as far as can be seen, see [Load].
func OnSecretMount(name string) bool { return machineMounts().inSecret(name) }

// isSecret reports whether the file's content is to be kept secret: others may
// not read it, or it is on a mounted Secret.
func (m *mounts) isSecret(name string, stat fs.FileInfo) bool {
	return Private(stat.Mode()) || m.inSecret(name)
}

// Private reports whether a file of that mode is kept from others.
func Private(mode fs.FileMode) bool { return mode&0o004 == 0 }

// inSecret reports whether name is, or lies in, a mounted Secret. The kubelet
// keeps Secrets in a tmpfs and swaps them by a link, and ConfigMaps on the
// disk; an emptyDir in memory has no link. Of a Secret mounted by subPath the
// link is not to be seen, but what is mounted is a file in the folder of a
// version, whose name begins with "..". Projected volumes and the downward API
// are kept as Secrets are, and so taken for some.
func (m *mounts) inSecret(name string) bool {
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

// machineMounts tells of the mounts that this process sees. Without /proc there are only the links.
func machineMounts() *mounts {
	return &mounts{isTmpfs: dirfd.OnTmpfs, roots: tmpfsRoots(dirfd.MountPoints())}
}

func tmpfsRoots(points []dirfd.MountPoint) map[string]string {
	roots := map[string]string{}
	for _, p := range points {
		if p.Type == "tmpfs" {
			roots[p.Path] = p.Root
		}
	}
	return roots
}
