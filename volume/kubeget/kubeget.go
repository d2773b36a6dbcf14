// Package kubeget writes what the Kubernetes API knows to files: keys of Secrets and ConfigMaps, fields, and whole
// objects. It waits until they are there.
//
//	t, err := kubeget.Parse("k8s:secret/db#key=password", nil)
//	...
//	o := kubeget.Options{Targets: []*kubeget.Target{t}, Dst: "/out/", Getenv: os.Getenv}
//	files, err := kubeget.Read(ctx, o)
//	...
//	done, err := kubeget.Write(o, files)
//
// [Target.Files] makes the files of objects that are known already.
package kubeget

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"initbox/internal/envfile"
	"initbox/internal/failure"
	"initbox/internal/lazy"
	"initbox/internal/perm"
	"initbox/internal/stage"
	"initbox/internal/words"
)

// Options says what to read and where to write it.
type Options struct {
	Targets []*Target
	Dst     string // a directory if it ends in a slash, is one, or gets more than one file
	EnvFile string // instead of Dst: each file is a variable in it

	Prune  bool // remove files that an earlier run with Prune wrote and this one does not
	Follow bool // write through symbolic links in a volume, see [stage.Options]
	DryRun bool // read, but write nothing

	AttemptTimeout time.Duration            // limit of one request; none if zero
	Seed           uint64                   // makes the pauses of this Pod differ from those of others
	Getenv         func(name string) string // for the configuration of the cluster
	Log            *slog.Logger             // nil discards
}

// Check returns what cannot be right in the options.
func (o Options) Check() error {
	names := map[string]*Target{}
	for _, t := range o.Targets {
		named := slices.Clone(t.Keys)
		if t.To != "" {
			named = []string{t.To}
		}
		for _, name := range named {
			if other := names[name]; other != nil {
				return failure.WithHint(fmt.Errorf("%s and %s: both would be %s", other, t, failure.Printable(name)), "name one of them with #to=NAME")
			}
			names[name] = t
		}
		if err := o.fits(t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	if o.Prune && (o.EnvFile != "" || len(o.Targets) == 1 && o.Targets[0].single() && !strings.HasSuffix(o.Dst, "/")) {
		return failure.WithHint(errors.New("prune: is for a directory"), "end DST with a slash")
	}
	return nil
}

// fits returns why DST cannot hold what a target is.
func (o Options) fits(t *Target) error {
	if o.EnvFile == "" {
		if len(t.Paths) > 0 && t.To == "" && (len(o.Targets) > 1 || strings.HasSuffix(o.Dst, "/")) {
			return errNameless
		}
		return nil
	}
	for _, name := range append(slices.Clone(t.Keys), t.To) {
		if name != "" && (t.To == "" || name == t.To) && !variable().MatchString(name) {
			return notVariable(name)
		}
	}
	switch {
	case t.Format != "":
		return errors.New("format: an object is no value of a variable; name a field of it with jsonpath")
	case len(t.Paths) > 0 && t.To == "":
		return failure.WithHint(errors.New("the field has no name in the env-file"), "add &to=NAME, the name of its variable")
	case t.Default != nil && *t.Default == "":
		return errors.New("default: needs a text in an env-file: Kubernetes takes an empty value for a missing one")
	}
	return nil
}

var errNameless = failure.WithHint(errors.New("the field has no name in the directory DST"), "add &to=NAME, the name of its file")

// variable matches the names of variables that a shell can read with "set -a; . FILE".
var variable = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

func notVariable(name string) error {
	return failure.WithHint(fmt.Errorf("%s is not the name of a variable", failure.Printable(name)),
		"want letters, digits and _; name one key by one target, as in #key=tls.crt&to=TLS_CRT")
}

// directory returns whether DST is one.
func (o *Options) directory() bool {
	if strings.HasSuffix(o.Dst, "/") || len(o.Targets) != 1 || !o.Targets[0].single() {
		return true
	}
	stat, err := os.Stat(o.Dst)
	return err == nil && stat.IsDir()
}

// Summary is what was written, or in a dry run would be.
type Summary struct {
	Path string // DST or the env-file

	Created, Changed, Removed, Same int // files
	InPlace                         []string
	Duration                        time.Duration // of writing
	DryRun                          bool
}

// String returns one line for the log.
func (s Summary) String() string {
	would := ""
	if s.DryRun {
		would = "would be "
	}
	var parts []string
	if n := s.Created + s.Changed; n > 0 {
		parts = append(parts, fmt.Sprintf("%s %swritten (%d new)", words.Plural(n, "file"), would, s.Created))
	}
	if s.Removed > 0 {
		parts = append(parts, fmt.Sprintf("%s %sremoved", words.Plural(s.Removed, "file"), would))
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing to change")
	}
	if s.Same > 0 {
		parts = append(parts, words.Plural(s.Same, "file")+" the same")
	}
	return fmt.Sprintf("%s: %s, in %s", failure.Printable(s.Path), strings.Join(parts, ", "), words.Seconds(s.Duration))
}

// Write writes the files that [Read] returned, in one step.
func Write(o Options, files []File) (Summary, error) {
	start := time.Now()
	s := Summary{Path: cmp.Or(o.EnvFile, o.Dst), DryRun: o.DryRun}
	dir, err := s.Path, error(nil)
	switch {
	case o.EnvFile != "":
		dir = filepath.Dir(o.EnvFile)
		files, err = variables(files, filepath.Base(o.EnvFile))
	case !o.directory():
		dir = filepath.Dir(o.Dst)
		for i := range files { // there is one at most
			files[i].Name = filepath.Base(o.Dst)
		}
	case slices.ContainsFunc(files, func(f File) bool { return f.Name == "" }):
		err = errNameless
	}
	if err == nil {
		err = s.write(&o, dir, files)
	}
	s.Duration = time.Since(start)
	if failure.NoSpace(err) {
		err = failure.WithHint(err, "make the volume larger: it must hold the old and the new files at the same time; nothing was changed")
	}
	return s, perm.Failed("write", perm.Write, s.Path, err)
}

// variables returns the file, called name, with a variable for each of the files.
func variables(files []File, name string) ([]File, error) {
	values, all := map[string]any{}, &Target{}
	f := File{Name: name, target: all}
	for _, v := range files {
		if !variable().MatchString(v.Name) {
			return nil, notVariable(v.Name)
		}
		values[v.Name] = string(v.Content)
		f.Secret = f.Secret || v.Secret
		all.Mode, all.Owner = append(all.Mode, v.target.Mode...), cmp.Or(v.target.Owner, all.Owner)
	}
	var b bytes.Buffer
	err := envfile.Write(&b, values)
	f.Content = b.Bytes()
	return []File{f}, err
}

// write puts the files in place in the directory.
func (s *Summary) write(o *Options, dir string, files []File) error {
	st, err := stage.Open(dir, stage.Options{DryRun: o.DryRun, Prune: o.Prune, Follow: o.Follow})
	if err != nil {
		return err
	}
	defer st.Close()
	for _, f := range files {
		c, err := st.Put(f.Name, f.Content, f.attr())
		if err != nil {
			return err
		}
		if c.Kind == stage.Unchanged {
			s.Same++
		}
	}
	finish := st.Commit
	if o.DryRun {
		finish = st.Plan
	}
	done, err := finish()
	s.count(dir, done)
	return err
}

// count adds what was done in a directory.
func (s *Summary) count(dir string, done []stage.Change) {
	for _, c := range done {
		switch c.Kind {
		case stage.Created:
			s.Created++
		case stage.Changed:
			s.Changed++
		case stage.Removed:
			s.Removed++
		}
		if c.InPlace {
			s.InPlace = append(s.InPlace, filepath.Join(dir, c.Name))
		}
	}
}

// attr returns the mode and the owner of a file.
func (f File) attr() stage.Attr {
	a := stage.Attr{Mode: 0o644, UID: -1, GID: -1}
	if f.Secret {
		a.Mode = 0o600
	}
	if mode, found := perm.LastMatch(f.target.Mode, f.Name); found {
		a.Mode = fs.FileMode(mode.Of(uint32(a.Mode), false)) & fs.ModePerm
	}
	if f.target.Owner != nil {
		a.UID, a.GID = f.target.Owner.UID, f.target.Owner.GID
	}
	return a
}
