// Package publish replaces a directory with a finished tree. At every instant, and after a kill at any instant, the
// directory is absent, or it is the complete old tree, or the complete new one. Where the kernel cannot replace the
// directory atomically, because something is mounted on it, the marker keeps the promise: it exists only while the tree
// is complete.
//
//	target, err := publish.Open(ctx, publish.Options{Dir: "/data/app"})
//	...
//	defer target.Close()
//	if m := target.Current(); m != nil && m.SHA == sha {
//		return nil // unchanged since an earlier run published it
//	}
//	stage, err := target.Stage()
//	... // write the files below stage.Tree
//	err = target.Publish(ctx, stage, publish.Marker{URL: url, Ref: ref, SHA: sha})
//
// The files, by the kind of directory:
//
//	a directory     /data/app                the tree
//	                /data/.app.initbox-lock  locked by the run that works on it
//	                /data/.app.initbox-…     the stage, where the next tree is made
//	                /data/.app.initbox-unfinished  while there may be no marker, although the files are ours
//	a mount point   /app                     the tree
//	                /app/.initbox-lock
//	                /app/.initbox-…
//	a link          /data/NAME               → .worktrees/HASH
//	                /data/.worktrees/HASH    the tree
//	                /data/.worktrees/.initbox-lock
//	                /data/.worktrees/.initbox-…
//	                /data/.worktrees/.HASH.initbox-replaced  see Options.KeepOld
//	a link          /app/NAME                → ../data/.worktrees/HASH, for instance
//	  elsewhere     /app/.NAME.initbox-id    what tells it from links of other Pods at the same path
//	                /data/.worktrees/.initbox-link-…  keeps its tree, see Options.Lease
//
// The marker is .git/initbox.json, wherever .git is. Without a .git directory it is beside
// the lock: .app.initbox.json, .initbox.json or .HASH.initbox.json.
package publish

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"time"

	"initbox/clone/access"
)

// Options say which directory is replaced, and how.
type Options struct {
	// Dir is replaced; if it is a symbolic link, the directory that it points to is. If a run has published it, or it
	// has no files, its old content is removed, except for mount points in it and the lost+found of an ext4 volume.
	// Otherwise Open returns a permanent error. Missing parent directories are created, and removed
	// again if nothing is published.
	Dir string

	// Replace says that Dir, GitDir and Link are replaced even if no run has published what is there. With Link, what
	// else is among the trees is removed.
	Replace bool

	// Follow says that symbolic links are followed on the way to Dir and GitDir, even if another program may have made
	// them. Without it, a link in a volume is refused, and so is one that a user has put into another user's directory.
	Follow bool

	// Link, if not empty, is a symbolic link that will point to .worktrees/HASH in Dir, as with git-sync: a name in Dir,
	// or a path, relative to Dir or absolute. Nothing else in Dir is touched.
	Link string

	// GitDir, if not empty, is a directory outside Dir for the tree's .git. It is replaced
	// together with Dir, after it, and holds the marker.
	GitDir string

	// Keep leaves the tree that the link pointed to before until the next Open, for programs that still read it.
	Keep bool

	// KeepOld is how long trees to which no link points stay, for the same programs. The time begins when a run first
	// finds a tree without a link, and is noted beside the tree: restarts do not prolong it.
	KeepOld time.Duration

	// Lease is how long a tree stays for a Link that is not in Dir after the last Open with that link, which runs for
	// other links do not see. With 0 it stays until an Open finds the link elsewhere, or gone.
	Lease time.Duration

	// Unchecked says that the files may have changed since a run published them: a program may have done so.
	Unchecked bool

	Access access.Access // of the directory itself; a mount point keeps its own
	NoSync bool          // let the kernel decide when to write to the disk: for measurements
	Log    *slog.Logger
	Warned *Warned // if set, what it has is not logged again
}

// linkPath returns where readers find the tree.
func (o Options) linkPath() string {
	if filepath.IsAbs(o.Link) {
		return o.Link
	}
	return filepath.Join(o.Dir, o.Link)
}

// Marker records what a directory holds. It contains nothing secret: everyone who can read the directory can read it.
type Marker struct {
	URL     string          `json:"url"` // without credentials
	Ref     string          `json:"ref"`
	SHA     string          `json:"sha"`               // the commit
	Options string          `json:"options"`           // a digest of the options that affect the tree
	Content string          `json:"content,omitempty"` // an object.Content of the files outside .git; "" if unknown
	Program string          `json:"program,omitempty"` // that may have changed the tree before it was published
	Result  json.RawMessage `json:"result,omitempty"`
}
