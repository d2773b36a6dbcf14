package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// zone is where the benchmarks' names live: it looks like a cluster's.
const zone = "svc.cluster.local."

// nameOf returns the name of the n-th trial. Each is in a zone of its own: unbound keeps one SOA record per zone, whose
// TTL runs out with the first name that was denied, so that names in one zone would change each other's figures.
func nameOf(n int) string { return fmt.Sprintf("mydb.ns-%d.%s", n, zone) }

// An authority is the authoritative name server of all zones below one, in which names appear when told. Until then it
// answers NXDOMAIN, with an SOA that lets caches repeat that for minimum seconds (RFC 2308 §5).
type authority struct {
	host    string
	port    int
	zone    string
	minimum uint32
	stop    func() error

	mu      sync.Mutex
	present map[string]bool
	denied  map[string]time.Time // when NXDOMAIN was last answered for A
}

func newAuthority(host string, port int, zone string, minimum uint32) (*authority, error) {
	a := &authority{
		host: host, port: port, zone: zone, minimum: minimum,
		present: map[string]bool{}, denied: map[string]time.Time{},
	}
	var err error
	a.stop, err = serveDNS(host, port, a)
	return a, err
}

func (a *authority) close() error { return a.stop() }

// service returns a name that is published when the service opens.
func (a *authority) service(b *bench, n int) (*service, error) {
	name := nameOf(n)
	vars := b.vars(a.host)
	vars["name"] = name[:len(name)-1]
	return &service{
		vars:  vars,
		open:  func() error { a.publish(name); return nil },
		close: func() error { return nil },
	}, nil
}

func (a *authority) publish(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.present[name] = true
}

// lastDenied returns when a question for name's A records was last answered with
// NXDOMAIN, and whether the name has been published since.
func (a *authority) lastDenied(name string) (at time.Time, published bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.denied[name], a.present[name]
}

// ServeDNS implements [dns.Handler].
func (a *authority) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	m.Authoritative = true
	if len(q.Question) != 1 {
		m.Rcode = dns.RcodeFormatError
		w.WriteMsg(m)
		return
	}
	a.answer(m)
	// A client that is gone needs no answer.
	_ = w.WriteMsg(m)
}

func (a *authority) answer(m *dns.Msg) {
	question := m.Question[0]
	name := dns.CanonicalName(question.Name)
	a.mu.Lock()
	defer a.mu.Unlock()
	header := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: 30}
	switch {
	case a.present[name] && question.Qtype == dns.TypeA:
		m.Answer = []dns.RR{&dns.A{Hdr: header, A: net.IPv4(127, 0, 0, 1)}}
		return
	case !a.present[name]:
		m.Rcode = dns.RcodeNameError
		if question.Qtype == dns.TypeA {
			a.denied[name] = time.Now()
		}
	}
	_, apex, _ := strings.Cut(name, ".")
	m.Ns = []dns.RR{&dns.SOA{
		Hdr:    dns.RR_Header{Name: apex, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: a.minimum},
		Ns:     "ns." + apex,
		Mbox:   "hostmaster." + apex,
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: a.minimum,
	}}
}

// A counter stands before a name server, passes every question on and counts it.
type counter struct {
	upstream string
	queries  atomic.Int64
}

// ServeDNS implements [dns.Handler].
func (c *counter) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	c.queries.Add(1)
	client := dns.Client{Net: w.LocalAddr().Network(), Timeout: 5 * time.Second}
	answer, _, err := client.Exchange(q, c.upstream)
	if err != nil {
		return // as if lost: the waiter's own timeout decides
	}
	// A client that is gone needs no answer.
	_ = w.WriteMsg(answer)
}

// serveDNS answers on UDP and TCP until the function it returns is called.
func serveDNS(host string, port int, h dns.Handler) (stop func() error, err error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	packets, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		packets.Close()
		return nil, err
	}
	udp, tcp := &dns.Server{PacketConn: packets, Handler: h}, &dns.Server{Listener: l, Handler: h}
	for _, s := range []*dns.Server{udp, tcp} {
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		go s.ActivateAndServe()
		<-up // Shutdown fails before that
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return errors.Join(udp.ShutdownContext(ctx), tcp.ShutdownContext(ctx))
	}, nil
}
