package waitfor

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
)

var clickhouseKind = Kind{
	Schemes: []string{"clickhouse"},
	Usage:   "clickhouse://[USER@]HOST[:PORT][,HOST…][/DATABASE]",
	Ready:   "answers a ping; with a user or a database, runs a query there",
	Settings: slices.Concat([]Setting{
		querySetting,
		{Name: "replicas", Usage: "no replicated table lags behind, as /replicas_status has it"},
	}, serverSettings),
	Protocol: "that of ClickHouse",
	Hosts:    true,
	parse:    parseClickHouse,
}

// clickhouseCheck asks over HTTP, or, at the ports that are for that, with the greeting of
// the native protocol. A ping needs no login.
//
// https://clickhouse.com/docs/interfaces/http
// https://clickhouse.com/docs/native-protocol/server
type clickhouseCheck struct{ httpServer }

func parseClickHouse(t *target) (Check, error) {
	port := "8123"
	if t.settings.on("tls") {
		port = "8443"
	}
	s, err := newHTTPServer(t, port)
	if err != nil {
		return nil, err
	}
	c := clickhouseCheck{s}
	if strings.EqualFold(t.param("sslmode"), "none") { // as JDBC has it
		c.tls.Insecure, c.client.TLS.Insecure = true, true
	}
	if (t.settings.on("query") || t.settings.on("replicas")) && slices.ContainsFunc(c.addrs, c.native) {
		return nil, errors.New("query and replicas are asked for over HTTP: give the port for that, 8123, or with TLS 8443")
	}
	return c, nil
}

func (c clickhouseCheck) Check(ctx context.Context) error { return c.any(ctx, c.ask) }

// native reports whether the native protocol is to be spoken at addr.
func (c clickhouseCheck) native(addr string) bool {
	if protocol := c.param("protocol"); protocol != "" {
		return isOneOf(protocol, "native", "tcp", "grpc")
	}
	_, port, _ := net.SplitHostPort(addr)
	return port == "9000" || port == "9440"
}

// clickhouseLogin is who asks, and for which database.
type clickhouseLogin struct{ user, password, database string }

// overTLS reports whether addr is at one of the ports that are for TLS.
func (c clickhouseCheck) overTLS(addr string) bool {
	_, port, _ := net.SplitHostPort(addr)
	return !no(c.param("secure", "ssl")) && (port == "8443" || port == "9440")
}

func (c clickhouseCheck) Plaintext() bool {
	return !c.encrypted && !slices.ContainsFunc(c.addrs, c.overTLS)
}

func (c clickhouseCheck) ask(ctx context.Context, addr string) error {
	c.encrypted = c.encrypted || c.overTLS(addr)
	who, err := c.who()
	if err != nil {
		return err
	}
	if c.native(addr) {
		return c.greet(ctx, addr, who)
	}
	a, err := c.call(ctx, addr, httpCall{doing: "asking for a ping", path: "/ping"})
	switch {
	case err != nil:
		return err
	case strings.Contains(string(a.body), "is for clickhouse-client program"): // told to HTTP at a native port
		if !c.settings.on("query") && !c.settings.on("replicas") {
			return c.greet(ctx, addr, who)
		}
		f := failure.New(failure.Unexpected, "the port is for the native protocol")
		f.Hint = "query and replicas are asked for over HTTP: give the port for that, usually 8123, or with TLS 8443"
		return f
	case a.status != http.StatusOK || strings.TrimSpace(string(a.body)) != "Ok.":
		return c.refused(a)
	}
	if c.settings.on("replicas") {
		a, err := c.call(ctx, addr, httpCall{doing: "asking for the replicas", path: "/replicas_status"})
		if err != nil || a.status != http.StatusOK {
			return c.replicasLag(a, err)
		}
	}
	if query := c.settings.get("query"); query != "" {
		answer, err := c.run(ctx, addr, who, query)
		if err != nil {
			return err
		}
		return answer.judge()
	}
	if who != (clickhouseLogin{}) {
		_, err = c.run(ctx, addr, who, "SELECT 1")
	}
	return err
}

// who reads the login anew. Drivers have it in the query, too.
func (c clickhouseCheck) who() (w clickhouseLogin, err error) {
	if w.user, w.password, err = c.login("CLICKHOUSE_USER", "CLICKHOUSE_PASSWORD"); err != nil {
		return w, err
	}
	u, err := c.url.Expand()
	if err != nil {
		return w, err
	}
	query := u.Query()
	if u.User == nil && query.Get("username") != "" {
		w.user = query.Get("username")
	}
	w.database = strings.Trim(u.Path, "/")
	if w.database == "" {
		w.database = query.Get("database")
	}
	return w, nil
}

// run runs a query and returns the first column of the first row. The answer is
// separated by tabs (https://clickhouse.com/docs/interfaces/formats/TabSeparated).
func (c clickhouseCheck) run(ctx context.Context, addr string, who clickhouseLogin, query string) (queryAnswer, error) {
	call := httpCall{doing: "running the query", path: "/", query: url.Values{"default_format": {"TabSeparated"}}, body: query}
	if who.user == "" && who.password != "" {
		who.user = "default"
	}
	call.header, call.secret = basic(who.user, who.password)
	if who.database != "" {
		call.query.Set("database", who.database)
	}
	a, err := c.call(ctx, addr, call)
	if err != nil {
		return queryAnswer{}, err
	}
	if a.status != http.StatusOK || a.header.Get("X-ClickHouse-Exception-Code") != "" { // which may come after the status
		return queryAnswer{}, c.refused(a)
	}
	if format := a.header.Get("X-ClickHouse-Format"); !isOneOf(format, "TabSeparated", "TSV", "") {
		f := failure.New(failure.Unexpected, "the query has the format %s", a.quote(format))
		f.Hint = "leave out FORMAT: the first column of the first row is what counts"
		return queryAnswer{}, f
	}
	value, _, _ := strings.Cut(string(a.body), "\n")
	value, _, _ = strings.Cut(value, "\t")
	return queryAnswer{value: value, null: value == `\N`, row: len(a.body) > 0}, nil
}

func (c clickhouseCheck) replicasLag(a *httpAnswer, err error) error {
	if err != nil {
		return err
	}
	f := failure.New(failure.Unexpected, "replicas lag behind")
	f.Note = a.quote(string(a.body)) // the tables, and by how much
	f.Hint = "system.replicas tells what each of them waits for"
	if a.status != http.StatusServiceUnavailable {
		return c.refused(a)
	}
	return f
}

// refused is the failure of an answer in whose body the server says what is wrong.
func (c clickhouseCheck) refused(a *httpAnswer) error {
	if code, text, ok := clickhouseException(string(a.body)); ok {
		return clickhouseFailure(code, a.quote(text))
	}
	return c.failure(a)
}

// clickhouseException reads "Code: 81. DB::Exception: Database app does not exist.
// (UNKNOWN_DATABASE) (version 24.8.4.13 (official build))".
func clickhouseException(text string) (code int, words string, ok bool) {
	text, ok = strings.CutPrefix(text, "Code: ")
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	code, err := strconv.Atoi(text[:digits])
	if !ok || err != nil {
		return 0, "", false
	}
	words = clickhouseWords(strings.TrimLeft(text[digits:], ".,: "))
	return code, words, true
}

// clickhouseWords leaves out what does not tell what is wrong.
func clickhouseWords(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, " (version ")
	text = strings.TrimPrefix(text, "e.displayText() = ") // before version 22
	return strings.TrimPrefix(text, "DB::Exception: ")
}

// clickhouseFailure is the failure of an exception. The codes are those of
// https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
func clickhouseFailure(code int, words string) error {
	f := failure.New(failure.Unexpected, "%s", cmp.Or(words, "an exception"))
	f.Note = "code " + strconv.Itoa(code)
	switch code {
	case 60:
		f.Hint = "what should create the table?"
	case 81:
		f.Hint = "what should create the database?"
	case 192, 193, 194, 195, 497, 516: // UNKNOWN_USER … ACCESS_DENIED, AUTHENTICATION_FAILED
		f.Class = failure.Authentication
		f.Hint = "are user and password right, and may the user do that from here? give them as in clickhouse://USER:${file:/PATH}@HOST"
	}
	return f
}
