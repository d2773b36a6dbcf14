package worktree

import (
	"bytes"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/clone/pack"
	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// link is a symbolic link that Finish makes.
type link struct {
	entry  *Entry
	target string
}

const maxTarget = 4095 // bytes, PATH_MAX less the NUL

// addLink records the target of a link.
func (t *Tree) addLink(e *Entry, c pack.Content) error {
	switch {
	case c.Size > maxTarget:
		return refuse("%s is a symbolic link with a target of %d bytes; Linux allows %d", e.printable(), c.Size, maxTarget)
	case c.Size == 0:
		return refuse("%s is a symbolic link without a target", e.printable())
	case bytes.IndexByte(c.Bytes, 0) >= 0:
		return refuse("%s is a symbolic link with a NUL in its target", e.printable())
	}
	if err := t.afford(c.Size); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links = append(t.links, link{e, string(c.Bytes)})
	return nil
}

// Finish makes the symbolic links, and sets the modes of directories. It fails if objects are missing.
//
// With RejectEscapingSymlinks it fails, before it makes any link, if one is absolute or points outside the directory,
// also by way of other links of the tree. A chain of more than 255 links, such as a link to itself, counts as pointing
// outside. Whether the target exists does not matter.
func (t *Tree) Finish() error {
	if err := t.complete(); err != nil {
		return err
	}
	if t.RejectEscapingSymlinks {
		if err := rejectEscaping(t.links); err != nil {
			return err
		}
	}
	for _, l := range t.links {
		if err := t.makeLink(l); err != nil {
			return err
		}
	}
	t.links = nil
	return t.setModes()
}

// complete fails if an object has not arrived.
func (t *Tree) complete() error {
	if t.top == nil {
		return errors.New("no tree was requested")
	}
	missing := t.Missing()
	if len(missing) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return failure.New(failure.Unexpected, "the server left out %s of the revision, such as %s for %s", words.Plural(len(missing), "object"), missing[0], t.pending[missing[0]].printable()).
		WithHint("is the repository whole? run git fsck on the server")
}

func (t *Tree) makeLink(l link) error {
	e := l.entry
	path := e.Path()
	if err := dirfd.Symlink(l.target, t.root, path); err != nil {
		failed := local("make the symbolic link", e, err)
		if f := failure.Of(failed); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
			f.Hint = "the file system has no symbolic links"
			return f
		}
		return failed
	}
	if !t.Stat && t.Access.Owner == nil {
		return nil
	}
	s, err := dirfd.Lstat(t.root, path)
	if err != nil {
		return local("look at", e, err)
	}
	if gives(t.Access, s) {
		o := t.Access.Owner
		if err := dirfd.Chown(t.root, path, o.UID, o.GID); err != nil {
			return t.notGiven(e, err)
		}
		if s, err = dirfd.Lstat(t.root, path); err != nil {
			return local("look at", e, err)
		}
	}
	if t.Stat {
		e.stat = statOf(s)
	}
	return nil
}

const (
	maxHops  = 255
	maxSteps = 50_000_000 // of all links together: about a second
)

// rejectEscaping resolves the links by their text alone: it assumes that a name that is not
// a link of the tree is a directory.
func rejectEscaping(links []link) error {
	targets := make(map[string]string, len(links))
	for _, l := range links {
		targets[l.entry.Path()] = l.target
	}
	steps := 0
	for _, l := range links {
		if !stays(l.entry.Path(), targets, &steps) {
			f := failure.New(failure.Unexpected, "%s is a symbolic link that points outside the directory, to %s", l.entry.printable(), printable(l.target))
			f.Hint = "--reject-escaping-symlinks refuses it"
			return poll.Permanent(f)
		}
	}
	return nil
}

// stays returns whether the link at a path points to something in the directory.
func stays(path string, targets map[string]string, steps *int) bool {
	var at []string // where we are: names from the top
	rest := path    // names that are still to be followed
	for hops := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if *steps += 1 + len(at); *steps > maxSteps {
			return false
		}
		switch name {
		case "", ".":
			continue
		case "..":
			if len(at) == 0 {
				return false
			}
			at = at[:len(at)-1]
			continue
		}
		target, isLink := targets[strings.Join(append(at, name), "/")]
		if !isLink {
			at = append(at, name)
			continue
		}
		if hops++; hops > maxHops || target[0] == '/' {
			return false
		}
		rest = target + "/" + rest
		*steps += len(rest) / 16
	}
	return true
}
