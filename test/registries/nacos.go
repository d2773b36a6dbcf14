package registries

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Nacos is a Nacos server of version 1 or 2, with the open API v1 (https://nacos.io/docs/v1/open-api/), or of version 3
// like 3.2, which has only the client API v3 (https://nacos.io/docs/latest/manual/user/open-api/) and, of v1, the
// login. Where those are silent, it behaves like InstanceController, InstanceOpenApiController and
// InstanceOperatorClientImpl. An entry is IP#PORT#CLUSTER#GROUP@@SERVICE; it has a lease if it is ephemeral.
type Nacos struct {
	Version  int
	User     string // "" gives every client all permissions
	Password string

	list[nacosInstance] // by nacosInstance.key

	tokensMu sync.Mutex
	tokens   map[string]bool
}

type nacosInstance struct {
	namespace, group, service string
	cluster, ip, port         string
	weight, metadata          string
	ephemeral                 bool
}

// key identifies the entry that a registration replaces. The cluster is not part of it: a client is an address and a
// port, and has one instance of a service.
func (i *nacosInstance) key() string {
	return fmt.Sprintf("%s/%s@@%s/%s#%s#%t", i.namespace, i.group, i.service, i.ip, i.port, i.ephemeral)
}

func (i *nacosInstance) id() string {
	return fmt.Sprintf("%s#%s#%s#%s@@%s", i.ip, i.port, i.cluster, i.group, i.service)
}

func (*Nacos) Base() string { return "/nacos" }

func (n *Nacos) Expire() { n.expire(func(i nacosInstance) bool { return i.ephemeral }) }

// ExpireTokens invalidates all tokens; clients have to log in again.
func (n *Nacos) ExpireTokens() {
	n.tokensMu.Lock()
	defer n.tokensMu.Unlock()
	clear(n.tokens)
}

func (n *Nacos) Entries() []string {
	ids := []string{}
	for _, key := range n.list.Entries() {
		if i, ok := n.get(key); ok {
			ids = append(ids, i.id())
		}
	}
	return ids
}

func (n *Nacos) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.requests.Add(1)
	// A DELETE, like a GET, only uses the query.
	if err := r.ParseForm(); err != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	path, found := strings.CutPrefix(r.URL.Path, "/nacos")
	switch path {
	case "/v1/auth/login", "/v1/auth/users/login", "/v3/auth/user/login":
		found = r.Method == "POST" && (n.Version == 3 || !strings.HasPrefix(path, "/v3"))
		if found {
			n.login(w, r)
			return
		}
	}
	handle, known := nacosCalls[n.Version >= 3][r.Method+" "+path]
	switch {
	case !found || !known:
		http.NotFound(w, r)
	case !n.authenticated(r):
		answer(w, http.StatusForbidden, map[string]any{
			"status": http.StatusForbidden, "error": "Forbidden", "message": "token invalid!", "path": r.URL.Path})
	default:
		handle(n, w, r)
	}
}

// nacosCalls are the calls that need a token; the key says whether the version is 3.
var nacosCalls = map[bool]map[string]func(*Nacos, http.ResponseWriter, *http.Request){
	false: {
		"POST /v1/ns/instance":     (*Nacos).register1,
		"PUT /v1/ns/instance":      (*Nacos).register1,
		"DELETE /v1/ns/instance":   (*Nacos).deregister1,
		"GET /v1/ns/instance":      (*Nacos).detail1,
		"GET /v1/ns/instance/list": (*Nacos).list1,
		"PUT /v1/ns/instance/beat": (*Nacos).beat1,
	},
	true: {
		"POST /v3/client/ns/instance":     (*Nacos).register3,
		"DELETE /v3/client/ns/instance":   (*Nacos).deregister3,
		"GET /v3/client/ns/instance/list": (*Nacos).list3,
	},
}

func (n *Nacos) login(w http.ResponseWriter, r *http.Request) {
	if n.User == "" || r.Form.Get("username") != n.User || r.Form.Get("password") != n.Password {
		http.Error(w, "unknown user!", http.StatusForbidden)
		return
	}
	token := rand.Text()
	n.tokensMu.Lock()
	defer n.tokensMu.Unlock()
	if n.tokens == nil {
		n.tokens = map[string]bool{}
	}
	n.tokens[token] = true
	w.Header().Set("Authorization", "Bearer "+token)
	answer(w, http.StatusOK, map[string]any{"accessToken": token, "tokenTtl": 18000, "globalAdmin": true, "username": n.User})
}

func (n *Nacos) authenticated(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		token = r.Form.Get("accessToken")
	}
	n.tokensMu.Lock()
	defer n.tokensMu.Unlock()
	return n.User == "" || n.tokens[token]
}

// nacosInstanceOf reads the parameters that name an instance. The callers report missing ones with the version's own
// texts.
func nacosInstanceOf(r *http.Request) (i nacosInstance, missing string) {
	or := func(name, otherwise string) string {
		if v := r.Form.Get(name); v != "" {
			return v
		}
		return otherwise
	}
	i = nacosInstance{
		namespace: or("namespaceId", "public"), group: or("groupName", "DEFAULT_GROUP"), service: or("serviceName", ""),
		cluster: or("clusterName", or("cluster", "DEFAULT")), ip: or("ip", ""), port: or("port", ""),
		weight: or("weight", "1"), metadata: or("metadata", "{}"), ephemeral: or("ephemeral", "true") == "true",
	}
	if group, service, ok := strings.Cut(i.service, "@@"); ok {
		i.group, i.service = group, service
	}
	for _, p := range [][2]string{{"serviceName", i.service}, {"ip", i.ip}, {"port", i.port}} {
		if p[1] == "" {
			return i, p[0]
		}
	}
	return i, ""
}

// add registers the instance unless the service has instances of the other kind, ephemeral or persistent.
func (n *Nacos) add(i nacosInstance) (wrong string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.entries {
		if other.namespace == i.namespace && other.group == i.group && other.service == i.service && other.ephemeral != i.ephemeral {
			sorts := map[bool]string{true: "ephemeral", false: "persistent"}
			return fmt.Sprintf("Current service %s@@%s is %s service, can't register %s instance.",
				i.group, i.service, sorts[other.ephemeral], sorts[i.ephemeral])
		}
	}
	if n.entries == nil {
		n.entries = map[string]nacosInstance{}
	}
	n.entries[i.key()] = i
	return ""
}

func (n *Nacos) register1(w http.ResponseWriter, r *http.Request) {
	i, missing := nacosInstanceOf(r)
	wrong := "Param '" + missing + "' is required."
	if missing == "" {
		wrong = n.add(i)
	}
	if wrong != "" {
		http.Error(w, wrong, http.StatusBadRequest)
		return
	}
	io.WriteString(w, "ok")
}

func (n *Nacos) deregister1(w http.ResponseWriter, r *http.Request) {
	i, missing := nacosInstanceOf(r)
	if missing != "" {
		http.Error(w, "Param '"+missing+"' is required.", http.StatusBadRequest)
		return
	}
	n.drop(i.key())
	io.WriteString(w, "ok") // even if it does not exist
}

// detail1 returns an instance of either kind in the given cluster.
func (n *Nacos) detail1(w http.ResponseWriter, r *http.Request) {
	i, missing := nacosInstanceOf(r)
	if missing != "" {
		http.Error(w, "Param '"+missing+"' is required.", http.StatusBadRequest)
		return
	}
	for _, ephemeral := range []bool{true, false} {
		i.ephemeral = ephemeral
		if known, ok := n.get(i.key()); ok && known.cluster == i.cluster {
			shown := known.shown()
			shown["service"] = known.group + "@@" + known.service
			answer(w, http.StatusOK, shown)
			return
		}
	}
	http.Error(w, "no matched ip found!", http.StatusNotFound)
}

// shown returns an instance as other clients see it.
func (i *nacosInstance) shown() map[string]any {
	return map[string]any{"instanceId": i.id(), "ip": i.ip, "port": json.Number(i.port), "clusterName": i.cluster,
		"weight": json.Number(i.weight), "healthy": true, "enabled": true, "ephemeral": i.ephemeral, "metadata": json.RawMessage(i.metadata)}
}

// hosts returns the instances of the service that the request names.
func (n *Nacos) hosts(r *http.Request) []any {
	wanted, _ := nacosInstanceOf(r)
	hosts := []any{}
	for _, key := range n.list.Entries() {
		i, ok := n.get(key)
		if ok && i.namespace == wanted.namespace && i.group == wanted.group && i.service == wanted.service {
			hosts = append(hosts, i.shown())
		}
	}
	return hosts
}

func (n *Nacos) list1(w http.ResponseWriter, r *http.Request) {
	i, _ := nacosInstanceOf(r)
	answer(w, http.StatusOK, map[string]any{"name": i.group + "@@" + i.service, "hosts": n.hosts(r)})
}

// beat1 handles a heartbeat. If "beat" describes an unknown instance, that is registered; otherwise the answer says
// that the instance is unknown.
func (n *Nacos) beat1(w http.ResponseWriter, r *http.Request) {
	i, missing := nacosInstanceOf(r)
	if beat := r.Form.Get("beat"); beat != "" {
		var sent struct {
			IP       string            `json:"ip"`
			Port     json.Number       `json:"port"`
			Cluster  string            `json:"cluster"`
			Metadata map[string]string `json:"metadata"`
		}
		if json.Unmarshal([]byte(beat), &sent) != nil || i.service == "" {
			http.Error(w, "bad beat", http.StatusBadRequest)
			return
		}
		i.ip, i.port = sent.IP, sent.Port.String()
		if sent.Cluster != "" {
			i.cluster = sent.Cluster
		}
		if sent.Metadata != nil {
			text, _ := json.Marshal(sent.Metadata)
			i.metadata = string(text)
		}
	} else if missing != "" {
		http.Error(w, "Param '"+missing+"' is required.", http.StatusBadRequest)
		return
	}
	i.ephemeral = true
	if _, known := n.get(i.key()); !known {
		if r.Form.Get("beat") == "" {
			answer(w, http.StatusOK, map[string]any{"clientBeatInterval": 5000, "code": 20404})
			return
		}
		if wrong := n.add(i); wrong != "" {
			http.Error(w, wrong, http.StatusBadRequest)
			return
		}
	}
	answer(w, http.StatusOK, map[string]any{"clientBeatInterval": 5000, "code": 10200, "lightBeatEnabled": true})
}

// answer3 is the envelope of all answers of the API v3.
func answer3(w http.ResponseWriter, status, code int, message string, data any) {
	answer(w, status, map[string]any{"code": code, "message": message, "data": data})
}

func (n *Nacos) register3(w http.ResponseWriter, r *http.Request) {
	i, missing := nacosInstanceOf(r)
	if missing != "" {
		answer3(w, http.StatusBadRequest, 10000, "parameter missing", "Required parameter '"+missing+"' type String is not present")
		return
	}
	if r.Form.Get("heartBeat") == "true" {
		i.ephemeral = true
		if _, known := n.get(i.key()); !known {
			answer3(w, http.StatusOK, 21003, "instance not found", nil)
			return
		}
	} else if wrong := n.add(i); wrong != "" {
		answer3(w, http.StatusBadRequest, 21000, "instance error", wrong)
		return
	}
	answer3(w, http.StatusOK, 0, "success", "ok")
}

func (n *Nacos) deregister3(w http.ResponseWriter, r *http.Request) {
	i, missing := nacosInstanceOf(r)
	if missing != "" {
		answer3(w, http.StatusBadRequest, 10000, "parameter missing", "Required parameter '"+missing+"' type String is not present")
		return
	}
	n.drop(i.key())
	answer3(w, http.StatusOK, 0, "success", "ok")
}

func (n *Nacos) list3(w http.ResponseWriter, r *http.Request) {
	answer3(w, http.StatusOK, 0, "success", n.hosts(r))
}
