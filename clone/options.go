package clone

import (
	"log/slog"
	"time"

	"initbox/clone/access"
	"initbox/clone/remote"
)

// Options say what to clone, and where to.
type Options struct {
	URL string // see remote.ParseURL
	Dir string // becomes the tree of the revision; with Link, the folder that holds the link

	// Ref is a branch, a tag, a commit's id, whole or abbreviated, a name that
	// begins with refs/, HEAD, or a range of semantic versions that the highest
	// matching tag is taken of. "" is HEAD.
	Ref          string
	Depth        int  // of the history, in commits; 0 for all of it
	SingleBranch bool // with Depth 0: only the history of Ref

	Submodules Submodules
	Sparse     []string // cone mode: folders; pattern mode: as in .gitignore
	Patterns   bool     // Sparse are patterns, not folders
	Filter     string   // "blob:none": only the blobs of Sparse are fetched
	LFS        bool     // replace pointers of Git LFS by what they point to

	GitDir string // GitKeep, GitRemove, or the folder that .git is to be
	Subdir string // the folder of the tree whose content becomes Dir; "" for all of it

	Access access.Access
	Link   string // publish as git-sync does: a link of this name to a folder named after the commit

	Keys                   []string // files of OpenPGP or SSH keys, one of which has to have signed the commit or the tag
	RejectEscapingSymlinks bool
	MaxSize                int64 // bytes of all files; 0 for any
	MaxFiles               int   // 0 for any

	Remote         remote.Options
	AttemptTimeout time.Duration // without progress; 0 for none
	RetryAuth      bool          // what a server refuses may heal
	Seed           uint64        // of the jitter
	Log            *slog.Logger  // nil for none
	Terminal       bool          // progress is for a person who watches
}

// Values of Options.GitDir.
const (
	GitKeep   = "keep"   // .git in the folder, as git would have made it
	GitRemove = "remove" // no .git
)

// Submodules says which submodules are cloned too.
type Submodules string

const (
	SubmodulesOff       Submodules = "off"
	SubmodulesShallow   Submodules = "shallow"   // those of the repository, not theirs
	SubmodulesRecursive Submodules = "recursive" // theirs too
)

// Result is what became of a clone.
type Result struct {
	URL     string    `json:"url"` // without credentials
	Ref     string    `json:"ref"` // in full, as the server calls it; or the id
	SHA     string    `json:"sha"` // the commit
	Date    time.Time `json:"date"`
	Author  string    `json:"author"`
	Subject string    `json:"subject"`
	Bytes   int64     `json:"bytes"` // received
	Seconds float64   `json:"seconds"`
	Changed bool      `json:"changed"` // false: it was there before
}
