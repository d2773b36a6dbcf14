// Package grpc waits for servers that implement the gRPC health checking protocol: grpc://HOST:PORT[/SERVICE], and
// grpcs:// with TLS, whose settings are the usual ones.
//
// A service is ready when the server reports that it is SERVING; without a service, the server itself must be.
package grpc

import (
	"context"
	"strings"

	"initbox/internal/dial"
	"initbox/internal/setting"
	"initbox/waitfor/target"
	"initbox/waitfor/wire/rpc"
)

// Kind is the kind of targets with the schemes grpc and grpcs.
var Kind = target.Kind{
	Schemes:  []string{"grpc", "grpcs"},
	Usage:    "grpc://HOST:PORT[/SERVICE]",
	Ready:    "the gRPC health service reports SERVING",
	Settings: setting.TLS,
	Without:  "user query",
	Parse:    parse,
}

// check implements the client of the gRPC health checking protocol, version 1.
//
// https://github.com/grpc/grpc/blob/master/doc/health-checking.md
type check struct {
	*target.Target
	client  rpc.Client
	addr    string
	service string // "" is the whole server
}

func parse(t *target.Target) (target.Check, error) {
	addr, err := target.Addr(t)
	if err != nil {
		return nil, err
	}
	client := rpc.New(dial.New(t.Resolver), t.Settings.TLS(), t.Scheme == "grpcs")
	return check{t, client, addr, strings.TrimPrefix(t.URL.Path, "/")}, nil
}

func (c check) Check(ctx context.Context) error {
	a, err := c.client.Call(ctx, c.addr, rpc.HealthMethod, rpc.HealthRequest(c.service), nil)
	if err != nil {
		return err
	}
	if err := rpc.Failure(a.Status); err != nil {
		return err
	}
	return a.Serving()
}
