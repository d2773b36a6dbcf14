package httpclient

import (
	"context"
	"net/http/httptrace"

	"initbox/internal/poll"
)

// Trace notes what a request with the context returned is doing, for the message
// if that never ends: see [poll.Doing]. The dialer notes what comes before.
func Trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart:    func() { poll.Doing(ctx, "TLS handshake") },
		WroteHeaders:         func() { poll.Doing(ctx, "connected, waiting for the answer") },
		GotFirstResponseByte: func() { poll.Doing(ctx, "reading the answer") },
	})
}
