// Package clickhouse waits for ClickHouse: clickhouse://[USER@]HOST[:PORT][,HOST…][/DATABASE], over HTTP or, on its
// ports, in the native protocol.
//
// A server is ready when it answers a ping; with a user or a database, also SELECT 1. The setting query waits for an
// answer whose first column is true, replicas for replicated tables that do not lag behind; both need HTTP.
package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/httpapi"
)

// Kind is the kind of targets with the scheme clickhouse.
var Kind = target.Kind{
	Schemes: []string{"clickhouse"},
	Usage:   "clickhouse://[USER@]HOST[:PORT][,HOST…][/DATABASE]",
	Ready:   "answers a ping; with a user or a database, also a query",
	Settings: slices.Concat([]target.Setting{
		wire.QuerySetting,
		{Name: "replicas", Usage: "no replicated table lags behind, according to /replicas_status"},
	}, wire.ServerSettings),
	Protocol: "that of ClickHouse",
	Hosts:    true,
	Port:     "8123",
	TLSPort:  "8443",
	Parse:    parse,
}

// check uses HTTP, or, on its ports, the greeting of the native protocol. A ping needs no login.
//
// https://clickhouse.com/docs/interfaces/http
// https://clickhouse.com/docs/native-protocol/server
type check struct{ httpapi.Server }

func parse(t *target.Target) (target.Check, error) {
	s, err := wire.NewServer(t)
	if err != nil {
		return nil, err
	}
	c := check{httpapi.New(s)}
	if strings.EqualFold(t.URL.Param("sslmode"), "none") { // of the JDBC driver
		c.TLS.Insecure, c.Client.TLS.Insecure = true, true
	}
	if (t.Settings.On("query") || t.Settings.On("replicas")) && slices.ContainsFunc(c.Addrs, c.native) {
		return nil, errors.New("query and replicas need HTTP: use its port, 8123, or 8443 with TLS")
	}
	return c, nil
}

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server.Server, c.ask) }

// native reports whether to use the native protocol at addr.
func (c check) native(addr string) bool {
	if protocol := c.URL.Param("protocol"); protocol != "" {
		return forms.IsOneOf(protocol, "native", "tcp", "grpc")
	}
	_, port, _ := net.SplitHostPort(addr)
	return port == "9000" || port == "9440"
}

// login is the credentials and the database.
type login struct{ user, password, database string }

// overTLS reports whether addr has one of the ports for TLS.
func (c check) overTLS(addr string) bool {
	_, port, _ := net.SplitHostPort(addr)
	return !forms.No(c.URL.Param("secure", "ssl")) && (port == "8443" || port == "9440")
}

func (c check) Plaintext() bool {
	return !c.Encrypted && !slices.ContainsFunc(c.Addrs, c.overTLS)
}

func (c check) ask(ctx context.Context, addr string) error {
	c.Encrypted = c.Encrypted || c.overTLS(addr)
	who, err := c.who()
	if err != nil {
		return err
	}
	if c.native(addr) {
		return c.greet(ctx, addr, who)
	}
	a, err := c.Do(ctx, addr, httpapi.Call{Doing: "asking for a ping", Path: "/ping"})
	switch {
	case err != nil:
		return err
	case strings.Contains(string(a.Body), "is for clickhouse-client program"): // the answer to HTTP on a native port
		if !c.Settings.On("query") && !c.Settings.On("replicas") {
			return c.greet(ctx, addr, who)
		}
		return failure.New(failure.Unexpected, "the port is for the native protocol").
			WithHint("query and replicas need HTTP: use its port, usually 8123, or 8443 with TLS")
	case a.Status != http.StatusOK || strings.TrimSpace(string(a.Body)) != "Ok.":
		return c.refused(a)
	}
	if c.Settings.On("replicas") {
		a, err := c.Do(ctx, addr, httpapi.Call{Doing: "asking for the replicas", Path: "/replicas_status"})
		if err != nil || a.Status != http.StatusOK {
			return c.replicasLag(a, err)
		}
	}
	if query := c.Settings.Get("query"); query != "" {
		answer, err := c.run(ctx, addr, who, query)
		if err != nil {
			return err
		}
		return answer.Judge()
	}
	if who != (login{}) {
		_, err = c.run(ctx, addr, who, "SELECT 1")
	}
	return err
}

// who returns the login at this attempt. Drivers accept it in the URL's query, too.
func (c check) who() (w login, err error) {
	if w.user, w.password, err = wire.Login(c.Server.Server, "CLICKHOUSE_USER", "CLICKHOUSE_PASSWORD"); err != nil {
		return w, err
	}
	u, err := c.URL.Expand()
	if err != nil {
		return w, err
	}
	query := u.Query()
	if u.User == nil && query.Get("username") != "" {
		w.user = query.Get("username")
	}
	w.database = cmp.Or(strings.Trim(u.Path, "/"), query.Get("database"))
	return w, nil
}

// run runs a query and returns the first column of the first row. Columns are separated by tabs
// (https://clickhouse.com/docs/interfaces/formats/TabSeparated).
func (c check) run(ctx context.Context, addr string, who login, query string) (wire.QueryAnswer, error) {
	call := httpapi.Call{Doing: "running the query", Path: "/", Query: url.Values{"default_format": {"TabSeparated"}}, Body: query}
	if who.user == "" && who.password != "" {
		who.user = "default"
	}
	call.Header, call.Secret = httpapi.Basic(who.user, who.password)
	if who.database != "" {
		call.Query.Set("database", who.database)
	}
	a, err := c.Do(ctx, addr, call)
	if err != nil {
		return wire.QueryAnswer{}, err
	}
	if a.Status != http.StatusOK || a.Header.Get("X-ClickHouse-Exception-Code") != "" { // it may come after the status
		return wire.QueryAnswer{}, c.refused(a)
	}
	if format := a.Header.Get("X-ClickHouse-Format"); !forms.IsOneOf(format, "TabSeparated", "TSV", "") {
		return wire.QueryAnswer{}, failure.New(failure.Unexpected, "the query has the format %s", a.Quote(format)).
			WithHint("remove FORMAT: only the first column of the first row counts")
	}
	value, _, _ := strings.Cut(string(a.Body), "\n")
	value, _, _ = strings.Cut(value, "\t")
	return wire.QueryAnswer{Value: value, Null: value == `\N`, Row: len(a.Body) > 0}, nil
}

func (c check) replicasLag(a *httpapi.Answer, err error) error {
	if err != nil {
		return err
	}
	f := failure.New(failure.Unexpected, "replicas lag behind")
	f.Note = a.Quote(string(a.Body)) // the tables, and their delays
	f.Hint = "system.replicas shows what each of them waits for"
	if a.Status != http.StatusServiceUnavailable {
		return c.refused(a)
	}
	return f
}

// refused converts an answer that is not OK. Its body may contain an exception.
func (c check) refused(a *httpapi.Answer) error {
	if code, text, ok := exception(string(a.Body)); ok {
		return failed(code, a.Quote(text))
	}
	return c.Failure(a)
}

// exception parses "Code: 81. DB::Exception: Database app does not exist. (UNKNOWN_DATABASE) (version 24.8.4.13
// (official build))".
func exception(text string) (code int, words string, ok bool) {
	text, ok = strings.CutPrefix(text, "Code: ")
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	code, err := strconv.Atoi(text[:digits])
	if !ok || err != nil {
		return 0, "", false
	}
	words = reason(strings.TrimLeft(text[digits:], ".,: "))
	return code, words, true
}

// reason returns an exception's message without prefix, version and stack trace.
func reason(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, " (version ")
	text = strings.TrimPrefix(text, "e.displayText() = ") // before version 22
	return strings.TrimPrefix(text, "DB::Exception: ")
}

// failed converts an exception. The codes are in
// https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
func failed(code int, words string) error {
	f := failure.New(failure.Unexpected, "%s", cmp.Or(words, "an exception"))
	f.Note = "code " + strconv.Itoa(code)
	switch code {
	case 60:
		f.Hint = "what should create the table?"
	case 81:
		f.Hint = "what should create the database?"
	case 192, 193, 194, 195, 497, 516: // UNKNOWN_USER … ACCESS_DENIED, AUTHENTICATION_FAILED
		f.Class = failure.Authentication
		f.Hint = "are user and password right, and does the user have access from this host? set them as in clickhouse://USER:${file:/PATH}@HOST"
	}
	return f
}
