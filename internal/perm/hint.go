package perm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
)

// Operation is what the kernel refused to do to a file.
type Operation string

// The operations that [Hint] knows.
const (
	Chown  Operation = "chown"
	Chmod  Operation = "chmod"
	Write  Operation = "write" // or create
	Remove Operation = "remove"
	Read   Operation = "read" // or list
)

// Error is the error of an operation on a file. Its message names the file, and its hint says what to do.
type Error struct {
	err  error
	hint string
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }
func (e *Error) Hint() string  { return e.hint }

// Failed returns the [*Error] of an operation on the file at path: "make the directory /data: permission denied", with
// the hint of err itself or else that of [Hint]. An error that is one already, or nil, it returns as it is. A path in
// err is left out, unless it is that of a directory on the way.
func Failed(doing string, op Operation, path string, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	hint := ""
	var own interface{ Hint() string }
	if errors.As(err, &own) {
		hint = own.Hint()
	}
	doing += " " + failure.Printable(path)
	var at *fs.PathError
	if errors.As(err, &at) {
		if err = at.Err; strings.HasPrefix(path, strings.TrimSuffix(at.Path, "/")+"/") {
			path = at.Path
			doing += ": " + at.Op + " " + failure.Printable(path)
		}
	}
	if hint == "" {
		hint = Hint(err, op, path)
	}
	return &Error{fmt.Errorf("%s: %w", doing, err), hint}
}

// Hint returns what to do about an operation on the file at path that failed with err, or "" if err does not tell:
// which capability is missing and the YAML that adds it, or what a capability does not help against.
func Hint(err error, op Operation, path string) string {
	if op == Write || op == Remove {
		return mounts.WriteHint(err, path, hint(err, op, path))
	}
	return hint(err, op, path)
}

func hint(err error, op Operation, path string) string {
	var link *mounts.LinkError
	switch {
	case errors.As(err, &link):
		return link.Hint()
	case failure.NoSpace(err):
		return "the volume is full, or its quota or the sizeLimit of the emptyDir is used up; existing files are kept"
	case op == Write && (errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EEXIST)):
		return "it, or what it lies in, is not a directory: nothing of another kind is replaced, but prepare PATH#absent removes it"
	case errors.Is(err, unix.EROFS):
		return mounts.WriteHint(err, path, "the volume is mounted read-only (readOnly in volumeMounts or in the volume), as those of ConfigMaps and Secrets always are: copy what is in it to an emptyDir instead")
	case errors.Is(err, unix.EINVAL) && op == Chown || errors.Is(err, unix.EOVERFLOW):
		return "that user or group does not exist in this user namespace: with hostUsers: false a Pod has the IDs 0 to 65535 only"
	case errors.Is(err, unix.EOPNOTSUPP) && op == Chmod:
		return "the file system has no such permissions"
	case !errors.Is(err, fs.ErrPermission):
		return ""
	}
	if squashed(path) && (has(capability[op].bit) || has(capDACOverride.bit)) {
		return "the volume is NFS, whose server gives root no rights (root_squash): change the files on the server, export with no_root_squash, or run as the user who owns them"
	}
	c := capability[op]
	switch {
	case op == Read:
	case errors.Is(err, unix.EACCES):
		c = capDACOverride // a directory on the way may not be searched or written to
	case op == Write || op == Remove:
		c = capSticky
	}
	if has(c.bit) {
		return fmt.Sprintf("user %d has the capability %s, so something else forbids it: an immutable file (lsattr), an owner outside of this user namespace (hostUsers: false), a security module such as SELinux or AppArmor, or a file system without owners", os.Geteuid(), c.name)
	}
	return fmt.Sprintf("user %d lacks the capability %s, to %s; fsGroup in the Pod's securityContext makes volumes writable for a group without it; or add it: securityContext: {runAsUser: 0, runAsNonRoot: false, capabilities: {drop: [ALL], add: [%[2]s]}}", os.Geteuid(), c.name, c.what)
}

// capabilities(7): the number of a capability, its name in a securityContext, and what it allows.
type capabilityInfo struct {
	bit        uint
	name, what string
}

// The numbers, the same on all machines.
const chown, dacOverride, fowner = 0, 1, 3

var (
	capDACOverride = capabilityInfo{dacOverride, "DAC_OVERRIDE", "write to other users' directories and files"}
	capSticky      = capabilityInfo{fowner, "FOWNER", "replace and remove other users' files in a directory with the sticky bit"}
	capability     = map[Operation]capabilityInfo{
		Chown:  {chown, "CHOWN", "give files to other users"},
		Chmod:  {fowner, "FOWNER", "change the modes of other users' files"},
		Write:  capDACOverride,
		Remove: capDACOverride,
		Read:   {dacOverride, "DAC_OVERRIDE", "read other users' directories and files"}, // Pod Security's baseline permits it, and not DAC_READ_SEARCH
	}
)

// nfsMagic is the type of NFS, see statfs(2).
const nfsMagic = 0x6969

// squashed returns whether path, or what exists above it, is on NFS, where capabilities end.
func squashed(path string) bool {
	for {
		if kind, err := dirfd.FileSystem(path); err == nil {
			return kind == nfsMagic
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}
