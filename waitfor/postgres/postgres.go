// Package postgres waits for PostgreSQL: postgres://[USER@]HOST[:PORT][,HOST…][/DATABASE], or a connection string of
// libpq. The parts of a target mean the same as in libpq, environment variables such as PGPASSWORD included.
//
// Without a user, a server is ready as soon as it does not refuse every login, as for pg_isready. With one, it must
// accept the login and answer a query: that of the setting query, whose first column must be true, or SELECT 1.
// ?target_session_attrs=read-write waits for a server that accepts writes.
package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/internal/words"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the schemes postgres and postgresql.
var Kind = target.Kind{
	Schemes:  []string{"postgres", "postgresql"},
	Usage:    "postgres://[USER@]HOST[:PORT][,HOST…][/DATABASE]",
	Ready:    "answers; with a user, accepts the login and answers a query; of several hosts, one is enough",
	Settings: slices.Concat(wire.ServerSettings, []target.Setting{wire.QuerySetting}),
	Protocol: "PostgreSQL",
	Hosts:    true,
	Port:     "5432",
	Parse:    parse,
}

// check logs in as libpq would, and runs a query. Without a user it does what pg_isready does: a server that asks for
// credentials, or refuses a login without any, is ready. It speaks version 3.0 of the protocol, which every server
// since 7.4 supports:
// https://www.postgresql.org/docs/current/protocol-message-formats.html
type check struct {
	wire.Server
	query string
}

func parse(t *target.Target) (target.Check, error) {
	c := check{Server: wire.Unaddressed(t), query: t.Settings.Get("query")}
	c.Encrypted = false // sslmode decides
	if t.URL.Opaque != "" {
		return nil, errors.New("host missing, want " + t.Kind.Usage)
	}
	o, err := c.options()
	if later := (*failure.Failure)(nil); errors.As(err, &later) {
		return c, nil // a file may be mounted late
	}
	if err == nil && o.user == "" && (c.query != "" || o.session != "any") {
		err = errors.New("query and target_session_attrs need a user: postgres://USER@HOST, the setting user, or PGUSER")
	}
	return c, err
}

func (c check) Plaintext() bool { return false } // sslmode decides, at each attempt

// String also shows the host or service in the query of a target without a host before the path.
func (c check) String() string {
	s := c.Target.String()
	for _, name := range []string{"host", "service"} {
		if value := c.URL.Query().Get(name); len(c.Hosts) == 0 && value != "" && strings.Trim(value, words.NameCharacters+"/:,[]") == "" && !c.URL.In(value) {
			s = strings.TrimSuffix(s, "?…") + "?" + name + "=" + value
		}
	}
	return s
}

func (c check) Check(ctx context.Context) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	s := c.Server
	s.Addrs = words.Each(o.servers, func(s server) string { return s.addr })
	return wire.Any(ctx, s, func(ctx context.Context, addr string) error { return c.ask(ctx, o, addr) })
}

// ask tries one server with TLS, without it, or both, as sslmode demands.
func (c check) ask(ctx context.Context, o *options, addr string) error {
	first, second, err := o.mode.tries(addr), try(""), error(nil)
	switch first {
	case tryOffered:
		second = tryPlain
	case tryPlainFirst:
		first, second = tryPlain, tryTLS
	}
	again, err := c.attempt(ctx, o, addr, first)
	if err == nil || !again || second == "" || ctx.Err() != nil {
		return err
	}
	_, other := c.attempt(ctx, o, addr, second)
	if other != nil && failure.Of(err).Class == failure.TLS && failure.Of(other).Class != failure.Unexpected {
		return err
	}
	return other
}

// attempt makes one connection. It returns whether the other try, with TLS or without, may end differently.
func (c check) attempt(ctx context.Context, o *options, addr string, try try) (again bool, err error) {
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	p := &session{Conversation: conn, target: c.Target, options: o, host: o.host(addr), secrets: c.URL.Secrets()}
	if err := p.secure(try); err != nil {
		return try == tryOffered && p.offered, err
	}
	if o.user == "" {
		return false, p.ping()
	}
	if err := p.login(); err != nil {
		return p.state == "28000" && (p.offered || try == tryPlain), err // pg_hba.conf has no entry for it
	}
	defer p.terminate()
	if err := p.checkSessionAttrs(); err != nil {
		return false, err
	}
	if c.query == "" { // a pooler accepts logins without a server behind it
		poll.Doing(ctx, "asking for an answer")
		_, err := p.ask("SELECT 1")
		return false, err
	}
	err = p.judge(c.query)
	if err != nil && ctx.Err() != nil {
		c.cancel(addr, p.key)
	}
	return false, err
}

// cancelWithin limits the time spent on a request to stop a query, or on a farewell.
const cancelWithin = time.Second

// cancel asks the server to stop the query of a session. The server does not notice that the client has gone: if the
// query of each attempt waited for the same lock, they would soon use up its connections. The request is sent without
// TLS, as psql does, and is not part of the attempt, whose error is about the query.
func (c check) cancel(addr string, key []byte) {
	ctx, done := context.WithTimeout(context.Background(), cancelWithin)
	defer done()
	if len(key) != 8 {
		return
	}
	if conn, err := wire.Connect(ctx, c.Server, addr); err == nil {
		conn.Write(message(0, append([]byte{4, 210, 22, 46}, key...))) // 80877102
		conn.Next(1)                                                   // the server sends nothing, and closes the connection when it has read the request
		conn.Close()
	}
}

// unavailable are prefixes of the SQLSTATE codes of a server that accepts no login at all: insufficient resources,
// operator intervention (including startup), system errors, internal errors.
//
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var unavailable = []string{"53", "57", "58", "XX"}

// noUser is the name in the login of a target without a user. The log of a server that trusts every user shows it.
const noUser = "initbox"

// ping starts a login, and ends it when the server asks for credentials.
func (p *session) ping() error {
	poll.Doing(p.Ctx, "asking whether it is ready")
	if err := p.startup(noUser); err != nil {
		return err
	}
	kind, body, err := p.begin()
	switch {
	case kind == 'R' && len(body) >= 4 && body[3] == 0:
		p.terminate() // not while it waits for credentials, when it would log this as an error
		return nil
	case kind == 'R', err != nil && len(p.state) == 5 && !slices.Contains(unavailable, p.state[:2]):
		return nil
	}
	return err
}

// checkSessionAttrs checks target_session_attrs against the parameters that the server reported at login, or, if it is
// older than 14 or behind a pooler, against the answer to a query.
func (p *session) checkSessionAttrs() error {
	want := p.options.session
	if want == "any" {
		return nil
	}
	recovering, known := p.status["in_hot_standby"]
	readOnly, also := p.status["default_transaction_read_only"]
	if byRecovery := want == "primary" || want == "standby"; byRecovery && !known || !byRecovery && !(known && also) {
		query := "SHOW transaction_read_only"
		if byRecovery {
			query = "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'on' ELSE 'off' END"
		}
		answer, err := p.ask(query)
		if err != nil {
			return err
		}
		recovering, readOnly = answer.Value, answer.Value
	}
	is := map[string]bool{"primary": recovering == "off", "standby": recovering == "on"}
	is["read-only"] = recovering == "on" || readOnly == "on"
	is["read-write"] = !is["read-only"]
	if is[want] {
		return nil
	}
	found := map[string]string{"primary": "a standby", "standby": "a primary", "read-write": "read-only", "read-only": "not read-only"}[want]
	f := failure.New(failure.Unexpected, "the server is %s", found)
	f.Hint = "target_session_attrs=" + want + " is required: list all servers, or wait until one is promoted"
	if want == "standby" || want == "read-only" {
		f.Hint = "target_session_attrs=" + want + " is required: is there a standby, and is it listed?"
	}
	return f
}

// judge runs the query, and returns an error that says why its answer does not count as ready.
func (p *session) judge(query string) error {
	const enough = 60
	poll.Doing(p.Ctx, "running the query")
	answer, err := p.ask(query)
	if err != nil {
		return err
	}
	if len(query) > enough {
		query = strings.ToValidUTF8(query[:enough], "") + "…"
	}
	err = answer.Judge()
	if f := (*failure.Failure)(nil); errors.As(err, &f) && f.Note == "" {
		f.Note = secret.Quote(query, p.secrets...)
	}
	return err
}

// hints say what to do about an error of the server, by its SQLSTATE code or the first two characters of that. The
// server's text cannot be used: it may be in any language.
var hints = map[string]string{
	"28P01": "is the password right? the server may also still be initialising: it creates its users last",
	"28000": "does the user exist, and does the server's pg_hba.conf allow it to connect from this host to this database, with or without TLS?",
	"3D000": "create the database, or correct its name in the target; the server may also still be initialising",
	"42501": "GRANT the user the privileges that it needs",
	"53300": "which clients hold the connections? see pg_stat_activity; raise max_connections, or put a pooler in front of the server",
	"53":    "the server has run out of a resource: look at its log",
	"57P03": "the server is starting, recovering from a crash or a backup, or stopping: its log shows the progress",
	"57":    "an administrator is stopping the server or the query: look at the server's log",
	"42P01": "has the migration run? is the table in another schema (search_path)?",
	"42":    "is the query right? has the migration run?",
	"3F000": "has the migration run?",
	"25006": "the server is a standby: target_session_attrs=read-write waits for one that is not",
	"08P01": "a pooler reports this of the server behind it, or a proxy in between does not speak the protocol: look at its log",
}
