package registries

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"

	"initbox/test/servers"
)

// proxy passes requests on to a real server. It adds no header: the server sees only the client's.
type proxy struct {
	to       *httputil.ReverseProxy
	requests atomic.Int64
}

func proxyTo(t testing.TB, target string, transport http.RoundTripper) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return &proxy{to: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport:     transport,
		FlushInterval: -1, // at once: etcd's keepalive is a stream
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // the server closed the connection: pass that on to the client
		},
	}}
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1)
	p.to.ServeHTTP(w, r)
}

func (*proxy) Base() string { return "" }

func (p *proxy) Requests() int { return int(p.requests.Load()) }

// EtcdRegistry is a real etcd. An entry is a key.
type EtcdRegistry struct {
	*servers.Etcd
	*proxy
	t testing.TB
}

// Etcd starts an etcd without TLS, which would end at the proxy.
func Etcd(t testing.TB, o servers.EtcdOptions) *EtcdRegistry {
	t.Helper()
	o.CA = nil
	e := servers.StartEtcd(t, o)
	return &EtcdRegistry{Etcd: e, proxy: proxyTo(t, e.URL, newTransport(t)), t: t}
}

func newTransport(t testing.TB) *http.Transport {
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// everyKey is the range of all keys.
const everyKey = `{"key": "AA==", "range_end": "AA==", "keys_only": true}`

func (e *EtcdRegistry) Entries() []string {
	e.t.Helper()
	var found struct {
		KVs []struct{ Key string }
	}
	e.ask("kv/range", everyKey, &found)
	keys := []string{}
	for _, kv := range found.KVs {
		key, err := base64.StdEncoding.DecodeString(kv.Key)
		if err != nil {
			e.t.Fatal(err)
		}
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	return keys
}

// Leases returns the IDs of all leases.
func (e *EtcdRegistry) Leases() []string {
	e.t.Helper()
	var found struct {
		Leases []struct{ ID string }
	}
	e.ask("lease/leases", "{}", &found)
	ids := []string{}
	for _, l := range found.Leases {
		ids = append(ids, l.ID)
	}
	slices.Sort(ids)
	return ids
}

// Expire revokes every lease, which their holders cannot distinguish from an expiry.
func (e *EtcdRegistry) Expire() {
	e.t.Helper()
	for _, id := range e.Leases() {
		e.Call(e.t, "lease/revoke", fmt.Sprintf(`{"ID": %q}`, id)) // may just have expired
	}
}

// ExpireTokens makes clients log in again, as etcd does after five idle minutes: setting a password ends all tokens,
// even if it is the same password.
func (e *EtcdRegistry) ExpireTokens() {
	e.t.Helper()
	var ok struct{}
	e.ask("auth/user/changepw", fmt.Sprintf(`{"name": %q, "password": %q}`, servers.EtcdUser, e.Password), &ok)
}

func (e *EtcdRegistry) Forget() { e.t.Helper(); e.Reset(e.t) }

func (e *EtcdRegistry) ask(path, body string, into any) {
	e.t.Helper()
	status, answer := e.Call(e.t, path, body)
	if err := json.Unmarshal([]byte(answer), into); err != nil || status != http.StatusOK {
		e.t.Fatalf("etcd: %s: status %d: %s", path, status, answer)
	}
}

// ConsulRegistry is a real Consul agent. An entry is the ID of the agent's service, or NODE/ID for one registered with
// the catalog.
type ConsulRegistry struct {
	*servers.Consul
	*proxy
	t testing.TB
}

// Consul starts an agent, if Consul is built; [FakeConsul] is always available.
func Consul(t testing.TB, o servers.ConsulOptions) *ConsulRegistry {
	t.Helper()
	c := servers.StartConsul(t, o)
	return &ConsulRegistry{Consul: c, proxy: proxyTo(t, c.URL, newTransport(t)), t: t}
}

func (c *ConsulRegistry) Entries() []string {
	c.t.Helper()
	var services map[string]any
	c.ask("/v1/agent/services", &services)
	entries := []string{}
	for id := range services {
		entries = append(entries, id)
	}
	for _, node := range c.nodes() {
		var found struct {
			Services []struct{ ID string }
		}
		c.ask("/v1/catalog/node-services/"+url.PathEscape(node), &found)
		for _, s := range found.Services {
			entries = append(entries, node+"/"+s.ID)
		}
	}
	slices.Sort(entries)
	return entries
}

// nodes returns the nodes of the catalog except the agent's own.
func (c *ConsulRegistry) nodes() []string {
	c.t.Helper()
	var found []struct{ Node string }
	c.ask("/v1/catalog/nodes", &found)
	names := []string{}
	for _, n := range found {
		if n.Node != servers.ConsulNode {
			names = append(names, n.Node)
		}
	}
	return names
}

// Expire deregisters the services with a check that needs heartbeats. The agent itself does that a minute after the
// last one at the earliest.
func (c *ConsulRegistry) Expire() {
	c.t.Helper()
	var checks map[string]struct{ Type, ServiceID string }
	c.ask("/v1/agent/checks", &checks)
	for _, check := range checks {
		if check.Type == "ttl" {
			c.Call(c.t, "PUT", "/v1/agent/service/deregister/"+url.PathEscape(check.ServiceID), "")
		}
	}
}

func (c *ConsulRegistry) Forget() { c.t.Helper(); c.Reset(c.t) }

func (c *ConsulRegistry) ask(path string, into any) {
	c.t.Helper()
	status, answer := c.Call(c.t, "GET", path, "")
	if err := json.Unmarshal([]byte(answer), into); err != nil || status != http.StatusOK {
		c.t.Fatalf("consul: %s: status %d: %s", path, status, answer)
	}
}
