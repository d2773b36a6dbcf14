package dirfd

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
)

// MountPoint is a line of /proc/self/mountinfo.
type MountPoint struct {
	Path string // where it is mounted
	Root string // the directory or file, in the file system, that is seen there
	Type string // of the file system, such as "tmpfs"
}

// MountPoints returns the mounts that this process sees, in the order in which they were mounted. Without /proc, it
// returns none.
func MountPoints() []MountPoint {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return ParseMountinfo(bytes.NewReader(text))
}

// ParseMountinfo reads lines in the format of proc_pid_mountinfo(5).
func ParseMountinfo(r io.Reader) (points []MountPoint) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ") // optional fields end there
		fields := strings.Fields(before)
		if len(fields) < 6 {
			continue
		}
		kind, _, _ := strings.Cut(after, " ")
		points = append(points, MountPoint{Path: unescape(fields[4]), Root: unescape(fields[3]), Type: kind})
	}
	return points
}

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
