package podinfo

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroupRoot is where a container finds its own cgroup, whose namespace hides the others.
const cgroupRoot = "/sys/fs/cgroup"

// cgroupCPU returns the cores that cgroups let this container use, or 0. Kernel:
// Documentation/admin-guide/cgroup-v2.rst, cpu.max; cgroup-v1's cpu.cfs_quota_us.
func cgroupCPU(root string) float64 {
	if f := fields(root, "cpu.max"); len(f) == 2 {
		return ratio(f[0], f[1])
	}
	quota, period := fields(root, "cpu/cpu.cfs_quota_us"), fields(root, "cpu/cpu.cfs_period_us")
	if len(quota) == 1 && len(period) == 1 {
		return ratio(quota[0], period[0])
	}
	return 0
}

// cgroupMemory returns the bytes that cgroups let this container use, or 0.
func cgroupMemory(root string) int64 {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		if f := fields(root, name); len(f) == 1 {
			n, err := strconv.ParseInt(f[0], 10, 64)
			const none = math.MaxInt64 &^ 0xffff // as v1 says that there is no limit, rounded to a page
			if err != nil || n >= none {
				return 0 // "max"
			}
			return n
		}
	}
	return 0
}

func fields(root, name string) []string {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// ratio returns a/b, or 0 where a is no limit: "max", or -1.
func ratio(a, b string) float64 {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	if y <= 0 {
		return 0
	}
	return max(x, 0) / y
}
