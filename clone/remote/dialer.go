package remote

import (
	"context"
	"net"

	"initbox/internal/dial"
)

// dialFunc connects to HOST:PORT.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer returns a function that connects according to the options. Its connections fail when the other side is silent
// for too long.
func (o Options) dialer() dialFunc { return dial.Stalling(dial.New(o.Resolver).DialContext, o.Stall) }
