package values

import (
	"io/fs"
	"os"
)

// OnSecretMount reports whether the file or folder is a mounted Secret or lies
// in one, as far as can be seen, see [Load].
func OnSecretMount(name string) bool { return machineMounts().inSecret(name) }

// Version returns the folder with the files of a mounted ConfigMap or Secret, so
// that what is read is all of one version, and closes root; root itself if it is
// no such mount. The link to it cannot lead out of root.
func Version(root *os.Root) (*os.Root, error) {
	if stat, err := root.Lstat(dataLink); err != nil || stat.Mode()&fs.ModeSymlink == 0 {
		return root, nil
	}
	defer root.Close()
	return root.OpenRoot(dataLink)
}

// IsVersion reports whether root is what dir, a folder of the file system, leads
// to now: another version may have taken its place.
func IsVersion(root *os.Root, dir string) bool {
	opened, err := root.Stat(".")
	if err != nil {
		return false
	}
	now, err := os.Stat(dir + "/" + dataLink)
	if err != nil {
		return true // it is no such mount
	}
	return os.SameFile(opened, now)
}
