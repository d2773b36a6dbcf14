package publish

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"initbox/clone/object"
	"initbox/internal/dirfd"
)

// walk computes a seal, or, if content is set, the digest of the content. Several goroutines read directories.
type walk struct {
	root    *os.File
	skip    func(name string) bool // at the top
	content *object.Content        // of the files outside .git

	mu   sync.Mutex
	more sync.Cond
	todo []directory
	busy int
	err  error
	runs [][]digest // of each goroutine, in order

	sum          seal
	newest       latest // modification of a file
	inode        latest // change of the inode of a file
	repositories []string
}

type directory struct {
	path string
	part part
}

type digest struct {
	path string
	sum  [sha256.Size]byte
}

// latest is the file with the latest time, in ns since 1970.
type latest struct {
	time      int64
	dir, name string
}

func (l *latest) path() string { return below(l.dir, l.name) }

func (l *latest) take(other latest) {
	if other.time > l.time {
		*l = other
	}
}

// sealOf computes the seal of a tree or a repository.
func sealOf(root *os.File, of part, skip func(name string) bool) (*walk, error) {
	w := &walk{root: root, skip: skip}
	return w, w.run(of)
}

// run walks over the files.
func (w *walk) run(of part) error {
	w.todo = []directory{{part: of}}
	w.more.L = &w.mu
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8) {
		all.Go(w.work)
	}
	all.Wait()
	w.sum.Newest = w.newest.time
	w.sum.Digest = merge(w.runs)
	return w.err
}

// merge returns the digest of digests that are sorted by path.
func merge(runs [][]digest) string {
	h := sha256.New()
	for {
		first := -1
		for i, run := range runs {
			if len(run) > 0 && (first < 0 || run[0].path < runs[first][0].path) {
				first = i
			}
		}
		if first < 0 {
			return hex.EncodeToString(h.Sum(nil))
		}
		h.Write(runs[first][0].sum[:])
		runs[first] = runs[first][1:]
	}
}

func (w *walk) work() {
	r := &reader{walk: w}
	w.mu.Lock()
	for {
		for len(w.todo) == 0 && w.busy > 0 && w.err == nil {
			w.more.Wait()
		}
		if len(w.todo) == 0 || w.err != nil {
			break
		}
		last := len(w.todo) - 1
		next := w.todo[last]
		w.todo = w.todo[:last]
		w.busy++
		w.mu.Unlock()
		err := r.read(next)
		w.mu.Lock()
		w.busy--
		w.err = cmp.Or(w.err, err)
		w.todo = append(w.todo, r.directories...)
		if len(r.directories) > 1 || len(w.todo) == 0 {
			w.more.Broadcast()
		}
	}
	w.more.Broadcast()
	w.mu.Unlock()
	slices.SortFunc(r.digests, func(a, b digest) int { return cmp.Compare(a.path, b.path) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.take(r)
}

// take adds what a reader has found.
func (w *walk) take(r *reader) {
	w.runs = append(w.runs, r.digests)
	w.sum.Files += r.files
	w.newest.take(r.newest)
	w.inode.take(r.inode)
	w.repositories = append(w.repositories, r.repositories...)
	if w.content != nil {
		w.content.AddAll(r.content)
	}
}

// reader reads one directory after another.
type reader struct {
	*walk
	list    dirfd.Lister
	entries []entry
	record  []byte
	stat    unix.Stat_t
	blob    blob

	at          directory
	directories []directory // in it

	digests      []digest
	files        int
	newest       latest
	inode        latest
	repositories []string // with objects
	content      object.Content
}

// entry is an entry that is sealed.
type entry struct {
	name       string
	kind       byte
	executable byte
	size, time int64
}

func (r *reader) read(at directory) error {
	r.at, r.directories, r.entries = at, r.directories[:0], r.entries[:0]
	// An os.File would cost two more system calls for each directory.
	dir, err := dirfd.OpenFD(r.root, cmp.Or(at.path, "."), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	all, err := r.list.List(dir)
	if err != nil {
		return err
	}
	for i := range all {
		if err := r.look(dir, &all[i]); err != nil {
			return err
		}
	}
	if r.walk.content != nil {
		return nil
	}
	return r.seal(dir)
}

// look looks at an entry, in the order of the directory, which the kernel finds faster than any other.
func (r *reader) look(dir dirfd.FD, e *dirfd.Entry) error {
	name, kind := e.Name, e.Kind
	if r.at.path == "" && r.skip(name) {
		return nil
	}
	s := &r.stat
	if s.Mode = 0; kind == unix.DT_UNKNOWN {
		if err := e.Lstat(dir, s); err != nil {
			return err
		}
		kind = byte(s.Mode & unix.S_IFMT >> 12) // as in dirent(3)
	}
	if r.at.part == repository && name == "objects" {
		r.repositories = append(r.repositories, r.at.path)
	}
	part, ok := r.at.part.of(r.at.path, name, kind == unix.DT_DIR)
	switch {
	case !ok:
		return nil
	case r.walk.content != nil:
		return r.hash(dir, name, kind)
	case kind == unix.DT_DIR:
		r.directories = append(r.directories, directory{below(r.at.path, name), part})
		if r.at.part == repository || part == repository {
			return nil // it is recorded only if a file in it is
		}
	case kind == unix.DT_REG && s.Mode == 0:
		if err := e.Lstat(dir, s); err != nil {
			return err
		}
	}
	r.entries = append(r.entries, r.entry(name, kind, s))
	return nil
}

func (r *reader) entry(name string, kind byte, s *unix.Stat_t) entry {
	e := entry{name: name, kind: kind}
	if kind == unix.DT_REG {
		e.executable, e.size = byte(s.Mode>>6&1), s.Size
		seconds, nanoseconds := s.Mtim.Unix()
		e.time = seconds*1e9 + nanoseconds
		r.newest.take(latest{e.time, r.at.path, name})
		seconds, nanoseconds = s.Ctim.Unix()
		r.inode.take(latest{seconds*1e9 + nanoseconds, r.at.path, name})
	}
	return e
}

// seal adds the digest of the directory.
func (r *reader) seal(dir dirfd.FD) error {
	slices.SortFunc(r.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	r.record = append(append(r.record[:0], r.at.path...), 0)
	files := 0
	for _, e := range r.entries {
		r.record = append(append(append(r.record, e.kind), e.name...), 0)
		switch e.kind {
		case unix.DT_LNK:
			target, err := dirfd.Readlink(dir, e.name)
			if err != nil {
				return err
			}
			files++
			r.record = append(append(r.record, target...), 0)
		case unix.DT_REG:
			files++
			r.record = append(r.record, e.executable)
			r.record = binary.BigEndian.AppendUint64(r.record, uint64(e.size))
			r.record = binary.BigEndian.AppendUint64(r.record, uint64(e.time))
		}
	}
	r.files += files
	if r.at.part != repository || files > 0 {
		r.digests = append(r.digests, digest{r.at.path, sha256.Sum256(r.record)})
	}
	return nil
}

// below joins two clean paths; the first may be empty.
func below(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
