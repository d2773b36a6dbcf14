package servers

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// A Zone is the content of an authoritative server.
type Zone struct {
	Origin      string        // with the trailing dot
	NegativeTTL time.Duration // whole seconds: how long caches repeat that a name does not exist
	Records     []string      // as in a zone file, relative to Origin: "db A 192.0.2.1"
}

// A zoneFile is a zone on disk. The serial number grows with each write: servers compare it to detect a change, and
// [zoneFile.served] to see that they have read it.
type zoneFile struct {
	Zone
	path   string
	serial uint32
}

// write replaces the records. It replaces the file atomically, since the server may be reading it.
func (z *zoneFile) write(t testing.TB, records []string) {
	t.Helper()
	z.Records = records
	z.serial++
	negative := int(z.NegativeTTL / time.Second)
	var b strings.Builder
	fmt.Fprintln(&b, "$TTL 5")
	// A cache keeps a denial for the lower of the record's TTL and its last field (RFC 2308).
	fmt.Fprintf(&b, "@ %d SOA ns hostmaster %d 3600 600 86400 %d\n", negative, z.serial, negative)
	fmt.Fprintf(&b, "@ NS ns\nns A 127.0.0.1\n%s\n", strings.Join(records, "\n"))
	writeFile(t, z.path+".new", b.String())
	if err := os.Rename(z.path+".new", z.path); err != nil {
		t.Fatal(err)
	}
}

// served reports whether the server at addr has read the last write.
func (z *zoneFile) served(addr string) bool {
	q := new(dns.Msg).SetQuestion(z.Origin, dns.TypeSOA)
	client := dns.Client{Timeout: 500 * time.Millisecond}
	reply, _, err := client.Exchange(q, addr)
	if err != nil || len(reply.Answer) != 1 {
		return false
	}
	soa, ok := reply.Answer[0].(*dns.SOA)
	return ok && soa.Serial == z.serial
}
