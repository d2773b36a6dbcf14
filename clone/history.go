package clone

import (
	"context"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/pack"
	"initbox/clone/publish"
	"initbox/clone/remote"
)

// commits fetches the history of all references, without files, and returns the commits whose IDs begin with prefix.
func commits(ctx context.Context, repo remote.Repository, refs []remote.Ref, prefix string, stage *publish.Stage) (map[plumbing.Hash]bool, error) {
	answer, err := repo.Fetch(ctx, remote.Request{Filter: "tree:0", Wants: wants(refs)})
	if err != nil {
		return nil, err
	}
	defer answer.Pack.Close()
	spool, err := stage.Temp()
	if err != nil {
		return nil, err
	}
	defer spool.Close()
	found := &commitsNamed{prefix: prefix, ids: make(map[plumbing.Hash]bool)}
	_, err = pack.Read(ctx, answer.Pack, pack.Options{Spool: spool, Sink: found, Temp: stage.Temp})
	return found.ids, err
}

// wants returns first and the objects that the references point to, each once.
func wants(refs []remote.Ref, first ...plumbing.Hash) []plumbing.Hash {
	asked := make(map[plumbing.Hash]bool)
	for _, id := range first {
		asked[id] = true
	}
	for _, r := range refs {
		if !asked[r.ID] {
			asked[r.ID] = true
			first = append(first, r.ID)
		}
	}
	return first
}

// commitsNamed is a [pack.Sink] that only looks at IDs.
type commitsNamed struct {
	prefix string
	mu     sync.Mutex
	ids    map[plumbing.Hash]bool
}

func (c *commitsNamed) Add(_ int, o *pack.Object, _ pack.Content) error {
	if o.Kind == plumbing.CommitObject && strings.HasPrefix(o.ID.String(), c.prefix) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ids[o.ID] = true
	}
	return nil
}

func (c *commitsNamed) Base(*pack.Object, []byte) ([]byte, bool) { return nil, false }
