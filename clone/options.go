package clone

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"initbox/clone/access"
	"initbox/clone/remote"
	"initbox/internal/httpclient"
)

// Options say what to clone, and where.
type Options struct {
	URL string // see remote.ParseURL
	Dir string // becomes the tree of the revision; with Link, the directory that contains the trees, and the link unless that is a path

	Replace bool // whatever is in Dir and GitDir, even if no run has put it there
	Follow  bool // follow symbolic links to Dir and GitDir, see publish.Options

	// Ref is a branch, a tag, the ID of a commit (full or abbreviated), a name that begins with refs/, HEAD, or a range
	// of semantic versions, which means the highest tag in it. "" means HEAD.
	Ref          string
	Depth        int  // of the history, in commits; 0 for all of it
	SingleBranch bool // with Depth 0: only the history of Ref

	Submodules Submodules
	Sparse     []string // cone mode: directories; pattern mode: as in .gitignore
	Patterns   bool     // Sparse are patterns, not directories

	// Filter says which objects are fetched only if the files need them: "blob:none", all blobs; "blob:limit=SIZE",
	// larger ones; "tree:0", blobs and trees.
	Filter string
	LFS    bool // replace Git LFS pointers by the files that they point to

	GitDir string // GitKeep, GitRemove, or the directory that becomes .git
	Subdir string // the directory in the repository whose content becomes Dir; "" for all of it

	Access access.Access
	Link   string // publish like git-sync: a link, in Dir or at this path, to a directory named after the commit

	KeepOld time.Duration // with Link: how long the directories of earlier commits stay for those who still read them

	// LinkLease, with a Link that is not in Dir, is how long its tree stays after the last run, or the last Look of a
	// Watcher, with that link. Runs for other links with the same Dir cannot see whether it is still there. 0 is forever.
	LinkLease time.Duration

	// Before, if set, is called with the directory of a finished tree before it is published, which waits until it
	// returns nil. What it changes there is published, too. It runs Program: a tree that was published with another one
	// is not used again. Unchecked is for programs that change the published tree: only its commit and its options say
	// whether it is up to date.
	Before    func(ctx context.Context, dir, sha string) error
	Program   string
	Unchecked bool

	Keys                   []string // files of OpenPGP or SSH keys; one of the keys must have signed the commit or the tag
	RejectEscapingSymlinks bool
	MaxSize                int64 // bytes of all files; 0 for any
	MaxFiles               int   // 0 for any

	Remote         remote.Options
	AttemptTimeout time.Duration // without progress; 0 for none
	Seed           uint64        // of the jitter
	Log            *slog.Logger  // nil to discard
	Terminal       bool          // the log goes to a terminal: log progress more often

	// RetryStatus has statuses of HTTP that are retried although they usually do not heal: 401, 403, 404, 407 and 410.
	// 404 also stands for a missing revision, and over SSH and the Git protocol 401 or 403 for refused credentials, 404
	// for a missing repository. RetryAuth stands for all of them, and retries another host key and an untrusted
	// certificate, too. MaxRefusals limits the attempts that end so, with RefusalPause between them; 0 for any number,
	// and for the usual pause.
	RetryStatus  httpclient.Statuses
	RetryAuth    bool
	MaxRefusals  int
	RefusalPause time.Duration
}

// Path returns where the tree is found: Dir, or the link.
func (o Options) Path() string {
	if filepath.IsAbs(o.Link) {
		return o.Link
	}
	return filepath.Join(o.Dir, o.Link)
}

// Values of Options.GitDir.
const (
	GitKeep   = "keep"   // .git in the directory, as git clone would write it
	GitRemove = "remove" // no .git
)

// Submodules says which submodules are cloned too.
type Submodules string

const (
	SubmodulesOff       Submodules = "off"
	SubmodulesShallow   Submodules = "shallow"   // those of the repository, without submodules of their own
	SubmodulesRecursive Submodules = "recursive" // all, at any depth
)

// Result describes a finished clone.
type Result struct {
	URL     string    `json:"url"` // without credentials
	Ref     string    `json:"ref"` // the full name on the server, or the ID of the commit
	SHA     string    `json:"sha"` // of the commit
	Date    time.Time `json:"date"`
	Author  string    `json:"author"`
	Subject string    `json:"subject"`
	Bytes   int64     `json:"bytes"` // received
	Seconds float64   `json:"seconds"`
	Changed bool      `json:"changed"` // false if it was in place before
}
