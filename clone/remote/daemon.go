package remote

import (
	"context"
	"errors"
	"net"

	"initbox/clone/pktline"
)

// daemon connects to git-daemon(1), for git://.
type daemon struct {
	url     *URL
	connect dialFunc
}

func (d *daemon) Close() error { return nil } // no connection is kept

// dial requests git-upload-pack (gitprotocol-pack(5), "Git Transport"). The protocol version comes after a second NUL,
// which old servers ignore.
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
	return nil // git-daemon reports failures in the conversation
}
