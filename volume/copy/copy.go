// Package copy copies files, directories and what a Pod has mounted into volumes: each file appears as a whole, what is
// right already is not touched, and nothing is written outside the destination, even if another program swaps
// directories for links meanwhile.
//
//	pair, err := copy.ParsePair("/certs:/data/tls/#owner=999:999&mode=0600", nil)
//	...
//	done, err := copy.Run(ctx, copy.Options{Pairs: []copy.Pair{pair}})
//	for _, s := range done {
//		log.Info(s.String()) // /data/tls: 3 files copied (3 new), 5 kB, in 2ms
//	}
//
// New files are made beside their destination, in a directory whose name begins with .initbox-copy-, and nothing else
// changes before all of them are on the disk. Then each is renamed, a directory that is new as a whole. What a killed
// run leaves is removed by the next one.
package copy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/words"
)

// Options of a run.
type Options struct {
	Pairs   []Pair
	Follow  bool         // follow symbolic links in volumes to a destination, which other programs may have made
	DryRun  bool         // only compare
	Atomic  bool         // make each destination a link to a directory that is replaced as a whole
	MaxSize int64        // of all that is unpacked, in bytes; 0 is 4 GiB
	Log     *slog.Logger // nil discards
}

// Summary is what a run did, or in a dry run would do, to one destination.
type Summary struct {
	Path string

	Created, Changed, Removed int   // files and links
	Attributes                int   // files and directories of which only the mode, the owner, times or attributes changed
	Same, Kept                int   // files that were right; that exist and were not to be overwritten
	Bytes                     int64 // written
	NotKept                   int   // files and directories with an owner or attribute of the source that this process may not set
	InPlace                   []string
	Why                       string // nothing was looked at: the destination is not empty, or the source is missing
	Duration                  time.Duration
	DryRun                    bool
}

// Changes returns how many files and directories were changed.
func (s Summary) Changes() int { return s.Created + s.Changed + s.Removed + s.Attributes }

// String returns one line for the log.
func (s Summary) String() string {
	would := ""
	if s.DryRun {
		would = "would be "
	}
	var parts []string
	add := func(n int, format string, args ...any) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, append([]any{words.Plural(n, "file")}, args...)...))
		}
	}
	add(s.Created+s.Changed, "%s %scopied (%d new), %s", would, s.Created, words.Bytes(s.Bytes))
	add(s.Attributes, "mode, owner or times of %s %schanged", would)
	add(s.Removed, "%s %sremoved", would)
	if s.Why != "" {
		parts = append(parts, s.Why)
	} else if len(parts) == 0 {
		parts = append(parts, "nothing to change")
	}
	add(s.Same, "%s the same")
	add(s.Kept, "%s not overwritten")
	return fmt.Sprintf("%s: %s, in %s", failure.Printable(s.Path), strings.Join(parts, ", "), words.Seconds(s.Duration))
}

// tries is how often a run starts again because the kubelet has replaced a volume that was being read.
const tries = 10

// Run copies all pairs, in their order: of two that write a file of the same name, the later one wins. It returns what
// was done to each destination, also to those before the one with an error.
func Run(ctx context.Context, o Options) ([]Summary, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	o.MaxSize = cmp.Or(o.MaxSize, 4<<30)
	for try := 1; ; try++ {
		done, err := (&run{Options: o, ctx: ctx, start: time.Now()}).all()
		if !errors.Is(err, errSwapped) || try == tries {
			return done, err
		}
		o.Log.Debug("a mounted ConfigMap or Secret was replaced while it was read: reading it again")
	}
}

// run is one attempt of a [Run].
type run struct {
	Options
	ctx      context.Context
	start    time.Time
	mu       sync.Mutex
	mounts   map[string]dirfd.FD // the versions that are read, by path
	opened   []dirfd.FD          // these and other directories of sources
	targets  []*target
	unpacked budget
}

func (r *run) all() (done []Summary, err error) {
	r.mounts = map[string]dirfd.FD{}
	r.unpacked.left.Store(r.MaxSize)
	defer r.close()
	for i := range r.Pairs {
		if err := r.pair(&r.Pairs[i]); err != nil {
			from, to := failure.Printable(r.Pairs[i].From), failure.Printable(r.Pairs[i].To)
			return nil, failure.About(to, err, fmt.Errorf("copy %s to %s: %w", from, to, err))
		}
	}
	if err := r.unchanged(); err != nil {
		return nil, err
	}
	for _, t := range r.targets {
		if err := t.commit(); err != nil { // some of what was counted was not done
			return done, failure.About(failure.Printable(t.path), err, fmt.Errorf("copy to %s: %w", failure.Printable(t.path), err))
		}
		done = append(done, t.summary())
	}
	return done, nil
}

func (r *run) close() {
	for _, t := range r.targets {
		t.close()
	}
	for _, dir := range r.opened {
		dir.Close()
	}
}

// pair stages what one pair copies.
func (r *run) pair(p *Pair) error {
	sources, missing, err := r.sources(p)
	if err != nil {
		return r.orSwapped(err)
	}
	marked, into := p.Unless != "" && exists(p.Unless), sources
	if marked && !exists(filepath.Clean(p.To)) {
		into = nil // so that it is not made
	}
	t, base, err := r.target(p, into)
	if err != nil {
		return err
	}
	why := missing
	switch {
	case missing != "":
		t.incomplete = true
	case p.IfEmpty && !t.empty && t.left == nil:
		why = "it is not empty, so nothing is copied"
	case marked && t.left == nil:
		why = failure.Printable(p.Unless) + " exists, so nothing is copied"
	}
	if why != "" {
		t.why = append(t.why, why)
		return nil
	}
	found := t.found.Load()
	for _, s := range sources {
		if err := t.stage(p, s, base); err != nil {
			return r.orSwapped(err)
		}
	}
	if t.found.Load() == found && !p.Optional {
		if err := r.unchanged(); err != nil {
			return err
		}
		return failure.WithHint(errors.New("the source is empty"), "is it filled by another container, or is its volume not mounted? #optional accepts an empty or missing source")
	}
	t.again = true
	return nil
}

// identity is what is the same for all names of a file.
type identity struct{ dev, ino uint64 }

func identityOf(s unix.Stat_t) identity { return identity{uint64(s.Dev), s.Ino} }
