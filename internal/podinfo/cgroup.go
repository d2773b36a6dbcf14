package podinfo

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cgroupRoot is where a container finds its own cgroup, whose namespace hides the others.
const cgroupRoot = "/sys/fs/cgroup"

// Cgroup is what cgroups say of this container.
type Cgroup struct {
	Limits                  Resources // 0 means none, or unknown
	Memory                  int64     // bytes in use, the page cache included; 0 if unknown
	Killed                  int64     // processes that the kernel has killed for lack of memory
	Throttled, Periods      int64     // in how many periods of the CPU limit processes had to wait, and how many there were
	Processes, MaxProcesses int64     // threads included; 0 for no limit, or unknown
}

// ReadCgroup returns what the files below /sys/fs/cgroup say. Only tests have a root, the directory in front of that.
func ReadCgroup(root string) Cgroup {
	root = filepath.Join(root, cgroupRoot)
	first := func(names ...string) int64 {
		for _, name := range names {
			if f := fields(root, name); len(f) == 1 {
				n, _ := strconv.ParseInt(f[0], 10, 64) // 0 for max
				return n
			}
		}
		return 0
	}
	// keyed returns a number of lines KEY NUMBER.
	keyed := func(key string, names ...string) int64 {
		for _, name := range names {
			f := fields(root, name)
			if i := slices.Index(f, key); i >= 0 && i+1 < len(f) {
				n, _ := strconv.ParseInt(f[i+1], 10, 64)
				return n
			}
		}
		return 0
	}
	return Cgroup{
		Limits:       Resources{CPU: cgroupCPU(root), Memory: cgroupMemory(root)},
		Memory:       first("memory.current", "memory/memory.usage_in_bytes"),
		Killed:       keyed("oom_kill", "memory.events", "memory/memory.oom_control"),
		Throttled:    keyed("nr_throttled", "cpu.stat", "cpu/cpu.stat"),
		Periods:      keyed("nr_periods", "cpu.stat", "cpu/cpu.stat"),
		Processes:    first("pids.current", "pids/pids.current"),
		MaxProcesses: first("pids.max", "pids/pids.max"),
	}
}

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

// MemoryLimit returns the bytes that this container may use, or 0 if cgroups set no limit.
func MemoryLimit() int64 { return cgroupMemory(cgroupRoot) }

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
