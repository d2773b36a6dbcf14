// Package elasticsearch waits for Elasticsearch and OpenSearch: elasticsearch://HOST[:PORT][,HOST…][/PATH], where the
// path is that of a proxy.
//
// A cluster is ready when its status is at least that of the setting status, by default yellow; with the setting index,
// when the index exists and has that status. The login is a user with a password, api-key-file or token-file.
package elasticsearch

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
	"initbox/internal/words"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/httpapi"
)

// Kind is the kind of targets with the schemes elasticsearch and opensearch.
var Kind = target.Kind{
	Schemes: []string{"elasticsearch", "opensearch"},
	Usage:   "elasticsearch://HOST[:PORT][,HOST…][/PATH]",
	Ready:   "the cluster's status is yellow or green: every primary shard is available",
	Settings: slices.Concat([]target.Setting{
		{Name: "status", Value: "STATUS", Usage: "at least green, yellow or red (default yellow)"},
		{Name: "index", Value: "NAME", Usage: "the index exists; the status is the index's"},
		{Name: "api-key-file", Value: "FILE", Usage: "file with an API key, encoded as the server returned it", Excludes: []string{"token-file"}},
		{Name: "token-file", Value: "FILE", Usage: "file with a bearer token"},
	}, wire.ServerSettings),
	Protocol: "that of Elasticsearch or OpenSearch",
	Hosts:    true,
	Port:     "9200",
	Parse:    parse,
}

// check asks for the cluster's health. The server could hold the answer until the status is reached (wait_for_status),
// but would not report the status meanwhile, and could not be distinguished from one that hangs. So it is asked to
// answer at once, which even a cluster without a master does.
//
// https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-cluster-health
// https://docs.opensearch.org/latest/api-reference/cluster-api/cluster-health/
type check struct {
	httpapi.Server
	status string // the lowest that is accepted
	index  string
}

// clusterStatuses are the possible statuses, the best first.
var clusterStatuses = []string{"green", "yellow", "red"}

func parse(t *target.Target) (target.Check, error) {
	s, err := wire.NewServer(t)
	if err != nil {
		return nil, err
	}
	c := check{httpapi.New(s), strings.ToLower(cmp.Or(t.Settings.Get("status"), "yellow")), t.Settings.Get("index")}
	switch {
	case !slices.Contains(clusterStatuses, c.status):
		return nil, fmt.Errorf("status: want green, yellow or red")
	case c.index == "." || c.index == "..":
		return nil, fmt.Errorf("index: not a valid name of an index")
	}
	return c, nil
}

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server.Server, c.ask) }

func (c check) ask(ctx context.Context, addr string) error {
	header, secrets, err := c.authorize()
	if err != nil {
		return err
	}
	u, err := c.URL.Expand()
	if err != nil {
		return err
	}
	path := (&url.URL{Path: "/"}).JoinPath(u.EscapedPath(), "_cluster/health", url.PathEscape(c.index))
	a, err := c.Do(ctx, addr, httpapi.Call{
		Doing: "asking for the cluster's health", Path: path.EscapedPath(), Query: url.Values{"timeout": {"0s"}},
		Header: header, Secret: secrets,
	})
	if err != nil {
		return err
	}
	return c.judge(a)
}

// authorize returns the header with the credentials, if there are any.
func (c check) authorize() (http.Header, []string, error) {
	for _, way := range []struct{ setting, scheme string }{{"api-key-file", "ApiKey"}, {"token-file", "Bearer"}} {
		if c.Settings.On(way.setting) {
			token, err := target.Token(c.Target, way.setting, "")
			if err != nil {
				return nil, nil, err
			}
			return httpapi.Authorization(way.scheme, token)
		}
	}
	user, password, err := wire.Login(c.Server.Server, "ELASTIC_USERNAME", "ELASTIC_PASSWORD")
	if user == "" && password != "" {
		user = "elastic" // charts that set only the variable mean this user
	}
	header, secrets := httpapi.Basic(user, password)
	return header, secrets, err
}

// clusterHealth is the server's answer.
type clusterHealth struct {
	Status       any  `json:"status"`
	TimedOut     bool `json:"timed_out"` // for an index: it does not exist
	Primaries    *int `json:"active_primary_shards"`
	Unassigned   int  `json:"unassigned_shards"`
	Initializing int  `json:"initializing_shards"`
}

func (c check) judge(a *httpapi.Answer) error {
	var h clusterHealth
	a.JSON(&h)
	status, _ := h.Status.(string) // in an error, it is the number of the HTTP status
	status = strings.ToLower(status)
	switch said := a.Words(); {
	case strings.Contains(said, "index_not_found"):
		return c.noIndex()
	case a.Status != http.StatusOK && a.Status != http.StatusRequestTimeout, !slices.Contains(clusterStatuses, status):
		return c.refused(a)
	case h.TimedOut && c.index != "" && status == "red",
		c.index != "" && status != "red" && h.Primaries != nil && *h.Primaries == 0: // a pattern without a match is green
		return c.noIndex()
	case slices.Index(clusterStatuses, status) <= slices.Index(clusterStatuses, c.status):
		return nil
	}
	f := failure.New(failure.Unexpected, "status %s", status)
	if c.status == "green" && status == "yellow" {
		f.Hint = "a cluster with fewer nodes than copies of a shard remains yellow: then wait for #status=yellow"
	} else {
		f.Hint = "primary shards are missing: they are recovered after a start; if this lasts, see _cluster/allocation/explain"
	}
	f.Note = words.Plural(h.Unassigned, "shard") + " unassigned, " + fmt.Sprint(h.Initializing) + " initializing"
	return f
}

func (c check) noIndex() error {
	return failure.New(failure.Unexpected, "no index %s", secret.Quote(c.index, c.URL.Secrets()...)).WithHint("what should create it?")
}

func (c check) refused(a *httpapi.Answer) error {
	f := c.Failure(a)
	switch {
	case f.Class == failure.Authentication:
		f.Hint = "the server requires a login: set a user with the privilege to monitor the cluster, as in elasticsearch://USER:${file:/PATH}@HOST, or --api-key-file"
	case strings.Contains(f.Text, "master_not_discovered"):
		f.Hint = "no master is elected: are enough master-eligible nodes running, and can they find each other?"
	}
	return f
}
