//go:build !linux

package servers

import "syscall"

// DieWithParent does nothing: only Linux can tie a child to its parent.
func DieWithParent() *syscall.SysProcAttr { return nil }
