package remote

import (
	"context"
	"errors"
	"io"

	"initbox/clone/pktline"
	"initbox/internal/poll"
	"initbox/internal/secret"
)

// A stream is a running git-upload-pack on a server: Write goes to its standard input, Read comes from its standard
// output.
type stream interface {
	io.Reader
	io.Writer

	// Close ends the command, which may still be running. If it had ended by itself and failed, the error says why, as
	// far as the server reported it (exit status, standard error).
	Close() error
}

// A dialer starts commands, each with its stream.
type dialer interface {
	// dial starts git-upload-pack with the environment GIT_PROTOCOL=version=2, on
	// the repository of the URL. The stream ends with ctx.
	dial(ctx context.Context) (stream, error)
	Close() error // closes the connection, if one is kept
}

// commands is the transport to git-upload-pack over ssh or git://. A command answers messages up to the first one that
// requests a pack. A message after that needs a new command: in version 0 the old one has ended, and in version 2 git
// 2.39 answers wrongly if the second depth differs from the first.
type commands struct {
	dialer dialer
	now    *conversation // nil if there is none
}

// conversation is a stream, with the packets that have been read ahead.
type conversation struct {
	stream  stream
	packets *pktline.Reader
	cancel  context.CancelFunc
}

func (c *conversation) close() error {
	defer c.cancel()
	return c.stream.Close()
}

// openCommands connects to a server through d.
func openCommands(ctx context.Context, u *URL, o Options, d dialer) (Repository, error) {
	return openServer(ctx, u, o, &commands{dialer: d})
}

func (c *commands) live() bool { return c.now != nil }

func (c *commands) quote(text string) string { return secret.Quote(text) }

func (c *commands) Close() error {
	c.hangUp()
	return c.dialer.Close()
}

func (c *commands) hangUp() {
	if c.now != nil {
		c.now.close()
		c.now = nil
	}
}

func (c *commands) advertise(ctx context.Context) (*reply, error) {
	c.hangUp()
	// The stream outlives this call, and ends with the contexts of those that follow.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	s, err := c.dialer.dial(live)
	if err != nil {
		stop()
		cancel()
		return nil, c.name(ctx, err)
	}
	c.now = &conversation{s, pktline.NewReader(s), cancel}
	poll.Doing(ctx, "waiting for the server's list of features")
	return c.reply(ctx, stop, false), nil
}

func (c *commands) send(ctx context.Context, message []byte, pack bool) (*reply, error) {
	r := c.reply(ctx, context.AfterFunc(ctx, c.now.cancel), pack)
	poll.Doing(ctx, "waiting for the server's answer")
	if _, err := c.now.stream.Write(message); err != nil {
		return nil, r.fail(err)
	}
	return r, nil
}

// reply returns the next reply of the conversation, until stop is called. After the last one the command ends.
func (c *commands) reply(ctx context.Context, stop func() bool, last bool) *reply {
	now := c.now
	hangUp := func() error {
		if c.now == now {
			c.now = nil
		}
		return now.close()
	}
	return &reply{
		Reader: now.packets,
		end: func() {
			if stop(); last {
				hangUp()
			}
		},
		fail: func(err error) error {
			stop()
			ended := hangUp()
			if ended != nil && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)) {
				err = ended // says why
			}
			return c.name(ctx, err)
		},
	}
}

// name turns an error of the connection into a failure.
func (c *commands) name(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return named(err)
}
