package remote

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// ErrMoved is wrapped by the error of [Repository.Fetch] if the server does not have an object, or no longer serves it:
// a reference has moved since it was listed, or the object never existed.
var ErrMoved = errors.New("the server does not serve the object")

// ErrNotAdvertised is wrapped, with ErrMoved, if the server serves only objects that a reference points to: the object
// may be in the history of one.
var ErrNotAdvertised = fmt.Errorf("%w: no reference points to it", ErrMoved)

// said returns the failure for an error message of the server.
func (s *server) said(text string) error {
	text = s.quote(text)
	lower := strings.ToLower(text)
	has := func(parts ...string) bool { return containsAny(lower, parts) }
	switch {
	case has("not our ref", "unadvertised object", "not valid", "no such object", "missing object"): // git, JGit
		return s.refused(text)
	case has("not exported"), has(noRepository...): // git-daemon
		return absent("the server reported: " + text)
	case has(noPermission...):
		return failure.New(failure.Authentication, "the server refuses access to the repository: %s", text).
			WithHint("are the credentials right, and do they permit reading the repository?")
	}
	return failure.New(failure.Unexpected, "the server reported: %s", text).WithHint("the server or its storage failed: look at the server's log")
}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// refused returns the failure for an object that the server does not serve.
func (s *server) refused(text string) error {
	f := failure.New(failure.NoRevision, "the server does not serve the requested revision: %s", text)
	f.Err = ErrMoved
	f.Hint = "was the branch moved or deleted meanwhile? is it the id of a commit of this repository?"
	if s.version != 2 && !s.has("allow-reachable-sha1-in-want") {
		f.Err = ErrNotAdvertised
		f.Hint = "this server serves only commits that a branch or a tag points to: give one of them with --ref, or set uploadpack.allowReachableSHA1InWant on the server"
	}
	return f
}

// absent returns the failure for a path at which there is no repository.
func absent(why string) *failure.Failure {
	return failure.New(failure.NoRepository, "no such repository: %s", why).
		WithHint("not found, or not permitted: many servers hide private repositories this way")
}

// unexpected returns the failure for a server that violates the protocol.
func unexpected(format string, args ...any) error {
	return failure.New(failure.Unexpected, format, args...).
		WithHint("is it a Git server, and are port and path right? does a proxy alter its answers?")
}

// never returns a permanent failure: retrying cannot help.
func never(hint, format string, args ...any) error {
	f := failure.New(failure.Unexpected, format, args...)
	f.Hint = hint
	return poll.Permanent(f)
}

// named turns the error of a connection into a failure with its class and its text.
func named(err error) error {
	var known *failure.Failure
	if errors.As(err, &known) {
		return err
	}
	f := failure.Of(err)
	f.Err = err
	return f
}
