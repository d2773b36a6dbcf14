package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/atomicfile"
	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/poll"
	"initbox/internal/readfile"
	"initbox/register/exchange"
)

// phase is the progress of a registration.
type phase string

const (
	registering phase = "registering" // the request may have been sent
	registered  phase = "registered"
	left        phase = "left" // or about to be deregistered: a process that keeps it alive must not restore it
)

// state is the content of the state file: enough to look the entry up, and to deregister it. It names files with
// secrets and holds no secrets, except those that a server's answer may have: therefore its mode is 0600.
type state struct {
	Version  int               `json:"version"`
	Phase    phase             `json:"phase"`
	Identity string            `json:"identity"`
	Round    int               `json:"round,omitempty"` // how often it was registered again, after it was lost or deregistered
	Done     bool              `json:"done,omitempty"`  // in phase left: the registry has confirmed it
	Since    time.Time         `json:"since"`           // of the phase
	Server   Server            `json:"server"`
	Protocol Protocol          `json:"protocol"`
	Entry    Entry             `json:"entry"`
	Kept     map[string]string `json:"kept,omitempty"`   // from answers, for later calls
	Answer   []byte            `json:"answer,omitempty"` // if it is wanted, in the form that Extract says
	Extract  string            `json:"extract,omitempty"`
	Before   *state            `json:"before,omitempty"` // an earlier run's different entry that could not be deregistered yet
}

const stateVersion = 1

// maxState is more than two answers of 1 MiB take, one in base64 and one a string in which each byte is escaped.
const maxState = 16 << 20

func (r *Registration) state(identity string, p phase) *state {
	return &state{
		Version: stateVersion, Phase: p, Identity: identity, Round: r.round,
		Server: r.o.Server, Protocol: r.o.Protocol, Entry: r.entry, Kept: r.kept, Answer: r.answer, Extract: r.o.Extract, Before: r.before,
	}
}

// write stores the state in the file name, unless that is empty.
func (st *state) write(name string) error {
	if name == "" {
		return nil
	}
	st.Since = time.Now().UTC().Truncate(time.Second)
	text, err := json.MarshalIndent(st, "", "  ")
	if err == nil {
		err = atomicfile.Write(name, append(text, '\n'), 0o600)
	}
	if err != nil {
		return failure.WithHint(fmt.Errorf("write the state to %s: %w", name, err), mounts.WriteHint(err, name, exchange.VolumeHint))
	}
	return nil
}

// readState returns the state in the file name, or nil if it does not exist.
func readState(name string) (*state, error) {
	if name == "" {
		return nil, nil
	}
	text, err := readfile.Upto(name, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failure.WithHint(fmt.Errorf("read the state: %w", err), "may this user read it? only the user that registered the Pod may")
	}
	var st state
	if err := json.Unmarshal(text, &st); err != nil || st.Version != stateVersion || st.Protocol.preset() == nil {
		return nil, failure.WithHint(fmt.Errorf("%s is not a state file of this version of initbox register", name), "name another file with --state; if this one is of another version, remove it")
	}
	return &st, nil
}

// writeUnlessLeft is write for a process that keeps an entry alive. It fails with errLeft if
// another process has deregistered meanwhile.
func (st *state) writeUnlessLeft(name string) error {
	if name == "" {
		return nil
	}
	defer lock(context.Background(), name)()
	if old, err := readState(name); err != nil {
		return err
	} else if old != nil && old.Phase == left {
		return errLeft
	}
	return st.write(name)
}

var errLeft = errors.New("another process has deregistered the entry")

// markLeft sets the phase of the state in the file name to left, and returns that state, or nil if there is no file.
func markLeft(ctx context.Context, name string) (*state, error) {
	if name == "" {
		return nil, nil
	}
	defer lock(ctx, name)()
	st, err := readState(name)
	if st == nil || st.Phase == left {
		return st, err
	}
	st.Phase = left
	return st, st.write(name)
}

// A state stays locked for the time that it takes to replace a small file.
const (
	lockWithin = 2 * time.Second
	lockPause  = 5 * time.Millisecond
)

// lock locks the state file until unlock is called. It locks the directory, since writing
// replaces the file. It gives up after [lockWithin], and where the file system has no
// locks: then two processes can, for a moment, miss each other's state.
func lock(ctx context.Context, name string) (unlock func()) {
	dir, _ := os.Open(filepath.Dir(name)) // without it, writing fails and says why
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	for ctx.Err() == nil && dirfd.Lock(dir, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK {
		_ = poll.Sleep(ctx, lockPause) // a blocking flock would ignore the deadline
	}
	return func() { dirfd.Unlock(dir) }
}
