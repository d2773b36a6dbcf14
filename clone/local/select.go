package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"initbox/clone/object"
)

// Request says which objects are wanted.
type Request struct {
	Wants  []plumbing.Hash
	Depth  int    // of the history, in commits; 0 for all of it
	Filter string // "blob:none", "tree:0"; "" for all objects, as is "blob:limit=…", since they are here already
}

// selection is the set of objects that a request reaches, and finds them. It holds one bit for each object in a pack.
type selection struct {
	*store
	ctx     context.Context
	noTrees bool
	noBlobs bool
	depth   int
	grafts  map[plumbing.Hash]bool // commits whose parents the repository lacks
	packed  map[*packFile][]uint64 // by the place in the index
	files   []plumbing.Hash        // of loose objects
	inFile  map[plumbing.Hash]bool
	count   int
	shallow []plumbing.Hash // commits whose parents are not selected
	pending []plumbing.Hash // commits of this depth
	trees   []plumbing.Hash // to be read
}

// choose finds all objects that the request reaches.
func (s *selection) choose(r Request) error {
	switch limited := strings.HasPrefix(r.Filter, "blob:limit="); {
	case r.Filter == "" || limited:
	case r.Filter == "blob:none":
		s.noBlobs = true
	case r.Filter == "tree:0":
		s.noBlobs, s.noTrees = true, true
	default:
		return fmt.Errorf("the filter %q is not one of blob:none, blob:limit=… and tree:0", r.Filter)
	}
	s.depth = r.Depth
	for _, id := range r.Wants {
		err := s.want(id)
		if missing := new(MissingError); errors.As(err, &missing) {
			missing.Wanted = missing.ID == id
		}
		if err != nil {
			return err
		}
	}
	for depth := 1; len(s.pending) > 0; depth++ {
		commits := s.pending
		s.pending = nil
		for _, id := range commits {
			if err := s.commit(id, depth); err != nil {
				return err
			}
		}
	}
	return s.readTrees()
}

// want selects an object by its id, and the object that a tag points to.
func (s *selection) want(id plumbing.Hash) error {
	for {
		fresh, where, err := s.mark(id)
		if err != nil || !fresh {
			return err
		}
		kind, err := s.kind(where)
		if err != nil {
			return err
		}
		switch kind {
		case plumbing.CommitObject:
			s.pending = append(s.pending, id)
			return nil
		case plumbing.TreeObject:
			s.trees = append(s.trees, id)
			return nil
		case plumbing.TagObject:
			_, content, err := s.readAt(where, maxObject)
			if err != nil {
				return err
			}
			tag, err := object.ParseTag(content)
			if err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			id = tag.Object
		default:
			return nil
		}
	}
}

// commit selects the tree of a commit, and its parents if they are not too far away.
func (s *selection) commit(id plumbing.Hash, depth int) error {
	content, err := s.readAs(id, plumbing.CommitObject)
	if err != nil {
		return err
	}
	commit, err := object.ParseCommit(content)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if len(commit.Parents) > 0 && (depth == s.depth || s.grafts[id]) {
		s.shallow = append(s.shallow, id)
		commit.Parents = nil
	}
	for _, parent := range commit.Parents {
		fresh, _, err := s.mark(parent)
		if err != nil {
			return err
		}
		if fresh {
			s.pending = append(s.pending, parent)
		}
	}
	if s.noTrees {
		return nil
	}
	fresh, _, err := s.mark(commit.Tree)
	if fresh {
		s.trees = append(s.trees, commit.Tree)
	}
	if err != nil {
		return err
	}
	return s.readTrees()
}

// readTrees selects the entries of trees, recursively.
func (s *selection) readTrees() error {
	for len(s.trees) > 0 {
		id := s.trees[len(s.trees)-1]
		s.trees = s.trees[:len(s.trees)-1]
		content, err := s.readAs(id, plumbing.TreeObject)
		if err != nil {
			return err
		}
		for e, err := range object.Entries(content) {
			if err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			isTree := e.Mode == filemode.Dir
			if e.Mode == filemode.Submodule || s.noBlobs && !isTree {
				continue
			}
			fresh, _, err := s.mark(e.ID)
			if err != nil {
				return err
			}
			if fresh && isTree {
				s.trees = append(s.trees, e.ID)
			}
		}
	}
	return nil
}

func (s *selection) readAs(id plumbing.Hash, kind plumbing.ObjectType) ([]byte, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	is, content, err := s.read(id, maxObject)
	if err == nil && is != kind {
		err = fmt.Errorf("%s is a %s instead of a %s", id, is, kind)
	}
	return content, err
}

// mark selects an object, and returns whether it was not selected before.
func (s *selection) mark(id plumbing.Hash) (fresh bool, where place, err error) {
	if s.inFile[id] {
		return false, place{}, nil
	}
	if where, err = s.find(id); err != nil {
		return false, place{}, err
	}
	if where.pack == nil {
		s.inFile[id] = true
		s.files = append(s.files, id)
		s.count++
		return true, where, nil
	}
	bits := s.packed[where.pack]
	if bits == nil {
		bits = make([]uint64, where.pack.count/64+1)
		s.packed[where.pack] = bits
	}
	word, bit := &bits[where.at/64], uint64(1)<<(where.at%64)
	if *word&bit != 0 {
		return false, where, nil
	}
	*word |= bit
	s.count++
	return true, where, nil
}

// shallowSorted returns the commits whose parents are not selected.
func (s *selection) shallowSorted() []plumbing.Hash {
	slices.SortFunc(s.shallow, func(a, b plumbing.Hash) int { return slices.Compare(a[:], b[:]) })
	return s.shallow
}
