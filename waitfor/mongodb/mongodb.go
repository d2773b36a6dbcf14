// Package mongodb waits for MongoDB: for a member of a replica set that takes writes, a router, or
// a server alone.
package mongodb

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/resolver"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is that of targets with the schemes mongodb and mongodb+srv.
var Kind = target.Kind{
	Schemes: []string{"mongodb", "mongodb+srv"},
	Usage:   "mongodb://HOST[:PORT][,HOST…][/?replicaSet=NAME] or mongodb+srv://NAME",
	Ready:   "hello is answered, and a primary exists",
	Settings: append([]target.Setting{
		{Name: "role", Value: "primary|secondary|any", Usage: "which member of a replica set it takes (default: as readPreference in the URL has it, else primary)"},
	}, wire.EncryptionSettings...),
	Protocol: "MongoDB's protocol",
	Hosts:    true,
	Parse:    parse,
}

// check asks for hello, which MongoDB answers to everybody: nobody logs in.
//
// https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-discovery-and-monitoring.md
type check struct {
	wire.Server
	options
	seeds *resolver.Query // of mongodb+srv://, what the hosts are asked for; else nil
}

// options are those of the URL's parameters that matter here, which
// mongodb+srv:// may have in a TXT record, too.
type options struct {
	set      string // of replicas, that it has to be; "" if any, or none, will do
	role     string // primary, secondary or any
	direct   bool   // no other server will do than the one that is named
	balanced bool   // there is a load balancer before it
}

func parse(t *target.Target) (target.Check, error) {
	if err := target.Only(t, "user path query"); err != nil {
		return nil, err
	}
	s, err := wire.NewServer(t, "27017")
	if err != nil {
		return nil, err
	}
	c := check{Server: s}
	if err := c.parameters(); err != nil {
		return nil, err
	}
	if role := t.Settings.Get("role"); role != "" {
		if !slices.Contains([]string{"primary", "secondary", "any"}, role) {
			return nil, errors.New("role: want primary, secondary or any")
		}
		c.role = role
	}
	if t.Scheme == "mongodb+srv" {
		return c, c.parseSeeds()
	}
	return c, nil
}

// parameters reads those of MongoDB's URLs that say how to connect, and to whom
// (https://www.mongodb.com/docs/manual/reference/connection-string-options/).
func (c *check) parameters() error {
	on := func(names ...string) bool { return forms.Yes(c.URL.Param(names...)) }
	c.set = c.URL.Param("replicaSet")
	c.direct, c.balanced = on("directConnection"), on("loadBalanced")
	c.role = readRole(c.URL.Param("readPreference"))
	c.Encrypted = c.Encrypted || on("tls", "ssl")
	if c.Scheme == "mongodb+srv" && !forms.No(c.URL.Param("tls", "ssl")) {
		c.Encrypted = true
	}
	c.TLS.Insecure = c.TLS.Insecure || on("tlsInsecure") || on("tlsAllowInvalidCertificates")
	c.TLS.AnyName = on("tlsAllowInvalidHostnames")
	return c.Certificates([]string{"tlsCAFile"}, []string{"tlsCertificateKeyFile"}, nil)
}

// readRole is the member that a driver reads from with the preference.
func readRole(preference string) string {
	switch strings.ToLower(preference) {
	case "secondary":
		return "secondary"
	case "secondarypreferred", "primarypreferred", "nearest":
		return "any"
	}
	return "primary"
}

func (c check) Check(ctx context.Context) error {
	if err := c.discover(ctx); err != nil {
		return err
	}
	return wire.Any(ctx, c.Server, c.ask)
}

// ask asks a server and, if that is not the one that is wanted, whom it names: so
// do drivers.
func (c check) ask(ctx context.Context, addr string) error {
	state, err := c.hello(ctx, addr)
	if err != nil {
		return err
	}
	problem, final := c.judge(state)
	if problem == nil || c.direct || final {
		return problem
	}
	others := c.Server
	others.Addrs = c.elsewhere(state, addr)
	if len(others.Addrs) == 0 {
		return problem
	}
	err = wire.Any(ctx, others, func(ctx context.Context, other string) error {
		state, err := c.hello(ctx, other)
		if err == nil {
			err, _ = c.judge(state)
		}
		return err
	})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	f := *failure.Of(err)
	f.Text = wire.Quote(strings.Join(others.Addrs, ",")) + ", as the replica set calls its " + cmp.Or(strings.TrimPrefix(c.role, "any"), "members") + ": " + f.Text
	f.Elsewhere, f.Err = true, err
	if f.Class != failure.Unexpected {
		f.Hint = "drivers connect to the names that the replica set's configuration has: can this Pod resolve and reach them?"
	}
	return &f
}

// elsewhere returns the addresses of those who may be what is wanted, as the
// server at addr knows them.
func (c check) elsewhere(state status, addr string) []string {
	names := state.hosts
	if c.role == "primary" {
		names = []string{state.primary}
	}
	var addrs []string
	for _, name := range names[:min(len(names), members)] {
		if other, err := wire.JoinHostPort(name, "27017"); err == nil && other != addr && other != state.me {
			addrs = append(addrs, other)
		}
	}
	return addrs
}

// members is as many members as a replica set can have.
const members = 50

// judge says what is missing, and whether those that the server names need not be asked.
func (c check) judge(state status) (problem error, final bool) {
	set, err := c.URL.Value(c.set)
	if err != nil {
		return err, true
	}
	switch {
	case state.uninitialised:
		f := failure.New(failure.Unexpected, "the server is not a member of its replica set yet")
		f.Hint = "run rs.initiate() on one of the members, or rs.add() for this one"
		return f, true
	case set != "" && state.set == "":
		f := failure.New(failure.Unexpected, "the server is of no replica set")
		f.Hint = "leave out replicaSet, or start mongod with --replSet"
		return f, true
	case set != "" && state.set != set:
		f := failure.New(failure.Unexpected, "the server is of another replica set, %s", wire.Quote(state.set, c.URL.Secrets()...))
		f.Hint = "is replicaSet in the URL right?"
		return f, true
	case state.set == "" && state.writable: // a mongos, or a mongod on its own
		return nil, true
	}
	found := map[string]bool{"primary": state.writable, "secondary": state.secondary, "any": state.writable || state.secondary}
	if found[c.role] {
		return nil, true
	}
	f := failure.New(failure.Unexpected, "the server is %s, not %s", state.word(), map[string]string{"primary": "the primary", "secondary": "a secondary", "any": "one that can be read"}[c.role])
	if c.role == "primary" && state.primary == "" {
		f.Text = "no primary yet: the server is " + state.word()
		f.Hint = "a replica set elects a primary as soon as most of its members see each other: are they up?"
	}
	return f, false
}

// parseSeeds prepares a mongodb+srv:// target
// (https://github.com/mongodb/specifications/blob/master/source/initial-dns-seedlist-discovery/initial-dns-seedlist-discovery.md).
func (c *check) parseSeeds() error {
	if len(c.Addrs) != 1 || c.URL.Port() != "" {
		return errors.New("mongodb+srv:// takes one name, without a port: its SRV records have hosts and ports")
	}
	service := cmp.Or(c.URL.Param("srvServiceName"), "mongodb")
	if strings.Trim(service, forms.NameCharacters) != "" || c.URL.In(service) {
		return errors.New("srvServiceName: want the name of a service")
	}
	c.seeds = &resolver.Query{Name: "_" + service + "._tcp." + c.URL.Hostname(), Memory: new(resolver.Memory)}
	return nil
}

// take adds those of a TXT record, where the URL does not say otherwise.
func (o *options) take(text string) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return
	}
	o.set = cmp.Or(o.set, values.Get("replicaSet"))
	o.balanced = o.balanced || values.Get("loadBalanced") == "true"
}
