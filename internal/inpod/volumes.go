package inpod

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/words"
)

// volumeLimit is how long a file system may take to answer. One whose server is gone never does.
const volumeLimit = 3 * time.Second

// volumes tells what is mounted, and whether this user may write there.
func volumes(ctx context.Context, _ *Options, s *section) {
	points := mounts.All()
	root := mounts.Point{Path: "/", Type: "unknown"}
	for _, p := range points {
		if p.Path == "/" {
			root = p
		}
	}
	all := append([]mounts.Point{root}, mounts.Volumes(points)...)
	slices.SortStableFunc(all, func(a, b mounts.Point) int { return strings.Compare(a.Path, b.Path) })
	parts := make([]chan section, len(all))
	for i, p := range all {
		parts[i] = make(chan section, 1)
		go func() {
			var part section
			volume(p, &part)
			parts[i] <- part
		}()
	}
	ctx, cancel := context.WithTimeout(ctx, volumeLimit)
	defer cancel()
	for i, p := range all {
		select {
		case part := <-parts[i]:
			s.items, s.problems = append(s.items, part.items...), append(s.problems, part.problems...)
		case <-ctx.Done(): // the goroutine may be stuck in the kernel for good
			s.add(failure.Printable(p.Path), "%s", kindOf(p))
			s.problem("does the server of this volume run, and can the node reach it?", "the file system does not answer")
		}
	}
}

// kindOf returns the kind of a volume and its name in the manifest, as far as they are known, and its file system.
func kindOf(p mounts.Point) string {
	kind, name := p.Volume()
	if kind == "" {
		return failure.Printable(p.Type)
	}
	return failure.Printable(fmt.Sprintf("%s %s (%s)", kind, name, p.Type))
}

// volume adds one mount.
func volume(p mounts.Point, s *section) {
	name := failure.Printable(p.Path)
	var stat unix.Stat_t
	var space unix.Statfs_t
	if err := unix.Stat(p.Path, &stat); err != nil {
		s.add(name, "%s; unknown: %s", kindOf(p), failure.Of(&os.PathError{Op: "stat", Path: p.Path, Err: err}).Text)
		if err == syscall.EACCES {
			s.problem("make the directories above it searchable (x) for this user: initbox prepare '"+failure.Printable(filepath.Dir(p.Path))+"#mode=a+x'", "user %d may not reach it", os.Geteuid())
		}
		return
	}
	isDir := stat.Mode&unix.S_IFMT == unix.S_IFDIR
	mode := uint32(unix.W_OK)
	if isDir {
		mode |= unix.X_OK
	}
	access := unix.Access(p.Path, mode) // the kernel's answer, with capabilities and ACLs
	text := fmt.Sprintf("%s, %s, owner %d:%d mode %04o", kindOf(p), yes(p.ReadOnly, "read-only", "read-write"), stat.Uid, stat.Gid, stat.Mode&0o7777)
	if err := unix.Statfs(p.Path, &space); err == nil && space.Blocks > 0 {
		text += fmt.Sprintf(", %s of %s free", words.Bytes(int64(space.Bavail)*int64(space.Bsize)), words.Bytes(int64(space.Blocks)*int64(space.Bsize)))
		if space.Files > 0 {
			text += fmt.Sprintf(", %d of %d inodes", space.Ffree, space.Files)
		}
	}
	s.add(name, "%s, %s", text, yes(access == nil, "writable", "not writable"))
	switch {
	case p.ReadOnly:
	case access == syscall.EACCES && isDir && p.Path != "/":
		s.problem(fmt.Sprintf("securityContext: {fsGroup: %d} in the Pod's spec makes most volumes writable for its containers; of a hostPath or an NFS share, change the owner with initbox prepare", os.Getgid()),
			"user %d may not write there: owner %d:%d, mode %04o", os.Geteuid(), stat.Uid, stat.Gid, stat.Mode&0o7777)
	case space.Blocks > 0 && space.Bavail == 0:
		s.problem("remove files, or give the volume more space (sizeLimit of an emptyDir, storage of a claim)", "no space is free")
	case space.Files > 0 && space.Ffree == 0:
		s.problem("remove files, or give the volume more space", "no inode is free, so no file can be created")
	}
}
