package resolver

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"initbox/internal/readfile"
)

// config is what a resolv.conf(5) says.
type config struct {
	servers  []netip.AddrPort
	named    int      // servers in the file, those included that are not asked
	search   []string // absolute, lower case
	ndots    int
	timeout  time.Duration // for the answer of one server
	attempts int           // rounds over the servers
	rotate   bool
	useTCP   bool
}

const dnsPort = 53

// Config is what a resolv.conf(5) says, as a [Resolver] follows it.
type Config struct {
	Servers  []netip.AddrPort // that are asked
	Named    int              // how many name servers the file names, if it is not the resolver that has Servers of its own
	Search   []string         // absolute
	Ndots    int
	Timeout  time.Duration // for the answer of one server
	Attempts int           // rounds over the servers
}

// Config returns what the resolver follows now.
func (r *Resolver) Config() Config {
	c := r.currentConfig()
	return Config{Servers: c.servers, Named: c.named, Search: c.search, Ndots: c.ndots, Timeout: c.timeout, Attempts: c.attempts}
}

// parseConfig reads a resolv.conf(5). As the C library does, it ignores what it does not understand, takes three
// servers and asks the local one if there is none; unlike glibc before 2.26 it takes any number of search domains,
// since a Pod's list is often longer than six.
func parseConfig(text string) config {
	c := config{ndots: 1, timeout: 5 * time.Second, attempts: 2}
	for line := range strings.Lines(text) {
		if i := strings.IndexAny(line, ";#"); i >= 0 {
			line = line[:i]
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			addr, err := netip.ParseAddr(fields[1])
			if err == nil {
				c.named++
			}
			if err == nil && len(c.servers) < 3 {
				c.servers = append(c.servers, netip.AddrPortFrom(addr, dnsPort))
			}
		case "domain", "search": // the last of them wins
			c.search = nil
			for _, domain := range fields[1:] {
				domain = dns.CanonicalName(domain)
				if _, ok := dns.IsDomainName(domain); ok && domain != "." {
					c.search = append(c.search, domain)
				}
			}
		case "options":
			for _, option := range fields[1:] {
				c.option(option)
			}
		}
	}
	if len(c.servers) == 0 {
		c.servers = []netip.AddrPort{
			netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), dnsPort),
			netip.AddrPortFrom(netip.IPv6Loopback(), dnsPort),
		}
	}
	return c
}

// option takes one word of an options line, within the C library's limits.
func (c *config) option(word string) {
	name, value, _ := strings.Cut(word, ":")
	n, err := strconv.Atoi(value)
	switch name {
	case "rotate":
		c.rotate = true
	case "use-vc":
		c.useTCP = true
	case "ndots":
		if err == nil && n >= 0 {
			c.ndots = min(n, 15)
		}
	case "timeout":
		if err == nil && n > 0 {
			c.timeout = time.Duration(min(n, 30)) * time.Second
		}
	case "attempts":
		if err == nil && n > 0 {
			c.attempts = min(n, 5)
		}
	}
}

// candidates returns the absolute names to ask for name, in order.
func (c config) candidates(name string) []string {
	name = dns.CanonicalName(name)
	var names []string
	for _, domain := range c.search {
		names = append(names, name+domain)
	}
	if strings.Count(name, ".")-1 >= c.ndots {
		return append([]string{name}, names...)
	}
	return append(names, name)
}

// hosts is what a hosts(5) file says.
type hosts struct {
	addrs map[string][]netip.Addr // by absolute lower-case name
	names map[netip.Addr][]string
}

func parseHosts(text string) hosts {
	h := hosts{map[string][]netip.Addr{}, map[netip.Addr][]string{}}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = dns.CanonicalName(name)
			h.addrs[name] = append(h.addrs[name], addr)
			h.names[addr] = append(h.names[addr], name)
		}
	}
	// RFC 6761, section 6.3: localhost never leaves the host.
	for _, loopback := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		if !slices.ContainsFunc(h.addrs["localhost."], func(a netip.Addr) bool { return a.Is4() == loopback.Is4() }) {
			h.addrs["localhost."] = append(h.addrs["localhost."], loopback)
		}
	}
	return h
}

// file keeps the parsed content of a file and reads it again when it changes:
// a Pod's resolv.conf and hosts are mounts that may be filled late.
type file[T any] struct {
	mu    sync.Mutex
	read  bool
	stat  os.FileInfo // of what value was parsed from; nil if there was no file
	value T
}

func (f *file[T]) get(name string, parse func(string) T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	stat, err := os.Stat(name)
	if err != nil {
		stat = nil
	}
	if f.read && sameFile(f.stat, stat) {
		return f.value
	}
	data, _ := readfile.All(name) // a file that cannot be read says nothing, like an empty one
	f.value, f.stat, f.read = parse(string(data)), stat, true
	return f.value
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
