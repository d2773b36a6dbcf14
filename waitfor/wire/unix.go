package wire

import (
	"context"
	"errors"
	"io/fs"
	"net"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/waitfor/target"
)

// DialUnix connects to the Unix socket at path.
func DialUnix(ctx context.Context, path string) (net.Conn, error) {
	poll.Doing(ctx, "connecting to "+path)
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &failure.Failure{Class: failure.Missing, Text: "no such socket", Err: target.ErrNotThere, Hint: "is the server running, and the volume with its socket mounted here?"}
	case errors.Is(err, fs.ErrPermission):
		return nil, &failure.Failure{Class: failure.Local, Text: "permission denied", Err: err, Hint: "may this user and group write to the socket? see securityContext.fsGroup"}
	}
	return conn, err
}
