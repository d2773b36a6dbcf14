package fetch

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"syscall"
	"time"

	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/perm"
	"initbox/internal/poll"
	"initbox/internal/words"
	"initbox/volume/fetch/archive"
)

// reserve is how long before the deadline an optional download is given up, so that the others can be put in place.
const reserve = 2 * time.Second

// errReserve is why an optional download ends before the deadline.
var errReserve = errors.New("the deadline is near")

// download downloads one source into a directory of its own in the stage.
func (r *run) download(ctx context.Context, j *job) error {
	outer := ctx
	if deadline, ok := ctx.Deadline(); ok && j.src.Optional {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-min(reserve, time.Until(deadline)/10)), errReserve)
		defer cancel()
	}
	var err error
	j.now, j.same, err = r.version(ctx, j)
	switch {
	case err != nil && j.src.Optional && outer.Err() == nil:
		r.Log.Warn(fmt.Sprintf("%v; going on without it", err), failure.Fields(j.src.String(), 0, err))
		return nil
	case err != nil:
		return r.explain(j.src, err)
	case j.same:
		r.Log.Debug(fmt.Sprintf("%s: unchanged", j.src), failure.Fields(j.src.String(), 0, nil))
	}
	return nil
}

// version downloads one source, unless DST has its version already.
func (r *run) version(ctx context.Context, j *job) (now *version, same bool, err error) {
	if j.src.URL == nil {
		return r.image(ctx, j)
	}
	start := time.Now()
	d := &download{o: &r.Options, src: j.src, prev: j.prev}
	d.write = func(ctx context.Context, content io.Reader) error { return r.write(ctx, j, content) }
	d.undo = func() error { return r.place.Undo(ctx, j.number) }
	now, err = d.run(ctx)
	switch {
	case err != nil:
		return nil, false, err
	case d.same:
	case r.DryRun:
		size := "of unknown length"
		if d.total >= 0 {
			size = words.Bytes(d.total)
		}
		r.Log.Info(fmt.Sprintf("%s: would be downloaded, %s", j.src, size), failure.Fields(j.src.String(), 0, nil))
	default:
		level := slog.LevelInfo
		if len(r.jobs) > words.MaxNamed {
			level = slog.LevelDebug
		}
		r.Log.Log(ctx, level, fmt.Sprintf("%s: %s downloaded, in %s", j.src, d.progress(), words.Seconds(time.Since(start))), failure.Fields(j.src.String(), time.Since(start), nil))
		r.unpinned(j, d)
	}
	return now, d.same, nil
}

// unpinned warns of a content that was not compared with any checksum.
func (r *run) unpinned(j *job, d *download) {
	if d.expect.known() {
		return
	}
	text := fmt.Sprintf("%s: there is no checksum to compare it with: pin this content with #sha256=%s", j.src, d.now.SHA256)
	if ending := path.Ext(j.src.Name); d.html && ending != ".html" && ending != ".htm" {
		text = fmt.Sprintf("%s: the answer is a web page (text/html): is it the URL of the file itself? if so, pin this content with #sha256=%s", j.src, d.now.SHA256)
	}
	r.Log.Warn(text, failure.Fields(j.src.String(), 0, nil))
}

// defaultMode is that of a file whose mode nothing else says.
const defaultMode = 0o644

// write writes the content of a source into its directory.
func (r *run) write(ctx context.Context, j *job, content io.Reader) error {
	dir, err := r.place.Part(j.number)
	if err != nil {
		return err
	}
	defer dir.Close()
	if !j.src.Unpack {
		tree := archive.NewTree(dir, archive.Options{Mode: j.src.Mode, Owner: j.src.Owner})
		tree.Put(&tar.Header{Typeflag: tar.TypeReg, Name: r.fileName(j), Mode: defaultMode, Size: -1}, content)
		return tree.Close() // with the error of Put
	}
	sum, err := archive.Unpack(ctx, content, dir, r.unpacking(j.src))
	if err != nil {
		return err
	}
	j.single = sum.Single
	if sum.Skipped > 0 {
		r.Log.Warn(fmt.Sprintf("%s: %s left out", j.src, words.Plural(sum.Skipped, "device or pipe")), failure.Fields(j.src.String(), 0, nil))
	}
	return nil
}

// unpacking returns how a source is unpacked.
func (r *run) unpacking(src *Source) archive.Options {
	return archive.Options{
		Strip: src.Strip, Include: src.Include, Exclude: src.Exclude, MaxSize: r.MaxSize, MaxFiles: r.MaxFiles,
		Mode: src.Mode, Owner: src.Owner, Name: path.Base(src.Name), To: src.To,
	}
}

// fileName returns the name of the file of a job below its directory.
func (r *run) fileName(j *job) string {
	if !r.directory {
		return path.Base(r.Dst)
	}
	return j.src.Name
}

// add adds what all jobs have downloaded to what is published, in their order. Only now it is known whether what was
// unpacked is one file, which then gets the name DST, or needs a directory.
func (r *run) add() error {
	for _, j := range r.jobs {
		if !j.changed() {
			continue
		}
		if err := r.place.Add(j.number); err != nil {
			return fmt.Errorf("%s: %w", j.src, err)
		}
	}
	if j := r.jobs[0]; !r.directory && j.src.tree() && !j.single {
		return r.place.MakeDirectory()
	}
	return nil
}

// explain adds the hints for errors of this side.
func (r *run) explain(src *Source, err error) error {
	var hinted interface{ Hint() string }
	switch {
	case failure.NoSpace(err):
		return failure.WithHint(err, "make the volume larger: it must hold the old and the new files at the same time; nothing was changed")
	case errors.As(err, &hinted) && hinted.Hint() != "", !poll.IsPermanent(err):
		return err
	case src.Owner != nil && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL)):
		return failure.WithHint(err, perm.Hint(err, perm.Chown, r.Dst))
	}
	return failure.WithHint(err, mounts.WriteHint(err, r.Dst, ""))
}
