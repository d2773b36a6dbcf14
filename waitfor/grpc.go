package waitfor

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
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

const healthMethod = "/grpc.health.v1.Health/Check"

// serving is nil if the health service's answer is that.
func (a grpcAnswer) serving() error {
	status, err := healthStatus(a.frame)
	if err != nil {
		return err
	}
	if status != servingStatus {
		f := failure.New(failure.Unexpected, "the service says %s", statusName(status))
		f.Hint = "the server runs but does not call itself ready: look at its log"
		return f
	}
	return nil
}

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
	frame, err := io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
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

// healthRequest returns the HealthCheckRequest: field 1 is the service.
func healthRequest(service string) []byte { return protoText(nil, 1, service) }

// servingStatus is SERVING in HealthCheckResponse.ServingStatus.
const servingStatus = 1

func statusName(s uint64) string {
	switch s {
	case 0:
		return "UNKNOWN"
	case 1:
		return "SERVING"
	case 2:
		return "NOT_SERVING"
	case 3:
		return "SERVICE_UNKNOWN"
	}
	return fmt.Sprintf("status %d", s)
}

// grpcFailure says in words what a grpc-status other than OK means here.
func grpcFailure(status string) error {
	switch status {
	case "0":
		return nil
	case "5":
		f := failure.New(failure.Unexpected, "the server does not know the service (NOT_FOUND)")
		f.Hint = "is the service's name right? without one, the whole server is asked"
		return f
	case "7", "16":
		return failure.New(failure.Authentication, "the server refuses to tell (gRPC status %s)", status)
	case "12":
		f := failure.New(failure.Unexpected, "the server has no health service (UNIMPLEMENTED)")
		f.Hint = "register grpc.health.v1.Health in the server, or wait for its port with tcp://"
		return f
	case "14":
		return failure.New(failure.Unexpected, "the server is unavailable (UNAVAILABLE)")
	case "":
		return failure.New(failure.Unexpected, "the answer has no gRPC status")
	}
	if len(status) > 3 {
		status = "unknown"
	}
	return failure.New(failure.Unexpected, "gRPC status %s", status)
}

// healthStatus reads the framed HealthCheckResponse: field 1 is the status, and
// absent if 0. Fields that it may have one day are passed over.
func healthStatus(frame []byte) (status uint64, err error) {
	message, ok := grpcMessage(frame)
	if !ok || !protoFields(message, func(field, number uint64, text []byte) {
		if field == 1 && text == nil {
			status = number
		}
	}) {
		return 0, failure.New(failure.Unexpected, "the health service's answer is malformed")
	}
	return status, nil
}
