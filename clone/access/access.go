// Package access says who may do what with the files of a clone.
package access

import "io/fs"

// Access is that of the files and folders. The umask of the process has no say in it.
type Access struct {
	Umask      fs.FileMode // taken away from 0777 of folders and executables, 0666 of others
	GroupWrite bool        // the group may do what the owner may, and inherits in folders (setgid)
	Owner      *Owner      // nil: whom the kernel makes it
}

// Owner of files. -1 leaves that one.
type Owner struct{ UID, GID int }

// Folder is the mode of a folder: its permissions, and fs.ModeSetgid.
func (a Access) Folder() fs.FileMode {
	mode := a.File(true)
	if a.GroupWrite {
		mode |= fs.ModeSetgid
	}
	return mode
}

// File is the mode of a file, which may be one to run.
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
