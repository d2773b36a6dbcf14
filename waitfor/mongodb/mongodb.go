// Package mongodb waits for MongoDB: mongodb://HOST[:PORT][,HOST…][/?replicaSet=NAME], or mongodb+srv://NAME, whose SRV
// records have the hosts.
//
// A router or a standalone server is ready when it answers hello, which needs no login. A replica set is ready when it
// has a primary; the setting role, or readPreference in the URL, waits for a secondary or any readable member instead.
// If the target has a user, the login must succeed, too.
package mongodb

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/internal/words"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the schemes mongodb and mongodb+srv.
var Kind = target.Kind{
	Schemes: []string{"mongodb", "mongodb+srv"},
	Usage:   "mongodb://HOST[:PORT][,HOST…][/?replicaSet=NAME] or mongodb+srv://NAME",
	Ready:   "answers hello, a primary exists, and the login succeeds if there is a user",
	Settings: append([]target.Setting{
		{Name: "role", Value: "primary|secondary|any", Usage: "the member of a replica set that must be ready (default: from readPreference in the URL, else primary)"},
	}, wire.ServerSettings...),
	Protocol: "MongoDB's protocol",
	Hosts:    true,
	Port:     "27017",
	Parse:    parse,
}

// check sends hello, which MongoDB answers without a login, and logs in.
//
// https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-discovery-and-monitoring.md
type check struct {
	wire.Server
	options
	login string          // how to log in: "" for SCRAM, PLAIN, or none
	seeds *resolver.Query // the SRV query of mongodb+srv://, else nil
}

// options are the relevant parameters of the URL. With mongodb+srv://, a TXT record may have some, too.
type options struct {
	set      string // the required replica set; "" if any server is accepted
	source   string // the database that has the user; "" for the default
	role     string // primary, secondary or any
	direct   bool   // only the named server counts, not the others of its set
	balanced bool   // the server is behind a load balancer
}

func parse(t *target.Target) (target.Check, error) {
	s, err := wire.NewServer(t)
	if err != nil {
		return nil, err
	}
	c := check{Server: s}
	if err := c.parameters(); err != nil {
		return nil, err
	}
	if err := c.parseLogin(); err != nil {
		return nil, err
	}
	role, err := t.Settings.OneOf("role", "primary", "secondary", "any")
	if err != nil {
		return nil, err
	}
	c.role = cmp.Or(role, c.role)
	if t.Scheme == "mongodb+srv" {
		err = c.parseSeeds()
		return c, err
	}
	return c, nil
}

// parameters reads the parameters of MongoDB's URLs that say how to connect, and to which members
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

// readRole returns the role of the members that a driver reads from with the preference.
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

// ask asks a server and, if it has the wrong role, the members that it names, as drivers do.
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
	f.Text = secret.Quote(strings.Join(others.Addrs, ",")) + ", which the replica set names as its " + cmp.Or(strings.TrimPrefix(c.role, "any"), "members") + ": " + f.Text
	f.Elsewhere, f.Err = true, err
	if f.Class != failure.Unexpected && f.Class != failure.Authentication {
		f.Hint = "drivers connect to the names in the replica set's configuration: can this Pod resolve and reach them?"
	}
	return &f
}

// elsewhere returns the addresses of other members that may have the role, according to the server at addr.
func (c check) elsewhere(state status, addr string) []string {
	names := state.hosts
	if c.role == "primary" {
		names = []string{state.primary}
	}
	var addrs []string
	for _, name := range names[:min(len(names), members)] {
		if other, err := wire.JoinHostPort(name, c.Kind.Port); err == nil && other != addr && other != state.me {
			addrs = append(addrs, other)
		}
	}
	return addrs
}

// members is the maximum number of members of a replica set.
const members = 50

// judge returns what is missing, if anything. It is final if the members that the server names cannot change that.
func (c check) judge(state status) (problem error, final bool) {
	set, err := c.URL.Value(c.set)
	if err != nil {
		return err, true
	}
	switch {
	case state.uninitialised:
		return failure.New(failure.Unexpected, "the server is not a member of its replica set yet").
			WithHint("run rs.initiate() on one of the members, or rs.add() for this one"), true
	case set != "" && state.set == "":
		return failure.New(failure.Unexpected, "the server is not in a replica set").
			WithHint("remove replicaSet from the URL, or start mongod with --replSet"), true
	case set != "" && state.set != set:
		return failure.New(failure.Unexpected, "the server is in another replica set, %s", secret.Quote(state.set, c.URL.Secrets()...)).
			WithHint("is replicaSet in the URL right?"), true
	case state.set == "" && state.writable: // a mongos, or a standalone mongod
		return nil, true
	}
	found := map[string]bool{"primary": state.writable, "secondary": state.secondary, "any": state.writable || state.secondary}
	if found[c.role] {
		return nil, true
	}
	f := failure.New(failure.Unexpected, "the server is %s, not %s", state.word(), map[string]string{"primary": "the primary", "secondary": "a secondary", "any": "readable"}[c.role])
	if c.role == "primary" && state.primary == "" {
		f.Text = "no primary yet: the server is " + state.word()
		f.Hint = "a replica set elects a primary when a majority of its members can reach each other: are they running?"
	}
	return f, false
}

// parseSeeds prepares a mongodb+srv:// target
// (https://github.com/mongodb/specifications/blob/master/source/initial-dns-seedlist-discovery/initial-dns-seedlist-discovery.md).
func (c *check) parseSeeds() error {
	if len(c.Addrs) != 1 || c.URL.Port() != "" {
		return errors.New("mongodb+srv:// needs one name, without a port: its SRV records contain hosts and ports")
	}
	service := cmp.Or(c.URL.Param("srvServiceName"), "mongodb")
	if strings.Trim(service, words.NameCharacters) != "" || c.URL.In(service) {
		return errors.New("srvServiceName: want the name of a service")
	}
	c.seeds = &resolver.Query{Name: "_" + service + "._tcp." + c.URL.Hostname(), Memory: new(resolver.Memory)}
	return nil
}

// take adds the options of a TXT record, where the URL does not set them.
func (o *options) take(text string) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return
	}
	o.set = cmp.Or(o.set, values.Get("replicaSet"))
	o.source = cmp.Or(o.source, values.Get("authSource"))
	o.balanced = o.balanced || values.Get("loadBalanced") == "true"
}
