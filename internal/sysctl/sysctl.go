package sysctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/readfile"
	"initbox/internal/words"
)

// Options are what settings have in common.
type Options struct {
	Root   string // in front of all paths; empty but in tests
	DryRun bool
	Log    *slog.Logger // nil for none
}

// Apply gives the parameters their values. Of several settings of one parameter, the last one counts. All of them are
// checked before the first one is written, and each is read back. What is right already is not opened for writing. The
// error has a hint that says how a Pod may set what this process may not.
func Apply(ctx context.Context, settings []Setting, o Options) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	var todo []*change
	var problems []problem
	seen := map[string]bool{}
	for _, s := range slices.Backward(settings) {
		if seen[s.Path] {
			continue
		}
		seen[s.Path] = true
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c := &change{Setting: s, file: o.Root + s.Path}
		err := c.check(o.DryRun)
		switch {
		case s.IfExists && errors.Is(err, errMissing):
			s.log(o).Info(s.Key + ": left out: the kernel does not have it")
		case err != nil && s.Lenient:
			s.log(o).Warn(fmt.Sprintf("%s: %v", s.Key, err))
		case err != nil:
			problems = append(problems, problem{s, err})
		case !c.done:
			todo = append(todo, c)
		}
	}
	if len(problems) > 0 {
		slices.Reverse(problems)
		return refused(problems, o.Root)
	}
	slices.Reverse(todo)
	for _, c := range todo {
		if err := c.apply(ctx, o); err != nil {
			return err
		}
	}
	if len(todo) == 0 {
		o.Log.Info(fmt.Sprintf("nothing to change in %s", words.Plural(len(seen), "parameter")))
	}
	return nil
}

// log returns the logger of lines about the parameter.
func (s Setting) log(o Options) *slog.Logger { return o.Log.With(failure.Fields(s.Key, 0, nil)) }

var (
	errMissing   = errors.New("the kernel has no such parameter")
	errDirectory = errors.New("a directory of parameters, and not one itself")
	errForeign   = errors.New("not a parameter of the kernel: the file is neither in a procfs nor in a sysfs")
)

// change is a setting, and what is known of its file.
type change struct {
	Setting
	file string
	was  string // for messages; "" if it cannot be read
	done bool   // it is right already
}

// check reads the parameter and, if it has to change, finds out whether it may be written.
func (c *change) check(dry bool) error {
	content, err := c.read()
	switch {
	case errors.Is(err, errForeign), errors.Is(err, errDirectory):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return errMissing
	case err == nil && c.right(content):
		c.done = true
		return nil
	case err == nil: // else it is for writing only, such as net.ipv4.route.flush
		c.was = failure.Printable(current(content))
		if all := choices(content); all != nil && !slices.Contains(all, c.Value) {
			return fmt.Errorf("want one of %s, got %s", strings.NewReplacer("[", "", "]", "").Replace(strings.Join(all, ", ")), c.Value)
		}
		if c.AtLeast && number(c.was) == nil {
			return fmt.Errorf("its value is %s, not a number to compare with", c.was)
		}
	}
	if dry {
		return nil
	}
	f, err := c.open(os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("set it to %s: %w", cmp.Or(c.Value, `""`), cause(err))
	}
	return f.Close()
}

// The types of the file systems, see statfs(2).
const sysfsMagic, procMagic = 0x62656572, 0x9fa0

// open opens the file. A path outside /proc/sys and /sys must be of the same file systems, as where the node's /sys is
// mounted: nothing else is a parameter, and is not even opened, which has effects on devices.
func (c *change) open(flags int) (*os.File, error) {
	name := c.file
	if !strings.HasPrefix(c.Path, "/proc/sys/") && !strings.HasPrefix(c.Path, "/sys/") {
		file, err := os.OpenFile(name, dirfd.PathOnly, 0)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		name = fmt.Sprintf("/proc/self/fd/%d", file.Fd()) // the same file, whatever has its name by now
		if kind, err := dirfd.FileSystem(name); err != nil || kind != sysfsMagic && kind != procMagic {
			return nil, cmp.Or(err, errForeign)
		}
	}
	return os.OpenFile(name, flags|syscall.O_NONBLOCK, 0)
}

// read returns the content of the file.
func (c *change) read() (string, error) {
	f, err := c.open(os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := readfile.Rest(f, readfile.Limit)
	if errors.Is(err, syscall.EISDIR) {
		err = errDirectory
	}
	return string(content), err
}

// apply writes the parameter, and reads it back.
func (c *change) apply(ctx context.Context, o Options) error {
	log, text := c.log(o), "set to "+cmp.Or(c.Value, `""`)
	if c.was != "" {
		text += ", was " + c.was
	}
	if o.DryRun {
		log.Info(c.Key + ": would be " + text)
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := c.write()
	if err != nil && c.Lenient {
		log.Warn(fmt.Sprintf("%s: %v", c.Key, err))
		return nil
	}
	if err != nil {
		return refused([]problem{{c.Setting, err}}, o.Root)
	}
	log.Info(c.Key + ": " + text)
	return nil
}

func (c *change) write() error {
	f, err := c.open(os.O_WRONLY | os.O_TRUNC) // which only a test notices
	if err == nil {
		_, err = io.WriteString(f, c.Value+"\n") // in one call: the kernel takes each as a value
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("set it to %s: %w", cmp.Or(c.Value, `""`), cause(err))
	}
	content, err := c.read()
	if err == nil && !c.right(content) {
		return fmt.Errorf("set to %s, but it is %s: the kernel has limited it, or another program sets it too", c.Value, failure.Printable(current(content)))
	}
	return nil // what cannot be read was written without an error
}

// cause returns err without the name of the file, which messages have already.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// near returns the parameter or directory beside the missing one whose name is meant, or "".
func near(s Setting, root string) string {
	for dir, name := filepath.Split(s.Path); dir != "/"; dir, name = filepath.Split(filepath.Clean(dir)) {
		entries, err := os.ReadDir(root + dir)
		if err != nil {
			continue // it is missing, too
		}
		if meant := closest(name, entries); meant != "" {
			return Setting{Path: dir + meant + strings.TrimPrefix(s.Path, dir+name)}.name()
		}
		return ""
	}
	return ""
}
