// Package rpc calls methods of gRPC servers, such as those of the health service, without a gRPC library: [AppendText],
// [AppendNumber] and [Fields] write and read messages of a few fields.
package rpc

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
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/httpapi"
)

// A Client calls methods over the HTTP/2 of net/http. A gRPC library would add 3.9 MB.
//
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
type Client struct {
	options httpclient.Options
	scheme  string
}

// New returns a client, with TLS if encrypted is set.
func New(d *dial.Dialer, tls tlsconfig.Options, encrypted bool) Client {
	g := Client{httpclient.Options{Dial: wire.BoundedDial(wire.ConversationLimit, d.DialContext), TLS: tls, NoProxy: true, NoRedirect: true, Protocol: httpclient.H2C}, "http"}
	if encrypted {
		g.scheme, g.options.Protocol = "https", httpclient.HTTP2
	}
	return g
}

// Answer is the answer of a method.
type Answer struct {
	Status string // grpc-status, a number; may be empty
	Words  string // grpc-message, as the server wrote it
	Frame  []byte // the message with its header
}

// Call calls a method of the server at addr. The header may be nil.
func (g Client) Call(ctx context.Context, addr, method string, message []byte, header http.Header) (Answer, error) {
	u := &url.URL{Scheme: g.scheme, Host: addr, Path: method}
	req, err := httpapi.NewRequest(ctx, http.MethodPost, u, bytes.NewReader(Frame(message)))
	if err != nil {
		return Answer{}, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := httpclient.Do(req, g.options)
	if err != nil {
		return Answer{}, failure.HTTP(err, req.URL.Host)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/grpc") {
		return Answer{}, failure.New(failure.Unexpected, "the answer is not gRPC but HTTP with status %d", resp.StatusCode).WithHint("is it the gRPC port?")
	}
	frame, err := io.ReadAll(io.LimitReader(resp.Body, wire.ConversationLimit))
	if err != nil {
		return Answer{}, failure.HTTP(err, req.URL.Host)
	}
	trailer := resp.Trailer
	if trailer.Get("Grpc-Status") == "" {
		trailer = resp.Header // the trailer of an answer without a message
	}
	words := trailer.Get("Grpc-Message") // percent-encoded, perhaps badly
	if decoded, err := url.PathUnescape(words); err == nil {
		words = decoded
	}
	return Answer{trailer.Get("Grpc-Status"), words, frame}, nil
}

// Frame returns a message after its header: a byte for the compression, and the length.
func Frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// Message returns the message in a frame, and whether the frame is whole, holds nothing else, and is uncompressed, as
// requested.
func Message(frame []byte) ([]byte, bool) {
	if len(frame) < 5 || frame[0] != 0 || uint64(binary.BigEndian.Uint32(frame[1:5])) != uint64(len(frame)-5) {
		return nil, false
	}
	return frame[5:], true
}
