package helpers

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// IPAddr returns what Ansible's filter ipaddr answers to a query about an address or a network, by the documentation of
// ansible.utils: a text, a number or a boolean; false if the value is neither, or the query has no answer. If version
// is 4 or 6, a value of the other family is neither. A query that is not supported is an error.
func IPAddr(value any, query string, version int) (any, error) {
	v, ok := parseIP(text(value))
	if n, err := strconv.ParseInt(query, 10, 64); err == nil {
		return v.answered(ok, version, func(v ipValue) any { return v.nth(n) }), nil
	}
	if within, known := parseIP(query); known {
		return v.answered(ok, version, func(v ipValue) any { return v.kept(within.Contains(v.Addr()) && within.Bits() <= v.Bits()) }), nil
	}
	answer := ipQueries[query]
	if answer == nil {
		known := slices.Sorted(maps.Keys(ipQueries))[1:] // without the empty one
		return nil, fmt.Errorf("there is no query %s: want an index, a network, or one of %s", query, strings.Join(known, ", "))
	}
	result := v.answered(ok, version, answer)
	if n, big := result.(*big.Int); big {
		if !n.IsInt64() {
			return nil, errors.New("the result is too large for 64 bits")
		}
		return n.Int64(), nil
	}
	return result, nil
}

// ipValue is an address, or an address in a network.
type ipValue struct {
	netip.Prefix
	network bool // it was given with a slash
}

// parseIP reads an address or a network, also with a number for the address or a mask behind the slash.
func parseIP(s string) (v ipValue, ok bool) {
	host, bits, slash := strings.Cut(s, "/")
	addr, err := netip.ParseAddr(host)
	if n, number := new(big.Int).SetString(host, 10); number && n.Sign() >= 0 && n.BitLen() <= 128 {
		addr, err = plus(netip.IPv6Unspecified(), n), nil
		if n.BitLen() <= 32 {
			addr = plus(netip.IPv4Unspecified(), n)
		}
	}
	if err != nil || addr.Zone() != "" {
		return v, false
	}
	size := addr.BitLen()
	if slash {
		if size, err = strconv.Atoi(bits); err != nil {
			size, ok = maskBits(bits)
			if !ok || addr.Is6() {
				return v, false
			}
		}
	}
	v = ipValue{netip.PrefixFrom(addr, size), slash}
	return v, v.IsValid()
}

// maskBits returns how many bits a mask of IPv4 has.
func maskBits(s string) (bits int, ok bool) {
	mask, err := netip.ParseAddr(s)
	for bits = 0; err == nil && bits <= 32; bits++ {
		if netmask(netip.PrefixFrom(netip.IPv4Unspecified(), bits)) == mask {
			return bits, true
		}
	}
	return 0, false
}

// answered returns an answer, or false.
func (v ipValue) answered(ok bool, version int, answer func(ipValue) any) any {
	if !ok || version == 4 && !v.Addr().Is4() || version == 6 && v.Addr().Is4() {
		return false
	}
	if result := answer(v); result != nil {
		return result
	}
	return false
}

func (v ipValue) String() string {
	if v.network {
		return v.Prefix.String()
	}
	return v.Addr().String()
}

// kept returns the value if a condition is met.
func (v ipValue) kept(condition bool) any { return when(condition, v.String) }

func when(condition bool, text func() string) any {
	if !condition {
		return nil
	}
	return text()
}

// inside returns whether the address is one in a network, and not the network's own.
func (v ipValue) inside() bool { return v.single() || v.Masked().Addr() != v.Addr() }

func (v ipValue) single() bool { return v.IsSingleIP() }

// at returns an address of the network, from its end if n is negative, or "" if there is none.
func (v ipValue) at(n int64) string {
	addr, err := nth(v.Prefix, big.NewInt(n))
	if err != nil {
		return ""
	}
	return addr.String()
}

func (v ipValue) nth(n int64) any {
	addr := v.at(n)
	return when(!v.single() && addr != "", func() string { return fmt.Sprintf("%s/%d", addr, v.Bits()) })
}

// usable returns the first and last addresses that hosts can have.
func (v ipValue) usable() (first, last netip.Addr) {
	edge := int64(1)
	if v.Bits() >= v.Addr().BitLen()-1 {
		edge = 0
	}
	first, _ = nth(v.Prefix, big.NewInt(edge))
	last, _ = nth(v.Prefix, big.NewInt(-1-edge))
	return first, last
}

// neighbour returns the address beside the value, if hosts can have it.
func (v ipValue) neighbour(addr netip.Addr) any {
	first, last := v.usable()
	return when(!v.single() && addr.IsValid() && addr.Compare(first) >= 0 && addr.Compare(last) <= 0, addr.String)
}

func (v ipValue) hostmask() string {
	size := addresses(v.Prefix)
	unspecified := netip.IPv6Unspecified()
	if v.Addr().Is4() {
		unspecified = netip.IPv4Unspecified()
	}
	return plus(unspecified, size.Sub(size, big.NewInt(1))).String()
}

func (v ipValue) reverse() string {
	b := v.Addr().AsSlice()
	slices.Reverse(b)
	var labels strings.Builder
	for _, octet := range b {
		if v.Addr().Is4() {
			fmt.Fprintf(&labels, "%d.", octet)
		} else {
			fmt.Fprintf(&labels, "%x.%x.", octet&15, octet>>4)
		}
	}
	if v.Addr().Is4() {
		return labels.String() + "in-addr.arpa."
	}
	return labels.String() + "ip6.arpa."
}

func (v ipValue) private() bool { return v.Addr().IsPrivate() || v.Addr().IsLinkLocalUnicast() }

func (v ipValue) public() bool { return v.Addr().IsGlobalUnicast() && !v.private() }

// ipQueries are the queries by their names. nil stands for false.
var ipQueries = map[string]func(ipValue) any{
	"":                func(v ipValue) any { return v.String() },
	"address":         func(v ipValue) any { return when(v.inside(), v.Addr().String) },
	"bool":            func(ipValue) any { return true },
	"broadcast":       func(v ipValue) any { return when(v.Bits() < v.Addr().BitLen()-1, func() string { return v.at(-1) }) },
	"first_usable":    func(v ipValue) any { first, _ := v.usable(); return when(!v.single(), first.String) },
	"host":            func(v ipValue) any { return when(v.inside(), v.Prefix.String) },
	"hostmask":        func(v ipValue) any { return v.hostmask() },
	"int":             func(v ipValue) any { return v.number() },
	"ipv4":            func(v ipValue) any { return v.kept(v.Addr().Is4()) },
	"ipv6":            func(v ipValue) any { return v.kept(v.Addr().Is6()) },
	"last_usable":     func(v ipValue) any { _, last := v.usable(); return when(!v.single(), last.String) },
	"link-local":      func(v ipValue) any { return v.kept(v.Addr().IsLinkLocalUnicast()) },
	"loopback":        func(v ipValue) any { return v.kept(v.Addr().IsLoopback()) },
	"multicast":       func(v ipValue) any { return v.kept(v.Addr().IsMulticast()) },
	"net":             func(v ipValue) any { return when(!v.inside(), v.Prefix.String) },
	"netmask":         func(v ipValue) any { return when(!v.single(), netmask(v.Prefix).String) },
	"network":         func(v ipValue) any { return when(!v.single(), v.Masked().Addr().String) },
	"next_usable":     func(v ipValue) any { return v.neighbour(v.Addr().Next()) },
	"prefix":          func(v ipValue) any { return int64(v.Bits()) },
	"previous_usable": func(v ipValue) any { return v.neighbour(v.Addr().Prev()) },
	"private":         func(v ipValue) any { return v.kept(v.private()) },
	"public":          func(v ipValue) any { return v.kept(v.public()) },
	"range_usable": func(v ipValue) any {
		first, last := v.usable()
		return when(!v.single(), func() string { return first.String() + "-" + last.String() })
	},
	"revdns":  func(v ipValue) any { return v.reverse() },
	"size":    func(v ipValue) any { return addresses(v.Prefix) },
	"subnet":  func(v ipValue) any { return v.Masked().String() },
	"version": func(v ipValue) any { return map[bool]int64{true: 4, false: 6}[v.Addr().Is4()] },
	"wrap":    func(v ipValue) any { return v.wrapped() },

	// Other names of these.
	"address/prefix": func(v ipValue) any { return when(v.inside(), v.Prefix.String) },
	"host/prefix":    func(v ipValue) any { return when(v.inside(), v.Prefix.String) },
	"network/prefix": func(v ipValue) any { return v.Masked().String() },
	"ip":             func(v ipValue) any { return when(v.inside(), v.Addr().String) },
	"wildcard":       func(v ipValue) any { return v.hostmask() },
}

// number returns the address as a number, of a network with its size behind a slash.
func (v ipValue) number() any {
	n := new(big.Int).SetBytes(v.Addr().AsSlice())
	if v.network {
		return fmt.Sprintf("%v/%d", n, v.Bits())
	}
	return n
}

// wrapped returns the value with brackets around an address of IPv6, as URLs need it.
func (v ipValue) wrapped() string {
	if v.Addr().Is4() {
		return v.String()
	}
	return strings.Replace(v.String(), v.Addr().String(), "["+v.Addr().String()+"]", 1)
}
