package real_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"initbox/test/servers"
)

const origin = "example.test."

// zone is a zone whose denials may be cached for an hour. Without a cache in front of the server, that must not matter.
func zone(records ...string) servers.Zone {
	return servers.Zone{Origin: origin, NegativeTTL: time.Hour, Records: records}
}

func TestDNSAnswers(t *testing.T) {
	t.Parallel()
	n := servers.StartNamed(t, zone(
		"db A 192.0.2.10", "db A 192.0.2.11",
		"db6 AAAA 2001:db8::10",
		"both A 192.0.2.20", "both AAAA 2001:db8::20",
		"alias CNAME db",
		"dangling CNAME nowhere",
		"_pg._tcp.mydb SRV 10 5 5432 db",
		"mail MX 10 mx.example.test.",
		"text TXT \"hello world\"",
		"10.2 PTR db.example.test.",
		"sub NS ns", "www.sub A 192.0.2.30",
	))
	at := func(addr string, args ...string) []string {
		return append([]string{"wait-for-dns", "--server=" + addr, "--print", "--timeout=60s"}, args...)
	}
	for name, c := range map[string]struct {
		args []string
		want []string // sorted lines, or what a single line holds
	}{
		"A":              {at(n.Addr, "db.example.test"), []string{"192.0.2.10", "192.0.2.11"}},
		"trailing dot":   {at(n.Addr, "db.example.test."), []string{"192.0.2.10", "192.0.2.11"}},
		"AAAA alone":     {at(n.Addr, "db6.example.test"), []string{"2001:db8::10"}},
		"A and AAAA":     {at(n.Addr, "both.example.test"), []string{"192.0.2.20", "2001:db8::20"}},
		"family 4":       {at(n.Addr, "--family=4", "both.example.test"), []string{"192.0.2.20"}},
		"family 6":       {at(n.Addr, "--family=6", "both.example.test"), []string{"2001:db8::20"}},
		"through CNAME":  {at(n.Addr, "alias.example.test"), []string{"192.0.2.10", "192.0.2.11"}},
		"CNAME":          {at(n.Addr, "--type=CNAME", "dangling.example.test"), []string{"nowhere.example.test"}},
		"SRV":            {at(n.Addr, "--type=SRV", "_pg._tcp.mydb.example.test"), []string{"db.example.test", "5432"}},
		"MX":             {at(n.Addr, "--type=MX", "mail.example.test"), []string{"mx.example.test"}},
		"NS":             {at(n.Addr, "--type=NS", "example.test"), []string{"ns.example.test"}},
		"TXT":            {at(n.Addr, "--type=TXT", "text.example.test"), []string{"hello world"}},
		"PTR":            {at(n.Addr, "--type=PTR", "10.2.example.test"), []string{"db.example.test"}},
		"expect value":   {at(n.Addr, "--expect=192.0.2.11", "db.example.test"), []string{"192.0.2.11"}},
		"expect CIDR":    {at(n.Addr, "--expect=192.0.2.0/24", "db.example.test"), []string{"192.0.2.10"}},
		"IPv6 server":    {at(strings.Replace(n.Addr, "127.0.0.1", "[::1]", 1), "db.example.test"), []string{"192.0.2.10"}},
		"second server":  {at(servers.FreeAddr(t), "--server="+n.Addr, "db.example.test"), []string{"192.0.2.10"}},
		"any of several": {at(n.Addr, "--any", "nowhere.example.test", "db.example.test"), []string{"192.0.2.10"}},
		"all of several": {at(n.Addr, "db.example.test", "db6.example.test"), []string{"192.0.2.10", "2001:db8::10"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "IPv6 server" && !haveIPv6() {
				t.Skip("no IPv6 on loopback")
			}
			r := start(t, c.args...).want(ready)
			for _, want := range c.want {
				if !strings.Contains(r.Stdout, want) {
					t.Errorf("printed %q, want %q in it", r.Stdout, want)
				}
			}
		})
	}
	t.Run("one address per line", func(t *testing.T) {
		r := start(t, at(n.Addr, "db.example.test")...).want(ready)
		lines := strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n")
		slices.Sort(lines)
		if want := []string{"192.0.2.10", "192.0.2.11"}; !slices.Equal(lines, want) {
			t.Errorf("printed %q, want the lines %q", r.Stdout, want)
		}
	})
	t.Run("output file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "address")
		start(t, "wait-for-dns", "--server="+n.Addr, "--output="+file, "--timeout=60s", "db6.example.test").want(ready)
		if got, err := os.ReadFile(file); err != nil || string(got) != "2001:db8::10\n" {
			t.Errorf("the file has %q (%v), want the address", got, err)
		}
	})
}

func haveIPv6() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}

// The name exists, but has no address.
const noData = `no data`

// Each kind of failure has its own word.
func TestDNSNotReady(t *testing.T) {
	t.Parallel()
	n := servers.StartNamed(t, zone("text TXT hello", "db A 192.0.2.10", "db A 192.0.2.11"))
	unused := servers.FreeAddr(t)
	for name, c := range map[string]struct {
		server string
		args   []string
		log    string
	}{
		"no such name":   {n.Addr, []string{"nowhere.example.test"}, `nowhere\.example\.test.*no such name`},
		"no data":        {n.Addr, []string{"text.example.test"}, `text\.example\.test: ` + noData},
		"server failure": {n.Addr, []string{"db." + servers.ZoneServfail}, `server failure`},
		"refused":        {n.Addr, []string{"db." + servers.ZoneRefused}, `refused`},
		"no server":      {unused, []string{"db.example.test"}, unused},
		"too few":        {n.Addr, []string{"--min-records=3", "db.example.test"}, `\b2\b.*\b3\b|\b3\b.*\b2\b`},
		"not expected":   {n.Addr, []string{"--expect=198.51.100.1", "db.example.test"}, `no record is 198\.51\.100\.1 .*192\.0\.2\.10`},
		"not gone":       {n.Addr, []string{"--gone", "db.example.test"}, `db\.example\.test`},
		"gone is not SERVFAIL": {n.Addr, []string{"--gone", "db." + servers.ZoneServfail},
			`server failure`},
		"gone is not REFUSED": {n.Addr, []string{"--gone", "db." + servers.ZoneRefused}, `refused`},
		"gone is not silence": {unused, []string{"--gone", "db.example.test"}, unused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"wait-for-dns", "--server=" + c.server, "--timeout=60s"}, c.args...)
			start(t, args...).stuck(c.log)
		})
	}
	t.Run("gone", func(t *testing.T) {
		start(t, "wait-for-dns", "--gone", "--server="+n.Addr, "--timeout=60s", "nowhere.example.test").want(ready)
	})
	t.Run("gone from the type", func(t *testing.T) {
		start(t, "wait-for-dns", "--gone", "--server="+n.Addr, "--timeout=60s", "text.example.test").want(ready)
	})
}

// The answers for A and AAAA arrive in any order, which is not a change of state.
func TestDNSLogsOnlyChanges(t *testing.T) {
	t.Parallel()
	n := servers.StartNamed(t, zone("text TXT hello"))
	for _, name := range []string{"nowhere.example.test", "text.example.test", "db." + servers.ZoneServfail, "db." + servers.ZoneRefused} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, "wait-for-dns", name, "--server="+n.Addr, "--timeout=60s")
			w.untilLogged(regexp.QuoteMeta(strings.TrimSuffix(name, ".")))
			w.stillWaiting(2 * time.Second)
			lines := make(map[string]bool) // without the time
			for line := range strings.Lines(w.stderr.String()) {
				if !strings.Contains(line, "no answer") { // because the machine is busy
					_, text, _ := strings.Cut(line, " ")
					lines[text] = true
				}
			}
			if len(lines) != 1 {
				t.Errorf("%s\nwant one line, since nothing changed", w)
			}
		})
	}
}

// Without a cache in between, an SOA that allows an hour of negative caching causes no delay.
func TestDNSChangesAtAuthority(t *testing.T) {
	t.Parallel()
	const name = "db.example.test"
	for label, c := range map[string]struct {
		args          []string
		before, after []string
		log           string
	}{
		"appears":        {nil, nil, []string{"db A 192.0.2.10"}, `no such name`},
		"gets data":      {nil, []string{"db TXT soon"}, []string{"db AAAA 2001:db8::1"}, noData},
		"disappears":     {[]string{"--gone"}, []string{"db A 192.0.2.10"}, nil, name},
		"loses its data": {[]string{"--gone"}, []string{"db A 192.0.2.10"}, []string{"db TXT left"}, name},
		"moves":          {[]string{"--expect=192.0.2.99"}, []string{"db A 192.0.2.10"}, []string{"db A 192.0.2.99"}, `no record is 192\.0\.2\.99`},
		"grows":          {[]string{"--min-records=3"}, addresses(2), addresses(3), name},
		// More fits neither into a UDP answer nor into BIND's limit for one name.
		"grows, over TCP": {[]string{"--min-records=100"}, addresses(99), addresses(100), name},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			n := servers.StartNamed(t, zone(c.before...))
			w := start(t, append([]string{"wait-for-dns", name, "--server=" + n.Addr, "--timeout=60s"}, c.args...)...)
			w.untilLogged(c.log)
			w.stillWaiting(300 * time.Millisecond)
			n.SetRecords(t, c.after...)
			w.wantWithin(soon, ready)
		})
	}
}

// addresses are the records of a headless Service with n ready Pods.
func addresses(n int) []string {
	var records []string
	for i := range n {
		records = append(records, fmt.Sprintf("db A 192.0.2.%d", i+1))
	}
	return records
}

func TestDNSServerAppearsLate(t *testing.T) {
	t.Parallel()
	addr := servers.FreeAddr(t)
	w := start(t, "wait-for-dns", "db.example.test", "--server="+addr, "--timeout=60s")
	w.untilLogged(addr)
	servers.StartNamedAt(t, addr, zone("db A 192.0.2.10"))
	w.wantWithin(soon, ready)
}

// The first search domains fail in ways that end the search of other resolvers.
func TestDNSSearchList(t *testing.T) {
	t.Parallel()
	n := servers.StartNamed(t, zone("db.prod A 192.0.2.10", "_pg._tcp.db.prod SRV 0 0 5432 db.prod"))
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	search := []string{servers.ZoneServfail, servers.ZoneRefused, "dev.example.test", "prod.example.test"}
	text := "search " + strings.Join(search, " ") + "\noptions ndots:5\nnameserver 127.0.0.1\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	common := []string{"--resolv-conf=" + conf, "--server=" + n.Addr}
	waitForDNS := func(args ...string) []string { return slices.Concat([]string{"wait-for-dns"}, common, args) }

	r := start(t, waitForDNS("db", "--print", "--timeout=60s")...).want(ready)
	if r.Stdout != "192.0.2.10\n" {
		t.Errorf("printed %q, want the address that the fourth domain has", r.Stdout)
	}
	start(t, waitForDNS("_pg._tcp.db", "--type=SRV", "--timeout=60s")...).want(ready)
	start(t, waitForDNS("db.", "--timeout=60s")...).stuck(`db: .*refused`) // absolute: not searched
	start(t, waitForDNS("absent", "--timeout=60s")...).stuck(`absent`)     // nowhere in the list

	w := start(t, waitForDNS("late", "--timeout=60s")...)
	w.untilLogged(`late`)
	n.SetRecords(t, "late.prod A 192.0.2.11")
	w.wantWithin(soon, ready)
}

// wait-for-service resolves like wait-for-dns, and reports whether the name or the service is missing.
func TestServiceNameAppears(t *testing.T) {
	t.Parallel()
	n := servers.StartNamed(t, zone())
	addr := servers.FreeAddr(t)
	target := "tcp://db.example.test:" + addr[strings.LastIndexByte(addr, ':')+1:]
	w := start(t, "wait-for-service", target, "--server="+n.Addr, "--timeout=60s")
	w.untilLogged(`no such name`)
	n.SetRecords(t, "db A 127.0.0.1")
	w.untilLogged(`refused`)
	listen(t, addr)
	w.wantWithin(soon, ready)
}

// TestDNSThroughUnbound publishes a name just after a cache has stored that it does not exist. No client can resolve it
// before the denial expires, so earlier queries are useless.
func TestDNSThroughUnbound(t *testing.T) {
	t.Parallel()
	const name, ttl = "late.example.test", 8 * time.Second
	queries := make(map[string]int)
	t.Run("both", func(t *testing.T) {
		for label, c := range map[string]struct{ args, logs []string }{
			"aware":  {nil, []string{`no such name \(cached for [\d.]+ ?s\)`}},
			"polled": {[]string{"--ignore-negative-ttl"}, nil},
		} {
			authority := servers.StartNamed(t, servers.Zone{Origin: origin, NegativeTTL: ttl})
			cache := servers.StartUnbound(t, authority)
			t.Cleanup(func() { queries[label] = cache.Queries(name) })
			t.Run(label, func(t *testing.T) {
				t.Parallel()
				w := start(t, append([]string{"wait-for-dns", name, "--server=" + cache.Addr, "--timeout=60s"}, c.args...)...)
				w.untilLogged(`no such name`)
				authority.SetRecords(t, "late A 192.0.2.10")
				r := w.wantWithin(ttl+soon, ready, c.logs...)
				if least := ttl - 2*time.Second; r.Took < least {
					t.Errorf("ready after %v: the cache cannot have forgotten before %v", r.Took, least)
				}
			})
		}
	})
	t.Logf("queries over %v: %v", ttl, queries)
	// Each round asks for A and AAAA: a few rounds instead of about sixty.
	if queries["aware"] > 24 || queries["polled"] < 2*queries["aware"] {
		t.Errorf("%d queries knowing of the cache, %d not knowing", queries["aware"], queries["polled"])
	}
}

// TestDNSThroughCoreDNS resolves a short name as in a Pod: with the search list of a namespace, and a cache that sets
// the AA flag as if it were the authority.
func TestDNSThroughCoreDNS(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // CoreDNS keeps a denial for at least five
	c := servers.StartCoreDNS(t, servers.Zone{Origin: "cluster.local.", NegativeTTL: ttl})
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	const podConf = "search default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
	if err := os.WriteFile(conf, []byte(podConf), 0o644); err != nil {
		t.Fatal(err)
	}
	w := start(t, "wait-for-dns", "mydb", "--print", "--resolv-conf="+conf, "--server="+c.Addr, "--timeout=60s")
	w.untilLogged(`mydb.*no such name \(cached for [\d.]+ ?s\)`)
	c.SetRecords(t, "mydb.default.svc A 10.96.0.10")
	r := w.wantWithin(ttl+soon, ready)
	if r.Stdout != "10.96.0.10\n" {
		t.Errorf("printed %q, want the address of the Service", r.Stdout)
	}
	times := max(1, int(r.Took/ttl)) // that the cache has asked: once, unless the machine is busy
	if n := c.Queries("mydb.default.svc.cluster.local"); n > 24*times {
		t.Errorf("%d queries over %v, want a handful", n, r.Took)
	}
}

// A Service is removed: the cache still answers with it for the record's TTL.
func TestDNSGoneThroughCoreDNS(t *testing.T) {
	t.Parallel()
	c := servers.StartCoreDNS(t, servers.Zone{
		Origin: "cluster.local.", NegativeTTL: 30 * time.Second, Records: []string{"mydb.default.svc A 10.96.0.10"},
	})
	w := start(t, "wait-for-dns", "--gone", "mydb.default.svc.cluster.local", "--server="+c.Addr, "--timeout=60s")
	w.untilLogged(`mydb`)
	c.SetRecords(t)
	const recordTTL = 5 * time.Second
	w.wantWithin(recordTTL+soon, ready)
}
