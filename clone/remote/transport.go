package remote

import (
	"context"

	"initbox/clone/pktline"
)

// A transport carries messages to git-upload-pack on a server, and back.
type transport interface {
	// advertise starts git-upload-pack, and returns what it says first. What was
	// started before is given up.
	advertise(ctx context.Context) (*reply, error)

	// live reports whether a message may be sent without an advertisement before it.
	live() bool

	// send sends a message. The answer ends with ctx; if it has a pack, it may be of
	// any length.
	send(ctx context.Context, message []byte, pack bool) (*reply, error)

	// quote makes a text of the server fit for messages.
	quote(text string) string

	Close() error
}

// A reply is what a server says. One of its functions is to be called, once.
type reply struct {
	*pktline.Reader

	end  func()                // it was read to its last packet
	fail func(err error) error // give it up; returns what is to be told of err, which reading has returned, or nil
}
