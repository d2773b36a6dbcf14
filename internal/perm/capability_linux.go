package perm

import "golang.org/x/sys/unix"

// has returns whether this process has a capability.
func has(bit uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[bit/32].Effective&(1<<(bit%32)) != 0
}
