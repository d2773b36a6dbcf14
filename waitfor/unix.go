package waitfor

import (
	"context"
)

var unixKind = Kind{
	Schemes: []string{"unix"},
	Usage:   "unix:///PATH",
	Ready:   "connects",
	File:    true,
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

func (c unixCheck) Check(ctx context.Context) error {
	conn, err := dialUnix(ctx, c.path)
	if err != nil {
		return err
	}
	return conn.Close()
}
