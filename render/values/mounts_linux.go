package values

import (
	"os"

	"golang.org/x/sys/unix"
)

// machineMounts tells of the mounts that this process sees.
func machineMounts() *mounts {
	text, _ := os.ReadFile("/proc/self/mountinfo") // without it there are only the links
	return &mounts{isTmpfs: isTmpfs, roots: parseMounts(string(text))}
}

func isTmpfs(name string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(name, &stat) == nil && int64(stat.Type) == unix.TMPFS_MAGIC
}
