package pack

import "sync"

// cacheSize is how many bytes of content are kept as bases of deltas. Most bases are close before their deltas.
const cacheSize = 4 << 20

// cache keeps the most recently used content, by the offset of its object. Several goroutines may use it.
type cache struct {
	mu    sync.Mutex
	by    map[int64]*cached
	order []*cached // oldest first
	size  int

	closed bool
}

type cached struct {
	offset int64
	*content
	again bool // used since it was added to order
}

// get returns the content for a further user, or nil.
func (k *cache) get(offset int64) *content {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.by[offset]
	if !ok {
		return nil
	}
	c.again = true
	return c.use()
}

// put keeps c, unless it is in a file or too large.
func (k *cache) put(offset int64, c *content) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil {
		k.by = make(map[int64]*cached)
	}
	if k.closed || c.file != nil || c.cost() > cacheSize/4 || k.by[offset] != nil {
		return
	}
	kept := &cached{offset: offset, content: c.use()}
	k.by[offset] = kept
	k.order = append(k.order, kept)
	k.size += c.cost()
	for k.size > cacheSize {
		k.drop()
	}
}

// close releases everything; nothing is kept from then on.
func (k *cache) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.by {
		c.release()
	}
	k.by, k.order, k.size, k.closed = nil, nil, 0, true
}

// drop removes the oldest content. Content that has been used again gets a second chance.
func (k *cache) drop() {
	for {
		c := k.order[0]
		k.order[0] = nil
		k.order = k.order[1:]
		if c.again {
			c.again = false
			k.order = append(k.order, c)
			continue
		}
		delete(k.by, c.offset)
		k.size -= c.cost()
		c.release()
		return
	}
}
