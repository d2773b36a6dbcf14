package remote

import (
	"context"

	"initbox/clone/pktline"
)

// A transport carries messages to and from git-upload-pack on a server.
type transport interface {
	// advertise starts git-upload-pack, and returns the first thing that it sends: the advertisement. A command that
	// was started before is abandoned.
	advertise(ctx context.Context) (*reply, error)

	// live reports whether a message may be sent without a new advertisement.
	live() bool

	// send sends a message. The answer ends with ctx. With pack, it is of any length.
	send(ctx context.Context, message []byte, pack bool) (*reply, error)

	// quote makes text of the server safe to print.
	quote(text string) string

	Close() error
}

// A reply is what a server sends. Exactly one of its functions must be called, once.
type reply struct {
	*pktline.Reader

	end  func()                // after the last packet has been read
	fail func(err error) error // abandons the reply; explains err, which reading returned, and may be nil
}
