package waitfor

import (
	"context"
	"errors"
	"io/fs"
	"net"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

var unixKind = Kind{
	Schemes: []string{"unix"},
	Usage:   "unix:///PATH",
	Ready:   "connects",
	parse:   parseUnix,
}

type unixCheck struct {
	*target
	path string
}

func parseUnix(t *target) (Check, error) {
	path, err := t.path()
	return unixCheck{t, path}, err
}

// path returns the path of a target that has nothing else.
func (t *target) path() (string, error) {
	switch {
	case t.url.Host != "":
		return "", errors.New("path must be absolute: write three slashes, as in " + t.kind.Usage)
	case t.url.Opaque != "" || t.url.Path == "":
		return "", errors.New("path missing or not absolute, want " + t.kind.Usage)
	}
	return t.url.Path, t.only("path")
}

func (c unixCheck) Check(ctx context.Context) error {
	conn, err := dialUnix(ctx, c.path)
	if err != nil {
		return err
	}
	return conn.Close()
}

// dialUnix connects to the socket at path.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	poll.Doing(ctx, "connecting to "+path)
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &failure.Failure{Class: failure.Missing, Text: "no such socket", Err: errNotThere, Hint: "is the server running, and the volume with its socket mounted here?"}
	case errors.Is(err, fs.ErrPermission):
		return nil, &failure.Failure{Class: failure.Local, Text: "permission denied", Err: err, Hint: "may this user and group write to the socket? see securityContext.fsGroup"}
	}
	return conn, err
}

// errNotThere is the cause of a [Missing] failure of the target itself.
var errNotThere = errors.New("not there")
