package waitfor

import (
	"context"
	"net/http/httptrace"

	"initbox/internal/poll"
)

// trace notes what a request is doing, for the message if that never ends.
func trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart:    func() { poll.Doing(ctx, "TLS handshake") },
		WroteHeaders:         func() { poll.Doing(ctx, "connected, waiting for the answer") },
		GotFirstResponseByte: func() { poll.Doing(ctx, "reading the answer") },
	})
}
