// Package redis waits for Redis, Valkey and compatible servers: redis://HOST[:PORT][,HOST…][/DATABASE], rediss:// with
// TLS, redis+socket:///PATH, or redis+sentinel://HOST/NAME for the master that sentinels name.
//
// A server is ready when it answers PING after the login, if there is one, and is not loading its data. The setting key
// waits for a key or its value, role for a master or a replica whose link is up, and cluster for a complete cluster.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/expect"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the schemes redis, rediss, valkey, valkeys, redis+sentinel, rediss+sentinel and
// redis+socket.
var Kind = target.Kind{
	Schemes:  []string{"redis", "rediss", "valkey", "valkeys", "redis+sentinel", "rediss+sentinel", "redis+socket"},
	Usage:    "redis://HOST[:PORT][,HOST…][/DATABASE]",
	Ready:    "answers PING, and is not loading its data; of several hosts, one is enough",
	Settings: settings,
	Protocol: "Redis",
	Hosts:    true,
	Port:     "6379",
	Parse:    parse,
}

var settings = slices.Concat(wire.ServerSettings, []target.Setting{
	{Name: "key", Value: "KEY[=VALUE]", Usage: "the key exists, or its string is VALUE or matches /REGEX/", Multi: true},
	{Name: "role", Value: "ROLE", Usage: "the server is a master, or a replica whose link to its master is up"},
	{Name: "cluster", Usage: "the cluster's state is ok"},
	{Name: "sentinel", Value: "NAME", Usage: "the hosts are sentinels: wait for the master with this name"},
	{Name: "sentinel-user", Value: "NAME", Usage: "user to log in to the sentinels as, with --sentinel-password-file", Needs: "sentinel-password-file"},
	{Name: "sentinel-password-file", Value: "FILE", Usage: "file with the sentinels' password"},
})

// check asks any of several servers, or the master that any of several sentinels names.
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/
type check struct {
	wire.Server
	database string // a number; "" for the first
	role     string // "master", "replica" or ""
	cluster  bool
	keys     []expectedKey
	sentinel string // the name of the master; "" if Addrs are not sentinels
}

// An expectedKey is a key that must exist, with a matching value if that is not nil.
type expectedKey struct {
	name  string
	value *expect.Matcher
}

func parse(t *target.Target) (target.Check, error) {
	c := check{Server: wire.Unaddressed(t), role: t.Settings.Get("role"), cluster: t.Settings.On("cluster"), sentinel: t.Settings.Get("sentinel")}
	base, form, _ := strings.Cut(t.Scheme, "+")
	path := strings.Trim(t.URL.Path, "/")
	c.sentinel = cmp.Or(c.sentinel, t.URL.Param("sentinelMasterId", "master_name")) // of lettuce and go-redis, also in redis://
	if form == "sentinel" && c.sentinel == "" {                                     // redis+sentinel://HOST/NAME[/DATABASE]
		c.sentinel, path, _ = strings.Cut(path, "/")
	}
	if form == "sentinel" && c.sentinel == "" || t.URL.In(c.sentinel) {
		return nil, errors.New("the name of the master is missing, want " + t.Scheme + "://HOST[:PORT][,HOST…]/NAME[/DATABASE], or the setting sentinel")
	}
	socket := t.URL.Param("socket")
	if form == "socket" {
		socket, path = t.URL.Host+t.URL.Path, ""
	}
	if err := c.addresses(socket); err != nil {
		return nil, err
	}
	if err := c.parameters(base); err != nil {
		return nil, err
	}
	if c.database = cmp.Or(path, t.URL.Param("db", "database")); c.database != "" {
		if _, err := strconv.ParseUint(c.database, 10, 31); err != nil {
			return nil, errors.New("the database is a number, as in redis://HOST/0")
		}
	}
	err := c.expectations()
	return c, err
}

// addresses sets the addresses of the servers or sentinels, or the path of the server's Unix socket.
func (c *check) addresses(socket string) error {
	switch {
	case socket == "" && c.sentinel == "":
		return c.AddHosts(c.Kind.Port)
	case socket == "":
		return c.AddHosts("26379")
	case !strings.HasPrefix(socket, "/") || c.URL.In(socket):
		return errors.New("the path of the socket must be absolute, as in redis+socket:///run/redis.sock")
	case c.Settings.On("sentinel"):
		return errors.New("sentinels need hosts, not a socket")
	}
	c.Addrs = []string{socket}
	return nil
}

// parameters reads the TLS parameters in the URLs of redis-py (ssl_…), go-redis (skip_verify) and others.
func (c *check) parameters(scheme string) error {
	c.Encrypted = c.Encrypted || scheme == "rediss" || scheme == "valkeys" || forms.Yes(c.URL.Param("ssl")) || forms.Yes(c.URL.Param("tls"))
	c.TLS.Insecure = c.TLS.Insecure || forms.IsOneOf(c.URL.Param("ssl_cert_reqs"), "none", "cert_none") || forms.Yes(c.URL.Param("skip_verify"))
	c.TLS.AnyName = forms.No(c.URL.Param("ssl_check_hostname"))
	return c.Certificates([]string{"ssl_ca_certs"}, []string{"ssl_certfile"}, []string{"ssl_keyfile"})
}

func (c *check) expectations() error {
	for _, text := range c.Settings["key"] {
		name, value, valued := strings.Cut(text, "=")
		key := expectedKey{name: name}
		if valued {
			m, err := expect.ParseMatcher(value)
			if err != nil {
				return fmt.Errorf("key: %w", err)
			}
			key.value = &m
		}
		if name == "" {
			return errors.New("key: want KEY, KEY=VALUE or KEY=/REGEX/")
		}
		c.keys = append(c.keys, key)
	}
	switch c.role {
	case "slave":
		c.role = "replica"
	case "", "master", "replica":
	default:
		return errors.New("role: want master or replica")
	}
	switch {
	case c.sentinel != "" && c.role == "replica":
		return errors.New("role: sentinels name the master, not replicas")
	case c.sentinel != "" && c.cluster:
		return errors.New("cluster and sentinel: a cluster has no sentinels")
	case c.sentinel == "" && c.Settings.On("sentinel-password-file"):
		return errors.New("sentinel-user and sentinel-password-file need sentinels: redis+sentinel://HOST/NAME")
	}
	return nil
}

func (c check) Check(ctx context.Context) error {
	if c.sentinel != "" {
		return wire.Any(ctx, c.Server, c.askSentinel)
	}
	return wire.Any(ctx, c.Server, c.ask)
}

func (c check) ask(ctx context.Context, addr string) error {
	user, password, err := wire.Login(c.Server, "", "REDISCLI_AUTH")
	if err != nil {
		return err
	}
	r, err := c.open(ctx, addr, user, password)
	if err != nil {
		return err
	}
	defer r.Close()
	if c.database != "" && strings.Trim(c.database, "0") != "" {
		if err := r.want("OK", "SELECT", c.database); err != nil {
			return err
		}
	}
	if err := r.want("PONG", "PING"); err != nil {
		return err
	}
	if c.role != "" || c.sentinel != "" {
		if err := c.checkRole(r); err != nil {
			return err
		}
	}
	if c.cluster {
		if err := r.clusterState(); err != nil {
			return err
		}
	}
	for _, key := range c.keys {
		if err := c.checkKey(ctx, r, key); err != nil {
			return err
		}
	}
	return nil
}

// open connects, and logs in if there is a password.
func (c check) open(ctx context.Context, addr, user, password string) (*session, error) {
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return nil, err
	}
	r := &session{Conversation: conn, target: c.Target, secrets: []string{password}}
	if password == "" {
		return r, nil
	}
	login := []string{"AUTH", password}
	if user != "" {
		login = []string{"AUTH", user, password}
	}
	if err := r.want("OK", login...); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// checkRole asks for the server's role. If the user may not ask, a server named by a sentinel counts as the master.
func (c check) checkRole(r *session) error {
	role, link, err := r.role()
	if err != nil && c.role == "" && failure.Of(err).Class == failure.Authentication {
		return nil
	}
	var f *failure.Failure
	switch {
	case err != nil:
		return err
	case role != "master" && role != "replica":
		return c.Kind.OtherProtocol()
	case c.role == "replica" && role == "master":
		f = failure.New(failure.Unexpected, "the server is the master, not a replica")
		f.Hint = "is it the Service of the replicas? REPLICAOF makes the server one"
	case c.role != "replica" && role == "replica":
		f = failure.New(failure.Unexpected, "the server is a replica, not the master")
		f.Hint = "is it the Service of the master? after a failover, the Service's labels and the sentinels are updated with a delay"
	case role == "replica" && link != "connected" && link != "up":
		f = failure.New(failure.Unexpected, "the replica's link to its master is down")
		f.Note = "state: " + link
		f.Hint = "is the master running, and does the replica have its password (masterauth)? see the replica's log"
	default:
		return nil
	}
	return f
}

// askThere sends a command to another server of the cluster.
func (c check) askThere(ctx context.Context, addr string, command ...string) (answer, error) {
	user, password, err := wire.Login(c.Server, "", "REDISCLI_AUTH")
	if err != nil {
		return answer{}, err
	}
	there, err := c.open(ctx, addr, user, password)
	if err != nil {
		return answer{}, err
	}
	defer there.Close()
	return there.do(command...)
}

// checkKey looks for a key, on the server that the cluster stores it on.
func (c check) checkKey(ctx context.Context, r *session, key expectedKey) error {
	poll.Doing(ctx, "asking for the key")
	command := "EXISTS"
	if key.value != nil {
		command = "GET"
	}
	reply, err := r.do(command, key.name)
	if err != nil {
		return err
	}
	if addr, moved := r.movedTo(reply); moved {
		reply, err = c.askThere(ctx, addr, command, key.name)
		if err != nil && !poll.Ended(ctx) {
			f := *failure.Of(err)
			f.Text = secret.Quote("the key is at "+addr+": "+f.Text, r.secrets...)
			f.Elsewhere, f.Err = true, err
			return &f
		}
		if err != nil {
			return err
		}
	}
	switch {
	case reply.kind == '-':
		return r.failed(reply.text)
	case reply.kind == ':' && reply.text == "1", reply.kind == '$' && !reply.null && key.value != nil && key.value.Whole(reply.text):
		return nil
	case reply.kind == ':', reply.null:
		return failure.New(failure.Unexpected, "key %q does not exist", secret.Quote(key.name)).
			WithHint("what should write it, and into this database? its number is in the URL: redis://HOST/0")
	case reply.kind == '$': // the value is not shown: it may be a secret
		return failure.New(failure.Unexpected, "key %q has another value", secret.Quote(key.name)).WithHint("redis-cli GET shows it")
	}
	return c.Kind.OtherProtocol()
}
