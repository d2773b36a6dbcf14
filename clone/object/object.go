// Package object parses Git objects and computes their IDs:
//
//	commit, err := object.ParseCommit(content)
//	for entry, err := range object.Entries(tree) { ... }
//	id, err := object.NewHasher().Of(plumbing.BlobObject, content)
//
// The formats are documented in gitformat-pack(5) and in "Git Internals" of the Git book.
package object

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/pjbgf/sha1cd"
)

// ErrCollision means that an object was made to have the same SHA-1 as another (https://shattered.io). Git refuses it,
// too.
var ErrCollision = errors.New("its content was made to collide with the SHA-1 of another object")

// A Hasher computes the ID of an object as its content arrives. The zero value is not usable; see [NewHasher].
type Hasher struct {
	sum sha1cd.CollisionResistantHash
	buf []byte
}

// NewHasher returns a Hasher, which can be used for one object after another.
func NewHasher() *Hasher {
	return &Hasher{sum: sha1cd.New().(sha1cd.CollisionResistantHash)}
}

// Begin starts an object of size bytes.
func (h *Hasher) Begin(kind plumbing.ObjectType, size int64) {
	h.sum.Reset()
	h.buf = append(append(h.buf[:0], kind.Bytes()...), ' ')
	h.buf = append(strconv.AppendInt(h.buf, size, 10), 0)
	h.sum.Write(h.buf)
}

// Write adds content. It never fails.
func (h *Hasher) Write(p []byte) (int, error) { return h.sum.Write(p) }

// ID returns the ID of what was written since Begin, or ErrCollision.
func (h *Hasher) ID() (id plumbing.Hash, err error) {
	sum, collision := h.sum.CollisionResistantSum(h.buf[:0])
	if collision {
		return plumbing.ZeroHash, ErrCollision
	}
	copy(id[:], sum)
	return id, nil
}

// Of returns the ID of an object with that content, or ErrCollision.
func (h *Hasher) Of(kind plumbing.ObjectType, content []byte) (plumbing.Hash, error) {
	h.Begin(kind, int64(len(content)))
	h.Write(content)
	return h.ID()
}

// ParseID parses an ID of 40 hexadecimal digits.
func ParseID(text string) (plumbing.Hash, error) {
	id, err := hex.DecodeString(text)
	if err != nil || len(id) != len(plumbing.ZeroHash) {
		return plumbing.ZeroHash, fmt.Errorf("not a SHA-1 of 40 hexadecimal digits: %q", text)
	}
	return plumbing.Hash(id), nil
}

// Commit holds the parts of a commit that initbox uses.
type Commit struct {
	Tree      plumbing.Hash
	Parents   []plumbing.Hash
	Author    Person
	Committer Person
	Message   string
}

// Subject returns the first paragraph of the message, on one line.
func (c *Commit) Subject() string {
	subject, _, _ := strings.Cut(strings.TrimLeft(c.Message, "\n"), "\n\n")
	return strings.Join(strings.Fields(subject), " ")
}

// Person is the author, the committer or the tagger of an object.
type Person struct {
	Name, Email string
	When        time.Time
}

// String returns NAME <EMAIL>.
func (p Person) String() string { return p.Name + " <" + p.Email + ">" }

// ParseCommit parses the content of a commit.
func ParseCommit(content []byte) (*Commit, error) {
	c := new(Commit)
	message, err := headers(content, func(key, value string) (err error) {
		var id plumbing.Hash
		switch key {
		case "tree":
			if !c.Tree.IsZero() {
				return errDuplicate
			}
			c.Tree, err = ParseID(value)
		case "parent":
			id, err = ParseID(value)
			c.Parents = append(c.Parents, id)
		case "author":
			c.Author = parsePerson(value)
		case "committer":
			c.Committer = parsePerson(value)
		}
		return err
	})
	if err == nil && c.Tree.IsZero() {
		err = errors.New("no tree")
	}
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	c.Message = message
	return c, nil
}

// errDuplicate refuses an object with two trees or two tagged objects. Git uses the first, but the signer may have seen
// the second.
var errDuplicate = errors.New("duplicate header")

// Tag holds the parts of an annotated tag that initbox uses.
type Tag struct {
	Object plumbing.Hash
	Kind   plumbing.ObjectType
	Name   string
	Tagger Person
}

// ParseTag parses the content of an annotated tag.
func ParseTag(content []byte) (*Tag, error) {
	t := new(Tag)
	_, err := headers(content, func(key, value string) (err error) {
		switch key {
		case "object":
			if !t.Object.IsZero() {
				return errDuplicate
			}
			t.Object, err = ParseID(value)
		case "type":
			t.Kind, err = plumbing.ParseObjectType(value)
		case "tag":
			t.Name = value
		case "tagger":
			t.Tagger = parsePerson(value)
		}
		return err
	})
	if err == nil && t.Object.IsZero() {
		err = errors.New("no object")
	}
	if err != nil {
		return nil, fmt.Errorf("tag: %w", err)
	}
	return t, nil
}

// headers calls each for every header line of a commit or a tag, except continuation lines, and returns the message.
func headers(content []byte, each func(key, value string) error) (message string, err error) {
	for len(content) > 0 {
		line, rest, _ := bytes.Cut(content, []byte("\n"))
		content = rest
		if len(line) == 0 {
			return string(content), nil
		}
		if line[0] == ' ' {
			continue
		}
		key, value, _ := strings.Cut(string(line), " ")
		if err := each(key, value); err != nil {
			return "", err
		}
	}
	return "", nil
}

// parsePerson parses NAME <EMAIL> SECONDS ZONE. It omits malformed parts, which old commits have.
func parsePerson(text string) (p Person) {
	name, rest, _ := strings.Cut(text, "<")
	email, date, _ := strings.Cut(rest, ">")
	p.Name, p.Email = strings.TrimSpace(name), strings.TrimSpace(email)
	seconds, zone, _ := strings.Cut(strings.TrimSpace(date), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return p
	}
	p.When = time.Unix(unix, 0).UTC()
	if z, err := time.Parse("-0700", zone); err == nil {
		p.When = p.When.In(z.Location())
	}
	return p
}

// Entry is an entry of a tree.
type Entry struct {
	Mode filemode.FileMode
	Name string // any bytes but NUL, not validated
	ID   plumbing.Hash
}

var errTree = errors.New("malformed tree")

// Entries parses the content of a tree. An error ends the sequence.
func Entries(content []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for len(content) > 0 {
			space := bytes.IndexByte(content, ' ')
			nul := bytes.IndexByte(content, 0)
			if space < 1 || space > 6 || nul < space || len(content) < nul+1+len(plumbing.ZeroHash) {
				yield(Entry{}, errTree)
				return
			}
			var e Entry
			for _, digit := range content[:space] {
				if digit < '0' || digit > '7' {
					yield(Entry{}, errTree)
					return
				}
				e.Mode = e.Mode<<3 | filemode.FileMode(digit-'0')
			}
			e.Name = string(content[space+1 : nul])
			copy(e.ID[:], content[nul+1:])
			content = content[nul+1+len(e.ID):]
			if !yield(e, nil) {
				return
			}
		}
	}
}
