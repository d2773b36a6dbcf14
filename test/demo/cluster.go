package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// The addresses of the services. No client connects to myservice, so the machine does not need that address: outside
// Linux, 127.0.0.1 is the only loopback address.
const (
	namespace        = "default.svc.cluster.local."
	myserviceAddress = "127.0.0.10"
	mydbAddress      = "127.0.0.1"
)

// A cluster is the part of one that the Pod sees: a name server, and mydb behind a port on which nothing listens at
// first.
type cluster struct {
	dns     *nameServer
	mydb    *http.Server
	port    int // of mydb
	healthy atomic.Bool

	mu      sync.Mutex
	changed time.Time
}

func newCluster() (*cluster, error) {
	c := new(cluster)
	var err error
	if c.port, err = freePort(); err != nil {
		return nil, err
	}
	if c.dns, err = newNameServer(); err != nil {
		return nil, err
	}
	c.mydb = &http.Server{Handler: http.HandlerFunc(c.healthz), ReadHeaderTimeout: 5 * time.Second}
	return c, nil
}

// freePort finds a port for mydb, below the range of outgoing connections: otherwise, a client that calls the closed
// port could get the same port for its own end, and connect to itself.
func freePort() (int, error) {
	for port := 8080; port < 8180; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort(mydbAddress, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("every port from 8080 to 8179 is in use")
}

func (c *cluster) close() {
	c.mydb.Close()
	c.dns.close()
}

func (c *cluster) healthz(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/healthz":
		http.NotFound(w, r)
	case !c.healthy.Load():
		http.Error(w, "mydb is recovering", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

// play makes the cluster's changes, one event after the other, until the last or the end of ctx. Each event comes a
// while after an init container has logged the state before it.
func (c *cluster) play(ctx context.Context, pace time.Duration, out *transcript) error {
	address := net.JoinHostPort(mydbAddress, strconv.Itoa(c.port))
	events := []struct {
		container, logs string // must be logged first
		what            string
		do              func() error
	}{
		{"init-myservice", "no such name", "service myservice created: " + myserviceAddress, func() error {
			return c.dns.publish("myservice."+namespace, myserviceAddress)
		}},
		{"init-mydb", "no such name", "service mydb created: " + mydbAddress + ", nothing listening yet", func() error {
			return c.dns.publish("mydb."+namespace, mydbAddress)
		}},
		{"init-mydb", "refused", fmt.Sprintf("mydb listens on port %d, and answers 503: recovering", c.port), func() error {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return err
			}
			go c.mydb.Serve(l)
			return nil
		}},
		{"init-mydb", "503", "mydb has recovered, and answers 200", func() error {
			c.healthy.Store(true)
			return nil
		}},
	}
	for _, e := range events {
		if !out.await(ctx, e.container, e.logs) || !sleep(ctx, pace) {
			return nil
		}
		out.say(speaker{"cluster", 36}, "%s", e.what)
		c.noteChange()
		if err := e.do(); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// noteChange is called before the change, which an init container may see at once.
func (c *cluster) noteChange() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = time.Now()
}

func (c *cluster) lastChange() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// A nameServer answers every query with authority, as a cluster's appears to do to its Pods. Names exist once they are
// published.
type nameServer struct {
	addr    string
	servers []*dns.Server

	mu    sync.Mutex
	names map[string]net.IP
}

func newNameServer() (*nameServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	packets, err := net.ListenPacket("udp", l.Addr().String())
	if err != nil {
		l.Close()
		return nil, err
	}
	n := &nameServer{addr: l.Addr().String(), names: make(map[string]net.IP)}
	n.servers = []*dns.Server{{Listener: l, Handler: n}, {PacketConn: packets, Handler: n}}
	for _, s := range n.servers {
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		go s.ActivateAndServe()
		<-up // a server that has not started cannot be shut down
	}
	return n, nil
}

func (n *nameServer) close() {
	for _, s := range n.servers {
		s.Shutdown()
	}
}

func (n *nameServer) publish(name, address string) error {
	ip := net.ParseIP(address).To4()
	if ip == nil {
		return fmt.Errorf("%s: %q is not an IPv4 address", name, address)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = ip
	return nil
}

// ServeDNS implements [dns.Handler].
func (n *nameServer) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	m.Authoritative = true
	if len(q.Question) == 1 {
		n.answer(m)
	} else {
		m.Rcode = dns.RcodeFormatError
	}
	w.WriteMsg(m) // an error means that the client has gone
}

// ttl is CoreDNS's for the names of a cluster, and for denials.
const ttl = 5

func (n *nameServer) answer(m *dns.Msg) {
	question := m.Question[0]
	n.mu.Lock()
	ip, exists := n.names[dns.CanonicalName(question.Name)]
	n.mu.Unlock()
	header := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: ttl}
	if exists && question.Qtype == dns.TypeA {
		m.Answer = []dns.RR{&dns.A{Hdr: header, A: ip}}
		return
	}
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
	zone := "." // for the names outside the cluster's domain, the last in the search list
	if dns.IsSubDomain("cluster.local.", question.Name) {
		zone = "cluster.local."
	}
	m.Ns = []dns.RR{&dns.SOA{
		Hdr:    dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:     "ns.dns.cluster.local.",
		Mbox:   "hostmaster.cluster.local.",
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}}
}
