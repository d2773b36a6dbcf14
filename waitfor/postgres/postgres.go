// Package postgres waits for PostgreSQL: for a login, a database, a server that takes writes, and
// the answer of a query. Its targets mean what they mean to libpq.
package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is that of targets with the schemes postgres and postgresql.
var Kind = target.Kind{
	Schemes:  []string{"postgres", "postgresql"},
	Usage:    "postgres://[USER@]HOST[:PORT][,HOST…][/DATABASE]",
	Ready:    "answers; with a user, lets it in and answers a query; of several, one does",
	Settings: slices.Concat(wire.ServerSettings, []target.Setting{wire.QuerySetting}),
	Protocol: "PostgreSQL",
	Hosts:    true,
	Parse:    parse,
}

// check logs in, as libpq would, and runs a query. Without a user it does as
// pg_isready: a server that asks who is there, or refuses to let nobody in, is ready.
//
// It speaks version 3.0 of the protocol, which any server since 7.4 does:
// https://www.postgresql.org/docs/current/protocol-message-formats.html
type check struct {
	wire.Server
	query string
}

func parse(t *target.Target) (target.Check, error) {
	c := check{query: t.Settings.Get("query")}
	c.Server = wire.Server{Target: t, Dialer: dial.New(t.Resolver), TLS: t.Settings.TLS()}
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

func (c check) Plaintext() bool { return false } // which sslmode says, at each attempt

// String also tells what a target without a host in its place has in the query.
func (c check) String() string {
	s := c.Target.String()
	for _, name := range []string{"host", "service"} {
		if value := c.URL.Query().Get(name); len(c.Hosts) == 0 && value != "" && strings.Trim(value, forms.NameCharacters+"/:,[]") == "" && !c.URL.In(value) {
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
	s.Addrs = o.addrs()
	return wire.Any(ctx, s, func(ctx context.Context, addr string) error { return c.ask(ctx, o, addr) })
}

// ask tries one server with TLS and without, as sslmode says.
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

// attempt reports whether the same without TLS, or with it, may end otherwise.
func (c check) attempt(ctx context.Context, o *options, addr string, try try) (again bool, err error) {
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	p := &session{Conversation: conn, kind: c.Target, options: o, host: o.host(addr), secrets: c.URL.Secrets()}
	if err := p.secure(try); err != nil {
		return try == tryOffered && p.offered, err
	}
	if o.user == "" {
		return false, p.ping()
	}
	if err := p.login(); err != nil {
		return p.state == "28000" && (p.offered || try == tryPlain), err // what pg_hba.conf has no entry for
	}
	defer p.terminate()
	if err := p.session(); err != nil {
		return false, err
	}
	if c.query == "" { // a pooler lets in without a server behind it
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

// cancelWithin bounds how long the server is asked to stop.
const cancelWithin = time.Second

// cancel asks the server to stop the query of a session: it would not notice that
// nobody waits for the answer, and soon have no place for others, were the query of each
// attempt to wait for the same lock. It asks without TLS, as psql does, and is no part of
// the attempt, whose message is of the query.
func (c check) cancel(addr string, key []byte) {
	ctx, done := context.WithTimeout(context.Background(), cancelWithin)
	defer done()
	if len(key) != 8 {
		return
	}
	if conn, err := wire.Connect(ctx, c.Server, addr); err == nil {
		conn.Write(message(0, append([]byte{4, 210, 22, 46}, key...))) // 80877102
		conn.Next(1)                                                   // nothing, but the server has it then
		conn.Close()
	}
}

// unavailable are the beginnings of those of the server's error codes with which
// it does not let anybody in: insufficient resources, operator intervention (it is
// starting up), system errors, internal errors.
//
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var unavailable = []string{"53", "57", "58", "XX"}

// nobody is the user whom the server is asked to let in if there is none. It is
// in the log of a server that trusts everybody.
const nobody = "initbox"

// ping begins a login and does not go on with it.
func (p *session) ping() error {
	poll.Doing(p.Ctx, "asking whether it is ready")
	if err := p.startup(nobody); err != nil {
		return err
	}
	kind, body, err := p.begin()
	switch {
	case kind == 'R' && len(body) >= 4 && body[3] == 0:
		p.terminate() // which it logs as an error while it still asks
		return nil
	case kind == 'R', err != nil && len(p.state) == 5 && !slices.Contains(unavailable, p.state[:2]):
		return nil
	}
	return err
}

// session judges what kind of server it is by what it has said of itself, or, if it is
// older than 14 or there is a pooler in between, by what it is asked for.
func (p *session) session() error {
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
	f.Hint = "target_session_attrs=" + want + " is asked for: list each of the servers, or wait until one is promoted"
	if want == "standby" || want == "read-only" {
		f.Hint = "target_session_attrs=" + want + " is asked for: is there a standby, and is it listed?"
	}
	return f
}

// judge runs the query, and returns why its answer is not ready.
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
	err = answer.Judge(p.secrets...)
	if f := (*failure.Failure)(nil); errors.As(err, &f) && f.Note == "" {
		f.Note = wire.Quote(query, p.secrets...)
	}
	return err
}

// hints say what to do about some of the server's errors, by their code or its
// first two characters. A text cannot decide: it may be in any language.
var hints = map[string]string{
	"28P01": "is the password right? the server may also still be initialising: it makes its users last",
	"28000": "does the user exist, and does the server's pg_hba.conf let it in from here, into this database, with TLS or without as it says?",
	"3D000": "create it; the server may also still be initialising, or its name be wrong in the target",
	"42501": "GRANT the user what it needs",
	"53300": "who holds the connections? see pg_stat_activity; raise max_connections, or put a pooler in between",
	"53":    "the server has run out of something: look at its log",
	"57P03": "the server starts, recovers from a crash or a backup, or stops: its log says how far it is",
	"57":    "somebody is stopping the server, or the query: look at its log",
	"42P01": "has the migration run? is the table in another schema (search_path)?",
	"42":    "is the query right? has the migration run?",
	"3F000": "has the migration run?",
	"25006": "the server is a standby: target_session_attrs=read-write waits for one that is not",
	"08P01": "a pooler says so of its own server, or what is in between is none: look at its log",
}
