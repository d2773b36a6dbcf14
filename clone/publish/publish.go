// Package publish puts a finished tree in the place of a folder. Whoever looks,
// and whenever the program is killed, the folder is absent, the old tree or the
// new one, and whole. Where the kernel cannot replace it at once, since something
// is mounted there, the marker is whole: it is there only while the tree is.
//
//	a real folder   /data/app                the tree
//	                /data/.app.initbox-lock  locked by whoever works on it
//	                /data/.app.initbox-…     where the next one is made
//	a mount point   /app                     the tree
//	                /app/.initbox-lock
//	                /app/.initbox-…
//	a link          /data/NAME               → .worktrees/HASH
//	                /data/.worktrees/HASH    the tree
//	                /data/.worktrees/.initbox-lock
//	                /data/.worktrees/.initbox-…
//
// The marker is .git/initbox.json, wherever .git is. Without a folder .git it stands
// where the lock does: .app.initbox.json, .initbox.json or .HASH.initbox.json.
package publish

import (
	"encoding/json"
	"log/slog"

	"initbox/clone/access"
)

// Options say what is to be replaced.
type Options struct {
	// Dir becomes the tree. If it is a symbolic link, what it leads to does. What
	// stands there already goes, except for what is mounted in it and an ext4
	// volume's lost+found. Folders above it are made.
	Dir string

	// Link, if not empty, is the name of a symbolic link in Dir that is to lead to
	// .worktrees/HASH in Dir, as git-sync makes it. Nothing else in Dir is touched.
	Link string

	// GitDir, if not empty, is a folder outside of Dir that is replaced together with
	// it, and last, by what is to be its .git. It holds the marker.
	GitDir string

	// Keep leaves the tree that a link led to before until the next Open, for
	// those who still read it.
	Keep bool

	Access access.Access // of the folder itself; that of a mount point stays
	NoSync bool          // leave it to the kernel when the disk has it all: for measurements
	Log    *slog.Logger
}

// Marker says what a folder holds. There is nothing secret in it: whoever can read
// the folder can read it.
type Marker struct {
	URL     string          `json:"url"` // without credentials
	Ref     string          `json:"ref"`
	SHA     string          `json:"sha"`     // the commit
	Options string          `json:"options"` // a digest of those that shape the tree
	Result  json.RawMessage `json:"result,omitempty"`
}
