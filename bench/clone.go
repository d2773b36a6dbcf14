package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A setting is what all cloners of a measurement have in common.
type setting struct {
	name  string
	live  bool // git http-backend answers, and not the memory
	core  bool // one processor for the cloner; the server has all
	disk  bool // the directories are on the disk, and not in memory
	peers bool // with all cloners, and not initbox and git alone
}

var (
	replayed        = setting{name: "replayed", peers: true}
	replayedOneCore = setting{name: "replayed, one core", core: true}
	live            = setting{name: "live", live: true}
	replayedOnDisk  = setting{name: "replayed", disk: true}
)

// settings are in the order of the report. replayed is the first.
var settings = []setting{replayed, replayedOneCore, live, replayedOnDisk}

// cloneCosts are what one repository took.
type cloneCosts struct {
	*repository
	of     map[setting]map[string]*renderCost // by cloner
	again  map[string]*renderCost             // with everything there
	within map[string]error                   // that much memory; nil if there are no cgroups
}

// oneCloning bounds a run, in case a tool waits for something.
const oneCloning = 2 * time.Minute

// cloneAll measures repositories that become directories, beside git and what else there is.
func cloneAll(ctx context.Context, b *bench) (*section, error) {
	if _, found := b.tools["git"]; !found {
		return nil, fmt.Errorf("%w: git is not installed", errSkipped)
	}
	root := filepath.Join(b.dir, "repositories")
	if err := os.Mkdir(root, 0o755); err != nil {
		return nil, err
	}
	repos, err := b.repositoriesIn(ctx, root)
	if err != nil {
		return nil, err
	}
	if err := b.buildGoGit(ctx); err != nil {
		return nil, err
	}
	busy := load()
	var all []*cloneCosts
	for _, r := range repos {
		costs, err := b.cloneRepository(ctx, root, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		all = append(all, costs)
	}
	return b.cloneReport(all, busy()), nil
}

// place is where directories in memory or on the disk are; "" if there is no such place.
func (b *bench) place(s setting) string {
	candidates := []string{"/dev/shm"}
	if s.disk {
		candidates = []string{b.dir, "/var/tmp"}
	}
	for _, dir := range candidates {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && inMemory(dir) != s.disk {
			return dir
		}
	}
	return ""
}

func (b *bench) cloneRounds() int {
	if b.quick {
		return min(b.trials, 3)
	}
	return min(b.trials, 5)
}

// cloneRepository has a server of its own, which forgets its replies with it.
func (b *bench) cloneRepository(ctx context.Context, root string, r *repository) (*cloneCosts, error) {
	server, err := b.startGitServer(ctx, root)
	if err != nil {
		return nil, err
	}
	defer server.close()
	costs := &cloneCosts{repository: r, of: map[setting]map[string]*renderCost{}}
	if r.tree, err = b.reference(ctx, server, r); err != nil {
		return nil, err
	}
	for _, s := range settings {
		place := b.place(s)
		if place == "" || room(place) < 2*r.share() {
			continue
		}
		fmt.Fprintf(b.log, "bench: clone: %s, %s …\n", r.name, s.where())
		if costs.of[s], err = b.cloneIn(ctx, server, r, s, place); err != nil {
			return nil, fmt.Errorf("%s: %w", s.where(), err)
		}
	}
	if costs.again, err = b.cloneAgain(ctx, server, r); err != nil {
		return nil, err
	}
	costs.within, err = b.cloneWithin(ctx, server, r)
	return costs, err
}

func (s setting) where() string {
	if s.disk {
		return s.name + ", on the disk"
	}
	return s.name + ", in memory"
}

// share is about what a clone takes on the disk, in bytes.
func (r *repository) share() int64 {
	return 2*r.tree.bytes + 4096*int64(r.tree.files+r.tree.directories)
}

// reference takes the census of what git makes of a repository.
func (b *bench) reference(ctx context.Context, server *gitServer, r *repository) (census, error) {
	c, err := b.newCloning(cloners[1], server, r, live, b.dir)
	if err != nil {
		return census{}, err
	}
	defer c.remove()
	if _, err := b.clone(ctx, c, false); err != nil {
		return census{}, err
	}
	return count(c.directory())
}

// newClonings makes those of several cloners, and where to sum up what they take.
func (b *bench) newClonings(some []cloner, server *gitServer, r *repository, s setting, place string) (clonings, map[string]*renderCost, error) {
	var work clonings
	costs := map[string]*renderCost{}
	for _, c := range some {
		one, err := b.newCloning(c, server, r, s, place)
		if err != nil {
			work.remove()
			return nil, nil, err
		}
		work, costs[c.name] = append(work, one), new(renderCost)
	}
	return work, costs, nil
}

// clonings are measured side by side.
type clonings []*cloning

func (all clonings) remove() {
	for _, c := range all {
		c.remove()
	}
}

// newCloning makes a directory for a cloner's trees in place.
func (b *bench) newCloning(c cloner, server *gitServer, r *repository, s setting, place string) (*cloning, error) {
	dir, err := os.MkdirTemp(place, "initbox-bench-")
	if err != nil {
		return nil, err
	}
	path := replayPath
	if s.live {
		path = livePath
	}
	return &cloning{cloner: c, repo: r, url: server.url + path + "/" + r.path, dir: dir, where: s}, nil
}

func (c *cloning) remove() { os.RemoveAll(c.dir) }

// clonersFor returns those that were found, and that have a row in a setting.
func (b *bench) clonersFor(s setting) []cloner {
	var some []cloner
	for _, c := range cloners {
		_, found := b.tools[c.tool]
		if found && (s.peers && !c.sync || s.disk && c.tool == "git" || c.name == ours || c.name == gitClone) {
			some = append(some, c)
		}
	}
	return some
}

// cloneIn runs all cloners, one at a time and in another order in each round, each
// time in a new directory. None is removed before the end, since ext4 looks long for a free
// inode where many files were removed a moment ago; unless there is no room for all.
func (b *bench) cloneIn(ctx context.Context, server *gitServer, r *repository, s setting, place string) (map[string]*renderCost, error) {
	work, costs, err := b.newClonings(b.clonersFor(s), server, r, s, place)
	if err != nil {
		return nil, err
	}
	defer work.remove()
	if err := b.teach(ctx, server, work, costs); err != nil {
		return nil, err
	}
	before, err := server.fresh(ctx)
	if err != nil {
		return nil, err
	}
	keep := int64(b.cloneRounds()*len(work))*r.share() < room(place)/2
	random := rand.New(rand.NewPCG(13, 14))
	for range b.cloneRounds() {
		for _, i := range random.Perm(len(work)) {
			if !keep {
				os.RemoveAll(work[i].directory())
			}
			if err := b.cloneOnce(ctx, work[i], costs[work[i].name]); err != nil {
				return nil, fmt.Errorf("%s: %w", work[i].name, err)
			}
		}
	}
	return costs, server.sameAs(ctx, before)
}

// teach has the server know what it is to repeat.
func (b *bench) teach(ctx context.Context, server *gitServer, work clonings, costs map[string]*renderCost) error {
	for _, c := range work {
		if c.where.live || server.knows[c.tool] {
			continue
		}
		if err := b.cloneOnce(ctx, c, costs[c.name]); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		*costs[c.name] = renderCost{err: costs[c.name].err}
		server.knows[c.tool] = true
	}
	return nil
}

// sameAs returns an error if git had to answer what was to come out of memory.
func (s *gitServer) sameAs(ctx context.Context, before int) error {
	after, err := s.fresh(ctx)
	if err == nil && after != before {
		err = fmt.Errorf("%d requests were not replayed: a tool asks another way each time", after-before)
	}
	return err
}

// cloneOnce adds what a run took, unless one before has failed. Only what fails of
// initbox is an error: what fails of others is kept in sum.
func (b *bench) cloneOnce(ctx context.Context, c *cloning, sum *renderCost) error {
	if sum.err != nil {
		return nil
	}
	if !inMemory(c.dir) {
		syscall.Sync() // what others have left to the kernel is not this one's work
	}
	shrink()
	p, err := b.clone(ctx, c, false)
	if err == nil {
		sum.add(p)
		err = c.check(ctx)
	}
	if err != nil && (c.tool == ours || ctx.Err() != nil) {
		return err
	}
	sum.err = err
	return nil
}

// add adds what a process took that has ended.
func (f *renderCost) add(p *proc) {
	f.wall, f.cpu = append(f.wall, p.exited.Sub(p.started)), append(f.cpu, p.cpu())
	if peak, bound := p.peak(); peak > f.peak {
		f.peak, f.bound = peak, bound
	}
}

// againCloners are those of which a second run is measured.
func (b *bench) againCloners() []cloner {
	var some []cloner
	for _, c := range b.clonersFor(replayed) {
		if c.tool != goGit { // it would have to be another program
			some = append(some, c)
		}
		if c.name == ours {
			some = append(some, pinnedCloner)
		}
	}
	return some
}

// cloneAgain runs the cloners in a directory that has everything already.
func (b *bench) cloneAgain(ctx context.Context, server *gitServer, r *repository) (map[string]*renderCost, error) {
	place := b.place(replayed)
	if place == "" || room(place) < 10*r.share() {
		place = b.dir
	}
	work, costs, err := b.newClonings(b.againCloners(), server, r, replayed, place)
	if err != nil {
		return nil, err
	}
	defer work.remove()
	for _, c := range work {
		if err := b.cloneOnce(ctx, c, costs[c.name]); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if err := b.cloneOnceMore(ctx, c, costs[c.name]); err != nil { // for the server's memory
			return nil, err
		}
		*costs[c.name] = renderCost{err: costs[c.name].err}
	}
	before, err := server.fresh(ctx)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(15, 16))
	for range min(b.trials, 20) {
		for _, i := range random.Perm(len(work)) {
			if err := b.cloneOnceMore(ctx, work[i], costs[work[i].name]); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range work {
		if sum := costs[c.name]; sum.err == nil {
			sum.err = c.check(ctx)
		}
	}
	return costs, errors.Join(costs[ours].err, server.sameAs(ctx, before))
}

// cloneOnceMore is cloneOnce in the directory that is there.
func (b *bench) cloneOnceMore(ctx context.Context, c *cloning, sum *renderCost) error {
	if sum.err != nil {
		return nil
	}
	p, err := b.clone(ctx, c, true)
	switch {
	case err == nil:
		sum.add(p)
	case c.tool == ours || ctx.Err() != nil:
		return fmt.Errorf("%s, once more: %w", c.name, err)
	}
	sum.err = err
	return nil
}

// memoryLimit is what a clone has to do with, in bytes, page cache included.
func (r *repository) memoryLimit() int64 {
	if r.large() {
		return 96 << 20
	}
	return 32 << 20
}

// cloneWithin runs the cloners within the limit, on the disk: what is in memory
// counts as memory. It returns the result of each.
func (b *bench) cloneWithin(ctx context.Context, server *gitServer, r *repository) (map[string]error, error) {
	place := b.place(replayedOnDisk)
	if place == "" {
		return nil, nil
	}
	outcomes := map[string]error{}
	for _, c := range b.clonersFor(replayed) {
		err := b.cloneInGroup(ctx, server, r, c, place)
		if errors.Is(err, errSkipped) {
			return nil, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		outcomes[c.name] = err
	}
	return outcomes, nil
}

func (b *bench) cloneInGroup(ctx context.Context, server *gitServer, r *repository, c cloner, place string) error {
	work, err := b.newCloning(c, server, r, replayed, place)
	if err != nil {
		return err
	}
	defer work.remove()
	if work.in, err = newMemoryGroup(r.memoryLimit()); err != nil {
		return err
	}
	defer work.in.close()
	if _, err := b.clone(ctx, work, false); err != nil {
		return err
	}
	return work.check(ctx)
}

func mebi(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }
