package local

import (
	"bufio"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/internal/readfile"
)

// Ref is one reference.
type Ref struct {
	Name   string        // in full: HEAD, refs/heads/main
	ID     plumbing.Hash // what it points to; zero for a HEAD whose branch does not exist
	Peeled plumbing.Hash // what an annotated tag marks in the end; zero for others
	Target string        // of a symbolic reference, the name of the other; or ""
}

// maxRefs is more references than a repository has.
const maxRefs = 1 << 20

// Refs returns the references whose full names begin with one of the prefixes; without a
// prefix it returns all, including HEAD.
func (r *Repository) Refs(prefixes ...string) ([]Ref, error) {
	r.end()
	found := make(map[string]Ref)
	wanted := func(name string) bool {
		return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	// Files come first: git pack-refs removes one after it has written packed-refs.
	if err := r.filedRefs(found, prefixes, wanted); err != nil {
		return nil, err
	}
	peeled := make(map[string]bool) // as far as packed-refs knows
	for ref, err := range r.packedRefs() {
		if err != nil {
			return nil, err
		}
		if _, has := found[ref.Name]; !has && wanted(ref.Name) {
			found[ref.Name] = ref.Ref
			peeled[ref.Name] = ref.peeled
		}
		if len(found) > maxRefs {
			return nil, errors.New("more than a million references")
		}
	}
	if wanted("HEAD") {
		if ref, ok, err := r.readRef("HEAD"); err != nil {
			return nil, err
		} else if ok {
			found["HEAD"] = ref
		}
	}
	return r.finishRefs(found, peeled)
}

// filedRefs finds the references that have files. The slash makes WalkDir follow a directory
// that is a link, as git-new-workdir makes it.
func (r *Repository) filedRefs(found map[string]Ref, prefixes []string, wanted func(string) bool) error {
	return filepath.WalkDir(filepath.Join(r.common, "refs")+"/", func(file string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(r.common, file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return err
		case d.IsDir() && !mayHold(name+"/", prefixes):
			return fs.SkipDir
		case d.IsDir() || !wanted(name) || strings.HasSuffix(name, ".lock"):
			return nil
		}
		ref, ok, err := r.readRef(name)
		if ok {
			found[name] = ref
		}
		return err
	})
}

// mayHold returns whether a name in a directory can begin with one of the prefixes.
func mayHold(directory string, prefixes []string) bool {
	return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool {
		return strings.HasPrefix(directory, p) || strings.HasPrefix(p, directory)
	})
}

// finishRefs follows symbolic references and tags, and sorts.
func (r *Repository) finishRefs(found map[string]Ref, peeled map[string]bool) ([]Ref, error) {
	var refs []Ref
	for name, ref := range found {
		var err error
		if ref.Target != "" {
			if ref.ID, err = r.resolve(ref.Target); err != nil {
				return nil, err
			}
		}
		if ref.ID.IsZero() && name != "HEAD" || plumbing.ReferenceName(name).Validate() != nil {
			continue // broken; git leaves it out too
		}
		if !peeled[name] && !ref.ID.IsZero() && !plumbing.ReferenceName(name).IsBranch() {
			ref.Peeled = r.peel(ref.ID)
		}
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return refs, nil
}

// maxTag is the length of the longest tag that is followed, in bytes.
const maxTag = 1 << 20

// peel returns the object that an annotated tag finally points to, or zero if id is not a
// tag. An object that cannot be read is reported when it is requested.
func (r *Repository) peel(id plumbing.Hash) (marked plumbing.Hash) {
	for range 100 { // a tag of a tag of …
		where, err := r.store.find(id)
		if err != nil {
			return plumbing.ZeroHash
		}
		if kind, err := r.store.kind(where); err != nil || kind != plumbing.TagObject {
			return marked
		}
		_, content, err := r.store.readAt(where, maxTag)
		if err != nil {
			return plumbing.ZeroHash
		}
		tag, err := object.ParseTag(content)
		if err != nil {
			return plumbing.ZeroHash
		}
		id, marked = tag.Object, tag.Object
	}
	return plumbing.ZeroHash
}

// maxSymbolic is how many symbolic references git follows.
const maxSymbolic = 5

// resolve returns what a reference finally points to, or zero if it does not exist.
func (r *Repository) resolve(name string) (plumbing.Hash, error) {
	for range maxSymbolic {
		ref, ok, err := r.readRef(name)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if !ok {
			return r.findPacked(name)
		}
		if ref.Target == "" {
			return ref.ID, nil
		}
		name = ref.Target
	}
	return plumbing.ZeroHash, nil
}

func (r *Repository) findPacked(name string) (plumbing.Hash, error) {
	for ref, err := range r.packedRefs() {
		if err != nil || ref.Name == name {
			return ref.ID, err
		}
	}
	return plumbing.ZeroHash, nil
}

// readRef reads a reference that has a file. Like git, it treats a malformed one as missing.
func (r *Repository) readRef(name string) (ref Ref, ok bool, err error) {
	if plumbing.ReferenceName(name).Validate() != nil {
		return Ref{}, false, nil
	}
	dir := r.common
	if name == "HEAD" {
		dir = r.dir
	}
	file := filepath.Join(dir, name)
	ref.Name = name
	// From before there were symbolic references.
	if target, err := os.Readlink(file); err == nil && strings.HasPrefix(target, "refs/") {
		ref.Target = target
		return ref, true, nil
	}
	info, err := os.Stat(file)
	if err != nil || info.IsDir() {
		if err == nil || errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
			return ref, false, nil
		}
		return ref, false, err
	}
	content, err := readFile(file, readfile.Limit)
	if errors.Is(err, fs.ErrNotExist) {
		return ref, false, nil // packed meanwhile
	}
	if err != nil {
		return ref, false, err
	}
	text := string(content)
	if target, symbolic := strings.CutPrefix(text, "ref:"); symbolic {
		ref.Target = strings.TrimSpace(target)
		return ref, plumbing.ReferenceName(ref.Target).Validate() == nil, nil
	}
	text, _, _ = strings.Cut(text, "\n")
	ref.ID, err = object.ParseID(strings.TrimSpace(text))
	return ref, err == nil, nil
}

// packedRef is a line of packed-refs.
type packedRef struct {
	Ref
	peeled bool // Peeled is known
}

// packedRefs reads packed-refs: see git-pack-refs(1), and "packed-refs" in gitrepository-layout(5).
func (r *Repository) packedRefs() iter.Seq2[packedRef, error] {
	return func(yield func(packedRef, error) bool) {
		file, err := openFile(filepath.Join(r.common, "packed-refs"))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(packedRef{}, err)
			return
		}
		defer file.Close()
		var last packedRef
		fully := false // every tag is followed by a line with what it points to
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			line := lines.Text()
			if traits, ok := strings.CutPrefix(line, "# pack-refs with:"); ok {
				fully = slices.Contains(strings.Fields(traits), "fully-peeled")
				continue
			}
			if id, ok := strings.CutPrefix(line, "^"); ok {
				last.Peeled, _ = object.ParseID(id)
				last.peeled = !last.Peeled.IsZero()
				continue
			}
			if last.Name != "" && !yield(last, nil) {
				return
			}
			text, name, _ := strings.Cut(line, " ")
			id, err := object.ParseID(text)
			last = packedRef{Ref: Ref{Name: name, ID: id}, peeled: fully}
			if err != nil {
				last.Name = "" // a comment, or malformed
			}
		}
		if last.Name != "" && !yield(last, nil) {
			return
		}
		if err := lines.Err(); err != nil {
			yield(packedRef{}, err)
		}
	}
}
