package remote

import (
	"context"
	"errors"
	"net"

	"initbox/clone/pktline"
)

// daemon leads to a git-daemon(1), as git:// does.
type daemon struct {
	url     *URL
	connect dialFunc
}

func openDaemon(u *URL, o Options) dialer { return &daemon{u, o.dialer()} }

func (d *daemon) Close() error { return nil } // no connection is kept

// dial asks for git-upload-pack (gitprotocol-pack(5), "Git Transport"). What it says
// of the protocol's version comes after a second NUL, where old servers do not look.
func (d *daemon) dial(ctx context.Context) (stream, error) {
	conn, err := d.connect(ctx, "tcp", d.url.Address())
	if err != nil {
		return nil, err
	}
	s := &daemonStream{Conn: conn, stop: context.AfterFunc(ctx, func() { conn.Close() })}
	request := "git-upload-pack " + d.url.Path + "\x00host=" + d.url.authority() + "\x00\x00version=2\x00"
	if len(request) > pktline.MaxPayload {
		s.Close()
		return nil, errors.New("the path is too long")
	}
	if _, err := conn.Write(pktline.Append(nil, request)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// daemonStream is a connection that ends with a context.
type daemonStream struct {
	net.Conn
	stop func() bool
}

func (s *daemonStream) Close() error {
	s.stop()
	s.Conn.Close()
	return nil // git-daemon tells in the conversation what failed
}
