package generate

import (
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// groups are the sizes of the groups of RFC 7919 in bits, and the number X in the definition of each prime.
var groups = map[string][2]int64{
	"ffdhe2048": {2048, 560316},
	"ffdhe3072": {3072, 2625351},
	"ffdhe4096": {4096, 5736041},
	"ffdhe6144": {6144, 15705020},
	"ffdhe8192": {8192, 10965728},
}

// Groups returns the names of the groups.
func Groups() []string { return slices.Sorted(maps.Keys(groups)) }

// NewDHParam returns a maker of the parameters of a group of RFC 7919 for Diffie-Hellman key exchange, a DHParameter of
// PKCS #3. They are not random: a group that experts have examined is safer than a new one, and takes no time.
func NewDHParam(group string) (Maker, error) {
	of, found := groups[group]
	if !found {
		return nil, fmt.Errorf("group: want %s", strings.Join(Groups(), ", "))
	}
	return value{"parameters " + group, func() ([]byte, error) {
		der, err := asn1.Marshal(struct{ Prime, Base *big.Int }{prime(uint(of[0]), of[1]), big.NewInt(2)})
		return pem.EncodeToMemory(&pem.Block{Type: "DH PARAMETERS", Bytes: der}), err
	}}, nil
}

// prime returns 2^b - 2^(b-64) + ([2^(b-130) e] + x) * 2^64 - 1, as appendix A of RFC 7919 defines its primes.
func prime(b uint, x int64) *big.Int {
	const guard = 64 // more bits of e, for the sum of rounded terms
	term := new(big.Int).Lsh(big.NewInt(1), b-130+guard)
	e := new(big.Int)
	for n := int64(1); term.Sign() > 0; n++ { // e is the sum of 1/n!
		e.Add(e, term)
		term.Div(term, big.NewInt(n))
	}
	e.Rsh(e, guard)
	power := func(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }
	p := e.Add(e, big.NewInt(x))
	p.Lsh(p, 64)
	p.Add(p, power(b)).Sub(p, power(b-64))
	return p.Sub(p, big.NewInt(1))
}
