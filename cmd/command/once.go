package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"initbox/internal/atomicfile"
	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/podinfo"
	"initbox/internal/words"
)

// flagOnce names a file that records that the command succeeded, so that it is not done again in the same Pod.
const flagOnce = "once"

// record is what the file of --once holds.
type record struct {
	Format    string    `json:"initbox"` // recordFormat
	Command   string    `json:"command"` // the subcommand
	Arguments string    `json:"arguments"`
	PodUID    string    `json:"podUID"` // "" if unknown
	PodName   string    `json:"podName"`
	Done      time.Time `json:"done"`
	Took      string    `json:"took"`
	Parts     []string  `json:"parts,omitempty"` // digests of the parts that are done, of a command that does them one by one
}

const recordFormat = "once/1"

// maxRecord is more than a record takes.
const maxRecord = 1 << 20

// once is the file of --once.
type once struct {
	name  string
	now   record    // what is written when the command has succeeded
	found *record   // for the same arguments, in the same Pod; nil without one
	start time.Time // of the command
}

// checkOnce reads the flag, and refuses it where there is nothing to record. It is ignored for rbac, which takes the
// arguments of a wait as they are.
func (e *env) checkOnce(c *cli.Context) error {
	if e.once = c.String(flagOnce); e.once == "" || e.name == rbacName {
		e.once = ""
		return nil
	}
	if staysRunning(c) != "" {
		return usagef("--%s is for commands that end, and --hold and --watch keep running", flagOnce)
	}
	if flag := looks(c); flag != "" {
		return usagef("--%s and %s are mutually exclusive: %[2]s does nothing that could be recorded", flagOnce, flag)
	}
	return nil
}

// openOnce returns the file of --once. What follows is never skipped because of a file that this program has not
// written, nor is such a file replaced.
func (e *env) openOnce() (*once, error) {
	name := e.once
	o := &once{name: name, start: time.Now(), now: record{
		Format: recordFormat, Command: e.name, Arguments: digest(slices.Concat([]string{e.name}, e.args, e.listed)),
		PodUID: podinfo.UID(), PodName: podinfo.Name(),
	}}
	old, owner, err := readRecord(name)
	if err != nil {
		hint := "name a file on an emptyDir that no other program writes, and that this user may write"
		if link := new(mounts.LinkError); !errors.As(err, &link) { // --follow, which its hint names, is not for this file
			hint = mounts.WriteHint(err, name, hint)
		}
		return nil, failure.WithHint(fmt.Errorf("--%s %s: %w", flagOnce, failure.Printable(name), err), hint)
	}
	switch {
	case old == nil:
	case old.Arguments != o.now.Arguments:
		e.log.Info(name + ": written for other arguments, so it does not count")
	case old.PodUID != o.now.PodUID || o.now.PodUID == "" && old.PodName != o.now.PodName:
		e.log.Info(name + ": written in another Pod, so it does not count")
	case owner != os.Geteuid():
		e.log.Warn(fmt.Sprintf("%s: written by user %d, so it does not count", name, owner))
	default:
		o.found = old
	}
	return o, nil
}

// doOnce does work, unless --once has recorded that it was done.
func (e *env) doOnce(work func() error) error {
	if e.once == "" {
		return work()
	}
	o, err := e.openOnce()
	if err != nil {
		return err
	}
	if o.found != nil && e.inParts {
		o.now.Parts = o.found.Parts
	} else if o.found != nil {
		e.log.Info(fmt.Sprintf("done already, at %s according to %s", o.found.Done.Format(time.RFC3339), o.name))
		return nil
	}
	e.parts = o
	if err := work(); err != nil {
		return err
	}
	if err := o.write(); err != nil {
		return err
	}
	e.warnNowhere(o.name)
	return nil
}

// Has returns whether a part of the work was done by this command in this Pod.
func (o *once) Has(digest string) bool { return slices.Contains(o.now.Parts, digest[:partLength]) }

// Add records a part that is done.
func (o *once) Add(digest string) error {
	o.now.Parts = append(o.now.Parts, digest[:partLength])
	return o.write()
}

// partLength is how much of a digest tells parts apart.
const partLength = 32

func (o *once) write() error {
	o.now.Done, o.now.Took = time.Now().UTC().Truncate(time.Second), words.Seconds(time.Since(o.start))
	text, err := encodeJSON(o.now)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(o.name, text, 0o600); err != nil {
		return failure.WithHint(fmt.Errorf("write the --%s file: %w", flagOnce, err), mounts.WriteHint(err, o.name, writableHint))
	}
	return nil
}

// digest identifies a command line without its text, which may have names that belong in no file.
func digest(args []string) string {
	h := sha256.New()
	for _, arg := range args {
		io.WriteString(h, arg+"\x00")
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// readRecord returns the record in a file, and the user who wrote it; nil if there is no file. Anything else in the
// file, or a file that could not be replaced later, is an error.
func readRecord(name string) (r *record, owner int, err error) {
	dir, base, link, err := mounts.OpenParent(name, false)
	if err != nil {
		return nil, 0, err
	}
	defer dir.Close()
	if link != nil {
		return nil, 0, link
	}
	if err := dirfd.Access(dir, ".", unix.W_OK|unix.X_OK); err != nil {
		return nil, 0, fmt.Errorf("write to %s: %w", dir.Name(), err)
	}
	f, err := dirfd.Open(dir, base, unix.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read it: %w", err)
	}
	defer f.Close()
	stat, err := dirfd.Stat(f)
	if err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, errNoRecord
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return nil, 0, fmt.Errorf("read it: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&r); err != nil || r == nil || r.Format != recordFormat {
		return nil, 0, errNoRecord
	}
	return r, int(stat.Uid), nil
}

var errNoRecord = errors.New("it exists and is not what an earlier run has written, so it is neither trusted nor replaced")
