package render

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"initbox/internal/envfile"
	"initbox/internal/stage"
)

// output is a directory that results are written to, or stdout.
type output struct {
	dir   string       // "" is stdout
	real  string       // the same without links
	stage *stage.Stage // nil for stdout

	stdout io.Writer
	text   []byte

	mu      sync.Mutex
	secrets map[string]bool   // names of results with a secret in them
	diffs   map[string]string // by name, if they are wanted
}

// outputOf returns where a single result goes: to a file of that name, or into a directory, if there is one or the name
// ends in a slash. There it is called base; if that is "", it has no name of its own, and it is an error.
func (r *run) outputOf(to, base string) (out *output, name string, err error) {
	if to == "-" {
		out, err = r.output("")
		return out, "stdout", err
	}
	if stat, err := os.Stat(to); strings.HasSuffix(to, "/") || err == nil && stat.IsDir() {
		if base == "" {
			return nil, "", fmt.Errorf("%s is a directory, and what is to be written there has no name of its own: add the name of a file, as in %s", to, strings.TrimSuffix(to, "/")+"/app.conf")
		}
		out, err := r.output(to)
		return out, base, err
	}
	if r.AtomicDir {
		return nil, "", fmt.Errorf("%s is to be a file, and --atomic-dir is for directories; put a slash at its end", to)
	}
	out, err = r.output(filepath.Dir(to))
	return out, filepath.Base(to), err
}

// output returns the output for a directory, or for stdout if dir is empty.
func (r *run) output(dir string) (*output, error) {
	if dir != "" {
		dir = filepath.Clean(dir)
	}
	real := r.identity(dir)
	for _, out := range r.outputs {
		if out.real == real {
			return out, nil
		}
	}
	out := &output{dir: dir, real: real, stdout: r.Stdout, secrets: map[string]bool{}}
	if r.Diff != nil {
		out.diffs = map[string]string{}
	}
	if dir != "" {
		var err error
		if out.stage, err = r.stage(dir); err != nil {
			return nil, withHint(err)
		}
	}
	r.outputs = append(r.outputs, out)
	return out, nil
}

// identity returns the name of a directory without links. Two stages for the same directory would
// prune each other's files.
func (r *run) identity(dir string) string {
	if dir == "" {
		return ""
	}
	at, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	below := ""
	if r.AtomicDir { // the directory is the link itself
		at, below = filepath.Split(at)
	}
	for {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, below)
		}
		if at == filepath.Dir(at) {
			return filepath.Join(at, below)
		}
		at, below = filepath.Dir(at), filepath.Join(filepath.Base(at), below)
	}
}

func (r *run) stage(dir string) (*stage.Stage, error) {
	o := stage.Options{DryRun: r.DryRun, Prune: r.Prune, Follow: r.Follow}
	if r.AtomicDir {
		return stage.OpenVersion(dir, o)
	}
	return stage.Open(dir, o)
}

// path returns the name of a result as a user would write it.
func (out *output) path(name string) string { return filepath.Join(out.dir, filepath.FromSlash(name)) }

// exists returns whether a file of that name exists.
func (out *output) exists(name string) bool {
	if out.stage == nil {
		return false
	}
	_, err := os.Lstat(out.path(name))
	return err == nil
}

// put stages a result.
func (out *output) put(name string, res result, attr stage.Attr) error {
	if out.stage == nil {
		out.text = res.content
		return nil
	}
	if out.diffs != nil {
		if err := out.diff(name, res); err != nil {
			return err
		}
	}
	if res.secret {
		out.mu.Lock()
		out.secrets[name] = true
		out.mu.Unlock()
	}
	var err error
	if res.draft != nil {
		_, err = out.stage.PutDraft(name, res.draft, attr)
	} else {
		_, err = out.stage.PutFrom(name, res.source(), attr)
	}
	if err != nil {
		return withHint(err)
	}
	return nil
}

// commit puts all results in place, except in a dry run.
func (out *output) commit(dryRun bool) ([]Change, error) {
	if out.stage == nil {
		if dryRun {
			return nil, nil
		}
		_, err := out.stdout.Write(out.text)
		return nil, err
	}
	finish := out.stage.Commit
	if dryRun {
		finish = out.stage.Plan
	}
	done, err := finish()
	err = withHint(err)
	var changes []Change
	for _, c := range done {
		changes = append(changes, Change{Path: out.path(c.Name), What: string(c.Kind), Secret: out.secrets[c.Name], InPlace: c.InPlace, Size: c.Size})
	}
	return changes, err
}

func (out *output) close() {
	if out.stage != nil {
		out.stage.Close()
	}
}

// envFile adds the values as a file of variables.
func (r *run) envFile() error {
	if r.EnvFile == "" {
		return nil
	}
	var b strings.Builder
	if err := envfile.Write(&b, r.data.values.Map()); err != nil {
		return fmt.Errorf("the values do not fit into a file of variables: %w", err)
	}
	out, name, err := r.outputOf(r.EnvFile, "")
	if err != nil {
		return err
	}
	if err := r.claim(out, name, "the values"); err != nil {
		return err
	}
	res := result{content: []byte(b.String()), secret: len(r.data.values.Secrets()) > 0}
	return r.put(out, name, "the values", res, 0o644)
}

// inOrder returns the names of a map, sorted.
func inOrder[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
