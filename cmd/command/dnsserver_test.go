package command

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// zone is what a server of kind dns answers from.
type zone struct {
	lines []zoneLine
	asked map[string]int // by name and type
	mu    sync.Mutex
}

// zoneLine is a record, or a fault of a name.
type zoneLine struct {
	name         string // canonical
	qtype        uint16 // of a fault; 0: of every type
	rr           dns.RR // or
	fault        string
	after, until int // holds for the questions with those numbers; until 0 is no end
}

// zoneFaults are the words that a line of a zone may end in.
var zoneFaults = []string{"NXDOMAIN", "NODATA", "SERVFAIL", "REFUSED", "FORMERR-EDNS", "TRUNCATED", "MALFORMED", "FALSE-COUNTS", "WRONG-ID", "NEVER"}

// parseZone reads lines of two forms:
//
//	[after=N] [until=N] NAME TYPE DATA   a record, as in a zone file
//	[after=N] [until=N] NAME [TYPE] FAULT
//
// With after, the line does not hold for the first N questions for a name and type; with until, for those after the
// Nth. Names that are in no line do not exist.
func parseZone(text string) (*zone, error) {
	z := &zone{asked: map[string]int{}}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		var l zoneLine
		for len(fields) > 0 && strings.Contains(fields[0], "=") {
			name, value, _ := strings.Cut(fields[0], "=")
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, fmt.Errorf("zone: %s", line)
			}
			switch name {
			case "after":
				l.after = n
			case "until":
				l.until = n
			}
			fields = fields[1:]
		}
		if len(fields) == 0 {
			continue
		}
		l.name = dns.CanonicalName(fields[0])
		last := fields[len(fields)-1]
		if slices.Contains(zoneFaults, last) {
			l.fault = last
			if len(fields) == 3 {
				l.qtype = dns.StringToType[fields[1]]
			}
		} else {
			rr, err := dns.NewRR(strings.Join(fields, " "))
			if err != nil {
				return nil, err
			}
			l.rr = rr
		}
		z.lines = append(z.lines, l)
	}
	return z, nil
}

// find returns the records and the fault of a name and type, and whether the name exists.
func (z *zone) find(name string, qtype uint16) (records []dns.RR, fault string, exists bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	name = dns.CanonicalName(name)
	key := name + dns.TypeToString[qtype]
	z.asked[key]++
	n := z.asked[key]
	for _, l := range z.lines {
		if l.name != name || n <= l.after || l.until > 0 && n > l.until {
			continue
		}
		switch {
		case l.rr == nil:
			if l.qtype == 0 || l.qtype == qtype {
				fault = l.fault
			}
		case l.rr.Header().Rrtype == qtype || l.rr.Header().Rrtype == dns.TypeCNAME:
			records = append(records, l.rr)
			exists = true
		default:
			exists = true
		}
	}
	return records, fault, exists
}

// startDNS serves the zone over UDP and TCP on one port; if it is closed, when it is opened.
func (s *server) startDNS() error {
	text, err := os.ReadFile(s.options["zone"])
	if err != nil {
		return err
	}
	if s.zone, err = parseZone(string(text)); err != nil {
		return err
	}
	if !has(s.options, "closed") {
		return s.listenDNS()
	}
	// A datagram socket connected elsewhere holds the port, and the kernel answers that nothing listens there.
	udp, err := net.ResolveUDPAddr("udp", s.addr)
	if err != nil {
		return err
	}
	held, err := rebind(func() (*net.UDPConn, error) {
		return net.DialUDP("udp", udp, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	})
	if err != nil {
		return err
	}
	s.wg.Go(func() {
		goOn := s.awaitOpen()
		held.Close()
		if goOn {
			s.listenDNS()
		}
	})
	return nil
}

func (s *server) listenDNS() error {
	packets, err := rebind(func() (net.PacketConn, error) { return net.ListenPacket("udp", s.addr) })
	if err != nil {
		return err
	}
	l, err := s.listen()
	if err != nil {
		packets.Close()
		return err
	}
	for _, server := range []*dns.Server{
		{PacketConn: packets, Handler: dns.HandlerFunc(s.answerDNS)},
		{Listener: l, Handler: dns.HandlerFunc(s.answerDNS)},
	} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		s.wg.Go(func() { server.ActivateAndServe() })
		<-started
		s.wg.Go(func() {
			<-s.stopped
			server.Shutdown()
		})
	}
	return nil
}

func (s *server) answerDNS(w dns.ResponseWriter, query *dns.Msg) {
	q := query.Question[0]
	network := w.LocalAddr().Network()
	edns := query.IsEdns0() != nil
	s.record("%s %s %s edns=%t", q.Name, dns.TypeToString[q.Qtype], network, edns)
	records, fault, exists := s.zone.find(q.Name, q.Qtype)
	if len(records) > 0 && q.Qtype != dns.TypeCNAME {
		if alias, ok := records[0].(*dns.CNAME); ok {
			target, _, _ := s.zone.find(alias.Target, q.Qtype)
			records = append(records, target...)
		}
	}
	reply := new(dns.Msg).SetReply(query)
	reply.RecursionAvailable = true
	reply.Answer = records
	if len(records) == 0 || fault == "NODATA" || fault == "NXDOMAIN" {
		reply.Answer = nil
		soa, _ := dns.NewRR("test. 1 IN SOA ns.test. root.test. 1 3600 600 86400 1")
		reply.Ns = []dns.RR{soa}
		if fault == "NXDOMAIN" || !exists && fault == "" {
			reply.Rcode = dns.RcodeNameError
		}
	}
	switch fault {
	case "NEVER":
		return
	case "SERVFAIL":
		reply.Rcode, reply.Answer = dns.RcodeServerFailure, nil
	case "REFUSED":
		reply.Rcode, reply.Answer = dns.RcodeRefused, nil
	case "FORMERR-EDNS":
		if edns {
			reply.Rcode, reply.Answer, reply.Ns = dns.RcodeFormatError, nil, nil
		}
	case "TRUNCATED":
		if network == "udp" {
			reply.Truncated, reply.Answer = true, nil
		}
	case "WRONG-ID":
		reply.Id++
	case "FALSE-COUNTS":
		wire, _ := reply.Pack()
		wire[7] += 4 // answers
		w.Write(wire)
		return
	case "MALFORMED":
		wire, _ := reply.Pack()
		w.Write(append(wire[:2:2], 0x81, 0x80, 0, 9, 0, 9, 0xff, 0xff, 0xc0))
		return
	}
	w.WriteMsg(reply)
}
