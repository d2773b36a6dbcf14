package pack

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
)

const slab = 512

// objects are the objects of a pack, by offset. One goroutine adds objects while others read those added before.
type objects struct {
	slabs atomic.Pointer[[]*[slab]Object]
	count atomic.Uint32

	byID   []uint32    // numbers of objects, sorted by ID; see sort
	fanout [257]uint32 // for each byte, where in byID the IDs that begin with it start
}

func (s *objects) len() int { return int(s.count.Load()) }

func (s *objects) at(i uint32) *Object { return &(*s.slabs.Load())[i/slab][i%slab] }

func (s *objects) add(p *Pack, offset int64) *Object {
	i := s.count.Load()
	if i%slab == 0 {
		var slabs []*[slab]Object
		if old := s.slabs.Load(); old != nil {
			slabs = *old
		}
		slabs = append(slabs, new([slab]Object))
		s.slabs.Store(&slabs)
	}
	o := s.at(i)
	o.pack, o.Offset = p, offset
	s.count.Store(i + 1)
	return o
}

// find returns the number of the object that starts at the offset.
func (s *objects) find(offset int64) (uint32, bool) {
	i, found := sort.Find(s.len(), func(i int) int { return cmp.Compare(offset, s.at(uint32(i)).Offset) })
	return uint32(i), found
}

// sort fills byID with all objects that are not skipped.
func (s *objects) sort(skip func(*Object) bool) {
	s.fanout = [257]uint32{}
	for i := range s.count.Load() {
		if o := s.at(i); !skip(o) {
			s.fanout[int(o.ID[0])+1]++
		}
	}
	for b := range 256 {
		s.fanout[b+1] += s.fanout[b]
	}
	s.byID = slices.Grow(s.byID[:0], int(s.fanout[256]))[:s.fanout[256]]
	next := s.fanout
	for i := range s.count.Load() {
		if o := s.at(i); !skip(o) {
			s.byID[next[o.ID[0]]] = i
			next[o.ID[0]]++
		}
	}
	for b := range 256 {
		slices.SortFunc(s.byID[s.fanout[b]:s.fanout[b+1]], func(i, j uint32) int {
			return bytes.Compare(s.at(i).ID[:], s.at(j).ID[:])
		})
	}
}

// lookup returns the number of the object with that ID, among those in byID.
func (s *objects) lookup(id plumbing.Hash) (uint32, bool) {
	some := s.byID[s.fanout[id[0]]:s.fanout[int(id[0])+1]]
	i, found := sort.Find(len(some), func(i int) int { return bytes.Compare(id[:], s.at(some[i]).ID[:]) })
	if !found {
		return 0, false
	}
	return some[i], true
}

func (s *objects) all() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		for i := range s.count.Load() {
			if !yield(s.at(i)) {
				return
			}
		}
	}
}
