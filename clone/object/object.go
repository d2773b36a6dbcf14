// Package object reads and names Git objects: what they are is documented in
// gitformat-pack(5) and in "Git Internals" of the Git book.
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

// ErrCollision means: made to have the same SHA-1 as another object
// (https://shattered.io). Git refuses it too.
var ErrCollision = errors.New("its content is made to collide with another object's SHA-1")

// A Hasher finds the id of one object as its content arrives. The zero value is
// not usable; see [NewHasher].
type Hasher struct {
	sum sha1cd.CollisionResistantHash
	buf []byte
}

// NewHasher returns a Hasher, to be used for one object after the other.
func NewHasher() *Hasher {
	return &Hasher{sum: sha1cd.New().(sha1cd.CollisionResistantHash)}
}

// Begin starts an object of that many bytes.
func (h *Hasher) Begin(kind plumbing.ObjectType, size int64) {
	h.sum.Reset()
	h.buf = append(append(h.buf[:0], kind.Bytes()...), ' ')
	h.buf = append(strconv.AppendInt(h.buf, size, 10), 0)
	h.sum.Write(h.buf)
}

// Write adds content. It never fails.
func (h *Hasher) Write(p []byte) (int, error) { return h.sum.Write(p) }

// ID returns the id of what was written since Begin, or ErrCollision.
func (h *Hasher) ID() (id plumbing.Hash, err error) {
	sum, collision := h.sum.CollisionResistantSum(h.buf[:0])
	if collision {
		return plumbing.ZeroHash, ErrCollision
	}
	copy(id[:], sum)
	return id, nil
}

// Of returns the id of an object with that content, or ErrCollision.
func (h *Hasher) Of(kind plumbing.ObjectType, content []byte) (plumbing.Hash, error) {
	h.Begin(kind, int64(len(content)))
	h.Write(content)
	return h.ID()
}

// ParseID reads 40 hexadecimal digits.
func ParseID(text string) (id plumbing.Hash, err error) {
	if len(text) != hex.EncodedLen(len(id)) {
		return plumbing.ZeroHash, fmt.Errorf("not a SHA-1 of 40 hexadecimal digits: %q", text)
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("not a SHA-1 of 40 hexadecimal digits: %q", text)
	}
	return id, nil
}

// Commit is what initbox reads of a commit.
type Commit struct {
	Tree      plumbing.Hash
	Parents   []plumbing.Hash
	Author    Person
	Committer Person
	Message   string
}

// Subject is the first paragraph of the message, in one line.
func (c *Commit) Subject() string {
	subject, _, _ := strings.Cut(strings.TrimLeft(c.Message, "\n"), "\n\n")
	return strings.Join(strings.Fields(subject), " ")
}

// Person is who did something, and when.
type Person struct {
	Name, Email string
	When        time.Time
}

// String is the person as a log shows it: NAME <EMAIL>.
func (p Person) String() string { return p.Name + " <" + p.Email + ">" }

// ParseCommit reads the content of a commit.
func ParseCommit(content []byte) (*Commit, error) {
	c := new(Commit)
	message, err := headers(content, func(key, value string) (err error) {
		var id plumbing.Hash
		switch key {
		case "tree":
			if !c.Tree.IsZero() {
				return errTwice
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

// errTwice is of an object that says twice what it is of. Git takes the first, but
// who has signed it may have seen the other.
var errTwice = errors.New("what it is of is there twice")

// Tag is what initbox reads of an annotated tag.
type Tag struct {
	Object plumbing.Hash
	Kind   plumbing.ObjectType
	Name   string
	Tagger Person
}

// ParseTag reads the content of an annotated tag.
func ParseTag(content []byte) (*Tag, error) {
	t := new(Tag)
	_, err := headers(content, func(key, value string) (err error) {
		switch key {
		case "object":
			if !t.Object.IsZero() {
				return errTwice
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

// headers calls each for every header line of a commit or a tag, without those
// that go on from the one before, and returns the message.
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

// parsePerson reads NAME <EMAIL> SECONDS ZONE. What is malformed, as old commits
// are, is left out.
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

// Entry is one line of a tree.
type Entry struct {
	Mode filemode.FileMode
	Name string // as in the tree: any bytes but NUL; nothing has been checked
	ID   plumbing.Hash
}

var errTree = errors.New("malformed tree")

// Entries reads the content of a tree. An error is the last of the sequence.
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
