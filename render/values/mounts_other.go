//go:build !linux

package values

// machineMounts knows nothing: Pods run on Linux.
func machineMounts() *mounts {
	return &mounts{isTmpfs: func(string) bool { return false }}
}
