package servers

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// CoreDNS serves a zone the way a Kubernetes node sees the cluster's: through a cache
// (as the node-local one is, and the cluster's own) with CoreDNS's rules of how long
// an answer is kept. Names outside the zone do not exist.
type CoreDNS struct {
	Addr string // host:port of the cache, UDP and TCP

	authority string
	zone      zoneFile
	proc      *process
}

// StartCoreDNS builds, if need be, and starts the CoreDNS of test/coredns.
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

// SetRecords replaces the zone's records and returns when they are served, except to
// those to whom the cache repeats an older answer.
func (c *CoreDNS) SetRecords(t testing.TB, records ...string) {
	t.Helper()
	c.zone.write(t, records)
	c.untilServed(t)
}

func (c *CoreDNS) untilServed(t testing.TB) {
	t.Helper()
	c.proc.until(t, "serving its zone", func() bool { return c.zone.served(c.authority) })
}

// Queries counts the questions answered so far about a name, of any type.
func (c *CoreDNS) Queries(name string) int {
	return strings.Count(c.proc.out.String(), " IN "+dns.Fqdn(name)+" ")
}

// The zone is on a port of its own so that a test can see, without filling the cache,
// that it was read again.
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
