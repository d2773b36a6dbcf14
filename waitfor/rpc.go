package waitfor

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/tlsconfig"
)

// A grpcClient calls methods over net/http's HTTP/2: a message of a few fields each
// way needs no gRPC library (3.9 MB).
//
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
type grpcClient struct {
	options httpclient.Options
	scheme  string
}

func newGRPC(d *dial.Dialer, tls tlsconfig.Options, encrypted bool) grpcClient {
	g := grpcClient{httpclient.Options{Dial: bounded(conversationLimit, d.DialContext), TLS: tls, NoProxy: true, NoRedirect: true, Protocol: httpclient.H2C}, "http"}
	if encrypted {
		g.scheme, g.options.Protocol = "https", httpclient.HTTP2
	}
	return g
}

// grpcAnswer is what a method answered.
type grpcAnswer struct {
	status string // grpc-status: a number, or "" if there is none
	words  string // grpc-message, as the server wrote it
	frame  []byte // the message with its header
}

// call calls a method of the server at addr. The header may be nil.
func (g grpcClient) call(ctx context.Context, addr, method string, message []byte, header http.Header) (grpcAnswer, error) {
	u := &url.URL{Scheme: g.scheme, Host: addr, Path: method}
	req, err := newRequest(ctx, http.MethodPost, u, bytes.NewReader(grpcFrame(message)))
	if err != nil {
		return grpcAnswer{}, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := httpclient.Do(req, g.options)
	if err != nil {
		return grpcAnswer{}, failure.HTTP(err, req.URL.Host)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/grpc") {
		f := failure.New(failure.Unexpected, "the answer is not gRPC but HTTP with status %d", resp.StatusCode)
		f.Hint = "is it the gRPC port?"
		return grpcAnswer{}, f
	}
	frame, err := io.ReadAll(io.LimitReader(resp.Body, conversationLimit))
	if err != nil {
		return grpcAnswer{}, failure.HTTP(err, req.URL.Host)
	}
	trailer := resp.Trailer
	if trailer.Get("Grpc-Status") == "" {
		trailer = resp.Header // an answer without a message has its trailer there
	}
	words := trailer.Get("Grpc-Message") // percent-encoded, perhaps badly
	if decoded, err := url.PathUnescape(words); err == nil {
		words = decoded
	}
	return grpcAnswer{trailer.Get("Grpc-Status"), words, frame}, nil
}

// grpcFrame puts the header before a message: whether it is compressed, and how long
// it is.
func grpcFrame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// grpcMessage takes the header off. It reports whether that is all there is, and not
// compressed, which was not asked for.
func grpcMessage(frame []byte) ([]byte, bool) {
	if len(frame) < 5 || frame[0] != 0 || uint64(binary.BigEndian.Uint32(frame[1:5])) != uint64(len(frame)-5) {
		return nil, false
	}
	return frame[5:], true
}
