package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/suggest"
)

// programName is the program's name in the directory that it is installed into, whatever its name where it runs.
const programName = "initbox"

func install(e *env) *cli.Command {
	var all, follow bool
	return &cli.Command{
		Usage:     "copy this program to a volume, for containers whose image has no initbox",
		ArgsUsage: "DIR [NAME…]",
		Description: `Puts the program into the directory DIR, as DIR/initbox, and a link to it for each
subcommand NAME. A second run changes nothing; another version is replaced, even
while it runs.

Examples:
  initbox install /tools                      # then /tools/initbox wait-for-service …
  initbox install /tools wait-for-service     # then also /tools/wait-for-service …`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "make a link for every subcommand", Destination: &all},
			followFlag("", &follow),
		},
		Action: e.action(func(c *cli.Context) (work, error) {
			args := c.Args().Slice()
			if len(args) == 0 {
				return nil, usagef("no directory given").hint("as in: initbox install /tools")
			}
			names, err := linkNames(c.App, args[1:], all)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				if err := untilDone(ctx, func() error { return installInto(ctx, args[0], names, atomicfile.Writer{Follow: follow}) }); err != nil {
					return installFailure(args[0], err)
				}
				e.warnNowhere(args[0])
				links := ""
				if len(names) > 0 {
					links = ", with links to it: " + strings.Join(names, ", ")
				}
				e.log.Info(fmt.Sprintf("installed initbox %s as %s%s", e.version, filepath.Join(args[0], programName), links))
				return nil
			}, nil
		}),
	}
}

// linkNames returns the names of the links to make, each once.
func linkNames(app *cli.App, names []string, all bool) ([]string, error) {
	known := commandNames(app)
	if all {
		if len(names) > 0 {
			return nil, usagef("--all makes all links: give no names with it")
		}
		return known, nil
	}
	var wanted []string
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, usagef("no such subcommand: %s", name).hint(suggest.Question(name, known, "") + "the subcommands are " + strings.Join(known, ", "))
		}
		if !slices.Contains(wanted, name) {
			wanted = append(wanted, name)
		}
	}
	return wanted, nil
}

// installInto copies the program into dir and then makes the links, so that none dangles. They are symbolic: a hard
// link would keep the old program when another version replaces it. They are relative: another container may mount the
// volume elsewhere.
func installInto(ctx context.Context, dir string, names []string, w atomicfile.Writer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// If the directory is missing, the volume is probably not mounted, or the path is misspelt. A new directory would
	// be in this container's own file system, where no other container finds it.
	stat, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !stat.IsDir() {
		return &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	self, err := os.Open("/proc/self/exe") // the program that runs, even if its file was replaced
	if err != nil {
		return err
	}
	defer self.Close()
	if err := w.Copy(filepath.Join(dir, programName), endingWith(ctx, self), 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := w.Link(filepath.Join(dir, name), programName); err != nil {
			return err
		}
	}
	return nil
}

// ending is a file that can no longer be read when ctx has ended.
type ending struct {
	io.ReadSeeker
	ctx context.Context
}

func endingWith(ctx context.Context, file io.ReadSeeker) io.ReadSeeker { return ending{file, ctx} }

func (e ending) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	return e.ReadSeeker.Read(p)
}

// untilDone returns what work returns or, soon after ctx has ended, the cause of that: a write to a volume whose server
// hangs cannot be interrupted. Unfinished work ends with the process, as if the process had been killed.
func untilDone(ctx context.Context, work func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond) // to tidy up
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-grace.Done():
		return context.Cause(ctx)
	}
}

// installFailure adds to err what was being done, and a hint how to fix it.
func installFailure(dir string, err error) error {
	failed := fmt.Errorf("install initbox into %s: %w", dir, err)
	if hint := mounts.WriteHint(err, dir, ""); hint != "" {
		return failure.WithHint(failed, hint)
	}
	for _, h := range []struct {
		cause error
		hint  string
	}{
		{fs.ErrNotExist, "is the volume mounted there (volumeMounts)? The directory is not created, since a wrong path would go unnoticed"},
		{fs.ErrExist, "something else has that name and is not replaced: remove it, choose another directory, or call initbox NAME"},
		{syscall.ENOTDIR, "give the directory, not the file: initbox install /tools makes /tools/initbox"},
		{syscall.EROFS, "is it a volume, and mounted without readOnly? The container's own file system may be read-only"},
		{fs.ErrPermission, fmt.Sprintf("user %d may not write there: an emptyDir is writable by every user, other volumes need fsGroup in the Pod's securityContext", os.Getuid())},
		{syscall.ENOSPC, "the volume is full: is the sizeLimit of the emptyDir larger than the program?"},
		{syscall.EDQUOT, "the volume's quota is used up"},
	} {
		if errors.Is(err, h.cause) {
			return failure.WithHint(failed, h.hint)
		}
	}
	return failed
}
