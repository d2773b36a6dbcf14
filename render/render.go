// Package render makes configuration files from templates and values: all of
// them, or none.
//
// Everything is rendered, checked and laid beside its destination first; only
// then is anything replaced, and each file at once. What is right already is not
// touched.
package render

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"

	"initbox/internal/podinfo"
	"initbox/render/engine"
	"initbox/render/format"
	"initbox/render/values"
)

// Options says what to render, from what, and where to.
type Options struct {
	Sources  []Source
	Inline   []Inline
	Partials []string // files and folders of templates for the others to include

	Values       []values.Source
	ValuesSchema string   // a file; "" for none
	Environ      []string // as os.Environ gives it
	EnvAllow     []string // patterns (path.Match) of the variables that templates see; nil for all
	SecretEnv    []string // patterns of those whose value is secret
	Pod          podinfo.Source
	Files        string // the folder of .Files; "" for none

	// Fetch gets values of a URL, and their media type, as [Fetcher] does.
	Fetch func(ctx context.Context, url string) (body []byte, mediaType string, err error)

	// Resolve is for templates that look up host names, as [Resolve] does; nil
	// means that they may not.
	Resolve func(ctx context.Context, host string) (addrs []string, err error)

	Engine string // for all templates: one of [Engines]; "" for that of their extension
	engine.Options

	OnlyTemplates bool // in trees, leave out what is no template
	NoOverwrite   bool // leave files alone that are there already
	AtomicDir     bool // see stage.OpenVersion
	Prune         bool // remove what an earlier run wrote and this one did not
	Modes         []Rule[fs.FileMode]
	Owners        []Rule[Owner]

	Validate bool                   // by the extension of what is written
	Formats  []Rule[*format.Format] // of what has no such extension; it is validated
	Schemas  []Rule[string]         // files of JSON Schemas

	EnvFile string // where to write the values for Kubernetes' fileKeyRef; "" for nowhere

	DryRun bool      // change nothing, and tell what would change
	Diff   io.Writer // for the differences; nil for none

	Stdin  io.Reader
	Stdout io.Writer
	Log    *slog.Logger // nil discards
}

// Owner is who is to own a file; -1 leaves the user or the group as it comes.
type Owner struct{ UID, GID int }

// Run renders what o says. It returns what changed, or would have with DryRun.
// The error tells all inputs that are missing, and nothing was written then; it
// holds no value that came from a Secret.
func Run(ctx context.Context, o Options) ([]Change, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	const tries = 3 // the kubelet replaces a volume once a minute at most
	for try := 1; ; try++ {
		changes, replaced, err := once(ctx, o)
		if !replaced || try == tries {
			return changes, err
		}
		o.Log.Info("a volume was replaced while it was read; reading it again")
	}
}

// once is one try of [Run]. Replaced reports that it failed since a volume was
// replaced, and what was read of it is not there any more.
func once(ctx context.Context, o Options) (changes []Change, replaced bool, err error) {
	r, err := prepare(ctx, o)
	if err != nil {
		return nil, false, err
	}
	defer r.close()
	err = r.walk(ctx)
	if err == nil {
		err = r.renderAll(ctx)
	}
	if err != nil {
		return nil, errors.Is(err, fs.ErrNotExist) && r.replaced(), r.redacted(err)
	}
	changes, err = r.commit()
	return changes, false, r.redacted(err)
}

// replaced reports whether a volume was replaced since it was opened. Stdin cannot
// be read again, so it does not count then.
func (r *run) replaced() bool {
	if slices.ContainsFunc(r.Sources, func(s Source) bool { return s.From == "-" }) {
		return false
	}
	for dir, version := range r.volumes {
		if !values.IsVersion(version, dir) {
			return true
		}
	}
	return false
}

// A Change is a file that is written, removed, or would be.
type Change struct {
	Path    string
	What    string // "created", "changed" or "removed"
	Secret  bool   // it holds a value that came from a Secret
	InPlace bool   // it is a mount by itself, and could not be replaced at once
}

// run is one call of [Run].
type run struct {
	Options
	data    *inputs
	engines *engines
	checks  *checks
	items   []*item
	outputs []*output
	roots   []*os.Root          // of the sources
	volumes map[string]*os.Root // the folders among them, by name

	// What workers share.
	failures  failures
	mu        sync.Mutex // of postponed
	postponed []*item    // see postpone
	claimed   sync.Map   // what is written, and the source that it is made of
	folders   sync.Map   // see folderName
	warned    sync.Map   // see warnUnsteady
	busy      sync.Map   // names of the items that are being rendered
}

func prepare(ctx context.Context, o Options) (r *run, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("nothing rendered: %w", err)
	}
	r = &run{Options: o, volumes: map[string]*os.Root{}}
	defer func() {
		if err != nil {
			err = r.redacted(err)
			r.close()
		}
	}()
	if r.data, err = readInputs(ctx, o); err != nil {
		return r, err
	}
	err = patiently(ctx, func() string { return "check the values" }, func() error {
		checks, err := newChecks(o)
		if err != nil {
			return err
		}
		r.checks = checks
		return checks.values(r.data.values.Map())
	})
	if err != nil {
		return r, err
	}
	r.engines = newEngines(o, r.data)
	return r, nil
}

// redacted takes the secrets out of what an error says.
func (r *run) redacted(err error) error {
	if err == nil || r.data == nil || !r.data.secret() {
		return err
	}
	return redactedError{err, r.data.redactor()}
}

// redactedError is an error without the secrets that it quotes.
type redactedError struct {
	error
	redactor *values.Redactor
}

func (e redactedError) Error() string { return e.redactor.Redact(e.error.Error()) }
func (e redactedError) Unwrap() error { return e.error }

func (e redactedError) Hint() string {
	var h interface{ Hint() string }
	if errors.As(e.error, &h) {
		return e.redactor.Redact(h.Hint())
	}
	return ""
}

func (r *run) close() {
	for _, out := range r.outputs {
		out.close()
	}
	for _, root := range r.roots {
		root.Close()
	}
}

func (r *run) commit() ([]Change, error) {
	var all []Change
	for _, out := range r.outputs {
		if r.Diff != nil {
			if err := out.writeDiff(r.Diff, r.data.redactor().Redact); err != nil {
				return all, err
			}
		}
		changes, err := out.commit(r.DryRun)
		all = append(all, changes...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
