package servers

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// CoreDNS serves a zone as a Kubernetes node sees the cluster's: through a cache, with CoreDNS's rules for how long an
// answer is kept, like the node-local cache and the cluster's own. Names outside the zone do not exist.
type CoreDNS struct {
	Addr string // host:port of the cache, UDP and TCP

	authority string
	zone      zoneFile
	proc      *process
}

// StartCoreDNS starts the CoreDNS of test/coredns, which it builds if necessary.
func StartCoreDNS(t testing.TB, zone Zone) *CoreDNS {
	t.Helper()
	program, dir := buildServer(t, "coredns"), t.TempDir()
	c := &CoreDNS{
		Addr:      FreeAddr(t),
		authority: FreeAddr(t),
		zone:      zoneFile{Zone: zone, path: filepath.Join(dir, "zone")},
	}
	c.zone.write(t, zone.Records)
	conf := filepath.Join(dir, "Corefile")
	writeConfig(t, conf, corefile, map[string]any{
		"Port": port(c.Addr), "Authority": port(c.authority), "Zone": c.zone.Origin, "File": c.zone.path,
	})
	c.proc = run(t, program, "-conf", conf)
	c.untilServed(t)
	c.proc.untilListening(t, c.Addr)
	return c
}

// SetRecords replaces the zone's records and returns when they are served, except where the cache repeats an older
// answer.
func (c *CoreDNS) SetRecords(t testing.TB, records ...string) {
	t.Helper()
	c.zone.write(t, records)
	c.untilServed(t)
}

func (c *CoreDNS) untilServed(t testing.TB) {
	t.Helper()
	c.proc.until(t, "serving its zone", func() bool { return c.zone.served(c.authority) })
}

// Queries returns the number of queries for a name, of any type, that were answered so far.
func (c *CoreDNS) Queries(name string) int {
	return strings.Count(c.proc.out.String(), " IN "+dns.Fqdn(name)+" ")
}

// The zone has its own port, so that a test can see, without filling the cache, that it was read again.
const corefile = `
.:{{.Port}} {
	bind 127.0.0.1
	errors
	log
	cache 30
	forward . 127.0.0.1:{{.Authority}}
}
{{.Zone}}:{{.Authority}} {
	bind 127.0.0.1
	errors
	file {{.File}} {
		reload 100ms
	}
}
.:{{.Authority}} {
	bind 127.0.0.1
	errors
	template ANY ANY {
		rcode NXDOMAIN
		authority ". 30 IN SOA ns.dns. hostmaster. 1 7200 1800 86400 30"
	}
}
`
