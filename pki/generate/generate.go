// Package generate makes what an application needs once and keeps: passwords, tokens, UUIDs, private keys,
// certificates, hashes of passwords and parameters for Diffie-Hellman. What is there stays, so that a second run
// changes nothing; only what has to follow something else is made again, such as a certificate that expires.
//
//	password, err := generate.NewPassword(32, generate.DefaultAlphabet, 3)
//	...
//	err = generate.Run(ctx, generate.Options{Out: "/run/app/password", Make: password, Mode: 0o600, Owner: perm.Owner{UID: -1, GID: -1}})
//
// With a [Secret], all Pods get the same: the first one creates it, and the others write what it has. All randomness is
// from crypto/rand.
package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/dirlock"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/perm"
	"initbox/internal/readfile"
	"initbox/internal/stage"
	"initbox/internal/words"
)

// Options of [Run].
type Options struct {
	Make Maker
	Out  string // the file, or the directory of a certificate; may be empty with a Secret

	Mode   fs.FileMode // of each file
	Owner  perm.Owner  // likewise; -1 as the kernel sets it
	Follow bool        // follow symbolic links in a volume, see [mounts.OpenDir]
	DryRun bool        // only log what would change
	Force  bool        // make again also what initbox did not make

	Secret *Secret // which all Pods share; nil for none
	Log    *slog.Logger
}

// Files are the contents of files by name. The empty name is that of [Options.Out] itself.
type Files map[string][]byte

// Maker makes one kind of thing. The functions of this package whose names begin with New return them.
type Maker interface {
	fmt.Stringer // what it makes, in the singular and without an article
	layout() layout
	check(old Files) (verdict, error) // looks at what is there
	make(old Files) (Files, error)    // makes all files, from those that are there and stay
}

// layout says which files a maker makes.
type layout struct {
	dir   bool // the names are those of files in a directory; else they are appended to the name of the first file
	names []string
}

var oneFile = layout{names: []string{""}}

// verdict is what a maker says about what is there.
type verdict struct {
	Reason  string // why it has to be made, or made again; empty if it is right
	Missing bool   // there is nothing
	Usable  bool   // it may be used as it is for now
	Foreign bool   // initbox did not make it
}

// absent returns the verdict of makers whose results only need to be there. An empty file is what a program that was
// killed has left.
func absent(old Files) (verdict, error) {
	if len(old[""]) == 0 {
		return verdict{Reason: "it is missing", Missing: true}, nil
	}
	return verdict{}, nil
}

// run is one call of [Run].
type run struct {
	Options
	log   *slog.Logger // of lines about the result
	start time.Time
	made  Files // what decide has made, for all attempts to create a Secret
}

// Run makes what the options say, unless it is there, and logs what it did.
func Run(ctx context.Context, o Options) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	r := &run{Options: o, start: time.Now()}
	r.log = o.Log.With(failure.Fields(r.shown(), 0, nil))
	old, err := r.read()
	switch {
	case err != nil:
	case r.Secret == nil:
		err = r.alone(ctx, old)
	default:
		var files Files
		if files, err = r.agree(ctx, old); err != nil || r.Out == "" || files == nil {
			return err
		}
		err = r.write(files, fmt.Sprintf("%s of the %s written", r.Make, r.Secret))
	}
	if err != nil {
		return failure.About(r.shown(), err, err)
	}
	return nil
}

// alone makes the result without a Secret.
func (r *run) alone(ctx context.Context, old Files) error {
	v, err := r.check(old)
	if err != nil {
		return err
	}
	if v.Reason == "" && (r.DryRun || !r.lockLeft()) {
		return r.write(old, "")
	}
	if r.DryRun {
		r.log.Info(fmt.Sprintf("%s: %s", failure.Printable(r.Out), v.describe(r.Make.String()+" would be made")))
		return nil
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if old, err = r.read(); err != nil { // another run may have made it meanwhile
		return err
	}
	files, reason, err := r.decide(old)
	if err != nil {
		return err
	}
	return r.write(files, reason)
}

// shown returns the name of the result in messages.
func (r *run) shown() string { return failure.Printable(cmp.Or(r.Out, r.Make.String())) }

// hinted returns err with the hint of the failure that caused it, if there is one.
func hinted(err, cause error) error {
	var f *failure.Failure
	if errors.As(cause, &f) && f.Hint != "" {
		return failure.WithHint(err, f.Hint)
	}
	return err
}

// check returns what is to be done with the files that are there. Those of others that are not right are kept as long
// as they can be used, and an error after that.
func (r *run) check(old Files) (verdict, error) {
	v, err := r.Make.check(old)
	if err != nil {
		return v, hinted(fmt.Errorf("%s: %w", r.shown(), err), err)
	}
	if v.Reason == "" || !v.Foreign || r.Force {
		return v, nil
	}
	if v.Usable {
		r.log.Warn(fmt.Sprintf("%s: %s, but it is kept, since initbox did not make it", r.shown(), v.Reason))
		return verdict{}, nil
	}
	return v, failure.WithHint(fmt.Errorf("%s: %s, and initbox did not make it, so it is not replaced", r.shown(), v.Reason),
		"remove it, or give --force, which makes it again")
}

// decide returns the files that are there if they are right, and else new ones, with what was done for the log.
func (r *run) decide(old Files) (files Files, did string, err error) {
	v, err := r.check(old)
	if err != nil || v.Reason == "" {
		return old, "", err
	}
	if r.made == nil {
		if r.made, err = r.Make.make(old); err != nil {
			return nil, "", fmt.Errorf("%s: make the %s: %w", r.shown(), r.Make, err)
		}
	}
	did = v.describe(r.Make.String() + " made")
	if m, ok := r.Make.(interface{ describe(Files) string }); ok {
		did += ": " + m.describe(r.made)
	}
	return r.made, did, nil
}

// describe adds to what is done why it is done again.
func (v verdict) describe(did string) string {
	if v.Missing {
		return did
	}
	return did + " again, since " + v.Reason
}

// place returns the directory of the files, and the name of each in it.
func (r *run) place() (dir string, names map[string]string) {
	l := r.Make.layout()
	names = map[string]string{}
	dir = r.Out
	if !l.dir {
		dir = filepath.Dir(r.Out)
	}
	for _, name := range l.names {
		names[name] = name
		if !l.dir {
			names[name] = filepath.Base(r.Out) + name
		}
	}
	return dir, names
}

// read returns the files that are there.
func (r *run) read() (Files, error) {
	files := Files{}
	if r.Out == "" {
		return files, nil
	}
	dir, names := r.place()
	for name, base := range names {
		path := filepath.Join(dir, base)
		data, err := r.readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, perm.Failed("read", perm.Read, path, err)
		}
		files[name] = data
	}
	return files, nil
}

// readFile reads one file. A link that would be replaced is not followed: it may lead to another program's secret.
func (r *run) readFile(path string) ([]byte, error) {
	dir, base, link, err := mounts.OpenParent(path, r.Follow)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if link != nil {
		return nil, fs.ErrNotExist
	}
	f, err := dirfd.Open(dir, base, unix.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe without a writer would block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if stat, err := f.Stat(); err != nil || !stat.Mode().IsRegular() {
		return nil, cmp.Or(err, errors.New("it exists and is not a regular file"))
	}
	return readfile.Rest(f, readfile.Limit)
}

const lockName = ".generate.initbox-lock"

// lockLeft returns whether a run holds the lock, or was killed while it did: then its file goes with the next release.
func (r *run) lockLeft() bool {
	dir, _ := r.place()
	_, err := os.Lstat(filepath.Join(dir, lockName))
	return err == nil
}

// lock makes the directory if it is missing, and lets no other run make the same meanwhile, on any machine. Where there
// can be no lock, as beside a file that is itself a mount, it does without.
func (r *run) lock(ctx context.Context) (unlock func(), err error) {
	path, _ := r.place()
	dir, err := mounts.MakeDirs(path, r.Follow, func(parent *os.File, name string) error {
		if err := dirfd.Mkdir(parent, name, 0o755); err != nil {
			return err
		}
		if r.Owner.UID == -1 && r.Owner.GID == -1 {
			return nil
		}
		return dirfd.Chown(parent, name, r.Owner.UID, r.Owner.GID)
	})
	if err != nil {
		return nil, perm.Failed("make the directory", perm.Write, path, err)
	}
	lock := dirlock.New(dir, lockName)
	err = lock.Wait(ctx, func(busy error) { r.log.Info(r.shown() + ": waiting: " + busy.Error()) })
	unlock = func() { lock.Release(); dir.Close() }
	if err != nil && ctx.Err() != nil {
		unlock()
		return nil, fmt.Errorf("%s: wait until another run ends: %w", r.shown(), context.Cause(ctx))
	}
	return unlock, nil
}

// write puts the files in place that are not there as they are to be. did says what was done, for the log.
func (r *run) write(files Files, did string) error {
	dir, names := r.place()
	failed := func(err error) error { return perm.Failed("write", perm.Write, r.Out, err) }
	s, err := stage.Open(dir, stage.Options{DryRun: r.DryRun, Follow: r.Follow})
	if err != nil {
		return failed(err)
	}
	defer s.Close()
	for name, base := range names {
		if content, found := files[name]; found {
			if _, err := s.Put(base, content, stage.Attr{Mode: r.Mode, UID: r.Owner.UID, GID: r.Owner.GID}); err != nil {
				return failed(err)
			}
		}
	}
	changes, err := s.Plan()
	if err == nil && !r.DryRun {
		changes, err = s.Commit()
	}
	if err != nil {
		return failed(err)
	}
	for _, c := range changes {
		if c.InPlace {
			r.log.Warn(stage.InPlace(filepath.Join(dir, c.Name)))
		}
	}
	if did == "" {
		did = "owner or mode changed"
	}
	switch {
	case len(changes) == 0:
		r.log.Info(r.shown() + ": nothing to change")
	case r.DryRun:
		r.log.Info(fmt.Sprintf("%s: %s would change", r.shown(), words.Plural(len(changes), "file")))
	default:
		r.log.Info(fmt.Sprintf("%s: %s, in %s", r.shown(), did, words.Seconds(time.Since(r.start))), failure.Seconds(time.Since(r.start)))
	}
	return nil
}
