// Package etcd waits for etcd: etcd://HOST[:PORT][,HOST…].
//
// A cluster is ready when one of its members reports that it is healthy: it has a leader, a linearizable read succeeds,
// and there is no alarm. That needs no login. The setting key waits for keys, for which a login may be necessary.
package etcd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/httpapi"
)

// Kind is the kind of targets with the scheme etcd.
var Kind = target.Kind{
	Schemes: []string{"etcd"},
	Usage:   "etcd://HOST[:PORT][,HOST…]",
	Ready:   "one of its members reports that it is healthy: there is a leader, and no alarm",
	Settings: slices.Concat([]target.Setting{
		{Name: "key", Value: "KEY", Usage: "the key exists", Multi: true},
	}, wire.ServerSettings),
	Protocol: "that of etcd",
	Hosts:    true,
	Port:     "2379",
	Without:  "path",
	Parse:    wire.Parse(func(s wire.Server) target.Check { return check{httpapi.New(s)} }),
}

// check asks for the health, which every version reports without a login: a member is healthy if there is a leader, if
// a linearizable read succeeds, and if there is no alarm. The newer /readyz ignores the alarm for a lack of space,
// which prevents all writes.
//
// https://etcd.io/docs/v3.5/op-guide/monitoring/#health-check
// https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/
type check struct{ httpapi.Server }

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server.Server, c.ask) }

func (c check) ask(ctx context.Context, addr string) error {
	a, err := c.Do(ctx, addr, httpapi.Call{Doing: "asking for its health", Path: "/health"})
	if err != nil {
		return err
	}
	if err := c.healthy(a); err != nil {
		return c.reason(ctx, addr, err)
	}
	header, secrets, err := c.authenticate(ctx, addr)
	if err != nil {
		return err
	}
	for _, key := range c.Settings["key"] {
		if err := c.hasKey(ctx, addr, key, header, secrets); err != nil {
			return err
		}
	}
	return nil
}

// errUnhealthy is the answer of members before version 3.5, which has no reason.
var errUnhealthy = unhealthy(`etcd reports {"health":"false"}`)

// healthy judges the answer to /health.
func (c check) healthy(a *httpapi.Answer) error {
	var said struct {
		Health any    `json:"health"`
		Reason string `json:"reason"`
	}
	isJSON := a.JSON(&said)
	isHealthy := said.Health == "true" || said.Health == true
	switch {
	case !isJSON || said.Health == nil, isHealthy && a.Status != http.StatusOK:
		return c.Failure(a)
	case isHealthy:
		return nil
	case strings.TrimSpace(said.Reason) == "":
		return errUnhealthy
	}
	return unhealthy(a.Quote(said.Reason))
}

// unhealthy is the failure of a member that reports it, with its reason.
func unhealthy(reason string) error {
	f := failure.New(failure.Unexpected, "%s", reason)
	switch {
	case strings.Contains(reason, "NOSPACE"):
		f.Hint = "its disk quota is used up: compact and defragment it, then disarm the alarm (etcdctl alarm disarm)"
	case strings.Contains(reason, "CORRUPT"):
		f.Hint = "a member's data differs from the others': replace the member"
	default:
		f.Hint = "is a majority of its members running, and can they reach each other? look at their logs"
	}
	return f
}

// reason returns err, or, if that is [errUnhealthy], a failure with the reason from the member's status, if there is
// one.
func (c check) reason(ctx context.Context, addr string, err error) error {
	if err != errUnhealthy {
		return err
	}
	a, statusErr := c.Do(ctx, addr, httpapi.Call{Doing: "asking for its status", Path: "/v3/maintenance/status", Body: "{}"})
	var said struct {
		Errors []string `json:"errors"`
	}
	if statusErr != nil || !a.JSON(&said) {
		return err
	}
	if why := a.Quote(strings.Join(said.Errors, ", ")); why != "" {
		return unhealthy(why)
	}
	return err
}

// authenticate logs in if a user is set, and returns the header with the credentials.
func (c check) authenticate(ctx context.Context, addr string) (http.Header, []string, error) {
	user, password, err := wire.Login(c.Server.Server, "ETCDCTL_USER", "ETCDCTL_PASSWORD")
	if err != nil || user == "" {
		return nil, nil, err
	}
	if password == "" { // etcdctl's --user is NAME:PASSWORD
		user, password, _ = strings.Cut(user, ":")
	}
	body, err := json.Marshal(map[string]string{"name": user, "password": password})
	if err != nil {
		return nil, nil, err
	}
	a, err := c.Do(ctx, addr, httpapi.Call{Doing: "logging in", Path: "/v3/auth/authenticate", Body: string(body), Secret: []string{password}})
	if err != nil {
		return nil, nil, err
	}
	var said struct {
		Token string `json:"token"`
	}
	switch {
	case a.Status == http.StatusOK && a.JSON(&said) && said.Token != "":
		return http.Header{"Authorization": {said.Token}}, []string{password, said.Token}, nil
	case strings.Contains(a.Words(), "authentication is not enabled"): // then every client has all permissions
		return nil, nil, nil
	}
	return nil, nil, c.refused(a)
}

func (c check) hasKey(ctx context.Context, addr, key string, header http.Header, secrets []string) error {
	body := fmt.Sprintf(`{"key": %q, "count_only": true}`, base64.StdEncoding.EncodeToString([]byte(key)))
	a, err := c.Do(ctx, addr, httpapi.Call{Doing: "looking for the key", Path: "/v3/kv/range", Header: header, Body: body, Secret: secrets})
	if err != nil {
		return err
	}
	var said struct {
		Header map[string]any `json:"header"`
		Count  string         `json:"count"` // a 64-bit number, a string in protobuf's JSON; absent if 0
	}
	switch {
	case a.Status != http.StatusOK || !a.JSON(&said) || said.Header == nil:
		return c.refused(a)
	case said.Count == "" || said.Count == "0":
		return failure.New(failure.Unexpected, "no key %s", secret.Quote(key, c.URL.Secrets()...)).
			WithHint("what should write it? the key must match exactly: /config is not config")
	}
	return nil
}

// refused converts an error of the v3 API. Often only its text shows that credentials are missing or wrong.
func (c check) refused(a *httpapi.Answer) error {
	f := c.Failure(a)
	for _, word := range []string{"auth", "user name is empty", "user not found", "permission denied"} {
		if strings.Contains(a.Words(), word) {
			f.Class = failure.Authentication
			f.Hint = "are user and password right, and may the user read the key? set them as in etcd://USER:${file:/PATH}@HOST"
		}
	}
	return f
}
