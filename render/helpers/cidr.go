package helpers

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
)

var errPrefix = errors.New("want a network such as 10.0.0.0/8 or fd00::/64")

// ParsePrefix returns the parts of a network in CIDR notation: address (as given), bits, network, netmask, first and
// last (the addresses at its ends), and version, 4 or 6.
func ParsePrefix(prefix any) (map[string]any, error) {
	p, err := netip.ParsePrefix(text(prefix))
	if err != nil {
		return nil, errPrefix
	}
	version := int64(6)
	if p.Addr().Is4() {
		version = 4
	}
	last, _ := nth(p, big.NewInt(-1))
	return map[string]any{
		"address": p.Addr().String(), "bits": int64(p.Bits()), "network": p.Masked().String(), "netmask": netmask(p).String(),
		"first": p.Masked().Addr().String(), "last": last.String(), "version": version,
	}, nil
}

// CIDRHost returns the n-th address of a network, from 0, or from its end if n is negative.
func CIDRHost(n, prefix any) (string, error) {
	p, err := netip.ParsePrefix(text(prefix))
	if err != nil {
		return "", errPrefix
	}
	i, ok := new(big.Int).SetString(text(n), 10)
	if !ok {
		return "", errors.New("want the number of an address, and then its network")
	}
	addr, err := nth(p, i)
	return addr.String(), err
}

// CIDRNetmask returns the mask of a network: 255.0.0.0 for 10.0.0.0/8.
func CIDRNetmask(prefix any) (string, error) {
	p, err := netip.ParsePrefix(text(prefix))
	if err != nil {
		return "", errPrefix
	}
	return netmask(p).String(), nil
}

// nth returns the address n of a network, from its end if n is negative.
func nth(p netip.Prefix, n *big.Int) (netip.Addr, error) {
	size := addresses(p)
	i := new(big.Int).Set(n)
	if i.Sign() < 0 {
		i.Add(i, size)
	}
	if i.Sign() < 0 || i.Cmp(size) >= 0 {
		return netip.Addr{}, fmt.Errorf("a network of /%d has %v addresses", p.Bits(), size)
	}
	return plus(p.Masked().Addr(), i), nil
}

// addresses returns how many addresses a network has.
func addresses(p netip.Prefix) *big.Int {
	return new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
}

// plus returns the address n after addr, which has to exist.
func plus(addr netip.Addr, n *big.Int) netip.Addr {
	sum := new(big.Int).Add(new(big.Int).SetBytes(addr.AsSlice()), n)
	moved, _ := netip.AddrFromSlice(sum.FillBytes(make([]byte, addr.BitLen()/8)))
	return moved
}

func netmask(p netip.Prefix) netip.Addr {
	ones := p.Addr().AsSlice()
	for i := range ones {
		ones[i] = 0xff
	}
	addr, _ := netip.AddrFromSlice(ones)
	return netip.PrefixFrom(addr, p.Bits()).Masked().Addr()
}
