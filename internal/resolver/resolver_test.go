package resolver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"initbox/internal/poll"
	"initbox/test/servers"
)

// server is a name server on loopback whose answers are a function.
type server struct {
	addr netip.AddrPort

	mu    sync.Mutex
	asked []string // "A mydb.", over TCP "A mydb. tcp"
	ports []string // that UDP questions came from
}

// answers a question; nil means not at all.
type handler func(q *dns.Msg, tcp bool) *dns.Msg

func serve(t *testing.T, handle handler) *server {
	t.Helper()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", udp.LocalAddr().String())
	for range 100 { // the port may be taken for TCP
		if err == nil {
			break
		}
		udp.Close()
		if udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		tcp, err = net.Listen("tcp", udp.LocalAddr().String())
	}
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(udp.LocalAddr().String())
	s := &server{addr: addr}
	answer := func(isTCP bool) dns.HandlerFunc {
		return func(w dns.ResponseWriter, q *dns.Msg) {
			s.mu.Lock()
			text := dns.TypeToString[q.Question[0].Qtype] + " " + strings.ToLower(q.Question[0].Name)
			if isTCP {
				text += " tcp"
			} else {
				s.ports = append(s.ports, w.RemoteAddr().String())
			}
			s.asked = append(s.asked, text)
			s.mu.Unlock()
			if reply := handle(q, isTCP); reply != nil {
				w.WriteMsg(reply)
			}
		}
	}
	for _, d := range []*dns.Server{{PacketConn: udp, Handler: answer(false)}, {Listener: tcp, Handler: answer(true)}} {
		go d.ActivateAndServe()
		t.Cleanup(func() { d.Shutdown() })
	}
	return s
}

func (s *server) questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func reply(q *dns.Msg, rcode int, records ...string) *dns.Msg {
	m := new(dns.Msg).SetRcode(q, rcode)
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			panic(err)
		}
		if rr.Header().Rrtype == dns.TypeSOA {
			m.Ns = append(m.Ns, rr)
		} else {
			m.Answer = append(m.Answer, rr)
		}
	}
	return m
}

// zone answers from records, with NXDOMAIN for names that have none.
func zone(records ...string) handler {
	return func(q *dns.Msg, _ bool) *dns.Msg {
		m := reply(q, dns.RcodeNameError)
		for _, text := range records {
			rr, err := dns.NewRR(text)
			if err != nil {
				panic(err)
			}
			if !strings.EqualFold(rr.Header().Name, q.Question[0].Name) {
				continue
			}
			m.Rcode = dns.RcodeSuccess
			if rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		return m
	}
}

func (s *server) resolver(t *testing.T, conf string) *Resolver {
	t.Helper()
	name := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(name, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	return &Resolver{Servers: []netip.AddrPort{s.addr}, ResolvConf: name, Hosts: os.DevNull}
}

const podConf = "search default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"

func lookup(t *testing.T, r *Resolver, name string, types ...uint16) (*Answer, error) {
	t.Helper()
	if types == nil {
		types = []uint16{dns.TypeA, dns.TypeAAAA}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return r.Lookup(ctx, Query{Name: name, Types: types, Grace: 100 * time.Millisecond})
}

func values(a *Answer) (all []string) {
	for _, rr := range a.Records {
		all = append(all, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(all)
	return all
}

func wantKind(t *testing.T, err error, kind Kind) *Failure {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) || f.Most().Kind != kind {
		t.Fatalf("error %v, want %s", err, kind)
	}
	return f
}

func TestSearchList(t *testing.T) {
	s := serve(t, zone("mydb.svc.cluster.local. A 127.0.0.9", "a.b. A 127.0.0.8"))
	r := s.resolver(t, podConf)
	a, err := lookup(t, r, "mydb", dns.TypeA)
	if err != nil || a.Name != "mydb.svc.cluster.local." {
		t.Fatalf("%+v, %v", a, err)
	}
	if a, err = lookup(t, r, "a.b", dns.TypeA); err != nil || a.Name != "a.b." {
		t.Fatalf("%+v, %v", a, err)
	}
	want := []string{"A mydb.default.svc.cluster.local.", "A mydb.svc.cluster.local.",
		"A a.b.default.svc.cluster.local.", "A a.b.svc.cluster.local.", "A a.b.cluster.local.", "A a.b."}
	if got := s.questions(); !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
	f := wantKind(t, mustFail(t, r, "mydb."), NoSuchName)
	if names := f.Names(); !slices.Equal(names, []string{"mydb"}) {
		t.Errorf("an absolute name was searched for: %q", names)
	}
}

func mustFail(t *testing.T, r *Resolver, name string, types ...uint16) error {
	t.Helper()
	a, err := lookup(t, r, name, types...)
	if err == nil {
		t.Fatalf("found %+v", a)
	}
	return err
}

// What ends the search in musl and busybox does not end it here.
func TestSearchGoesOn(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]handler{
		"SERVFAIL": func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeServerFailure) },
		"REFUSED":  func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeRefused) },
		"silence":  func(q *dns.Msg, _ bool) *dns.Msg { return nil },
		"no data":  func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeSuccess) },
		"malformed": func(q *dns.Msg, _ bool) *dns.Msg {
			m := reply(q, dns.RcodeSuccess)
			m.Id++
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(q *dns.Msg, tcp bool) *dns.Msg {
				if strings.HasPrefix(q.Question[0].Name, "mydb.default.") {
					return first(q, tcp)
				}
				return zone("mydb.cluster.local. A 127.0.0.9")(q, tcp)
			})
			conf := podConf + "options timeout:15\n"
			if name == "silence" || name == "malformed" { // the search goes on when the time is up
				servers.Slow(t)
				conf = podConf + "options timeout:4\n"
			}
			a, err := lookup(t, s.resolver(t, conf), "mydb")
			if err != nil || !slices.Equal(values(a), []string{"127.0.0.9"}) {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// A missing or unanswered AAAA does not hide an A, nor the other way round.
func TestOneFamilyIsEnough(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]handler{
		"NXDOMAIN": func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeNameError) },
		"SERVFAIL": func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeServerFailure) },
		"dropped":  func(q *dns.Msg, _ bool) *dns.Msg { return nil },
	} {
		for _, has := range []string{"A", "AAAA"} {
			t.Run(has+" only, other "+name, func(t *testing.T) {
				t.Parallel()
				s := serve(t, func(q *dns.Msg, tcp bool) *dns.Msg {
					if dns.TypeToString[q.Question[0].Qtype] != has {
						return other(q, tcp)
					}
					return zone("mydb. A 127.0.0.9", "mydb. AAAA ::9")(q, tcp)
				})
				start := time.Now()
				a, err := lookup(t, s.resolver(t, "options timeout:15\n"), "mydb.")
				if err != nil || len(a.Records) != 1 || len(a.Missing) != 1 {
					t.Fatalf("%+v, %v", a, err)
				}
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("took %v, though an address was known at once", took)
				}
			})
		}
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	tests := map[Kind]handler{
		NoSuchName:    func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeNameError) },
		NoData:        func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeSuccess) },
		ServerFailure: func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeServerFailure) },
		Refused:       func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeRefused) },
		TimedOut:      func(q *dns.Msg, _ bool) *dns.Msg { return nil },
		Malformed: func(q *dns.Msg, _ bool) *dns.Msg {
			m := reply(q, dns.RcodeSuccess, "mydb. A 127.0.0.9")
			m.Question[0].Name = "other."
			return m
		},
	}
	for kind, handle := range tests {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := serve(t, handle)
			conf := "options timeout:15 attempts:1\n"
			switch kind { // found when the time is up
			case TimedOut:
				conf = "options timeout:1 attempts:1\n"
			case Malformed: // the time in which the answer has to come
				servers.Slow(t)
				conf = "options timeout:4 attempts:1\n"
			}
			f := wantKind(t, mustFail(t, s.resolver(t, conf), "mydb.", dns.TypeA), kind)
			if gone := kind == NoSuchName || kind == NoData; f.Gone() != gone {
				t.Errorf("Gone() = %v", f.Gone())
			}
			if n := len(s.questions()); kind != TimedOut && kind != Malformed && n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
	t.Run("no server there", func(t *testing.T) {
		r := &Resolver{Servers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}, ResolvConf: os.DevNull, Hosts: os.DevNull}
		wantKind(t, mustFail(t, r, "mydb."), Refused)
	})
}

func TestNextServer(t *testing.T) {
	t.Parallel()
	good := serve(t, zone("mydb. A 127.0.0.9"))
	for name, bad := range map[string]handler{
		"fails":     func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeServerFailure) },
		"is silent": func(q *dns.Msg, _ bool) *dns.Msg { return nil },
	} {
		t.Run("first "+name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, bad).resolver(t, "options timeout:15\n")
			r.Servers = append(r.Servers, good.addr)
			start := time.Now()
			a, err := lookup(t, r, "mydb.", dns.TypeA)
			if took := time.Since(start); err != nil || took > 10*time.Second {
				t.Errorf("%+v, %v after %v", a, err, took)
			}
		})
	}
}

func TestRotate(t *testing.T) {
	one, two := serve(t, zone("mydb. A 127.0.0.9")), serve(t, zone("mydb. A 127.0.0.9"))
	r := one.resolver(t, "options rotate\n")
	r.Servers = append(r.Servers, two.addr)
	for range 6 {
		if _, err := lookup(t, r, "mydb.", dns.TypeA); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := len(one.questions()), len(two.questions()); a != 3 || b != 3 {
		t.Errorf("asked %d and %d times, want 3 and 3", a, b)
	}
}

func TestTruncatedAnswerOverTCP(t *testing.T) {
	s := serve(t, func(q *dns.Msg, tcp bool) *dns.Msg {
		m := zone("mydb. A 127.0.0.9", "mydb. A 127.0.0.10")(q, tcp)
		if !tcp {
			m.Truncated, m.Answer = true, m.Answer[:1]
		}
		return m
	})
	a, err := lookup(t, s.resolver(t, ""), "mydb.", dns.TypeA)
	if err != nil || len(a.Records) != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	if got := s.questions(); !slices.Equal(got, []string{"A mydb.", "A mydb. tcp"}) {
		t.Errorf("asked %q", got)
	}
}

func TestWithoutEDNSAfterFormErr(t *testing.T) {
	sizes := make(chan int, 10)
	s := serve(t, func(q *dns.Msg, tcp bool) *dns.Msg {
		opt := q.IsEdns0()
		if opt != nil {
			sizes <- int(opt.UDPSize())
			m := reply(q, dns.RcodeFormatError)
			m.Question = nil // as some old servers do
			return m
		}
		return zone("mydb. A 127.0.0.9")(q, tcp)
	})
	if a, err := lookup(t, s.resolver(t, ""), "mydb.", dns.TypeA); err != nil {
		t.Fatalf("%+v, %v", a, err)
	}
	if size := <-sizes; size != 1232 {
		t.Errorf("EDNS0 size %d, want 1232", size)
	}
}

func TestFreshSourcePorts(t *testing.T) {
	s := serve(t, zone("mydb. A 127.0.0.9"))
	r := s.resolver(t, "")
	for range 20 {
		if _, err := lookup(t, r, "mydb.", dns.TypeA); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.ports)
	if n := len(slices.Compact(s.ports)); n < 15 {
		t.Errorf("20 questions came from %d ports", n)
	}
}

// A forged answer that arrives first is ignored.
func TestForgedAnswerIsPassedOver(t *testing.T) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			forged := reply(q, dns.RcodeSuccess, "mydb. A 192.0.2.66")
			forged.Id++
			for _, m := range []*dns.Msg{forged, reply(q, dns.RcodeSuccess, "mydb. A 127.0.0.9")} {
				wire, _ := m.Pack()
				udp.WriteTo([]byte("garbage"), from)
				udp.WriteTo(wire, from)
			}
		}
	}()
	r := &Resolver{Servers: []netip.AddrPort{netip.MustParseAddrPort(udp.LocalAddr().String())}, ResolvConf: os.DevNull, Hosts: os.DevNull}
	a, err := lookup(t, r, "mydb.", dns.TypeA)
	if err != nil || !slices.Equal(values(a), []string{"127.0.0.9"}) {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAliases(t *testing.T) {
	chain := []string{"www. CNAME a.example.", "a.example. CNAME b.example.", "b.example. A 127.0.0.9"}
	s := serve(t, func(q *dns.Msg, _ bool) *dns.Msg {
		switch q.Question[0].Name {
		case "www.":
			slices.Reverse(chain)
			return reply(q, dns.RcodeSuccess, chain...)
		case "loop.":
			return reply(q, dns.RcodeSuccess, "loop. CNAME loop2.", "loop2. CNAME loop.")
		}
		return reply(q, dns.RcodeNameError, "dangling. CNAME nowhere.example.")
	})
	r := s.resolver(t, "")
	if a, err := lookup(t, r, "www.", dns.TypeA); err != nil || !slices.Equal(values(a), []string{"127.0.0.9"}) {
		t.Errorf("%+v, %v", a, err)
	}
	wantKind(t, mustFail(t, r, "loop.", dns.TypeA), ServerFailure)
	if f := wantKind(t, mustFail(t, r, "dangling.", dns.TypeA), NoSuchName); f.Most().Detail != "alias of nowhere.example" {
		t.Errorf("detail %q", f.Most().Detail)
	}
}

// TestNoAnswers: a reply without an answer is neither data nor proof that there is no data.
func TestNoAnswers(t *testing.T) {
	for name, handle := range map[string]handler{
		"referral": func(q *dns.Msg, _ bool) *dns.Msg {
			m := reply(q, dns.RcodeSuccess)
			m.Ns = reply(q, 0, "mydb. NS ns.example.").Answer
			return m
		},
		"alias of itself": func(q *dns.Msg, _ bool) *dns.Msg { return reply(q, dns.RcodeSuccess, "mydb. CNAME mydb.") },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, handle)
			f := wantKind(t, mustFail(t, s.resolver(t, ""), "mydb.", dns.TypeA), ServerFailure)
			if f.Gone() {
				t.Error("taken for proof that the name is gone")
			}
		})
	}
	for name, change := range map[string]func(dns.RR){
		"no address":    func(rr dns.RR) { rr.(*dns.A).A = nil },
		"another class": func(rr dns.RR) { rr.Header().Class = dns.ClassCHAOS },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(q *dns.Msg, _ bool) *dns.Msg {
				m := reply(q, dns.RcodeSuccess, "mydb. A 127.0.0.9")
				change(m.Answer[0])
				return m
			})
			wantKind(t, mustFail(t, s.resolver(t, ""), "mydb.", dns.TypeA), NoData)
		})
	}
}

func TestIPv6Server(t *testing.T) {
	udp, err := net.ListenPacket("udp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	d := &dns.Server{PacketConn: udp, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { w.WriteMsg(zone("mydb. AAAA ::9")(q, false)) })}
	go d.ActivateAndServe()
	defer d.Shutdown()
	r := &Resolver{Servers: []netip.AddrPort{netip.MustParseAddrPort(udp.LocalAddr().String())}, ResolvConf: os.DevNull, Hosts: os.DevNull}
	if a, err := lookup(t, r, "mydb."); err != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

// After NXDOMAIN for both types, one question at a time is enough to see the name come up; then both are asked for.
func TestNoSuchNameIsOfAllTypes(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	s := serve(t, func(q *dns.Msg, tcp bool) *dns.Msg {
		if up.Load() {
			return zone("mydb. AAAA ::9")(q, tcp)
		}
		return reply(q, dns.RcodeNameError, ". SOA ns. admin. 1 60 60 60 60")
	})
	r := s.resolver(t, "options attempts:1 timeout:30\n")
	q := Query{Name: "mydb.", Types: []uint16{dns.TypeA, dns.TypeAAAA}, Memory: new(Memory)}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for len(s.questions()) < 4 { // the memory holds some back
		if _, err := r.Lookup(ctx, q); err == nil || ctx.Err() != nil {
			t.Fatal(err)
		}
		poll.Sleep(ctx, 10*time.Millisecond)
	}
	asked := s.questions()
	slices.Sort(asked[:2])
	if want := []string{"A mydb.", "AAAA mydb.", "A mydb.", "A mydb."}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	up.Store(true)
	a, err := r.Lookup(ctx, q)
	for err != nil && poll.Sleep(ctx, 10*time.Millisecond) == nil {
		a, err = r.Lookup(ctx, q)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := values(a); !slices.Equal(got, []string{"::9"}) {
		t.Errorf("%q", got)
	}
}

func TestHosts(t *testing.T) {
	s := serve(t, zone())
	r := s.resolver(t, podConf)
	r.Hosts = filepath.Join(t.TempDir(), "hosts")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(r.Hosts, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("10.1.2.3 mydb mydb.example # the database\n::5 mydb\nnonsense\n")
	if a, err := lookup(t, r, "MyDB"); err != nil || !slices.Equal(values(a), []string{"10.1.2.3", "::5"}) {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := lookup(t, r, "localhost", dns.TypeAAAA); err != nil || len(a.Records) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := lookup(t, r, "localhost"); err != nil || len(a.Records) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := lookup(t, r, "3.2.1.10.in-addr.arpa.", dns.TypePTR); err != nil || len(a.Records) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if len(s.questions()) > 0 {
		t.Errorf("asked %q for what the hosts file knows", s.questions())
	}
	write("10.9.9.9 another-name-makes-the-file-longer mydb\n")
	if a, err := lookup(t, r, "mydb", dns.TypeA); err != nil || !slices.Equal(values(a), []string{"10.9.9.9"}) {
		t.Errorf("changed hosts file: %+v, %v", a, err)
	}
}

// The Pod's network may come late, and its resolv.conf with it.
func TestResolvConfIsReadAgain(t *testing.T) {
	s := serve(t, zone("mydb.late.example. A 127.0.0.9"))
	r := s.resolver(t, "")
	wantKind(t, mustFail(t, r, "mydb", dns.TypeA), NoSuchName)
	if err := os.WriteFile(r.ResolvConf, []byte("search late.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if a, err := lookup(t, r, "mydb", dns.TypeA); err != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestParseConfig(t *testing.T) {
	c := parseConfig(`
# comment
nameserver 10.96.0.10
nameserver fe80::1%eth0 ; the router
nameserver not-an-address
nameserver 10.0.0.2
nameserver 10.0.0.3
domain ignored.example
search A.example b.example.
options ndots:99 timeout:0 attempts:9 rotate use-vc edns0 unknown:1 ndots:x
`)
	if len(c.servers) != 3 || c.servers[1].String() != "[fe80::1%eth0]:53" {
		t.Errorf("servers %v", c.servers)
	}
	if !slices.Equal(c.search, []string{"a.example.", "b.example."}) {
		t.Errorf("search %q", c.search)
	}
	if c.ndots != 15 || c.timeout != 5*time.Second || c.attempts != 5 || !c.rotate || !c.useTCP {
		t.Errorf("%+v", c)
	}
	if c := parseConfig(""); len(c.servers) != 2 || c.ndots != 1 || c.attempts != 2 {
		t.Errorf("of nothing: %+v", c)
	}
}

func FuzzResolvConf(f *testing.F) {
	f.Add(podConf+"nameserver ::1\nnameserver fe80::1%eth0\n", "mydb")
	f.Add("options ndots:-1 timeout:99999999999999999999\nsearch . .. a..b", "a.b.c.d.e.f")
	f.Fuzz(func(t *testing.T, text, name string) {
		c := parseConfig(text)
		if len(c.servers) == 0 || len(c.servers) > 3 || c.ndots < 0 || c.ndots > 15 || c.timeout <= 0 || c.timeout > 30*time.Second || c.attempts < 1 || c.attempts > 5 {
			t.Fatalf("%+v", c)
		}
		if names := c.candidates(name); len(names) != len(c.search)+1 {
			t.Fatalf("%d names for %d search domains", len(names), len(c.search))
		}
	})
}

func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1 localhost\n::1 localhost ip6-localhost # x\n")
	f.Fuzz(func(t *testing.T, text string) {
		h := parseHosts(text)
		if len(h.addrs["localhost."]) == 0 {
			t.Fatal("no localhost")
		}
	})
}

// TestFalseCounts pins that an answer with fewer records than its header says is malformed.
func TestFalseCounts(t *testing.T) {
	query := new(dns.Msg).SetQuestion("mydb.", dns.TypeA)
	message, err := reply(query, dns.RcodeSuccess, "mydb. A 127.0.0.9").Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseReply(message, query); err != nil {
		t.Fatal(err)
	}
	for at := 4; at < 12; at += 2 { // questions, answers, authorities, additional records
		wire := slices.Clone(message)
		wire[at+1]++
		if m, err := parseReply(wire, query); err == nil || !strings.Contains(err.Error(), "malformed answer") && at > 4 {
			t.Errorf("count at %d: %v, %v", at, m, err)
		}
	}
}

// FuzzAnswer feeds the bytes of a hostile server to all that reads them.
func FuzzAnswer(f *testing.F) {
	query := new(dns.Msg).SetQuestion("mydb.", dns.TypeA)
	query.Id = 1
	for _, m := range []*dns.Msg{
		reply(query, dns.RcodeSuccess, "mydb. CNAME a.", "a. A 127.0.0.1"),
		reply(query, dns.RcodeNameError, ". SOA ns. admin. 1 60 60 60 60"),
		reply(query, dns.RcodeSuccess, "mydb. CNAME mydb."),
	} {
		wire, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		m, err := parseReply(wire, query)
		if err != nil {
			return
		}
		records, alias, _ := follow(m, "mydb.", dns.TypeA)
		for _, rr := range records {
			if rr.Header().Rrtype != dns.TypeA {
				t.Fatalf("%v is no A record", rr)
			}
		}
		if alias == "" {
			t.Fatal("an alias without a name")
		}
		if ttl := negativeTTL(m); ttl < -1 {
			t.Fatalf("TTL %d", ttl)
		}
	})
}
