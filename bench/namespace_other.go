//go:build !linux

package main

import (
	"context"
	"fmt"
	"net"
)

// There is no namespace on this system, so its methods are never called.
type namespace struct{}

func newNamespace(context.Context, *bench) (*namespace, error) {
	return nil, fmt.Errorf("%w: network namespaces are for Linux", errSkipped)
}

func (*namespace) do(f func() error) error                  { return f() }
func (*namespace) close()                                   {}
func (*namespace) listen(addr string) (net.Listener, error) { return net.Listen("tcp4", addr) }
func (*namespace) ip(context.Context, ...string) error      { return errSkipped }
