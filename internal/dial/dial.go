// Package dial connects to hosts by name. Its errors say why a connection failed: package failure classifies them.
package dial

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/resolver"
)

// Dialer connects to a host by name. Its resolver reports why a name does not resolve, which package net's does not,
// and reads resolv.conf whenever that changes. It remembers for how long name servers will repeat that a name does not
// exist: use one Dialer for all attempts at a server.
type Dialer struct {
	resolver *resolver.Resolver
	memory   *resolver.Memory
}

// New returns a dialer that looks names up with r, or as the system is configured if r is nil.
func New(r *resolver.Resolver) *Dialer {
	return &Dialer{cmp.Or(r, new(resolver.Resolver)), new(resolver.Memory)}
}

// attemptDelay is the pause before the next address is tried as well (RFC 8305, section 5).
const attemptDelay = 250 * time.Millisecond

// resolutionDelay is how long the addresses of one family are waited for when
// those of the other are known (RFC 8305, section 3).
const resolutionDelay = 50 * time.Millisecond

// DialContext connects to addr, "host:port". The network is tcp, tcp4 or tcp6.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, poll.Permanent(err)
	}
	addrs, err := d.addresses(ctx, network, host)
	if err != nil {
		return nil, err
	}
	poll.Doing(ctx, "connecting to "+addr)
	winner, outcomes := poll.Race(ctx, len(addrs), attemptDelay, false, func(ctx context.Context, i int) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(addrs[i].String(), port))
	})
	for i, o := range outcomes {
		if o.Value != nil && i != winner {
			o.Value.Close()
		}
	}
	if winner >= 0 {
		return outcomes[winner].Value, nil
	}
	return nil, mostTelling(host, outcomes)
}

// mostTelling picks the most telling error of a host's addresses. While one address hangs, another one's refusal does
// not prove that no server is there; that the Pod has no route for a family says less than either.
func mostTelling(host string, outcomes []poll.Outcome[net.Conn]) error {
	rank := func(err error) int {
		switch failure.Of(err).Class {
		case failure.Refused:
			return 1
		case failure.Unreachable:
			return 2
		}
		return 0
	}
	var worst error
	for _, o := range outcomes {
		switch {
		case !o.Finished:
			return context.DeadlineExceeded
		case worst == nil || rank(o.Err) < rank(worst):
			worst = o.Err
		}
	}
	var dial *net.OpError
	if _, err := netip.ParseAddr(host); err != nil && errors.As(worst, &dial) && dial.Addr != nil {
		return failure.At(dial.Addr.String(), worst) // a name does not say which address it was
	}
	return worst
}

// addresses resolves host, which may be an address already.
func (d *Dialer) addresses(ctx context.Context, network, host string) ([]netip.Addr, error) {
	types := []uint16{dns.TypeA, dns.TypeAAAA}
	switch {
	case strings.HasSuffix(network, "4"):
		types = types[:1]
	case strings.HasSuffix(network, "6"):
		types = types[1:]
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	poll.Doing(ctx, "looking up "+host)
	answer, err := d.resolver.Lookup(ctx, resolver.Query{Name: host, Types: types, Grace: resolutionDelay, Memory: d.memory})
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, rr := range answer.Records {
		switch rr := rr.(type) {
		case *dns.A:
			if addr, ok := netip.AddrFromSlice(rr.A.To4()); ok {
				addrs = append(addrs, addr)
			}
		case *dns.AAAA:
			if addr, ok := netip.AddrFromSlice(rr.AAAA.To16()); ok {
				addrs = append(addrs, addr)
			}
		}
	}
	if len(addrs) == 0 {
		return nil, failure.New(failure.Unexpected, "%s has no address", host)
	}
	return addrs, nil
}
