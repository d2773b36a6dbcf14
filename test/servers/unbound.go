package servers

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// Unbound is a caching server in front of a [Named]: for as long as the zone says, it repeats that a name does not
// exist, even if it exists by now.
type Unbound struct {
	Addr string // host:port, UDP and TCP

	proc *process
}

// StartUnbound starts Debian's unbound. It asks only the authoritative server, so that no query leaves the machine.
func StartUnbound(t testing.TB, authority *Named) *Unbound {
	t.Helper()
	program, dir := unconfined(t, Need(t, "unbound")), t.TempDir()
	u := &Unbound{Addr: FreeAddr(t)}
	conf := filepath.Join(dir, "unbound.conf")
	writeConfig(t, conf, unboundConf, map[string]any{
		"Dir": dir, "Port": port(u.Addr), "Authority": port(authority.Addr), "Zone": authority.zone.Origin,
	})
	u.proc = run(t, program, "-d", "-d", "-p", "-c", conf)
	u.proc.until(t, "answering on "+u.Addr, func() bool {
		client := dns.Client{Timeout: 500 * time.Millisecond}
		_, _, err := client.Exchange(new(dns.Msg).SetQuestion(".", dns.TypeNS), u.Addr)
		return err == nil
	})
	return u
}

// Queries returns the number of queries for a name, of any type, that were received so far.
func (u *Unbound) Queries(name string) int {
	return strings.Count(u.proc.out.String(), " 127.0.0.1 "+dns.Fqdn(name)+" ")
}

// By default, unbound answers that the zone "test." is empty (RFC 6761).
const unboundConf = `
server:
	directory: "{{.Dir}}"
	username: ""
	chroot: ""
	pidfile: ""
	use-syslog: no
	logfile: ""
	log-queries: yes
	do-daemonize: no
	num-threads: 1
	interface: 127.0.0.1
	port: {{.Port}}
	outgoing-interface: 127.0.0.1
	do-not-query-localhost: no
	do-ip6: no
	module-config: "iterator"
	qname-minimisation: no
	local-zone: "." static
	local-zone: "test." transparent
	local-zone: "{{.Zone}}" transparent
stub-zone:
	name: "{{.Zone}}"
	stub-addr: 127.0.0.1@{{.Authority}}
remote-control:
	control-enable: no
`
