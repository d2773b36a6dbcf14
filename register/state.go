package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/readfile"
)

// phase is how far a registration has come.
type phase string

const (
	registering phase = "registering" // the request may have been sent
	registered  phase = "registered"
	left        phase = "left" // or being taken away: who keeps it alive must not bring it back
)

// state is what the state file remembers: enough to ask for the entry, and to
// take it away. It names files with secrets and holds none but those that a
// server's answer may have brought, so that its mode is 0600.
type state struct {
	Version  int               `json:"version"`
	Phase    phase             `json:"phase"`
	Identity string            `json:"identity"`
	Round    int               `json:"round,omitempty"` // how often it was registered anew, after it was gone or was taken away
	Done     bool              `json:"done,omitempty"`  // in the phase left: the registry has confirmed it
	Since    time.Time         `json:"since"`           // of the phase
	Server   Server            `json:"server"`
	Protocol Protocol          `json:"protocol"`
	Entry    Entry             `json:"entry"`
	Kept     map[string]string `json:"kept,omitempty"`   // of answers, for later calls
	Answer   []byte            `json:"answer,omitempty"` // if it is wanted: what Extract takes of it
	Extract  string            `json:"extract,omitempty"`
	Before   *state            `json:"before,omitempty"` // what an earlier run registered otherwise, and could not be taken away yet
}

const stateVersion = 1

// maxState is more than two answers of a MiB take, one of them in base64 and the
// other a value of which each byte is escaped.
const maxState = 16 << 20

func (r *Registration) state(identity string, p phase) *state {
	return &state{
		Version: stateVersion, Phase: p, Identity: identity, Round: r.round,
		Server: r.o.Server, Protocol: r.o.Protocol, Entry: r.entry, Kept: r.kept, Answer: r.answer, Extract: r.o.Extract, Before: r.before,
	}
}

// write stores the state, if there is a file for it.
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
		return failure.WithHint(fmt.Errorf("write the state to %s: %w", name, err), volumeHint)
	}
	return nil
}

// readState returns nil if there is no file.
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

// writeUnlessLeft is write for who keeps an entry alive. It fails with errLeft if
// another process has taken the entry away meanwhile.
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

// markLeft has the state say that the entry is taken away, and returns it; nil if
// there is none.
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

// A state is locked for as long as it takes to replace a small file.
const (
	lockWithin = 2 * time.Second
	lockPause  = 5 * time.Millisecond
)

// lock keeps others from the state file until unlock. The lock is the folder's:
// the file is replaced whenever it is written. Where a file system has no locks,
// and where somebody else keeps the lock, what remains is a moment in which two
// processes can miss each other's state.
func lock(ctx context.Context, name string) (unlock func()) {
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return func() {} // whoever writes will say why
	}
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	for ctx.Err() == nil && errors.Is(syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		_ = poll.Sleep(ctx, lockPause) // to wait in flock would be to wait beyond any deadline
	}
	return func() { dir.Close() }
}
