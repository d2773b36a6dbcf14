package remote

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// ErrMoved is wrapped by the error of a [Repository.Fetch] of an object that the
// server does not have, or no longer gives: a reference has moved since it was
// listed, or there never was such an object.
var ErrMoved = errors.New("not an object that the server gives")

// ErrNotAdvertised is wrapped, with ErrMoved, if the server gives nothing but what
// a reference points to: the object may be in the history of one.
var ErrNotAdvertised = fmt.Errorf("%w: no reference points to it", ErrMoved)

// maxQuoted is as much of a server's message as is quoted, in bytes.
const maxQuoted = 300

// said makes a failure of what the server gives as the reason not to go on.
func (s *server) said(text string) error {
	text = s.quote(text)
	lower := strings.ToLower(text)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(lower, part) })
	}
	switch {
	case has("not our ref", "unadvertised object", "not valid", "no such object", "missing object"): // git, JGit
		return s.refused(text)
	case has("not exported"), has(noRepository...): // git-daemon
		return absent("the server says: " + text)
	case has(noPermission...):
		f := failure.New(failure.Authentication, "the server refuses access to the repository: %s", text)
		f.Hint = "are the credentials right, and may they read the repository?"
		return f
	}
	f := failure.New(failure.Unexpected, "the server says: %s", text)
	f.Hint = "the server, or its storage, fails: look at its log"
	return f
}

// refused is the failure of a want.
func (s *server) refused(text string) error {
	f := failure.New(failure.NoRevision, "the server does not give what was asked for: %s", text)
	f.Err = ErrMoved
	f.Hint = "has the branch moved or gone meanwhile? is it the id of a commit of this repository?"
	if s.version != 2 && !s.has("allow-reachable-sha1-in-want") {
		f.Err = ErrNotAdvertised
		f.Hint = "this server gives only what a branch or a tag points to: give one of them with --ref, or set uploadpack.allowReachableSHA1InWant there"
	}
	return f
}

// absent is the failure of a path that leads to no repository.
func absent(why string) *failure.Failure {
	f := failure.New(failure.NoRepository, "no such repository: %s", why)
	f.Hint = "is the path right, and may who asks read it? many servers hide a private repository so"
	return f
}

// unexpected is the failure of a server that does not keep to the protocol.
func unexpected(format string, args ...any) error {
	f := failure.New(failure.Unexpected, format, args...)
	f.Hint = "is it a Git server, and the right port and path? does a proxy change what it says?"
	return f
}

// never is for what stays so whatever is tried.
func never(hint, format string, args ...any) error {
	f := failure.New(failure.Unexpected, format, args...)
	f.Hint = hint
	return poll.Permanent(f)
}

// named makes a failure of an error of a connection, of its class and in its words.
func named(err error) error {
	var known *failure.Failure
	if errors.As(err, &known) {
		return err
	}
	f := failure.Of(err)
	f.Err = err
	return f
}

// quoted makes a server's text fit for a message: without secrets, in one line, and
// not a novel.
func quoted(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	text = strings.Trim(text, " \t\r\n\x00") // git sends the end of a C string, too
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "…"
	}
	return failure.Printable(text)
}
