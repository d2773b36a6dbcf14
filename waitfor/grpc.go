package waitfor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

var grpcKind = Kind{
	Schemes:  []string{"grpc", "grpcs"},
	Usage:    "grpc://HOST:PORT[/SERVICE]",
	Ready:    "the gRPC health service says SERVING",
	Settings: tlsSettings,
	parse:    parseGRPC,
}

// grpcCheck asks the gRPC health checking protocol, version 1, over net/http's
// HTTP/2: one message of one field each way needs no gRPC library (3.9 MB).
//
// https://github.com/grpc/grpc/blob/master/doc/health-checking.md
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
type grpcCheck struct {
	*target
	client  httpclient.Options
	url     string
	request []byte
}

func parseGRPC(t *target) (Check, error) {
	if err := t.only("path"); err != nil {
		return nil, err
	}
	addr, err := t.addr()
	if err != nil {
		return nil, err
	}
	c := grpcCheck{target: t, request: healthRequest(strings.TrimPrefix(t.url.Path, "/"))}
	c.client = httpclient.Options{Dial: dial.New(t.resolver).DialContext, TLS: t.settings.tls(), NoProxy: true, NoRedirect: true}
	scheme := "http"
	c.client.Protocol = httpclient.H2C
	if t.scheme == "grpcs" {
		scheme, c.client.Protocol = "https", httpclient.HTTP2
	}
	c.url = (&url.URL{Scheme: scheme, Host: addr, Path: "/grpc.health.v1.Health/Check"}).String()
	return c, nil
}

// healthRequest returns the framed HealthCheckRequest: field 1 is the service.
func healthRequest(service string) []byte {
	var message []byte
	if service != "" {
		message = binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service)))
		message = append(message, service...)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) // 0: not compressed
	return append(frame, message...)
}

func (c grpcCheck) Check(ctx context.Context) error {
	req, err := http.NewRequestWithContext(httpclient.Trace(ctx), http.MethodPost, c.url, bytes.NewReader(c.request))
	if err != nil {
		return poll.Permanent(errors.New("host or port is not valid"))
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("User-Agent", "initbox")
	resp, err := httpclient.Do(req, c.client)
	if err != nil {
		return failure.HTTP(err, req.URL.Host)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/grpc") {
		f := failure.New(failure.Unexpected, "the answer is not gRPC but HTTP with status %d", resp.StatusCode)
		f.Hint = "is it the gRPC port?"
		return f
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
	if err != nil {
		return failure.HTTP(err, req.URL.Host)
	}
	status := resp.Trailer.Get("Grpc-Status")
	if status == "" {
		status = resp.Header.Get("Grpc-Status") // an answer without a message has its trailer in the header
	}
	if err := grpcFailure(status); err != nil {
		return err
	}
	serving, err := healthStatus(body)
	if err != nil {
		return err
	}
	if serving != servingStatus {
		f := failure.New(failure.Unexpected, "the service says %s", statusName(serving))
		f.Hint = "the server runs but does not call itself ready: look at its log"
		return f
	}
	return nil
}

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
func healthStatus(frame []byte) (uint64, error) {
	malformed := failure.New(failure.Unexpected, "the health service's answer is malformed")
	if len(frame) < 5 || frame[0] != 0 || uint64(binary.BigEndian.Uint32(frame[1:5])) != uint64(len(frame)-5) {
		return 0, malformed
	}
	var status uint64
	for message := frame[5:]; len(message) > 0; {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return 0, malformed
		}
		message = message[n:]
		skip := uint64(0)
		switch tag & 7 {
		case 0: // a varint
			v, n := binary.Uvarint(message)
			if n <= 0 {
				return 0, malformed
			}
			if tag>>3 == 1 {
				status = v
			}
			skip = uint64(n)
		case 1:
			skip = 8
		case 2: // a length, then as many bytes
			length, n := binary.Uvarint(message)
			if n <= 0 || length > uint64(len(message)) {
				return 0, malformed
			}
			skip = uint64(n) + length
		case 5:
			skip = 4
		default:
			return 0, malformed
		}
		if skip > uint64(len(message)) {
			return 0, malformed
		}
		message = message[skip:]
	}
	return status, nil
}
