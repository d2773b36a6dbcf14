package remote

import (
	"context"
	"errors"
	"io"

	"initbox/clone/pktline"
	"initbox/internal/poll"
)

// A stream is a git-upload-pack that runs on a server: what is written is its
// standard input, what is read its standard output.
type stream interface {
	io.Reader
	io.Writer

	// Close ends the command, which may be in the midst of something. Its error is
	// why the command failed, as far as the server has told (exit status, standard
	// error), if it had ended by itself.
	Close() error
}

// A dialer makes streams, a command for each.
type dialer interface {
	// dial starts git-upload-pack with the environment GIT_PROTOCOL=version=2, on
	// the repository of the URL. The stream ends with ctx.
	dial(ctx context.Context) (stream, error)
	Close() error // gives up the connection, if one is kept
}

// commands is the transport to git-upload-pack by ssh or git://. A command answers
// all messages to the first that asks for a pack. Another after that is for another
// command: in version 0 it has ended, and in version 2 git 2.39 answers wrongly when
// the second depth is not the first.
type commands struct {
	dialer dialer
	now    *conversation // nil if there is none
}

// conversation is a stream, and what has been read ahead of it.
type conversation struct {
	stream  stream
	packets *pktline.Reader
	cancel  context.CancelFunc
}

func (c *conversation) close() error {
	defer c.cancel()
	return c.stream.Close()
}

// openCommands connects to a server to which d leads.
func openCommands(ctx context.Context, u *URL, o Options, d dialer) (Repository, error) {
	return openServer(ctx, u, o, &commands{dialer: d})
}

func (c *commands) live() bool { return c.now != nil }

func (c *commands) quote(text string) string { return quoted(text, nil) }

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
	// The stream is to outlive this call, and to end with those that come after it.
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

// reply is what the conversation brings next, until stop is called. It may be the
// last.
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
				err = ended // which says why
			}
			return c.name(ctx, err)
		},
	}
}

// name makes a failure of an error of the connection.
func (c *commands) name(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return named(err)
}
