package resolver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"initbox/internal/poll"
)

// headStart is how long one server, or one search name, is waited for before the next is asked beside it.
const headStart = time.Second

// udpBuffer has room for servers that send more than is asked for, as much as was usual before the flag day.
const udpBuffer = 4096

// ednsSize is the UDP payload that fits any path without fragments (DNS flag day 2020; RFC 9715).
const ednsSize = 1232

// Asking begins what an attempt is doing ([poll.Doing]) while it waits for a name server.
const Asking = "asking name server"

// exchange asks the servers of c for name and type until one of them gives an
// answer that says something about the name: data, no data or no such name.
func (c config) exchange(ctx context.Context, name string, qtype uint16, first int) (*dns.Msg, netip.AddrPort, error) {
	type answer struct {
		msg    *dns.Msg
		server netip.AddrPort
	}
	var failed sync.Map // by server, those that have said they can't: once is enough
	winner, outcomes := poll.Race(ctx, c.attempts*len(c.servers), min(headStart, c.timeout), false,
		func(ctx context.Context, i int) (answer, error) {
			server := c.servers[(first+i)%len(c.servers)]
			if err, ok := failed.Load(server); ok {
				return answer{}, err.(error)
			}
			poll.Doing(ctx, fmt.Sprintf("%s %v", Asking, server)) // not the name: the search list has several
			ctx, cancel := context.WithTimeout(ctx, c.timeout)
			defer cancel()
			msg, err := ask(ctx, server, name, qtype, c.useTCP)
			if err == nil && msg.Rcode != dns.RcodeSuccess && msg.Rcode != dns.RcodeNameError {
				err = &Error{Kind: rcodeKind(msg.Rcode), Detail: dns.RcodeToString[msg.Rcode]}
			}
			if err != nil {
				e := asError(err)
				e.Name, e.Type, e.Server = name, qtype, server.String()
				if e.Kind != TimedOut {
					failed.Store(server, e)
				}
				return answer{}, e
			}
			return answer{msg, server}, nil
		})
	if winner >= 0 {
		return outcomes[winner].Value.msg, outcomes[winner].Value.server, nil
	}
	return nil, netip.AddrPort{}, worst(outcomes, &Error{Kind: TimedOut, Name: name, Type: qtype, Server: c.servers[first%len(c.servers)].String()})
}

// worst picks the failure that says most: a server that answered with an error over one that did not answer.
func worst[T any](outcomes []poll.Outcome[T], silent *Error) error {
	for _, o := range outcomes {
		if e := new(Error); errors.As(o.Err, &e) && e.Kind != TimedOut {
			return e
		}
	}
	return silent
}

func rcodeKind(rcode int) Kind {
	if rcode == dns.RcodeRefused {
		return Refused
	}
	return ServerFailure
}

// ask puts one question to one server: over UDP from a fresh port (RFC 5452),
// with EDNS0 unless the server does not know it, over TCP if the answer was cut.
func ask(ctx context.Context, server netip.AddrPort, name string, qtype uint16, useTCP bool) (*dns.Msg, error) {
	query := new(dns.Msg).SetQuestion(name, qtype) // with a random ID, which is half of what keeps a forged answer out
	query.SetEdns0(ednsSize, false)

	network := "udp"
	if useTCP {
		network = "tcp"
	}
	reply, err := roundTrip(ctx, network, server, query)
	if err == nil && (reply.Rcode == dns.RcodeFormatError || reply.Rcode == dns.RcodeNotImplemented || reply.Rcode == dns.RcodeBadVers) {
		query.Extra, query.Id = nil, dns.Id() // RFC 6891, section 7
		reply, err = roundTrip(ctx, network, server, query)
	}
	if err == nil && reply.Truncated && network == "udp" {
		reply, err = roundTrip(ctx, "tcp", server, query)
	}
	return reply, err
}

// roundTrip sends query and reads until its answer comes. Over UDP it ignores anything else that arrives, which may be
// forged; if nothing else arrives, the error says so.
func roundTrip(ctx context.Context, network string, server netip.AddrPort, query *dns.Msg) (*dns.Msg, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// An expired deadline ends reads and writes when ctx does.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	wire, err := query.Pack()
	if err != nil {
		return nil, poll.Permanent(err)
	}
	d := &dns.Conn{Conn: conn, UDPSize: dns.MaxMsgSize}
	if _, err := d.Write(wire); err != nil {
		return nil, err
	}
	var odd error
	size := udpBuffer
	if network == "tcp" {
		size = dns.MaxMsgSize
	}
	buf := make([]byte, size)
	for {
		n, err := d.Read(buf)
		if err != nil {
			if odd != nil && ctx.Err() != nil {
				return nil, odd
			}
			return nil, err
		}
		reply, err := parseReply(buf[:n], query)
		if err == nil {
			return reply, nil
		}
		odd = err
		if e := new(Error); errors.As(err, &e) {
			poll.Doing(ctx, fmt.Sprintf("%s %v (ignored: %s)", Asking, server, e.Detail))
		}
		if network == "tcp" {
			return nil, odd
		}
	}
}

// parseReply reads the answer to query from the wire.
func parseReply(wire []byte, query *dns.Msg) (*dns.Msg, error) {
	reply := new(dns.Msg)
	if err := reply.Unpack(wire); err != nil && !reply.Truncated {
		return nil, &Error{Kind: Malformed, Detail: "malformed answer"}
	}
	switch {
	case !reply.Response || reply.Id != query.Id:
		return nil, &Error{Kind: Malformed, Detail: "answer to another question"}
	case len(reply.Question) == 0 && (reply.Rcode == dns.RcodeFormatError || reply.Rcode == dns.RcodeNotImplemented):
		return reply, nil // some servers do not repeat a question they could not read
	case len(reply.Question) != 1 || reply.Question[0].Qtype != query.Question[0].Qtype ||
		!strings.EqualFold(reply.Question[0].Name, query.Question[0].Name):
		return nil, &Error{Kind: Malformed, Detail: "answer to another question"}
	case !reply.Truncated && !slices.Equal(counts(wire), []int{len(reply.Question), len(reply.Answer), len(reply.Ns), len(reply.Extra)}):
		return nil, &Error{Kind: Malformed, Detail: "malformed answer: it has fewer records than its header says"} // package dns accepts it
	}
	return reply, nil
}

// counts returns how many questions, answers, and authoritative and additional records a message has, as its header
// says (RFC 1035, section 4.1.1).
func counts(wire []byte) (n []int) {
	for at := 4; at < 12; at += 2 {
		n = append(n, int(binary.BigEndian.Uint16(wire[at:])))
	}
	return n
}

// asError classes what package net said.
func asError(err error) *Error {
	var e *Error
	var netErr net.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.As(err, &netErr) && netErr.Timeout():
		return &Error{Kind: TimedOut}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Error{Kind: Refused, Detail: "connection refused"}
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return &Error{Kind: Unreachable, Detail: "network is unreachable"}
	}
	var sys *net.OpError
	if errors.As(err, &sys) {
		err = sys.Err
	}
	return &Error{Kind: ServerFailure, Detail: fmt.Sprint(err)}
}
