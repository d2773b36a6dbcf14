package register

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// A Preset is the protocol of one kind of registry.
type Preset struct {
	Name   string
	About  string   // what it speaks to, and with what URL, for the help
	Unheld string   // what happens to an entry without heartbeats, if it does not stay
	Needs  []string // fields of the entry, as JSON names them, without which it cannot be registered

	// Own are members of the registering request by which later calls name the entry, or which every call has to
	// repeat. The user cannot replace them: the entry could not be kept alive or deregistered.
	Own []string

	login    *call  // with user and password, before the others; it keeps "token"
	tokenAs  string // the header Authorization of the others then, with {token} in it
	register []call // in this order; where one finds the entry gone, from the first again
	ask      *call  // whether it is registered: there or gone
	beat     *call  // keeps it alive; nil: ask does
	beatAsks bool   // the beat is of the lease alone: whether the entry is there has to be asked, too
	leave    []call // in this order; gone is as good as there

	names     func(*Entry) map[string]string // for paths, until an answer tells better; may be nil
	beatEvery func(*Entry) time.Duration     // nil: a third of the TTL
}

// Presets returns all presets, sorted by name.
func Presets() []*Preset { return presets }

var presets = []*Preset{
	{
		Name:  "consul",
		About: "the Consul agent of the Pod's node, as in http://$(HOST_IP):8500",
		Needs: []string{"service", "id", "address"},
		Own:   []string{"ID"},

		register: []call{
			{method: "PUT", path: "/v1/agent/service/register", query: "replace-existing-checks=true", body: consulService},
			{method: "PUT", path: "/v1/agent/check/pass/service:{id}", when: held, judge: consulKnows}, // a check of before is as critical as it was
		},
		ask:   &call{method: "GET", path: "/v1/agent/service/{id}", judge: consulKnows},
		beat:  &call{method: "PUT", path: "/v1/agent/check/pass/service:{id}", judge: consulKnows},
		leave: []call{{method: "PUT", path: "/v1/agent/service/deregister/{id}", judge: consulKnows}},
	},
	{
		Name:  "consul-catalog",
		About: "the catalog of Consul, without an agent on the Pod's node, as in http://consul-server.consul.svc:8500",
		Needs: []string{"service", "id", "address"},
		Own:   []string{"Node"},

		register: []call{{method: "PUT", path: "/v1/catalog/register", body: consulNode, judge: consulTakes}},
		ask:      &call{method: "GET", path: "/v1/catalog/node/{id}", judge: consulHasService},
		leave:    []call{{method: "PUT", path: "/v1/catalog/deregister", body: func(e *Entry) any { return map[string]any{"Node": e.ID} }}},
	},
	{
		Name:  "etcd",
		About: "a key /services/SERVICE/ID of etcd 3.4 or later, whose value is JSON, as in http://etcd:2379",
		Needs: []string{"service", "id", "address"},

		login:   &call{method: "POST", path: "/v3/auth/authenticate", login: etcdLogin, judge: etcdSays, keep: map[string]string{"token": "/token"}},
		tokenAs: "{token}",
		register: []call{
			{method: "POST", path: "/v3/lease/grant", when: held, body: etcdGrant, judge: etcdSays},
			{method: "POST", path: "/v3/lease/keepalive", when: held, body: etcdLease, judge: etcdAlive}, // the lease may have been granted to an earlier run, and be about to end
			{method: "POST", path: "/v3/kv/put", body: etcdPut, judge: etcdSays},
		},
		ask:      &call{method: "POST", path: "/v3/kv/range", body: etcdRange, judge: etcdHas},
		beat:     &call{method: "POST", path: "/v3/lease/keepalive", body: etcdLease, judge: etcdAlive},
		beatAsks: true,
		leave: []call{
			{method: "POST", path: "/v3/kv/deleterange", body: etcdKey, judge: etcdSays},
			{method: "POST", path: "/v3/lease/revoke", when: held, body: etcdLease, judge: etcdSays},
		},
	},
	{
		Name:   "eureka",
		About:  "Eureka, Netflix's or Spring Cloud's, as in http://eureka:8761/eureka",
		Unheld: "Eureka drops the entry after 90 s without heartbeats",
		Needs:  []string{"service", "id", "address"},
		Own:    []string{"instanceId", "app"},

		register: []call{{method: "POST", path: "/apps/{service}", body: eurekaInstance}},
		ask:      &call{method: "GET", path: "/apps/{service}/{id}"},
		beat:     &call{method: "PUT", path: "/apps/{service}/{id}"},
		leave:    []call{{method: "DELETE", path: "/apps/{service}/{id}"}},
	},
	{
		Name:  "nacos",
		About: "Nacos 1.2 to 3.1, as in http://nacos:8848/nacos?namespaceId=dev&groupName=web",
		Needs: []string{"service", "address", "port"},
		Own:   nacosOwn,

		login:    &call{method: "POST", path: "/v1/auth/login", login: nacosLogin, keep: map[string]string{"token": "/accessToken"}},
		tokenAs:  "Bearer {token}",
		register: []call{{method: "POST", path: "/v1/ns/instance", form: nacosInstance, judge: nacosSays}},
		ask:      &call{method: "GET", path: "/v1/ns/instance/list", query: "serviceName={service}", judge: nacosHas},
		beat:     &call{method: "PUT", path: "/v1/ns/instance/beat", query: nacosQuery, judge: nacosSays},
		leave: []call{
			{method: "DELETE", path: "/v1/ns/instance", query: nacosQuery + "&ephemeral=true", when: held, judge: nacosSays},
			{method: "DELETE", path: "/v1/ns/instance", query: nacosQuery + "&ephemeral=false", when: unheld, judge: nacosSays},
		},
		beatEvery: nacosPace,
	},
	{
		Name:  "nacos3",
		About: "Nacos 3.0 or later (3.2 speaks no other way), as in http://nacos:8848/nacos?namespaceId=dev&groupName=web",
		Needs: []string{"service", "address", "port"},
		Own:   nacosOwn,

		login:    &call{method: "POST", path: "/v3/auth/user/login", login: nacosLogin, keep: map[string]string{"token": "/accessToken"}},
		tokenAs:  "Bearer {token}",
		register: []call{{method: "POST", path: "/v3/client/ns/instance", form: nacosInstance, judge: nacosSays}},
		ask:      &call{method: "GET", path: "/v3/client/ns/instance/list", query: "serviceName={service}", judge: nacosHas},
		beat:     &call{method: "POST", path: "/v3/client/ns/instance", query: nacosQuery + "&heartBeat=true", judge: nacosSays},
		leave: []call{
			{method: "DELETE", path: "/v3/client/ns/instance", query: nacosQuery + "&ephemeral=true", when: held, judge: nacosSays},
			{method: "DELETE", path: "/v3/client/ns/instance", query: nacosQuery + "&ephemeral=false", when: unheld, judge: nacosSays},
		},
		beatEvery: nacosPace,
	},
	{
		Name:  "spring-boot-admin",
		About: "Spring Boot Admin 2 or later, as in http://admin:8080",
		Needs: []string{"service", "health"},

		register: []call{{method: "POST", path: "/instances", body: func(e *Entry) any { return adminInstance(e) }, keep: map[string]string{"instance": "/id"}}},
		ask:      &call{method: "GET", path: "/instances/{instance}"},
		leave:    []call{{method: "DELETE", path: "/instances/{instance}"}},
		names:    adminNames,
	},
}

// held reports whether a process stays to send heartbeats.
func held(e *Entry) bool { return e.TTL > 0 }

func unheld(e *Entry) bool { return !held(e) }

// with returns the members that are not empty, and those of the user, which win.
func with(extra, members map[string]any) map[string]any {
	maps.DeleteFunc(members, func(_ string, v any) bool {
		value := reflect.ValueOf(v)
		switch value.Kind() {
		case reflect.Map, reflect.Slice:
			return value.Len() == 0
		}
		return v == nil || value.IsZero()
	})
	maps.Copy(members, extra)
	return members
}

// metadata returns the entry's, and more that the registry has no other place for.
// A name that the user gave keeps the user's value.
func (e *Entry) metadata(more map[string]string) map[string]string {
	all := maps.Clone(more)
	if all == nil {
		all = map[string]string{}
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	maps.Copy(all, e.Meta)
	return all
}

// tags are all of the entry's in one value, for registries that have none.
func (e *Entry) tags() string { return strings.Join(e.Tags, ",") }

// secure is how Spring Cloud marks, in the metadata, a port that speaks TLS.
func (e *Entry) secure() string {
	if e.Secure {
		return "true"
	}
	return ""
}

// parameters puts what the user gave in place of or besides the values of a form.
func parameters(extra map[string]any, form url.Values) url.Values {
	for name, value := range extra {
		text, isText := value.(string)
		if !isText {
			b, _ := json.Marshal(value) // it was parsed from JSON
			text = string(b)
		}
		form.Set(name, text)
	}
	return form
}

// seconds returns d in seconds, rounded up: a registry that counts in seconds must not wait for less than d.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
