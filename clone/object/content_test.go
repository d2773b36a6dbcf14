package object_test

import (
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
)

// The digest depends on each path and each content, not on the order.
func TestContent(t *testing.T) {
	id := func(content string) plumbing.Hash {
		h := object.NewBlob(int64(len(content)))
		h.Write([]byte(content))
		want, err := object.NewHasher().Of(plumbing.BlobObject, []byte(content))
		if got := plumbing.Hash(h.Sum(nil)); err != nil || got != want {
			t.Errorf("the id of %q is %v, want %v, %v", content, got, want, err)
		}
		if got := object.BlobID(append(make([]byte, object.BlobHeader), content...)); got != want {
			t.Errorf("at once, the id of %q is %v, want %v", content, got, want)
		}
		return want
	}
	of := func(files ...string) object.Content {
		var c object.Content
		for i := 0; i < len(files); i += 2 {
			c.Add(files[i], id(files[i+1]))
		}
		return c
	}
	all := of("a", "1", "b", "2", "c", "")
	parts := of("c", "")
	parts.AddAll(of("b", "2", "a", "1"))
	if parts != all || len(all.String()) != 64 {
		t.Errorf("%v, in another order %v", all, parts)
	}
	seen := map[string]bool{all.String(): true}
	for _, other := range []object.Content{of(), of("a", "1", "b", "2"), of("a", "2", "b", "1", "c", ""), of("a", "1", "b", "2", "d", ""), of("a", "1", "b", "2", "c", "3")} {
		if seen[other.String()] {
			t.Errorf("%v is that of other files", other)
		}
		seen[other.String()] = true
	}
}
