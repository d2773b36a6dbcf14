// Package fetch downloads files and archives, checks and unpacks them, and puts the result in place: all of it or
// nothing.
//
//	src, err := fetch.Parse("https://example.com/tool.tar.gz#unpack&sha256=…", nil, os.Getenv)
//	err = fetch.Run(ctx, fetch.Options{Sources: []*fetch.Source{src}, Dst: "/opt/tool/", MaxSize: 4 << 30})
//
// Nothing is downloaded again, and nothing written, while DST has what an earlier run wrote and the server has no other
// version. A download that breaks off is resumed where it broke off, while its beginning is already being unpacked.
package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/perm"
	"initbox/internal/words"
	"initbox/volume/fetch/place"
)

// defaultParallel is enough for many small files, and few enough for the memory and the server.
const defaultParallel = 4

// Run downloads what is not there yet, and puts it in place when all of it is complete and right. An error of a source
// that is optional is logged. Errors have hints.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	o.MaxSize = cmp.Or(o.MaxSize, 1<<62)
	if err := o.Check(); err != nil || ctx.Err() != nil {
		return cmp.Or(err, context.Cause(ctx))
	}
	r := &run{Options: o, start: time.Now(), directory: o.directory()}
	if r.skipAll() {
		return nil
	}
	var err error
	r.place, err = place.Open(ctx, place.Options{
		Dst: o.Dst, Directory: r.directory, Replace: o.Replace, NoOverwrite: r.keeps(), Follow: o.Follow, DryRun: o.DryRun,
		Owner: r.owner(), Key: r.key(), Log: o.Log,
	})
	if err != nil {
		return err
	}
	defer r.place.Close()
	r.remember()
	if err := r.downloadAll(ctx); err != nil {
		return err
	}
	return r.publish(ctx)
}

// run is one call of [Run].
type run struct {
	Options
	start     time.Time
	directory bool // DST is a directory, or must become one; otherwise it is a file, or what is unpacked decides
	place     *place.Place
	jobs      []*job
}

// job is one source of a run.
type job struct {
	src    *Source
	number int
	prev   *version // of what is in DST; nil if unknown
	now    *version // what was downloaded; nil if nothing is there to publish
	same   bool     // DST has it already
	skip   bool     // not wanted
	single bool     // what was unpacked is one file, and no archive or directory
}

// changed returns whether something was downloaded that DST does not have, or would be with DryRun.
func (j *job) changed() bool { return j.now != nil && !j.same }

// skipAll makes the jobs, and returns whether there is nothing to do because of the setting unless.
func (r *run) skipAll() bool {
	all := true
	for i, src := range r.Sources {
		j := &job{src: src, number: i}
		if src.Unless != "" {
			_, err := os.Lstat(src.Unless)
			j.skip = err == nil
		}
		if j.skip {
			r.Log.Info(fmt.Sprintf("%s: not downloaded, since %s exists", src, failure.Printable(src.Unless)))
		}
		all = all && j.skip
		r.jobs = append(r.jobs, j)
	}
	return all
}

// keeps returns whether files that exist are kept.
func (r *run) keeps() bool {
	return slices.ContainsFunc(r.Sources, func(src *Source) bool { return src.NoOverwrite })
}

// owner returns who owns the directories that are made: the first owner given.
func (r *run) owner() *perm.Owner {
	for _, src := range r.Sources {
		if src.Owner != nil {
			return src.Owner
		}
	}
	return nil
}

// key tells the records of different downloads into one directory apart. It depends on all that decides about the
// content, and gives no secret away.
func (r *run) key() string {
	h := sha256.New()
	for _, src := range r.Sources {
		fmt.Fprintf(h, "%q %q %q\n", src.settings, src.Name, src.origin())
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// remember reads the record of an earlier run: the versions of the sources, with nil for one that was not downloaded.
// Without one, or if it is damaged, everything is downloaded.
func (r *run) remember() {
	var versions []*version
	damaged := json.Unmarshal(r.place.Record(), &versions) != nil
	var kept []string
	for i, j := range r.jobs {
		if !damaged && len(versions) == len(r.jobs) {
			j.prev = versions[i]
		}
		if j.src.NoOverwrite && !j.src.tree() && !j.skip && r.place.Exists(r.name(j)) {
			j.skip = true
			kept = append(kept, failure.Printable(path.Join(r.Dst, r.name(j))))
		}
	}
	if kept != nil {
		r.Log.Info("kept, since they exist: " + words.List(kept))
	}
}

// name returns the name of a file below DST, or "" for DST itself.
func (r *run) name(j *job) string {
	if !r.directory {
		return ""
	}
	return j.src.Name
}

// downloadAll downloads what has changed; or everything, if the directory will have nothing else.
func (r *run) downloadAll(ctx context.Context) error {
	if err := r.parallel(ctx); err != nil {
		return err
	}
	if !r.Replace || !slices.ContainsFunc(r.jobs, (*job).changed) {
		return nil
	}
	for _, j := range r.jobs {
		if j.same {
			j.prev, j.same, j.now = nil, false, nil
		}
	}
	return r.parallel(ctx)
}

// parallel downloads several sources at a time. The first error ends all.
func (r *run) parallel(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var once sync.Once
	var first error
	slots := make(chan struct{}, r.Parallel)
	for _, j := range r.jobs {
		if j.skip || j.same || j.now != nil {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := r.download(ctx, j); err != nil {
				once.Do(func() { first = err; cancel(err) })
			}
		})
	}
	all.Wait()
	return first
}

// publish puts what was downloaded in place.
func (r *run) publish(ctx context.Context) error {
	var versions []*version
	for _, j := range r.jobs {
		versions = append(versions, cmp.Or(j.now, j.prev))
	}
	switch changed := slices.ContainsFunc(r.jobs, (*job).changed); {
	case !changed:
		r.Log.Info(fmt.Sprintf("%s: nothing to change, in %s", failure.Printable(r.Dst), words.Seconds(time.Since(r.start))), failure.Fields(failure.Printable(r.Dst), time.Since(r.start), nil))
		return nil
	case r.DryRun:
		return nil
	}
	if err := r.add(); err != nil {
		return err
	}
	text, err := json.Marshal(versions)
	if err != nil {
		return err
	}
	sum, err := r.place.Publish(ctx, text)
	if err != nil {
		return err
	}
	r.Log.Info(fmt.Sprintf("%s: %s, in %s", failure.Printable(r.Dst), counts(sum), words.Seconds(time.Since(r.start))), failure.Fields(failure.Printable(r.Dst), time.Since(r.start), nil))
	return nil
}

// counts says what was done to how many files: 3 files added, 1 replaced.
func counts(sum place.Summary) string {
	var parts []string
	for _, part := range []struct {
		n    int
		done string
	}{{sum.Added, "added"}, {sum.Replaced, "replaced"}, {sum.Removed, "removed"}, {sum.Kept, "kept"}, {sum.Same, "unchanged"}} {
		switch {
		case part.n == 0:
		case parts == nil:
			parts = append(parts, words.Plural(part.n, "file")+" "+part.done)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.done))
		}
	}
	if parts == nil {
		return "nothing to change"
	}
	return strings.Join(parts, ", ")
}
