package waitfor

import (
	"context"
	"strings"

	"initbox/internal/dial"
)

var grpcKind = Kind{
	Schemes:  []string{"grpc", "grpcs"},
	Usage:    "grpc://HOST:PORT[/SERVICE]",
	Ready:    "the gRPC health service says SERVING",
	Settings: tlsSettings,
	parse:    parseGRPC,
}

// grpcCheck asks the gRPC health checking protocol, version 1.
//
// https://github.com/grpc/grpc/blob/master/doc/health-checking.md
type grpcCheck struct {
	*target
	client  grpcClient
	addr    string
	service string // "" is the whole server
}

func parseGRPC(t *target) (Check, error) {
	if err := t.only("path"); err != nil {
		return nil, err
	}
	addr, err := t.addr()
	if err != nil {
		return nil, err
	}
	client := newGRPC(dial.New(t.resolver), t.settings.tls(), t.scheme == "grpcs")
	return grpcCheck{t, client, addr, strings.TrimPrefix(t.url.Path, "/")}, nil
}

func (c grpcCheck) Check(ctx context.Context) error {
	a, err := c.client.call(ctx, c.addr, healthMethod, healthRequest(c.service), nil)
	if err != nil {
		return err
	}
	if err := grpcFailure(a.status); err != nil {
		return err
	}
	return a.serving()
}
