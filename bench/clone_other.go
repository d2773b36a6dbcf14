//go:build !linux

package main

import "fmt"

func onOneCore(func() error) error {
	return fmt.Errorf("%w: one processor of several is for Linux", errSkipped)
}

func inMemory(string) bool { return false }

func room(string) int64 { return 1 << 40 }

// There is no memoryGroup on this system, so its methods are never called.
type memoryGroup struct{}

func newMemoryGroup(int64) (*memoryGroup, error) {
	return nil, fmt.Errorf("%w: cgroups are for Linux", errSkipped)
}

func (*memoryGroup) inside(argv []string) []string { return argv }
func (*memoryGroup) close()                        {}
