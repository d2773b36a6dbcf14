package helpers

import (
	"strings"
	"testing"
)

// TestIPAddr pins the answers of Ansible's documentation, and of the edges of networks.
func TestIPAddr(t *testing.T) {
	list := []string{"192.24.2.1", "host.fqdn", "::1", "192.168.32.0/24", "fe80::100/10", "True", "", "42540766412265424405338506004571095040/64"}
	for query, want := range map[string]string{
		"":            `"192.24.2.1" "::1" "192.168.32.0/24" "fe80::100/10" "2001:db8:32c:faad::/64"`,
		"address":     `"192.24.2.1" "::1" "fe80::100"`,
		"host":        `"192.24.2.1/32" "::1/128" "fe80::100/10"`,
		"net":         `"192.168.32.0/24" "2001:db8:32c:faad::/64"`,
		"private":     `"192.168.32.0/24" "fe80::100/10"`,
		"public":      `"192.24.2.1" "2001:db8:32c:faad::/64"`,
		"192.0.0.0/8": `"192.24.2.1" "192.168.32.0/24"`,
		"1":           `"192.168.32.1/24" "fe80::1/10" "2001:db8:32c:faad::1/64"`,
		"-1":          `"192.168.32.255/24" "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff/10" "2001:db8:32c:faad:ffff:ffff:ffff:ffff/64"`,
		"prefix":      "32 128 24 10 64",
		"version":     "4 6 4 6 6",
		"bool":        "true true true true true",
		"loopback":    `"::1"`,
		"link-local":  `"fe80::100/10"`,
		"wrap":        `"192.24.2.1" "[::1]" "192.168.32.0/24" "[fe80::100]/10" "[2001:db8:32c:faad::]/64"`,
	} {
		var got []string
		for _, value := range list {
			if answer := outcome(IPAddr(value, query, 0)); answer != "false" {
				got = append(got, answer)
			}
		}
		expect(t, query, strings.Join(got, " "), want)
	}
	for what, want := range map[string]string{
		"192.168.32.5/24 network": `"192.168.32.0"`, "192.168.32.5/24 netmask": `"255.255.255.0"`, "192.168.32.5/24 broadcast": `"192.168.32.255"`,
		"192.168.32.5/24 subnet": `"192.168.32.0/24"`, "192.168.32.5/24 hostmask": `"0.0.0.255"`, "192.168.32.5/24 size": "256", "192.168.32.5/24 address": `"192.168.32.5"`,
		"192.168.32.5/24 range_usable": `"192.168.32.1-192.168.32.254"`, "192.168.32.5/24 next_usable": `"192.168.32.6"`, "192.168.32.5/24 previous_usable": `"192.168.32.4"`,
		"192.168.32.5/255.255.255.0 prefix": "24", "192.168.32.5/255.0.255.0 prefix": "false", "192.168.32.254/24 next_usable": "false", "192.168.32.1/24 previous_usable": "false",
		"192.168.32.5 revdns": `"5.32.168.192.in-addr.arpa."`, "2001:db8::1 revdns": `"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa."`,
		"192.168.0.1 int": "3232235521", "192.168.0.1/16 int": `"3232235521/16"`, "3232235521 ": `"192.168.0.1"`, "10.0.0.0/31 range_usable": `"10.0.0.0-10.0.0.1"`,
		"10.0.0.0/31 broadcast": "false", "10.0.0.1/32 netmask": "false", "10.0.0.1 network": "false", "10.0.0.0/30 4": "false", "10.0.0.0/30 -5": "false", "10.0.0.1 0": "false",
		"fd00::/64 size": "error: the result is too large", "fd00::/120 size": "256", "fd00::1 int": "error: the result is too large", "10.0.0.0/8 10.0.0.0/16": "false",
		"10.0.0.0/33 ": "false", "10.0.0.0/-1 ": "false", "fe80::1%eth0 ": "false", "10.0.0 ": "false", "255.255.255.255/0 next_usable": "false",
		"10.0.0.1 ipv4": `"10.0.0.1"`, "10.0.0.1 ipv6": "false", "10.0.0.1 peer": "error: there is no query peer: want an index, a network, or one of address,",
	} {
		value, query, _ := strings.Cut(what, " ")
		expect(t, what, outcome(IPAddr(value, query, 0)), want)
	}
	for version, want := range map[int]string{4: "true false", 6: "false true", 0: "true true"} {
		expect(t, "version", outcome(IPAddr("10.0.0.1", "bool", version))+" "+outcome(IPAddr("::1", "bool", version)), want)
	}
}
