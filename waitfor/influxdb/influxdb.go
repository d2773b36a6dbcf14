// Package influxdb waits for InfluxDB: influxdb://HOST[:PORT][,HOST…][/DATABASE], of any version.
//
// A server is ready when it reports that its health is pass, or answers a ping if it is too old for that. With a
// database, of version 1, or the setting bucket, of version 2, that must exist. The login is token-file or a user.
package influxdb

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/httpapi"
)

// Kind is the kind of targets with the scheme influxdb.
var Kind = target.Kind{
	Schemes: []string{"influxdb"},
	Usage:   "influxdb://HOST[:PORT][,HOST…][/DATABASE]",
	Ready:   "its health is pass; with a database of version 1, the database exists",
	Settings: slices.Concat([]target.Setting{
		{Name: "bucket", Value: "NAME", Usage: "the bucket exists; needs a token"},
		{Name: "token-file", Value: "FILE", Usage: "file with a bearer token"},
	}, wire.ServerSettings),
	Protocol: "that of InfluxDB",
	Hosts:    true,
	Port:     "8086",
	Parse:    wire.Parse(func(s wire.Server) target.Check { return check{httpapi.New(s)} }),
}

// check asks for the health, which version 2, and version 1 since 1.8, report without a login; earlier versions answer
// a ping. Version 3 requires a token for both by default.
//
// https://docs.influxdata.com/influxdb/v2/api/#operation/GetHealth
// https://docs.influxdata.com/influxdb/v1/tools/api/
// https://docs.influxdata.com/influxdb3/core/api/
type check struct{ httpapi.Server }

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server.Server, c.ask) }

func (c check) ask(ctx context.Context, addr string) error {
	header, secrets, err := c.authorize()
	if err != nil {
		return err
	}
	get := func(doing, path string, query url.Values) (*httpapi.Answer, error) {
		return c.Do(ctx, addr, httpapi.Call{Doing: doing, Path: path, Query: query, Header: header, Secret: secrets})
	}
	a, err := get("asking for its health", "/health", nil)
	if err != nil {
		return err
	}
	if a.Status == http.StatusNotFound {
		if a, err = get("asking for a ping", "/ping", nil); err != nil {
			return err
		}
	}
	if err := c.healthy(a); err != nil {
		return err
	}
	u, err := c.URL.Expand()
	if err != nil {
		return err
	}
	if database := strings.Trim(u.Path, "/"); database != "" {
		if a, err = get("asking for its databases", "/query", url.Values{"q": {"SHOW DATABASES"}}); err != nil {
			return err
		}
		if err := c.hasDatabase(a, database); err != nil {
			return err
		}
	}
	if bucket := c.Settings.Get("bucket"); bucket != "" {
		if a, err = get("asking for the bucket", "/api/v2/buckets", url.Values{"name": {bucket}}); err != nil {
			return err
		}
		return c.hasBucket(a, bucket)
	}
	return nil
}

// authorize returns the header with the credentials, if there are any.
func (c check) authorize() (http.Header, []string, error) {
	token, err := target.Token(c.Target, "token-file", "INFLUX_TOKEN")
	if err != nil {
		return nil, nil, err
	}
	if token != "" {
		return httpapi.Authorization("Token", token) // version 3 accepts it like Bearer
	}
	user, password, err := wire.Login(c.Server.Server, "INFLUX_USERNAME", "INFLUX_PASSWORD")
	header, secrets := httpapi.Basic(user, password)
	return header, secrets, err
}

// healthy judges the answer to /health, or to /ping, whose header shows that it is from InfluxDB.
func (c check) healthy(a *httpapi.Answer) error {
	var said struct {
		Name    string `json:"name"`
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	isJSON := a.JSON(&said) && said.Status != ""
	influx := said.Name == "influxdb" || a.Header.Get("X-Influxdb-Version") != "" || a.Header.Get("X-Influxdb-Build") != ""
	switch {
	case isJSON && !influx: // other servers have a health answer of the same form
		return c.Kind.OtherProtocol()
	case isJSON && a.Status == http.StatusOK && said.Status == "pass":
		return nil
	case isJSON && said.Status == "fail":
		return failure.New(failure.Unexpected, "%s", a.Quote("health: fail: "+said.Message)).
			WithHint("the server is running, but reports that it is not healthy: look at its log")
	case a.Status == http.StatusNoContent && influx:
		return nil
	case a.Status == http.StatusOK && (influx || strings.TrimSpace(string(a.Body)) == "OK"): // version 3
		return nil
	}
	return c.refused(a)
}

func (c check) hasDatabase(a *httpapi.Answer, database string) error {
	var said struct {
		Results []struct {
			Series []struct {
				Values [][]any `json:"values"`
			} `json:"series"`
		} `json:"results"`
	}
	if a.Status != http.StatusOK || !a.JSON(&said) || len(said.Results) == 0 {
		return c.refused(a)
	}
	for _, series := range said.Results[0].Series {
		if slices.ContainsFunc(series.Values, func(row []any) bool { return slices.Contains(row, any(database)) }) {
			return nil
		}
	}
	return failure.New(failure.Unexpected, "database %s does not exist", a.Quote(database)).
		WithHint("what should create it? a user only sees databases that it has access to")
}

func (c check) hasBucket(a *httpapi.Answer, bucket string) error {
	type named struct {
		Name string `json:"name"`
	}
	var said struct {
		Buckets []named `json:"buckets"`
	}
	isJSON := a.JSON(&said)
	switch {
	case isJSON && slices.Contains(said.Buckets, named{bucket}):
		return nil
	case a.Status == http.StatusNotFound && !isJSON:
		return failure.New(failure.Unexpected, "the server has no buckets").WithHint("version 1 has databases: influxdb://HOST/DATABASE")
	case a.Status != http.StatusNotFound && a.Status != http.StatusOK, !isJSON:
		return c.refused(a)
	}
	return failure.New(failure.Unexpected, "bucket %s does not exist", a.Quote(bucket)).
		WithHint("what should create it? a token only sees buckets that it has access to")
}

func (c check) refused(a *httpapi.Answer) error {
	f := c.Failure(a)
	if f.Class == failure.Authentication {
		f.Hint = "the server requires a login: set --token-file, or for version 1 a user, as in influxdb://USER:${file:/PATH}@HOST; with --disable-authz=health,ping, version 3 reports its health without a token"
	}
	return f
}
