package registries

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// FakeConsul stands in for Consul where that is not built. It implements the parts of the agent's API about services
// (https://developer.hashicorp.com/consul/api-docs/agent/service) and their checks
// (https://developer.hashicorp.com/consul/api-docs/agent/check), and the part of the catalog's about nodes
// (https://developer.hashicorp.com/consul/api-docs/catalog). Where those are silent, it behaves like 1.16.1: TestConsul
// sends the same requests to both. Entries are as in [ConsulRegistry].
//
// It knows the most common members of a request's body, and answers 400 to all others, as Consul does to unknown ones.
// It polls no health URL, so that a check of one remains critical; and TTLs only expire by Expire.
type FakeConsul struct {
	Token string // has all permissions; "" if every client has them

	requests atomic.Int64
	mu       sync.Mutex
	services map[string]*consulService // the agent's, by ID
	nodes    map[string]*consulNode    // the catalog's, except the agent, by name
}

// consulService is a service as it is registered with an agent. The fields of raw type, here and below, are accepted
// and not interpreted.
type consulService struct {
	ID, Name, Address string
	Port              int
	Tags              []string
	Meta              map[string]string
	Check             *consulCheck
	Checks            []*consulCheck

	EnableTagOverride, TaggedAddresses, Weights json.RawMessage

	checks map[string]*consulCheck // by ID
}

type consulCheck struct {
	CheckID, Name, Status, HTTP                            string
	TTL, Interval, Timeout, DeregisterCriticalServiceAfter consulDuration

	Body, Header, Method, Notes, TLSSkipVerify json.RawMessage
}

// consulNode is a node as it is registered with the catalog.
type consulNode struct {
	Node, Address string
	NodeMeta      map[string]string
	Service       *consulNodeService
	Check         *consulNodeCheck
	Checks        []*consulNodeCheck

	Datacenter, TaggedAddresses json.RawMessage

	services map[string]*consulNodeService // by ID
}

type consulNodeService struct {
	ID, Service string
	Address     string
	Port        int               `json:",omitempty"`
	Tags        []string          `json:",omitempty"`
	Meta        map[string]string `json:",omitempty"`

	EnableTagOverride, TaggedAddresses, Weights json.RawMessage `json:",omitempty"`
}

type consulNodeCheck struct {
	CheckID, Name, ServiceID string
	Definition               struct {
		Interval, Timeout consulDuration
		HTTP              string
	}

	Notes, Output, Status json.RawMessage
}

// consulDuration is a duration in text form.
type consulDuration time.Duration

func (d *consulDuration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(s)
	*d = consulDuration(parsed)
	return err
}

func (*FakeConsul) Base() string { return "" }

func (c *FakeConsul) Requests() int { return int(c.requests.Load()) }

func (c *FakeConsul) Entries() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := slices.AppendSeq([]string{}, maps.Keys(c.services))
	for name, node := range c.nodes {
		for id := range node.services {
			entries = append(entries, name+"/"+id)
		}
	}
	slices.Sort(entries)
	return entries
}

// Expire makes the checks that need heartbeats critical, and deregisters the services that such a check deregisters
// after a long critical time.
func (c *FakeConsul) Expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.services {
		for _, check := range s.checks {
			if check.TTL == 0 {
				continue
			}
			check.Status = "critical"
			if check.DeregisterCriticalServiceAfter > 0 {
				delete(c.services, id)
			}
		}
	}
}

func (c *FakeConsul) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.services, c.nodes = nil, nil
}

// consulCalls are the supported calls. A path that ends with a slash is followed by an ID, whose slashes may be escaped
// or not.
var consulCalls = []struct {
	method, path string
	// handle returns the answer: an empty one if nil, text if a string, else JSON.
	handle func(c *FakeConsul, r *http.Request, id string) (status int, body any)
}{
	{"PUT", "/v1/agent/service/register", (*FakeConsul).register},
	{"PUT", "/v1/agent/service/deregister/", (*FakeConsul).deregister},
	{"GET", "/v1/agent/service/", (*FakeConsul).service},
	{"GET", "/v1/agent/checks", (*FakeConsul).checks},
	{"PUT", "/v1/agent/check/pass/", (*FakeConsul).pass},
	{"PUT", "/v1/catalog/register", (*FakeConsul).registerNode},
	{"PUT", "/v1/catalog/deregister", (*FakeConsul).deregisterNode},
	{"GET", "/v1/catalog/node/", (*FakeConsul).node},
}

func (c *FakeConsul) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests.Add(1)
	status, body := http.StatusNotFound, any("Invalid URL path: not a recognized HTTP API endpoint\n")
	for _, call := range consulCalls {
		id, known := strings.CutPrefix(r.URL.Path, call.path)
		if !known || id != "" && !strings.HasSuffix(call.path, "/") {
			continue
		}
		status, body = http.StatusMethodNotAllowed, "method "+r.Method+" not allowed"
		if r.Method == call.method {
			c.mu.Lock()
			status, body = call.handle(c, r, id)
			c.mu.Unlock()
		}
		break
	}
	switch body := body.(type) {
	case nil:
		w.WriteHeader(status)
	case string:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		io.WriteString(w, body)
	default:
		answer(w, status, body)
	}
}

// consulDecode reads the body, and returns what is wrong with it.
func consulDecode(r *http.Request, into any) (wrong string) {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return "Request decode failed: " + err.Error()
	}
	return ""
}

// consulStranger is the answer to an unknown token, before the request is looked at. A client without a token is only
// rejected after that.
const consulStranger = "ACL not found"

// denied returns the answer to a client without the permission for the named resource, or nothing.
func (c *FakeConsul) denied(r *http.Request, permission, name string) string {
	token := r.Header.Get("X-Consul-Token")
	if token == "" {
		token, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	switch {
	case c.Token == "" || token == c.Token:
		return ""
	case token != "":
		return consulStranger
	}
	return fmt.Sprintf("Permission denied: anonymous token lacks permission '%s' on %q. "+
		"The anonymous token is used implicitly when a request does not specify a token.", permission, name)
}

func (c *FakeConsul) register(r *http.Request, _ string) (status int, body any) {
	s := new(consulService)
	if wrong := consulDecode(r, s); wrong != "" {
		return http.StatusBadRequest, wrong
	}
	if s.Name == "" {
		return http.StatusBadRequest, "Missing service name"
	}
	denied, wrong := c.denied(r, "service:write", s.Name), s.define()
	switch {
	case denied == consulStranger:
		return http.StatusForbidden, denied
	case wrong != "":
		return http.StatusBadRequest, wrong
	case denied != "":
		return http.StatusForbidden, denied
	}
	if before := c.services[s.ID]; before != nil {
		s.succeed(before, r.URL.Query().Get("replace-existing-checks") == "true")
	}
	if c.services == nil {
		c.services = map[string]*consulService{}
	}
	c.services[s.ID] = s
	return http.StatusOK, nil
}

// define sets the IDs of the service and its checks, and returns what is wrong with them.
func (s *consulService) define() (wrong string) {
	if s.ID == "" {
		s.ID = s.Name
	}
	if wrong := consulMeta(s.Meta); wrong != "" {
		return wrong
	}
	checks := s.Checks
	if s.Check != nil {
		checks = append(checks, s.Check)
	}
	s.checks = map[string]*consulCheck{}
	for i, check := range checks {
		if wrong := check.wrong(); wrong != "" {
			return wrong
		}
		if check.CheckID == "" {
			check.CheckID = "service:" + s.ID
			if len(checks) > 1 {
				check.CheckID = fmt.Sprintf("service:%s:%d", s.ID, i+1)
			}
		}
		if check.Name == "" {
			check.Name = fmt.Sprintf("Service '%s' check", s.Name)
		}
		if check.Status == "" {
			check.Status = "critical"
		}
		s.checks[check.CheckID] = check
	}
	return ""
}

func (check *consulCheck) wrong() string {
	switch {
	case !slices.Contains([]string{"", "passing", "warning", "critical"}, check.Status):
		return "Status for checks must 'passing', 'warning', 'critical'"
	case check.HTTP != "" && check.Interval <= 0:
		return "Invalid check: Interval must be > 0 for Script, HTTP, H2PING, TCP, UDP or OSService checks"
	case check.TTL > 0 && check.Interval > 0:
		return "Invalid check: Interval and TTL cannot both be specified"
	case check.HTTP == "" && check.TTL <= 0:
		return "Invalid check: TTL must be > 0 for TTL checks"
	}
	return ""
}

// consulKey matches valid keys of a service's metadata.
var consulKey = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func consulMeta(meta map[string]string) (wrong string) {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if !consulKey.MatchString(key) {
			return fmt.Sprintf("Invalid Service Meta: Couldn't load metadata pair ('%s', '%s'): Key contains invalid characters", key, meta[key])
		}
	}
	return ""
}

// succeed takes over the state of an earlier registration: a check that is registered again keeps its status, even if
// the request sets one; the others remain unless they are replaced.
func (s *consulService) succeed(before *consulService, replace bool) {
	for id, old := range before.checks {
		if check := s.checks[id]; check != nil {
			check.Status = old.Status
		} else if !replace {
			s.checks[id] = old
		}
	}
}

// own returns a service of the agent, if it exists and the client may access it.
func (c *FakeConsul) own(r *http.Request, s *consulService, permission, unknown string) (status int, body any) {
	name := ""
	if s != nil {
		name = s.Name
	}
	switch denied := c.denied(r, permission, name); {
	case denied == consulStranger || denied != "" && s != nil:
		return http.StatusForbidden, denied
	case s == nil:
		return http.StatusNotFound, unknown
	}
	return http.StatusOK, nil
}

func (c *FakeConsul) deregister(r *http.Request, id string) (status int, body any) {
	status, body = c.own(r, c.services[id], "service:write",
		fmt.Sprintf("Unknown service ID %q. Ensure that the service ID is passed, not the service name.", id))
	if status == http.StatusOK {
		delete(c.services, id)
	}
	return status, body
}

func (c *FakeConsul) service(r *http.Request, id string) (status int, body any) {
	s := c.services[id]
	if status, body = c.own(r, s, "service:read", "unknown service ID: "+id); status != http.StatusOK {
		return status, body
	}
	shown := map[string]any{"ID": s.ID, "Service": s.Name, "Address": s.Address, "Port": s.Port, "Tags": []string{}, "Meta": map[string]string{}}
	if s.Tags != nil {
		shown["Tags"] = s.Tags
	}
	if s.Meta != nil {
		shown["Meta"] = s.Meta
	}
	return status, shown
}

// checks returns the checks that the client may see.
func (c *FakeConsul) checks(r *http.Request, _ string) (status int, body any) {
	seen := map[string]any{}
	switch c.denied(r, "", "") {
	case consulStranger:
		return http.StatusForbidden, consulStranger
	case "":
		for _, s := range c.services {
			for id, check := range s.checks {
				kind := "http"
				if check.TTL > 0 {
					kind = "ttl"
				}
				seen[id] = map[string]any{"CheckID": id, "Name": check.Name, "Status": check.Status, "Type": kind,
					"ServiceID": s.ID, "ServiceName": s.Name}
			}
		}
	}
	return http.StatusOK, seen
}

// pass handles a heartbeat.
func (c *FakeConsul) pass(r *http.Request, id string) (status int, body any) {
	var of *consulService
	for _, s := range c.services {
		if s.checks[id] != nil {
			of = s
		}
	}
	status, body = c.own(r, of, "service:write",
		fmt.Sprintf("Unknown check ID %q. Ensure that the check ID is passed, not the check name.", id))
	if status != http.StatusOK {
		return status, body
	}
	if of.checks[id].TTL == 0 {
		return http.StatusInternalServerError, fmt.Sprintf("CheckID %q does not have associated TTL", id)
	}
	of.checks[id].Status = "passing"
	return http.StatusOK, nil
}

func (c *FakeConsul) registerNode(r *http.Request, _ string) (status int, body any) {
	n := &consulNode{services: map[string]*consulNodeService{}}
	if wrong := consulDecode(r, n); wrong != "" {
		return http.StatusBadRequest, wrong
	}
	if before := c.nodes[n.Node]; before != nil {
		maps.Copy(n.services, before.services)
	}
	permission, name := "node:write", n.Node
	if n.Service != nil {
		permission, name = "service:write", n.Service.Service
	}
	denied, wrong := c.denied(r, permission, name), n.define()
	switch {
	case denied == consulStranger:
		return http.StatusForbidden, denied
	case wrong != "":
		return http.StatusInternalServerError, wrong
	case denied != "":
		return http.StatusForbidden, denied
	}
	if c.nodes == nil {
		c.nodes = map[string]*consulNode{}
	}
	c.nodes[n.Node] = n
	return http.StatusOK, true
}

// define adds the service to the node, and returns what is wrong with it.
func (n *consulNode) define() (wrong string) {
	switch {
	case n.Node == "":
		return "Must provide node"
	case n.Address == "":
		return "Must provide address if SkipNodeUpdate is not set"
	}
	if s := n.Service; s != nil {
		if s.Service == "" {
			return "Must provide service name (Service.Service) when service ID is provided"
		}
		if s.ID == "" {
			s.ID = s.Service
		}
		if wrong := consulMeta(s.Meta); wrong != "" {
			return "failed inserting service: " + strings.Replace(wrong, ":", fmt.Sprintf(" for node %s and serviceID %s:", n.Node, s.ID), 1)
		}
		n.services[s.ID] = s
	}
	checks := n.Checks
	if n.Check != nil {
		checks = append(checks, n.Check)
	}
	for _, check := range checks {
		if check.CheckID == "" {
			check.CheckID = check.Name
		}
		if check.ServiceID != "" && n.services[check.ServiceID] == nil {
			return fmt.Sprintf("Unknown service ID '%s' for check ID '%s'", check.ServiceID, check.CheckID)
		}
	}
	return ""
}

func (c *FakeConsul) deregisterNode(r *http.Request, _ string) (status int, body any) {
	var n struct {
		Node       string
		Datacenter json.RawMessage
	}
	if wrong := consulDecode(r, &n); wrong != "" {
		return http.StatusBadRequest, wrong
	}
	if n.Node == "" {
		return http.StatusInternalServerError, "Must provide node"
	}
	if denied := c.denied(r, "node:write", n.Node); denied != "" {
		return http.StatusForbidden, denied
	}
	delete(c.nodes, n.Node)
	return http.StatusOK, true // even if it does not exist
}

func (c *FakeConsul) node(r *http.Request, name string) (status int, body any) {
	if name == "" {
		return http.StatusBadRequest, "Missing node name"
	}
	denied, n := c.denied(r, "node:read", name), c.nodes[name]
	switch {
	case denied == consulStranger:
		return http.StatusForbidden, denied
	case denied != "" || n == nil: // what the client may not see is reported as absent
		return http.StatusOK, json.RawMessage("null")
	}
	node := map[string]any{"Node": n.Node, "Address": n.Address, "Meta": n.NodeMeta}
	return http.StatusOK, map[string]any{"Node": node, "Services": n.services}
}
