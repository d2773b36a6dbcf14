// Package access computes the modes of the files and directories of a clone:
//
//	a := access.Access{Umask: 0o027, GroupWrite: true}
//	os.Chmod("script.sh", a.File(true)) // 0770
package access

import (
	"io/fs"

	"initbox/internal/perm"
)

// Access is the access to files and directories. It does not depend on the umask of the process.
type Access struct {
	Umask      fs.FileMode // removed from 0777 for directories and executables, from 0666 for other files
	GroupWrite bool        // the group gets the permissions of the owner, and directories the setgid bit, so that files inherit it
	Owner      *Owner      // nil to leave it to the kernel
}

// Owner of files.
type Owner = perm.Owner

// Directory returns the mode of a directory: its permissions, and fs.ModeSetgid with GroupWrite.
func (a Access) Directory() fs.FileMode {
	mode := a.File(true)
	if a.GroupWrite {
		mode |= fs.ModeSetgid
	}
	return mode
}

// File returns the mode of a file.
func (a Access) File(executable bool) fs.FileMode {
	mode := fs.FileMode(0o666)
	if executable {
		mode = 0o777
	}
	mode &^= a.Umask.Perm()
	if a.GroupWrite {
		mode |= mode & 0o700 >> 3
	}
	return mode
}
