// Package render makes configuration files from templates and values: all of them, or none.
//
// [Run] first renders and checks everything, and stages it beside its destination. Only then does it replace files,
// each atomically. Files that are already right are not touched.
//
//	changes, err := render.Run(ctx, render.Options{
//		Sources: []render.Source{{From: "app.conf.tmpl", To: "/etc/app/"}},
//		Values:  []values.Source{{Kind: values.File, Text: "values.yaml"}},
//		Options: engine.Options{Limits: engine.DefaultLimits},
//	})
//
// Packages gotemplate, jinja and envsubst implement the template languages, values merges the values, format validates
// results, and stage puts files in place.
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
	"sync/atomic"

	"initbox/internal/perm"
	"initbox/internal/podinfo"
	"initbox/internal/secret"
	"initbox/render/engine"
	"initbox/render/format"
	"initbox/render/values"
)

// Options says what to render, from which sources, and where to.
type Options struct {
	Sources  []Source
	Inline   []Inline
	Partials []string // files and directories of templates for the others to include

	Values       []values.Source
	ValuesSchema string   // a file; "" for none
	Environ      []string // as os.Environ gives it
	EnvAllow     []string // patterns (path.Match) of the variables that templates see; nil for all
	SecretEnv    []string // patterns of variables whose values are secret
	Pod          podinfo.Source
	Files        string // the directory of .Files; "" for none

	// Fetch returns the values at a URL, and their media type, as [Fetcher] does.
	Fetch func(ctx context.Context, url string) (body []byte, mediaType string, err error)

	// Resolve and ResolveSRV look up names for templates, as those of [Names] do; nil means that they may not.
	Resolve    func(ctx context.Context, host string) (addrs []string, err error)
	ResolveSRV func(ctx context.Context, name string) (records []any, err error)

	Engine   string            // for all templates: one of [Engines]; "" means by their extension
	Suffixes map[string]string // more ends of the names of templates in trees, each with its engine; see [ParseSuffix]
	engine.Options

	OnlyTemplates bool // in trees, leave out files that are not templates
	NoOverwrite   bool // leave existing files alone
	AtomicDir     bool // see stage.OpenVersion
	Prune         bool // remove what an earlier run wrote and this one did not
	Modes         []perm.Rule[perm.Mode]
	Owners        []perm.Rule[perm.Owner]

	Validate bool                        // by the extension of the result
	Formats  []perm.Rule[*format.Format] // of results without such an extension; they are validated
	Schemas  []perm.Rule[string]         // files of JSON Schemas

	Follow bool // write through symbolic links in a volume, see stage.Options

	EnvFile string // where to write the values for Kubernetes' fileKeyRef; "" for nowhere

	Sum    *Sum      // is set to what the results are; nil for none
	DryRun bool      // change nothing, and return what would change
	Diff   io.Writer // for the differences; nil for none

	Stdin  io.Reader
	Stdout io.Writer
	Log    *slog.Logger // nil discards
}

// Run renders the sources in o. It returns what changed, or with DryRun what would change. If inputs are missing, the
// error names all of them, and nothing was written. Errors contain no value that came from a Secret.
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

// once is one try of [Run]. Replaced means that it failed because a volume was replaced, so
// that files that were being read are gone.
func once(ctx context.Context, o Options) (changes []Change, replaced bool, err error) {
	r, err := prepare(ctx, o)
	if err != nil {
		return nil, false, err
	}
	if o.Sum != nil {
		o.Sum.clear()
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

// replaced returns whether a volume was replaced since it was opened. It returns false if
// stdin was read, which cannot be read again.
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

// Change is a file that was written or removed, or with DryRun would be.
type Change struct {
	Path    string
	What    string // "created", "changed" or "removed"
	Secret  bool   // it holds a value that came from a Secret
	InPlace bool   // it is a mount point, and could not be replaced atomically
	Size    int64  // of what was written, in bytes
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
	volumes map[string]*os.Root // the directories among them, by name

	// Shared by the workers.
	failures    failures
	mu          sync.Mutex // of postponed
	postponed   []*item    // see postpone
	claimed     sync.Map   // destinations, each with its source
	directories sync.Map   // see dirName
	warned      sync.Map   // see warnUnsteady
	busy        sync.Map   // names of the items that are being rendered

	committing atomic.Bool // the results are complete
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

// redacted removes the secrets from the text of an error.
func (r *run) redacted(err error) error {
	if err == nil || r.data == nil || !r.data.secret() {
		return err
	}
	return redactedError{err, r.data.redactor()}
}

// redactedError is an error whose text has no secrets.
type redactedError struct {
	error
	redactor *secret.Redactor
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
	r.committing.Store(true)
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
