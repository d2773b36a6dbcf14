// Package dns waits for records of domain names: dns:NAME. A short name goes through the search list, as in a Pod.
//
// A name is ready when it has an address, or a record of a type in the setting type. The setting family asks for IPv4
// or IPv6 addresses, or both; min-records for a number of records, as a headless Service has; expect for a value. The
// [resolver.Resolver] repeats a query when a negative cache entry expires.
package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/miekg/dns"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/internal/words"
	"initbox/waitfor/expect"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
)

// Kind is the kind of targets with the scheme dns.
var Kind = target.Kind{
	Schemes: []string{"dns"},
	Usage:   "dns:NAME",
	Ready:   "the name has an address, or records of the type asked for",
	Settings: []target.Setting{
		{Name: "type", Value: "LIST", Usage: "record types, any of which is enough: " + strings.Join(typeNames, ", ") + " (default A,AAAA)", Excludes: []string{"family"}},
		{Name: "family", Value: "4|6|both", Usage: "addresses of that family, or of both"},
		{Name: "min-records", Value: "N", Usage: "at least N records of one type, as a headless Service with N ready Pods has"},
		{Name: "expect", Value: "VALUE|CIDR|/REGEX/", Usage: "a record has the value, lies in the network, or matches; for SRV and MX the name alone is enough", Multi: true},
		{Name: "ignore-negative-ttl", Usage: "retry at the usual pace, even if a cache repeats that there is nothing"},
	},
	Name:  true,
	Show:  text,
	Parse: parse,
}

// typeNames are the record types that a target may name, in the order of the help.
var typeNames = []string{"A", "AAAA", "CNAME", "SRV", "MX", "NS", "TXT", "PTR"}

// Target returns the target that waits for name, which may contain any character.
func Target(name string) string { return "dns:" + url.PathEscape(name) }

type check struct {
	*target.Target
	name       string
	query      resolver.Query
	fixed      *resolver.Answer // of an address, which needs no query; else nil
	all        bool             // every type must have data
	minRecords int64
	expect     []expectation

	mu      sync.Mutex
	answers []string
}

// expectation is one --expect.
type expectation struct {
	text    string       // as written
	network netip.Prefix // valid for an address or a CIDR
	value   expect.Matcher
}

func parse(t *target.Target) (target.Check, error) {
	s := t.Settings
	name, err := nameOf(t)
	if err != nil {
		return nil, err
	}
	c := &check{Target: t, name: name}
	c.query = resolver.Query{Name: name, Grace: time.Second, Memory: new(resolver.Memory)}
	if s.On("ignore-negative-ttl") {
		c.query.Memory = nil
	}
	if err := c.parseTypes(s); err != nil {
		return nil, err
	}
	if err := c.fixAddress(); err != nil {
		return nil, err
	}
	if t.Gone {
		c.all = false // a name that lost the addresses of one family is not gone
		if s.On("expect") || s.On("min-records") {
			return nil, errors.New("gone means that there is no record at all: it cannot be combined with expect or min-records")
		}
	}
	if err := c.parseExpectations(s); err != nil || c.fixed == nil {
		return c, err
	}
	if err := c.judge(c.fixed); t.Gone || err != nil {
		return nil, errors.New("an address is never gone, and has no other record than itself")
	}
	return c, nil
}

func (c *check) parseExpectations(s target.Settings) (err error) {
	if c.minRecords, err = s.Count("min-records", 1); err != nil {
		return err
	}
	if c.minRecords == 0 {
		return errors.New("min-records: want a whole number from 1; to wait until there is no record use gone")
	}
	for _, text := range s["expect"] {
		e, err := parseExpectation(text)
		if err != nil {
			return fmt.Errorf("expect: %w", err)
		}
		c.expect = append(c.expect, e)
	}
	return nil
}

// notInNames are the characters with which something else than a name was meant.
var notInNames = []struct{ character, called, advice string }{
	{" ", "a space", "give each name as a separate argument"},
	{",", "a comma", "give each name as a separate argument"},
	{"/", "a slash", "give the host's name alone; wait-for-service takes URLs"},
	{":", "a colon", "give the host's name alone; wait-for-service takes ports, as in tcp://HOST:PORT"},
	{"*", "a *", "wait for a name that the wildcard covers"},
}

// text returns the name if it may be shown, otherwise the target without it.
func text(t *target.Target) string {
	name, err := url.PathUnescape(t.URL.Opaque)
	switch {
	case name != "" && err == nil && forms.Harmless(name):
		name = t.URL.Hide(name)
	case t.URL.Opaque == "" && t.URL.Host == "" && t.URL.Path == "":
		name = `""`
	default:
		return target.Plain(t)
	}
	if t.URL.RawQuery != "" {
		name += "?…"
	}
	return name
}

// nameOf returns the name of a dns target. Its errors do not quote text that may not be a name.
func nameOf(t *target.Target) (string, error) {
	if t.URL.Opaque == "" && (t.URL.Host != "" || t.URL.Path != "" || t.URL.User != nil) {
		return "", errors.New("want " + t.Kind.Usage + ", without a slash")
	}
	name, err := url.PathUnescape(t.URL.Opaque)
	switch {
	case err != nil:
		return "", errors.New("invalid percent-encoding, want " + t.Kind.Usage)
	case t.URL.In(name):
		return "", errors.New("the name must not be a secret")
	case t.URL.RawQuery != "" || t.URL.ForceQuery:
		name += "?"
	}
	if name == "" {
		return "", errors.New("is not a domain name: it is empty; is a variable not set?")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return name, nil
	}
	for _, c := range notInNames {
		if strings.Contains(name, c.character) {
			return "", fmt.Errorf("is not a domain name: it contains %s; %s", c.called, c.advice)
		}
	}
	if strings.Trim(name, words.NameCharacters) != "" {
		return "", errors.New("is not a domain name: a name has only letters from a to z, digits, -, _ and dots (another script is written with xn--)")
	}
	if _, ok := dns.IsDomainName(name); !ok || len(strings.TrimSuffix(name, ".")) > 253 || strings.Contains(name, "..") || strings.HasPrefix(name, ".") && name != "." {
		return "", errors.New("is not a domain name: a name has 1 to 63 characters between dots, and at most 253 in all")
	}
	return name, nil
}

func (c *check) parseTypes(s target.Settings) error {
	if s.On("type") {
		for _, name := range strings.Split(s.Get("type"), ",") {
			name = strings.ToUpper(strings.TrimSpace(name))
			if !slices.Contains(typeNames, name) {
				return fmt.Errorf("type: want one or more of %s", strings.Join(typeNames, ","))
			}
			if t := dns.StringToType[name]; !slices.Contains(c.query.Types, t) {
				c.query.Types = append(c.query.Types, t)
			}
		}
		return nil
	}
	switch s.Get("family") {
	case "", "both":
		c.query.Types = []uint16{dns.TypeA, dns.TypeAAAA}
		c.all = s.Get("family") == "both"
	case "4":
		c.query.Types = []uint16{dns.TypeA}
	case "6":
		c.query.Types = []uint16{dns.TypeAAAA}
	default:
		return errors.New("family: want 4, 6 or both")
	}
	return nil
}

// fixAddress takes an address as its own record, as getaddrinfo(3) does; with the type PTR, it replaces the address by
// its reverse name.
func (c *check) fixAddress() error {
	addr, err := netip.ParseAddr(c.name)
	if err != nil {
		return nil
	}
	record := dns.RR(&dns.A{Hdr: dns.RR_Header{Rrtype: dns.TypeA}, A: addr.AsSlice()})
	if !addr.Is4() {
		record = &dns.AAAA{Hdr: dns.RR_Header{Rrtype: dns.TypeAAAA}, AAAA: addr.AsSlice()}
	}
	switch {
	case slices.Equal(c.query.Types, []uint16{dns.TypePTR}):
	case c.all || !slices.Contains(c.query.Types, record.Header().Rrtype):
		return errors.New("an address is not a name: it has no record of another type or family; to wait for its reverse name use type PTR")
	default:
		c.fixed = &resolver.Answer{Name: c.name, Records: []dns.RR{record}}
		return nil
	}
	reverse, err := dns.ReverseAddr(c.name)
	if err != nil {
		return errors.New("is an address without a reverse name")
	}
	c.query.Name = reverse
	return nil
}

func parseExpectation(text string) (expectation, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return expectation{text: text, network: netip.PrefixFrom(addr, addr.BitLen())}, nil
	}
	if network, err := netip.ParsePrefix(text); err == nil {
		return expectation{text: text, network: network.Masked()}, nil
	}
	m, err := expect.ParseMatcher(text)
	m.Text = canonical(m.Text)
	return expectation{text: text, value: m}, err
}

// met reports whether a record meets the expectation. For SRV and MX, the name of the server is enough.
func (e expectation) met(rr dns.RR) bool {
	switch rr := rr.(type) {
	case *dns.SRV:
		return e.matches(recordValue(rr)) || e.matches(rr.Target)
	case *dns.MX:
		return e.matches(recordValue(rr)) || e.matches(rr.Mx)
	}
	return e.matches(recordValue(rr))
}

func (e expectation) matches(value string) bool {
	if e.network.IsValid() {
		addr, err := netip.ParseAddr(value)
		return err == nil && e.network.Contains(addr)
	}
	return e.value.Whole(value) || e.value.Whole(canonical(value))
}

// canonical returns a name for comparison: without case and final dot.
func canonical(value string) string { return strings.ToLower(strings.TrimSuffix(value, ".")) }

func (c *check) String() string { return c.name }

func (c *check) Check(ctx context.Context) error {
	poll.Doing(ctx, "asking for "+c.name)
	answer, err := c.fixed, error(nil)
	if answer == nil {
		answer, err = c.Resolver.Lookup(ctx, c.query)
	}
	if err != nil {
		return err
	}
	if err := c.judge(answer); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = values(answer)
	return nil
}

// values returns the values of an answer's records.
func values(answer *resolver.Answer) []string {
	all := words.Each(answer.Records, recordValue)
	slices.Sort(all) // servers rotate their answers; the output must not
	return slices.Compact(all)
}

// judge returns what an answer with records lacks, or nil.
func (c *check) judge(answer *resolver.Answer) error {
	if c.all && len(answer.Missing) > 0 {
		return &resolver.Failure{Tried: answer.Missing}
	}
	for _, e := range c.expect {
		if !slices.ContainsFunc(answer.Records, e.met) {
			f := failure.New(failure.Unexpected, "%s: no record is %s", strings.TrimSuffix(answer.Name, "."), e.text)
			f.Note = "found " + words.List(values(answer))
			return f
		}
	}
	number := map[uint16]int64{} // records that count, by type
	for _, rr := range answer.Records {
		if len(c.expect) == 0 || slices.ContainsFunc(c.expect, func(e expectation) bool { return e.met(rr) }) {
			number[rr.Header().Rrtype]++
		}
	}
	decisive := number[c.query.Types[0]] // the most of any type, or, if all types must have data, the fewest
	for _, t := range c.query.Types {
		if c.all {
			decisive = min(decisive, number[t])
		} else {
			decisive = max(decisive, number[t])
		}
	}
	if decisive < c.minRecords {
		// Not NoData: there are some.
		return failure.New(failure.Unexpected, "%s: %d of %d records", strings.TrimSuffix(answer.Name, "."), decisive, c.minRecords).
			WithHint("a headless Service has a record for each Pod that is ready (or with publishNotReadyAddresses: each Pod): look at its endpoints")
	}
	return nil
}

// Answers returns the records that made a dns target ready, one value each, sorted: names without the final dot, texts
// without quotes, and everything else as dig +short prints it. It returns nil for targets of other kinds.
func Answers(c target.Check) []string {
	d, ok := c.(*check)
	if !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answers
}

// recordValue returns a record's data on one line, in the presentation format, except that a text is unquoted and a
// name has no final dot.
func recordValue(rr dns.RR) string {
	switch rr := rr.(type) {
	case *dns.TXT:
		return oneLine(unescape(strings.Join(rr.Txt, "")))
	case *dns.SRV:
		return fmt.Sprintf("%d %d %d %s", rr.Priority, rr.Weight, rr.Port, strings.TrimSuffix(rr.Target, "."))
	case *dns.MX:
		return strconv.Itoa(int(rr.Preference)) + " " + strings.TrimSuffix(rr.Mx, ".")
	}
	value := strings.TrimPrefix(rr.String(), rr.Header().String())
	return strings.TrimSuffix(value, ".")
}

// unescape resolves the escapes of the presentation format (RFC 1035, section 5.1), \DDD for an octet and \X for X,
// which package dns leaves in texts.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if octet, err := strconv.ParseUint(s[i+1:i+4], 10, 8); err == nil {
				b.WriteByte(byte(octet))
				i += 3
				continue
			}
		}
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// oneLine escapes, in Go's syntax, only line breaks and other control characters, and bytes that are not UTF-8.
func oneLine(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)): // not UTF-8
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
