// Package resolver is a stub resolver (RFC 1034, section 5.3.1) that reports why a name does
// not resolve: [Resolver.Lookup] returns a [Failure] with an [Error] for each name and type.
//
// It reads resolv.conf and hosts as the C library does, and differs where the libraries of small images go wrong: a
// search name whose lookup fails does not end the search, a missing AAAA does not hide an A, no server and no search
// name is waited for longer than a second before the next is asked as well, and negative caches are not queried
// before their entries expire ([Memory]).
package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"initbox/internal/poll"
)

// Kind is why a name has no answer.
type Kind string

const (
	NoSuchName    Kind = "no such name"      // NXDOMAIN
	NoData        Kind = "no data"           // the name exists, without records of the type
	ServerFailure Kind = "server failure"    // SERVFAIL and the other codes that say nothing of the name
	Refused       Kind = "refused"           // REFUSED, or nothing listens there
	TimedOut      Kind = "timed out"         // no answer
	Unreachable   Kind = "unreachable"       // no route to the server
	Malformed     Kind = "unexpected answer" // not an answer to the question
)

// Gone reports whether the answer says that there is nothing, as opposed to being unable to say.
func (k Kind) Gone() bool { return k == NoSuchName || k == NoData }

// Error is why one name has no records of one type.
type Error struct {
	Kind   Kind
	Name   string        // absolute: "mydb.default.svc.cluster.local."
	Type   uint16        // dns.TypeA …
	Server string        // address and port, or the hosts file
	Detail string        // the server's code, the alias followed; may be empty
	Cached time.Duration // how much longer a cache will repeat this; 0 if unknown
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(e.Name, "."))
	switch e.Kind {
	case NoSuchName:
		b.WriteString(": no such name")
	case NoData:
		fmt.Fprintf(&b, ": no data of type %s", dns.TypeToString[e.Type])
	case TimedOut:
		fmt.Fprintf(&b, ": no answer from name server %s", e.Server)
	default:
		fmt.Fprintf(&b, ": name server %s: %s", e.Server, e.Kind)
	}
	if e.Detail != "" && e.Detail != string(e.Kind) {
		fmt.Fprintf(&b, " (%s)", e.Detail)
	}
	return b.String()
}

// Resolver looks names up. The zero value reads /etc/resolv.conf and /etc/hosts.
type Resolver struct {
	Servers    []netip.AddrPort // in place of resolv.conf's
	ResolvConf string           // /etc/resolv.conf if empty
	Hosts      string           // /etc/hosts if empty

	config file[config]
	hosts  file[hosts]
	turn   atomic.Uint32 // for options rotate
	good   atomic.Int32  // the server that answered last: one that is down costs a second once
}

// Query is what to look up.
type Query struct {
	Name  string   // relative names go through the search list, "x." does not
	Types []uint16 // data of any of them answers the query

	// Grace is how long, once there is data of one type, the other types are
	// waited for: a server may be silent on one of them.
	Grace time.Duration

	Memory *Memory // nil: ask every time
}

// Answer is what was found under the first of the search names that exists.
type Answer struct {
	Name    string   // absolute
	Server  string   // that answered
	Records []dns.RR // of the types asked for, aliases followed
	Missing []*Error // the types without records
}

// Failure is why a query has no answer: an [Error] for each name and type.
type Failure struct {
	Tried []*Error
}

// Most returns the most telling error: first those that leave open whether the name exists,
// then a name without the data, then no such name.
func (f *Failure) Most() *Error {
	rank := func(e *Error) int {
		switch e.Kind {
		case NoSuchName:
			return 2
		case NoData:
			return 1
		}
		return 0
	}
	return slices.MinFunc(f.Tried, func(a, b *Error) int { return rank(a) - rank(b) })
}

// Gone reports whether every name and type is known to have nothing.
func (f *Failure) Gone() bool {
	return !slices.ContainsFunc(f.Tried, func(e *Error) bool { return !e.Kind.Gone() })
}

func (f *Failure) Error() string { return f.Most().Error() }
func (f *Failure) Unwrap() error { return f.Most() }

// Names returns the absolute names that were tried, in order.
func (f *Failure) Names() []string {
	var names []string
	for _, e := range f.Tried {
		if name := strings.TrimSuffix(e.Name, "."); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Lookup answers q, or returns a [Failure]; where a negative cache makes an
// early repetition pointless, that carries a [poll.After].
func (r *Resolver) Lookup(ctx context.Context, q Query) (*Answer, error) {
	if _, ok := dns.IsDomainName(q.Name); !ok || q.Name == "" {
		return nil, poll.Permanent(fmt.Errorf("%q is not a domain name", q.Name))
	}
	if answer := r.fromHosts(q); answer != nil {
		return answer, nil
	}
	c := r.currentConfig()
	names := []string{dns.CanonicalName(q.Name)}
	if !strings.HasSuffix(q.Name, ".") {
		names = c.candidates(q.Name)
	}
	winner, outcomes := poll.Race(ctx, len(names), headStart, true, func(ctx context.Context, i int) (*Answer, error) {
		// A server that is silent on one name must leave time for the others,
		// though enough to say what it was silent on.
		ctx, cancel := context.WithTimeout(ctx, c.timeout+100*time.Millisecond)
		defer cancel()
		return r.lookupName(ctx, c, names[i], q)
	})
	if winner >= 0 {
		return outcomes[winner].Value, nil
	}
	failure := new(Failure)
	for i, o := range outcomes {
		var f *Failure
		if errors.As(o.Err, &f) {
			failure.Tried = append(failure.Tried, f.Tried...)
		} else { // never started, or cut short
			failure.Tried = append(failure.Tried, &Error{Kind: TimedOut, Name: names[i], Type: q.Types[0], Server: c.servers[0].String()})
		}
	}
	return nil, q.Memory.pace(failure)
}

func (r *Resolver) currentConfig() config {
	c := r.config.get(cmp.Or(r.ResolvConf, "/etc/resolv.conf"), parseConfig)
	if len(r.Servers) > 0 {
		c.servers = r.Servers
	}
	return c
}

// lookupName asks for all types of one absolute name at once.
func (r *Resolver) lookupName(ctx context.Context, c config, name string, q Query) (*Answer, error) {
	types := q.Types
	failure := new(Failure)
	if len(types) > 1 && q.Memory.noSuchName(name, types) {
		// "No such name" is about all types (RFC 8020), so that one question shows whether anything changed.
		records, server, err := r.lookupType(ctx, c, name, types[0], q.Memory)
		if err != nil && err.Kind == NoSuchName {
			failure.Tried = append(failure.Tried, err)
			return nil, failure
		}
		if len(records) > 0 && q.Grace == 0 {
			return &Answer{Name: name, Server: server, Records: records}, nil
		}
	}

	type finding struct {
		index   int
		records []dns.RR
		server  string
		err     *Error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan finding, len(types))
	for i, t := range types {
		go func() {
			records, server, err := r.lookupType(ctx, c, name, t, q.Memory)
			results <- finding{i, records, server, err}
		}()
	}
	answer := &Answer{Name: name}
	findings := make([]finding, len(types)) // in the order of the types, so that messages do not vary
	for range types {
		f := <-results
		findings[f.index] = f
		if f.err != nil {
			continue
		}
		answer.Server = f.server
		if q.Grace == 0 {
			answer.Records = f.records
			return answer, nil
		}
		grace, stop := context.WithTimeout(ctx, q.Grace)
		defer stop()
		context.AfterFunc(grace, cancel)
	}
	for _, f := range findings {
		answer.Records = append(answer.Records, f.records...)
		if f.err != nil {
			failure.Tried = append(failure.Tried, f.err)
		}
	}
	if len(answer.Records) == 0 {
		return nil, failure
	}
	answer.Missing = failure.Tried
	return answer, nil
}

// lookupType asks for one type of one absolute name.
func (r *Resolver) lookupType(ctx context.Context, c config, name string, qtype uint16, m *Memory) ([]dns.RR, string, *Error) {
	if err := m.recall(name, qtype); err != nil {
		return nil, "", err
	}
	first := int(r.good.Load()) % len(c.servers)
	if c.rotate {
		first = int(r.turn.Add(1)-1) % len(c.servers)
	}
	msg, server, err := c.exchange(ctx, name, qtype, first)
	if err == nil {
		r.good.Store(int32(slices.Index(c.servers, server)))
	}
	if err != nil {
		e := asError(err)
		if ctx.Err() == nil || e.Kind != TimedOut {
			m.forget(name, qtype)
		}
		return nil, "", e
	}
	records, alias, looped := follow(msg, name, qtype)
	if len(records) > 0 {
		m.forget(name, qtype)
		return records, server.String(), nil
	}
	e := &Error{Kind: NoData, Name: name, Type: qtype, Server: server.String()}
	switch {
	case looped:
		e.Kind, e.Detail = ServerFailure, "the aliases form a loop"
	case msg.Rcode == dns.RcodeNameError:
		e.Kind = NoSuchName
	case referral(msg):
		e.Kind, e.Detail = ServerFailure, "it refers to other servers instead of answering"
	}
	if !e.Kind.Gone() {
		m.forget(name, qtype)
		return nil, "", e
	}
	if alias != name {
		e.Detail = "alias of " + strings.TrimSuffix(alias, ".")
	}
	m.learn(e, negativeTTL(msg), time.Now())
	return nil, "", e
}

// follow returns the records of qtype for name in msg and the name at the end of
// the aliases that lead there, or that they form a loop.
func follow(msg *dns.Msg, name string, qtype uint16) (records []dns.RR, alias string, looped bool) {
	alias = name
	for range len(msg.Answer) + 1 { // a longer chain than there are records is a loop
		next := ""
		for _, rr := range msg.Answer {
			if !strings.EqualFold(rr.Header().Name, alias) || rr.Header().Class != dns.ClassINET {
				continue
			}
			if rr.Header().Rrtype == qtype && !empty(rr) {
				records = append(records, rr)
			} else if c, ok := rr.(*dns.CNAME); ok && c.Target != "" {
				next = dns.CanonicalName(c.Target)
			}
		}
		if len(records) > 0 || next == "" {
			return records, alias, false
		}
		alias = next
	}
	return nil, alias, true
}

// empty reports whether rr has no data, which the wire format allows and a
// dynamic update uses; as an answer it says nothing.
func empty(rr dns.RR) bool {
	switch rr := rr.(type) {
	case *dns.A:
		return len(rr.A) == 0
	case *dns.AAAA:
		return len(rr.AAAA) == 0
	}
	return rr.Header().Rdlength == 0
}

// referral reports whether msg names other servers and nothing else, which is no answer (RFC 2308, section 2.2).
func referral(msg *dns.Msg) bool {
	names := false
	for _, rr := range msg.Ns {
		switch rr.(type) {
		case *dns.SOA:
			return false
		case *dns.NS:
			names = true
		}
	}
	return names && len(msg.Answer) == 0
}

// negativeTTL returns for how long a cache may repeat that there is nothing
// (RFC 2308, section 5), in whole seconds, or -1 if msg does not say.
func negativeTTL(msg *dns.Msg) int {
	for _, rr := range msg.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return int(min(soa.Hdr.Ttl, soa.Minttl))
		}
	}
	return -1
}

// fromHosts answers q from the hosts file, or returns nil.
func (r *Resolver) fromHosts(q Query) *Answer {
	name := cmp.Or(r.Hosts, "/etc/hosts")
	h := r.hosts.get(name, parseHosts)
	answer := &Answer{Name: dns.CanonicalName(q.Name), Server: name}
	for _, t := range q.Types {
		found := len(answer.Records)
		header := dns.RR_Header{Name: answer.Name, Rrtype: t, Class: dns.ClassINET}
		switch t {
		case dns.TypeA, dns.TypeAAAA:
			for _, addr := range h.addrs[answer.Name] {
				if addr.Is4() && t == dns.TypeA {
					answer.Records = append(answer.Records, &dns.A{Hdr: header, A: addr.AsSlice()})
				} else if addr.Is6() && t == dns.TypeAAAA {
					answer.Records = append(answer.Records, &dns.AAAA{Hdr: header, AAAA: addr.AsSlice()})
				}
			}
		case dns.TypePTR:
			for addr, names := range h.names {
				if reverse, err := dns.ReverseAddr(addr.String()); err == nil && reverse == answer.Name {
					for _, n := range names {
						answer.Records = append(answer.Records, &dns.PTR{Hdr: header, Ptr: n})
					}
				}
			}
		}
		if len(answer.Records) == found {
			answer.Missing = append(answer.Missing, &Error{Kind: NoData, Name: answer.Name, Type: t, Server: name})
		}
	}
	if len(answer.Records) == 0 {
		return nil
	}
	return answer
}
