//go:build !linux

package perm

// has returns false: only Linux has capabilities.
func has(uint) bool { return false }
