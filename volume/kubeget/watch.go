package kubeget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/perm"
	"initbox/internal/poll"
	"initbox/internal/stage"
)

// AllNamespaces as the namespace of a target means all of them; only a [Watcher] accepts it.
const AllNamespaces = "*"

// WatchOptions configures a [Watcher].
type WatchOptions struct {
	Options                // Dst is a directory, and all targets have a name for each file
	Every    time.Duration // list everything again this often, and repair the files
	FolderIn string        // the annotation with the folder below Dst for an object's files; "" for none
	Unique   bool          // names of files have the namespace, the kind and the name of the object in them
	Unzip    bool          // values whose keys end in .gz are unpacked
	Fetch    *Fetcher      // downloads what the keys that end in .url refer to; nil writes the URLs
}

// Check returns what cannot be right in the options.
func (o WatchOptions) Check() error {
	for _, t := range o.Targets {
		if len(t.Paths) > 0 && t.To == "" {
			return fmt.Errorf("%s: %w", t, errNameless)
		}
	}
	return o.Options.Check()
}

// Watcher keeps the files in a directory up to date with the objects, by one list and one watch for each target. It
// keeps no contents in memory: what a list or a watch brings is put beside the files at once, and in place by
// [Watcher.Look].
//
// A file that two objects would have belongs to the older one (by creation time, then namespace and name), which does
// not depend on the order in which the API server sends them; the other one is named in the log.
type Watcher struct {
	o       WatchOptions
	follows []*follow
	wake    chan struct{}

	mu        sync.Mutex // guards what follows, and the lists of follows
	tree      *tree
	unnoticed []error // of downloads, if Look has not noticed them yet

	// Of Look alone.
	stop    func()    // ends the follows of the current round
	began   time.Time // when it began
	all     bool      // everything was listed once
	pause   time.Duration
	retryAt time.Time // when what has failed is tried again, after pause; zero if nothing has
	last    []string  // what was logged last of each follow

	fetching   sync.WaitGroup
	isFetching atomic.Bool
	written    atomic.Int64

	life context.Context // ends with Close
	end  context.CancelFunc
}

// NewWatcher returns a watcher. Nothing happens before the first [Watcher.Look].
func NewWatcher(o WatchOptions) *Watcher {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{o: o, wake: make(chan struct{}, 1)}
	w.tree = newTree(&w.o)
	w.life, w.end = context.WithCancel(context.Background())
	for _, s := range sourcesOf(&w.o.Options) {
		for _, t := range s.targets {
			w.follows = append(w.follows, &follow{w: w, cluster: s.cluster, target: t, problem: errNotListed, since: time.Now()})
		}
	}
	w.last = make([]string, len(w.follows))
	return w
}

// WatchNeeds returns the permission that watching a target takes.
func (t *Target) WatchNeeds() kube.Permission {
	p := t.Needs()
	p.Verbs = []string{"list", "watch"}
	if p.Namespace == AllNamespaces {
		p.Cluster, p.Namespace = true, ""
	}
	return p
}

// Written returns how many bytes were written into files so far. It may be called at any time.
func (w *Watcher) Written() int64 { return w.written.Load() }

// Wake has a value when Look has something to do.
func (w *Watcher) Wake() <-chan struct{} { return w.wake }

func (w *Watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// follow is the list and watch of one target. It is the visitor of its follower.
type follow struct {
	w *Watcher
	*cluster
	target *Target

	over    bool         // the round has ended, and what still comes does not count
	listed  bool         // since the round began
	seen    map[key]bool // by the list that is under way; else nil
	problem error        // why the objects may be out of date; nil if they are not
	since   time.Time    // of the problem
	failed  error        // of the last list or watch, if Look has not noticed it yet
	told    bool         // the last list or watch has reported its end; what fails in the same way again does not
}

var errNotListed = errors.New("the API server has not answered yet")

// run follows until ctx ends.
func (f *follow) run(ctx context.Context) {
	for {
		q, client, err := f.query(ctx)
		if err == nil {
			f.keep(ctx, client.Follow(q))
			return
		}
		f.report(err)
		if poll.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// query returns what the follower of the target asks for.
func (f *follow) query(ctx context.Context) (kube.Query, *kube.Client, error) {
	t := f.target
	client, namespace, err := f.connect()
	if err != nil {
		return kube.Query{}, nil, err
	}
	r := t.resource
	if !t.known {
		if r, err = client.Resource(ctx, t.KindName); err != nil {
			return kube.Query{}, nil, err
		}
	}
	q := kube.Query{Resource: r, Namespace: cmp.Or(t.Namespace, namespace), LabelSelector: t.Selector, FieldSelector: t.Fields, Visitor: f}
	if q.Namespace == AllNamespaces || !r.Namespaced {
		q.Namespace = ""
	}
	if t.Name != "" {
		q.Names = []string{t.Name}
	}
	return q, client, nil
}

// keep runs a follower, and reports its errors.
func (f *follow) keep(ctx context.Context, k *kube.Follower) {
	var errs sync.WaitGroup
	defer errs.Wait()
	changes := k.Changes(ctx, "")
	errs.Go(func() {
		for {
			select {
			case <-changes:
				_, err := k.Objects()
				f.report(err)
			case <-ctx.Done():
				return
			}
		}
	})
	k.Run(ctx)
}

// report notes why the objects are not known, or nil.
func (f *follow) report(err error) {
	if err != nil {
		err = kube.Explain(err, f.o.watchGrants(f.namespace))
	}
	defer f.locked()()
	if err == nil || f.problem == nil {
		f.since = time.Now()
	}
	f.problem, f.failed, f.told = err, cmp.Or(err, f.failed), true
}

// locked locks the watcher, and returns what unlocks and wakes it.
func (f *follow) locked() func() {
	f.w.mu.Lock()
	return func() { f.w.mu.Unlock(); f.w.notify() }
}

// watchGrants is grants for a watch.
func (o *Options) watchGrants(namespace string) func(kube.Account) (hint, role string) {
	return func(who kube.Account) (hint, role string) {
		var needs []kube.Permission
		for _, t := range o.Targets {
			needs = append(needs, t.WatchNeeds())
		}
		return kube.Grant("all that this command needs", needs, who, namespace)
	}
}

// Begin is the visitor's.
func (f *follow) Begin() {
	defer f.locked()()
	if !f.told && f.problem != nil && f.problem != errNotListed {
		f.failed = f.problem // the list before this one
	}
	f.seen, f.told = map[key]bool{}, false
}

// Put is the visitor's.
func (f *follow) Put(o kube.Object) {
	defer f.locked()()
	if k := f.key(o); !f.over {
		if f.seen != nil {
			f.seen[k] = true
		}
		f.w.tree.put(k, o)
	}
}

// Delete is the visitor's.
func (f *follow) Delete(o kube.Object) {
	defer f.locked()()
	if !f.over {
		f.w.tree.remove(f.key(o))
	}
}

// End is the visitor's.
func (f *follow) End() {
	defer f.locked()()
	for k := range f.w.tree.objects {
		if k.target == f.target && !f.seen[k] && !f.over {
			f.w.tree.remove(k)
		}
	}
	f.listed, f.seen = true, nil
}

func (f *follow) key(o kube.Object) key { return key{f.target, o.Namespace(), o.Name()} }

// The first change is put in place after quiet, with those that come within it, and no later than crowd.
const (
	quiet = 20 * time.Millisecond
	crowd = time.Second
)

// longestPause is the longest time before what has failed, such as a full disk or a download, is tried again.
const longestPause = time.Minute

// Look puts in place what has changed since the last call; the first one waits until everything is listed. It returns
// what the files are now, and whether any has changed. When it is time, it lists everything again.
//
// After the first call, downloads run beside it, and what they bring is for the next call: a server that does not
// answer holds up no other change.
func (w *Watcher) Look(ctx context.Context) (revision string, changed bool, err error) {
	return w.look(ctx, w.all)
}

// look is Look; beside says whether it goes on without the downloads.
func (w *Watcher) look(ctx context.Context, beside bool) (revision string, changed bool, err error) {
	due := !w.retryAt.IsZero() && !time.Now().Before(w.retryAt)
	if w.stop == nil || time.Since(w.began) >= w.o.Every || due && w.failed() {
		w.begin()
	}
	first := !w.all
	start := time.Now()
	done, err := w.change(ctx)
	if first && w.all && err != nil && ctx.Err() == nil { // perhaps a younger object was listed first, and in the way
		w.all = false
		w.begin()
		done, err = w.change(ctx)
	}
	if !w.all {
		return "", false, err
	}
	if missing := w.toFetch(due); err == nil && beside {
		w.fetchBeside(missing)
	} else if err == nil && w.fetch(ctx, missing) {
		var fetched []stage.Change
		fetched, err = w.commit()
		done = append(done, fetched...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(done) > 0 || first && err == nil {
		took := time.Since(start)
		w.o.Log.Info(summarise(w.o.Dst, done, len(w.tree.owner)-len(w.tree.urls), took), failure.Fields(failure.Printable(w.o.Dst), took, nil))
	}
	w.tree.complain()
	w.retry(due)
	return w.tree.revision(), len(done) > 0, err
}

// Once is Look for a program that ends after it: it also waits until everything is fetched. When ctx ends, the error
// names a file that could not be.
func (w *Watcher) Once(ctx context.Context) (revision string, changed bool, err error) {
	for {
		revision, now, err := w.look(ctx, false)
		changed = changed || now
		missing := w.unfetched()
		if err != nil || missing == nil {
			return revision, changed, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return revision, changed, fmt.Errorf("%w: %w", context.Cause(ctx), missing)
		}
	}
}

// change puts in place what has changed, once everything is listed.
func (w *Watcher) change(ctx context.Context) ([]stage.Change, error) {
	if err := w.listed(ctx); err != nil {
		return nil, err
	}
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	_ = w.problems(ctx) // settle has consumed what may have been about them
	return w.commit()
}

// retry sees to it that Look is called in time for what has failed. w.mu is held.
func (w *Watcher) retry(due bool) {
	if !w.tree.again && len(w.tree.urls) == 0 {
		w.pause, w.retryAt = 0, time.Time{}
		return
	}
	if due || w.retryAt.IsZero() {
		w.pause = min(max(2*w.pause, time.Second), longestPause)
		w.retryAt = time.Now().Add(w.pause)
		go func(pause time.Duration) {
			if poll.Sleep(w.life, pause) == nil {
				w.notify()
			}
		}(w.pause)
	}
}

// summarise returns the line of the log.
func summarise(dst string, done []stage.Change, files int, took time.Duration) string {
	s := Summary{Path: dst, Duration: took}
	s.count(dst, done)
	s.Same = max(0, files-s.Created-s.Changed)
	return s.String()
}

// failed returns whether everything is to be listed again.
func (w *Watcher) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tree.again
}

// begin starts a round: everything is listed.
func (w *Watcher) begin() {
	if w.stop != nil {
		w.stop()
	}
	ctx, cancel := context.WithCancel(w.life)
	var running sync.WaitGroup
	w.stop = func() { cancel(); running.Wait() }
	w.began = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tree.again, w.tree.err = false, nil
	for i, f := range w.follows {
		f.over = true
		f = &follow{w: w, cluster: f.cluster, target: f.target, problem: f.problem, since: f.since, failed: f.failed}
		w.follows[i] = f
		running.Go(func() { f.run(ctx) })
	}
}

// Close ends the watches, and removes what is not in place.
func (w *Watcher) Close() {
	w.end()
	if w.stop != nil {
		w.stop()
	}
	w.fetching.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tree.discard()
}

// listed waits until everything was listed once. It logs what hinders that, and what no longer does.
func (w *Watcher) listed(ctx context.Context) error {
	for {
		missing := w.problems(ctx)
		if w.all = w.all || missing == nil; w.all {
			return nil
		}
		if ctx.Err() != nil {
			return failure.WithHint(fmt.Errorf("%w; %w", context.Cause(ctx), missing), failure.Hint(missing))
		}
		if poll.IsPermanent(missing) {
			return missing
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		}
	}
}

// problems logs what has changed about the lists and watches, and returns why one has not been listed. What has failed
// is noticed (see [poll.Notice]), and that nothing does any longer.
func (w *Watcher) problems(ctx context.Context) (missing error) {
	var failed []error
	well := true
	defer func() { // without w.mu, since who notices may ask for Health
		if well && failed == nil {
			poll.Noticed(ctx, nil)
		}
		for _, err := range failed {
			poll.Noticed(ctx, err)
		}
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	failed, w.unnoticed = w.unnoticed, nil
	for i, f := range w.follows {
		now, hint, role := "", "", ""
		well = well && f.problem == nil
		if f.problem != nil && f.problem != errNotListed {
			hint, role = failure.Advice(f.problem)
			if now = f.problem.Error(); hint != "" {
				now += "; hint: " + hint
			}
		}
		switch {
		case now == w.last[i]:
		case now == "":
			w.o.Log.Info(f.target.String()+": the API server answers again", failure.Fields(f.target.String(), 0, nil))
		default:
			w.o.Log.Warn(f.target.String()+": "+now, failure.Fields(f.target.String(), 0, f.problem), failure.Advised(hint, role))
		}
		w.last[i] = now
		if f.failed != nil {
			failed, f.failed = append(failed, f.about(f.failed)), nil
		}
		if !f.listed && missing == nil {
			missing = f.about(cmp.Or(f.problem, errNotListed))
			if hint := failure.Hint(f.problem); hint != "" {
				missing = failure.WithHint(missing, hint)
			}
		}
	}
	return missing
}

// about returns an error with the target in its text.
func (f *follow) about(err error) error {
	return failure.About(f.target.String(), err, fmt.Errorf("%s: %w", f.target, err))
}

// settle waits while changes come in quick succession.
func (w *Watcher) settle(ctx context.Context) error {
	w.mu.Lock()
	dirty := w.tree.dirty
	w.mu.Unlock()
	for start := time.Now(); dirty && time.Since(start) < crowd; {
		if err := poll.Sleep(ctx, quiet); err != nil {
			return err
		}
		select {
		case <-w.wake:
		default:
			dirty = false
		}
	}
	return nil
}

// commit puts in place what has changed.
func (w *Watcher) commit() ([]stage.Change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.tree.again && !slices.ContainsFunc(w.follows, func(f *follow) bool { return !f.listed }) {
		w.tree.adopted()
	}
	done, err := w.tree.commit()
	for _, c := range done {
		w.written.Add(c.Size)
	}
	if failure.NoSpace(err) {
		err = failure.WithHint(err, "make the volume larger: it must hold the old and the new files at the same time")
	}
	path := w.o.Dst
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		path = at.Path
	}
	return done, perm.Failed("write", perm.Write, path, err)
}

// patience is how long the API server may be away before Health says so. A watch that is silent is noticed within 28 s.
const patience = 30 * time.Second

// Health returns why the files may be out of date, if the API server has not answered for a while.
func (w *Watcher) Health() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.follows {
		if away := time.Since(f.since); f.problem != nil && away > patience {
			return fmt.Errorf("%s: for %v: %w", f.target, away.Round(time.Second), f.problem)
		}
	}
	return nil
}
