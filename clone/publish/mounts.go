package publish

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// mountsBelow returns the names of the mounts right in a folder, and the path of
// one that is further down, which would go with its folder. Without /proc it finds none.
func mountsBelow(path string) (direct []string, deep string) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, ""
	}
	defer f.Close()
	return parseMounts(f, path)
}

// parseMounts reads the fifth field of the lines of proc_pid_mountinfo(5).
func parseMounts(r io.Reader, path string) (direct []string, deep string) {
	prefix := strings.TrimSuffix(path, "/") + "/"
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), " ", 6)
		if len(fields) < 6 {
			continue
		}
		below, ok := strings.CutPrefix(unescape(fields[4]), prefix)
		if !ok || below == "" {
			continue
		}
		if strings.Contains(below, "/") {
			deep = prefix + below
		} else if !slices.Contains(direct, below) {
			direct = append(direct, below)
		}
	}
	// What is mounted in a mount stays with that.
	if top, _, ok := strings.Cut(strings.TrimPrefix(deep, prefix), "/"); ok && slices.Contains(direct, top) {
		deep = ""
	}
	return direct, deep
}

// unescape replaces \040 and the like, as which the kernel writes spaces, tabs,
// line breaks and backslashes.
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
