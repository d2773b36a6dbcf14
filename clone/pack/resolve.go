package pack

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
)

// After the whole pack has arrived, some deltas remain: those that name their base by ID, those with long chains, those
// that are Large, and deltas of these. Each is applied once, whatever their order and the length of their chains: from
// the bases down, depth first, as in git index-pack.

// link says which object is a delta of which.
type link struct{ base, delta uint32 }

// refDeltas are the deltas that name their base by ID. The bases are separate from the deltas, which are searched by
// other goroutines: the base of an object that has been added does not change, while those of others are still being
// found.
type refDeltas struct {
	deltas []uint32 // ascending
	bases  []uint32 // the base of each, by its slot, or unknown
}

const unknown = ^uint32(0)

// add appends a delta, and returns its slot.
func (r *refDeltas) add(delta uint32) (slot uint32) {
	r.deltas, r.bases = append(r.deltas, delta), append(r.bases, unknown)
	return uint32(len(r.deltas) - 1)
}

// of returns the number of the base of such a delta.
func (r *refDeltas) of(p *Pack, o *Object) (uint32, bool) {
	delta, _ := p.find(o.Offset)
	slot, found := slices.BinarySearch(r.deltas, delta)
	if !found {
		return unknown, false
	}
	return r.bases[slot], r.bases[slot] != unknown
}

// reference is a delta that names its base by ID.
type reference struct {
	base plumbing.Hash
	slot uint32 // of the Pack's refDeltas
}

// resolver applies the remaining deltas.
type resolver struct {
	*reader
	r      *rereader
	hasher *object.Hasher
	buf    []byte

	links      []link      // deltas that name their base by offset, sorted by base
	references []reference // deltas that name their base by ID, sorted by ID
	roots      []uint32    // where to begin: objects whose content is available
	stack      []frame
	kept       keeper
}

// resolve applies the deferred deltas.
func (r *reader) resolve() error {
	r.out.wait() // for the IDs
	if r.cause() != nil {
		return r.cause()
	}
	r.sort(func(o *Object) bool { return o.flags&isDeferred != 0 })
	v := &resolver{reader: r, r: r.reread(), hasher: object.NewHasher(), buf: make([]byte, 32<<10), kept: keeper{temp: r.o.Temp, buffers: r.buffers}}
	defer r.rereaders.Put(v.r)
	defer v.drop()
	if err := v.survey(); err != nil {
		return err
	}
	for _, root := range v.roots {
		if err := v.from(root); err != nil {
			return err
		}
	}
	return v.unresolved()
}

// survey finds out which objects depend on which.
func (v *resolver) survey() error {
	for i := range uint32(v.len()) {
		o := v.at(i)
		if o.flags&isDeferred == 0 {
			continue
		}
		e, err := v.r.entry(o)
		if err != nil {
			return err
		}
		if e.Kind == plumbing.REFDeltaObject {
			v.references = append(v.references, reference{e.Base, v.refDeltas.add(i)})
			continue
		}
		base, _ := v.find(o.Offset - e.Back) // exists: checked by reader.delta
		v.links = append(v.links, link{base, i})
		if err := v.need(base); err != nil {
			return err
		}
	}
	slices.SortFunc(v.references, func(a, b reference) int { return bytes.Compare(a.base[:], b.base[:]) })
	for _, ref := range v.references {
		if base, ok := v.lookup(ref.base); ok {
			if err := v.need(base); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(v.links, func(a, b link) int { return cmp.Compare(a.base, b.base) })
	return nil
}

// need records that the content of an object is needed again, and its chain of deltas, so that an object on which
// several depend is reconstructed once.
func (v *resolver) need(i uint32) error {
	for {
		o := v.at(i)
		if o.flags != 0 {
			return nil // deferred itself, or recorded before
		}
		o.flags |= isNeeded
		if o.Placed.Load() != 0 && o.Size <= v.o.Large {
			break
		}
		e, err := v.r.entry(o)
		if err != nil {
			return err
		}
		if !e.Kind.IsDelta() {
			break
		}
		base, _ := v.find(o.Offset - e.Back)
		v.links = append(v.links, link{base, i})
		i = base
	}
	v.roots = append(v.roots, i)
	return nil
}

// frame is an object with deltas of it that have not been applied yet.
type frame struct {
	object     *Object
	number     uint32
	content    *content // nil if it is in the file of kept
	links      []link
	references []reference
	at         int64 // offset in the file of kept; -1 if it has not been written there
}

// next removes the next delta, and returns its number. Those by ID come first, so that an identical object sees that
// they are taken, see enter.
func (f *frame) next(r *refDeltas) (delta uint32) {
	if len(f.references) > 0 {
		slot := f.references[0].slot
		f.references = f.references[1:]
		r.bases[slot] = f.number
		return r.deltas[slot]
	}
	delta, f.links = f.links[0].delta, f.links[1:]
	return delta
}

func (f *frame) isDone() bool { return len(f.links)+len(f.references) == 0 }

// enter pushes an object onto the stack if there are deltas of it. It takes over c.
func (v *resolver) enter(i uint32, c *content) error {
	f := frame{object: v.at(i), number: i, content: c, at: -1}
	f.links = equal(v.links, func(l link) int { return cmp.Compare(l.base, i) })
	f.references = equal(v.references, func(r reference) int { return bytes.Compare(r.base[:], f.object.ID[:]) })
	if len(f.references) > 0 && v.refDeltas.bases[f.references[0].slot] != unknown {
		f.references = nil
	}
	if f.isDone() {
		c.release()
		return nil
	}
	v.stack = append(v.stack, f)
	return v.kept.fit(v.stack)
}

// equal returns the part of a sorted slice that compares equal.
func equal[T any](all []T, compare func(T) int) []T {
	from := sort.Search(len(all), func(i int) bool { return compare(all[i]) >= 0 })
	all = all[from:]
	return all[:sort.Search(len(all), func(i int) bool { return compare(all[i]) > 0 })]
}

// from applies all deltas that depend on a root.
func (v *resolver) from(root uint32) error {
	c, err := v.load(v.at(root), v.o.Sink, -1)
	if err != nil {
		return v.where(v.at(root), err)
	}
	if err := v.enter(root, c); err != nil {
		return err
	}
	for len(v.stack) > 0 && err == nil {
		err = v.step()
	}
	return err
}

// step applies one delta of the object on top of the stack.
func (v *resolver) step() error {
	if err := v.cause(); err != nil {
		return err
	}
	top := &v.stack[len(v.stack)-1]
	if err := v.kept.back(top, len(v.stack), v.o.Large); err != nil {
		return err
	}
	delta := top.next(&v.refDeltas)
	base, kind := top.content.use(), top.object.Kind
	defer base.release()
	if top.isDone() { // before its last delta, so that a long chain does not fill the stack
		v.pop()
	}
	return v.make(delta, base, kind)
}

func (v *resolver) pop() {
	top := &v.stack[len(v.stack)-1]
	v.kept.forget(top, len(v.stack))
	*top = frame{}
	v.stack = v.stack[:len(v.stack)-1]
}

// make applies a delta, for the deltas of its result, and for the Sink if that does not have it yet.
func (v *resolver) make(i uint32, base *content, kind plumbing.ObjectType) error {
	o := v.at(i)
	c, err := v.derive(v.r, o, base, kind)
	if err != nil {
		return v.where(o, err)
	}
	if o.flags&isDeferred == 0 {
		return v.enter(i, c)
	}
	o.flags &^= isDeferred
	v.deferred--
	o.Kind, o.Size = kind, c.size
	j := job{object: o, content: c.use()}
	if len(v.references) > 0 { // which may name it
		if err := name(o, c, v.hasher, v.buf); err != nil {
			return err
		}
		j.named = true
	}
	v.out.emit(j)
	return v.enter(i, c)
}

func (v *resolver) where(o *Object, err error) error {
	if v.cause() != nil {
		return v.cause()
	}
	return within(err, "the object at byte %d of the pack", o.Offset)
}

// drop releases what remains after an error.
func (v *resolver) drop() {
	for len(v.stack) > 0 {
		v.pop()
	}
	v.kept.close()
}

// unresolved returns an error if some objects could not be reconstructed.
func (v *resolver) unresolved() error {
	if v.deferred == 0 {
		return nil
	}
	for _, ref := range v.references {
		if v.refDeltas.bases[ref.slot] == unknown {
			return thin(v.deferred, v.at(v.refDeltas.deltas[ref.slot]).Offset, ref.base)
		}
	}
	return corrupt("%d objects of the pack cannot be reconstructed", v.deferred)
}

// keepSize is how many bytes of content are kept in memory as bases of deltas.
const keepSize = 8 << 20

// keeper writes content of the stack to a file if there is too much for memory, beginning at the bottom, which is
// needed last.
type keeper struct {
	temp    func() (*os.File, error)
	buffers *buffers

	file  *os.File
	end   int64 // of the content in the file
	size  int   // of the content in memory
	first int   // lowest frame of the stack in memory
}

// fit adds the top of the stack, and writes lower frames to the file if there is too much in memory.
func (k *keeper) fit(stack []frame) error {
	k.size += stack[len(stack)-1].content.cost()
	for ; k.size > keepSize && k.first < len(stack)-1; k.first++ {
		f := &stack[k.first]
		if err := k.put(f); err != nil {
			return err
		}
		k.size -= f.content.cost()
		f.content.release()
		f.content = nil
	}
	return nil
}

func (k *keeper) put(f *frame) (err error) {
	if f.at >= 0 {
		return nil // written before
	}
	if k.file == nil {
		if k.file, err = k.temp(); err != nil {
			return err
		}
	}
	buf := make([]byte, min(32<<10, f.content.size))
	for off := int64(0); off < f.content.size; {
		n, err := f.content.ReadAt(buf[:min(int64(len(buf)), f.content.size-off)], off)
		if n == 0 {
			return err
		}
		if _, err := k.file.WriteAt(buf[:n], k.end+off); err != nil {
			return writing("objects of the pack", err)
		}
		off += int64(n)
	}
	f.at = k.end
	k.end += f.content.size
	return nil
}

// back reads the content of the top frame back if it is not in memory.
func (k *keeper) back(top *frame, depth int, large int64) (err error) {
	if top.content != nil {
		return nil
	}
	if size := top.object.Size; size > large {
		top.content = newFileContent(k.file, size)
		top.content.at, top.content.lent = top.at, true
	} else {
		top.content = k.buffers.content(int(size))
		if n, err := k.file.ReadAt(top.content.bytes, top.at); int64(n) < size {
			return err
		}
	}
	k.size += top.content.cost()
	k.first = depth - 1
	return nil
}

// forget releases the top frame before it leaves the stack.
func (k *keeper) forget(top *frame, depth int) {
	if top.content != nil {
		k.size -= top.content.cost()
		top.content.release()
	}
	if top.at >= 0 {
		k.end = top.at
	}
	k.first = min(k.first, depth-1)
}

func (k *keeper) close() {
	if k.file != nil {
		k.file.Close()
	}
}
