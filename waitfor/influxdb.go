package waitfor

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/failure"
)

var influxdbKind = Kind{
	Schemes: []string{"influxdb"},
	Usage:   "influxdb://HOST[:PORT][,HOST…][/DATABASE]",
	Ready:   "says that its health is a pass; with a database of version 1, that is there",
	Settings: slices.Concat([]Setting{
		{Name: "bucket", Value: "NAME", Usage: "the bucket is there; needs a token"},
		{Name: "token-file", Value: "FILE", Usage: "file with a bearer token"},
	}, serverSettings),
	Protocol: "that of InfluxDB",
	Hosts:    true,
	parse:    parseInfluxDB,
}

// influxdbCheck asks for the health, which version 2, and version 1 from 1.8 on, tell
// without a login; before, there is a ping. Version 3 wants a token for either unless it
// is told otherwise, and does not say whether it is healthy without.
//
// https://docs.influxdata.com/influxdb/v2/api/#operation/GetHealth
// https://docs.influxdata.com/influxdb/v1/tools/api/
// https://docs.influxdata.com/influxdb3/core/api/
type influxdbCheck struct{ httpServer }

func parseInfluxDB(t *target) (Check, error) {
	s, err := newHTTPServer(t, "8086")
	return influxdbCheck{s}, err
}

func (c influxdbCheck) Check(ctx context.Context) error { return c.any(ctx, c.ask) }

func (c influxdbCheck) ask(ctx context.Context, addr string) error {
	header, secrets, err := c.authorize()
	if err != nil {
		return err
	}
	get := func(doing, path string, query url.Values) (*httpAnswer, error) {
		return c.call(ctx, addr, httpCall{doing: doing, path: path, query: query, header: header, secret: secrets})
	}
	a, err := get("asking for its health", "/health", nil)
	if err != nil {
		return err
	}
	if a.status == http.StatusNotFound {
		if a, err = get("asking for a ping", "/ping", nil); err != nil {
			return err
		}
	}
	if err := c.healthy(a); err != nil {
		return err
	}
	u, err := c.url.Expand()
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
	if bucket := c.settings.get("bucket"); bucket != "" {
		if a, err = get("asking for the bucket", "/api/v2/buckets", url.Values{"name": {bucket}}); err != nil {
			return err
		}
		return c.hasBucket(a, bucket)
	}
	return nil
}

// authorize returns the header that says who asks, if that is known.
func (c influxdbCheck) authorize() (http.Header, []string, error) {
	token, err := c.token("token-file", "INFLUX_TOKEN")
	if err != nil {
		return nil, nil, err
	}
	if token != "" {
		return authorization("Token", token) // version 3 takes that for Bearer
	}
	user, password, err := c.login("INFLUX_USERNAME", "INFLUX_PASSWORD")
	header, secrets := basic(user, password)
	return header, secrets, err
}

// healthy judges the answer to /health, or to /ping of which the header tells whose it is.
func (c influxdbCheck) healthy(a *httpAnswer) error {
	var said struct {
		Name    string `json:"name"`
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	isJSON := a.json(&said) && said.Status != ""
	influx := said.Name == "influxdb" || a.header.Get("X-Influxdb-Version") != "" || a.header.Get("X-Influxdb-Build") != ""
	switch {
	case isJSON && !influx: // others have a health of the same shape
		return c.otherProtocol()
	case isJSON && a.status == http.StatusOK && said.Status == "pass":
		return nil
	case isJSON && said.Status == "fail":
		f := failure.New(failure.Unexpected, "%s", a.quote("health: fail: "+said.Message))
		f.Hint = "the server runs but does not call itself healthy: look at its log"
		return f
	case a.status == http.StatusNoContent && influx:
		return nil
	case a.status == http.StatusOK && (influx || strings.TrimSpace(string(a.body)) == "OK"): // version 3
		return nil
	}
	return c.refused(a)
}

func (c influxdbCheck) hasDatabase(a *httpAnswer, database string) error {
	var said struct {
		Results []struct {
			Series []struct {
				Values [][]any `json:"values"`
			} `json:"series"`
		} `json:"results"`
	}
	if a.status != http.StatusOK || !a.json(&said) || len(said.Results) == 0 {
		return c.refused(a)
	}
	for _, series := range said.Results[0].Series {
		if slices.ContainsFunc(series.Values, func(row []any) bool { return slices.Contains(row, any(database)) }) {
			return nil
		}
	}
	f := failure.New(failure.Unexpected, "database %s does not exist", a.quote(database))
	f.Hint = "what should create it? a user only sees those that it may use"
	return f
}

func (c influxdbCheck) hasBucket(a *httpAnswer, bucket string) error {
	type named struct {
		Name string `json:"name"`
	}
	var said struct {
		Buckets []named `json:"buckets"`
	}
	isJSON := a.json(&said)
	switch {
	case isJSON && slices.Contains(said.Buckets, named{bucket}):
		return nil
	case a.status == http.StatusNotFound && !isJSON:
		f := failure.New(failure.Unexpected, "the server has no buckets")
		f.Hint = "version 1 has databases: influxdb://HOST/DATABASE"
		return f
	case a.status != http.StatusNotFound && a.status != http.StatusOK, !isJSON:
		return c.refused(a)
	}
	f := failure.New(failure.Unexpected, "bucket %s does not exist", a.quote(bucket))
	f.Hint = "what should create it? a token only sees those that it may use"
	return f
}

func (c influxdbCheck) refused(a *httpAnswer) error {
	f := c.failure(a)
	if f.Class == failure.Authentication {
		f.Hint = "it wants to know who asks: give --token-file, or for version 1 a user, as in influxdb://USER:${file:/PATH}@HOST; version 3 tells its health to everybody with --disable-authz=health,ping"
	}
	return f
}
