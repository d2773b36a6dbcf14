package register

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"initbox/internal/failure"
)

// ErrCannotLeave is the error of a protocol that cannot deregister.
var ErrCannotLeave = errors.New("no way to deregister is known: give --deregister-url when registering")

// Load returns the registration that the state file o.State records. It ignores the
// options that the state has, and uses those that say how to send requests.
func Load(o Options) (*Registration, error) {
	st, err := readState(o.State)
	if err != nil {
		return nil, err
	}
	if st == nil {
		return nil, failure.WithHint(fmt.Errorf("state file %s does not exist", o.State), "nothing was registered with this --state, or its volume is not mounted here")
	}
	o.Server, o.Protocol, o.Entry = st.Server, st.Protocol, st.Entry
	r, err := Open(o)
	if err == nil {
		r.kept, r.before = st.Kept, st.Before
	}
	return r, err
}

// Leave deregisters. It succeeds if the registry no longer has the entry, or the state says
// that it was already deregistered. It retries what can heal until ctx ends.
func (r *Registration) Leave(ctx context.Context) error {
	if len(r.protocol.leave) == 0 {
		return ErrCannotLeave
	}
	// First, so that a process that keeps the entry alive does not restore it.
	st, err := markLeft(ctx, r.o.State)
	switch {
	case err != nil:
		r.log.Warn(err.Error()) // deregistering does not need it
	case st != nil && st.Done && st.Before == nil && !r.unsure:
		r.log.Info(fmt.Sprintf("%s: %s was already deregistered", r.place(), r.entry.shown()))
		return nil
	}
	found, err := r.leave(ctx)
	if err != nil {
		return err
	}
	r.unsure = false
	if found == gone {
		r.log.Info(fmt.Sprintf("%s: %s was already gone", r.place(), r.entry.shown()))
	} else {
		r.log.Info(fmt.Sprintf("%s: deregistered %s", r.place(), r.entry.shown()))
	}
	if st == nil {
		return nil
	}
	// If this run has not registered anything yet, the state is that of an earlier entry.
	r.before = st
	r.leaveBefore(ctx, true)
	if r.before == st {
		return fmt.Errorf("%s: the earlier registration remains", r.place())
	}
	st.Done, st.Before = true, r.before
	return st.write(r.o.State)
}

// leave sends what deregisters, and returns what the first call found: there or gone.
func (r *Registration) leave(ctx context.Context) (finding, error) {
	if len(r.protocol.leave) == 0 {
		return refused, ErrCannotLeave
	}
	first := refused
	for _, c := range r.leaveCalls() {
		found, _, err := r.do(ctx, c, "deregister "+r.entry.shown())
		if err != nil {
			return refused, err
		}
		if first == refused {
			first = found
		}
	}
	return first, nil
}

// leavesLike reports whether r and other deregister by the same requests, so that the one
// has replaced the other's entry.
func (r *Registration) leavesLike(other *Registration) bool {
	if r.o.Server.URL != other.o.Server.URL {
		return false
	}
	requests, err := r.leaveRequests()
	if err != nil {
		return true // it was never registered
	}
	others, err := other.leaveRequests()
	return err == nil && slices.EqualFunc(requests, others, (*request).sendsLike)
}

// sendsLike reports whether two requests have the same method, URL and content.
func (q *request) sendsLike(other *request) bool {
	if (q.body == nil) != (other.body == nil) || q.body != nil && !bytes.Equal(q.body.Content, other.body.Content) {
		return false
	}
	return q.method == other.method && q.ref.String() == other.ref.String()
}

func (r *Registration) leaveRequests() (all []*request, err error) {
	for _, c := range r.leaveCalls() {
		q, err := r.request(c)
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return all, nil
}

// leaveCalls returns the calls that deregister the entry.
func (r *Registration) leaveCalls() (all []*call) {
	for i := range r.protocol.leave {
		if c := &r.protocol.leave[i]; c.when == nil || c.when(&r.entry) {
			all = append(all, c)
		}
	}
	return all
}
