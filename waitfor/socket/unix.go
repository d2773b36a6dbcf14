package socket

import (
	"context"

	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Unix is the kind of targets with the scheme unix.
var Unix = target.Kind{
	Schemes: []string{"unix"},
	Usage:   "unix:///PATH",
	Ready:   "connects",
	File:    true,
	Without: "user query",
	Parse:   parseUnix,
}

type unixCheck struct {
	*target.Target
	path string
}

func parseUnix(t *target.Target) (target.Check, error) {
	path, err := target.Path(t)
	return unixCheck{t, path}, err
}

func (c unixCheck) Check(ctx context.Context) error {
	conn, err := wire.DialUnix(ctx, c.path)
	if err != nil {
		return err
	}
	return conn.Close()
}
