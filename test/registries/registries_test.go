package registries

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"initbox/test/servers"
)

// These tests check the registries themselves: the other tests rely on their documented behavior.

// A step is one request and its result.
type step struct {
	does string // "PUT /path"
	body string // JSON if it starts with a brace, else a form

	status  int
	answer  string   // a part of it
	entries []string // after it
}

var lifecycles = []struct {
	name     string
	registry func() Registry
	steps    []step
}{
	{"eureka", func() Registry { return new(Eureka) }, []step{
		{"PUT /eureka/apps/web/pod-1", "", 404, "", nil},
		{"POST /eureka/apps/web", `{"instance": {"instanceId": "pod-1", "hostName": "h", "app": "web"}}`, 400, "Missing ip address", nil},
		{"POST /eureka/apps/db", eurekaPod, 400, "Mismatched appName, expecting DB but was WEB", nil},
		{"POST /eureka/apps/web", "instance=pod-1", 415, "", nil},
		{"POST /eureka/apps/web", eurekaPod, 204, "", []string{"WEB/pod/1"}},
		{"POST /eureka/v2/apps/WEB", eurekaPod, 204, "", []string{"WEB/pod/1"}},
		{"PUT /eureka/apps/web/pod%2F1", "", 200, "", []string{"WEB/pod/1"}},
		{"GET /eureka/apps/WEB/pod%2F1", "", 200, `"instanceId":"pod/1"`, []string{"WEB/pod/1"}},
		{"GET /eureka/apps", "", 200, `"name":"WEB"`, []string{"WEB/pod/1"}},
		{"DELETE /eureka/apps/WEB/pod%2F1", "", 200, "", nil},
		{"DELETE /eureka/apps/WEB/pod%2F1", "", 404, "", nil},
		{"GET /eureka/apps/WEB/pod%2F1", "", 404, "", nil},
	}},
	{"nacos 2", func() Registry { return &Nacos{Version: 2} }, []step{
		{"POST /nacos/v3/client/ns/instance", "serviceName=web&ip=::1&port=80", 404, "", nil},
		{"POST /nacos/v1/ns/instance", "serviceName=web&port=80", 400, "Param 'ip' is required.", nil},
		{"PUT /nacos/v1/ns/instance/beat?serviceName=web&ip=::1&port=80", "", 200, `"code":20404`, nil},
		{"POST /nacos/v1/ns/instance", "serviceName=web&ip=::1&port=80", 200, "ok", []string{nacosWeb}},
		{"POST /nacos/v1/ns/instance", "serviceName=DEFAULT_GROUP@@web&ip=::1&port=80", 200, "ok", []string{nacosWeb}},
		{"POST /nacos/v1/ns/instance?ephemeral=false", "serviceName=web&ip=::2&port=80", 400, "can't register persistent instance", []string{nacosWeb}},
		{"PUT /nacos/v1/ns/instance/beat?serviceName=web&ip=::1&port=80", "", 200, `"code":10200`, []string{nacosWeb}},
		{"GET /nacos/v1/ns/instance?serviceName=web&ip=::1&port=80", "", 200, `"service":"DEFAULT_GROUP@@web"`, []string{nacosWeb}},
		{"GET /nacos/v1/ns/instance/list?serviceName=web", "", 200, `"ip":"::1"`, []string{nacosWeb}},
		{"DELETE /nacos/v1/ns/instance?serviceName=web&ip=::1&port=80&ephemeral=false", "", 200, "ok", []string{nacosWeb}},
		{"DELETE /nacos/v1/ns/instance?serviceName=web&ip=::1&port=80", "", 200, "ok", nil},
		{"DELETE /nacos/v1/ns/instance?serviceName=web&ip=::1&port=80", "", 200, "ok", nil},
		{"GET /nacos/v1/ns/instance?serviceName=web&ip=::1&port=80", "", 404, "", nil},
		{"PUT /nacos/v1/ns/instance/beat?serviceName=web", `beat={"ip":"::1","port":80}`, 200, `"code":10200`, []string{nacosWeb}},
	}},
	{"nacos 3", func() Registry { return &Nacos{Version: 3} }, []step{
		{"POST /nacos/v1/ns/instance", "serviceName=web&ip=::1&port=80", 404, "", nil},
		{"POST /nacos/v3/client/ns/instance", "ip=::1&port=80", 400, "parameter missing", nil},
		{"POST /nacos/v3/client/ns/instance?heartBeat=true", "serviceName=web&ip=::1&port=80", 200, `"code":21003`, nil},
		{"POST /nacos/v3/client/ns/instance", "serviceName=web&ip=::1&port=80", 200, `"code":0`, []string{nacosWeb}},
		{"POST /nacos/v3/client/ns/instance?heartBeat=true", "serviceName=web&ip=::1&port=80", 200, `"data":"ok"`, []string{nacosWeb}},
		{"GET /nacos/v3/client/ns/instance/list?serviceName=web", "", 200, `"ip":"::1"`, []string{nacosWeb}},
		{"DELETE /nacos/v3/client/ns/instance?serviceName=web&ip=::1&port=80", "", 200, `"data":"ok"`, nil},
	}},
	{"spring boot admin", func() Registry { return new(SpringBootAdmin) }, []step{
		{"DELETE /instances/97a8e1a2b5c1", "", 404, "", nil},
		{"POST /instances", `{"name": "web", "healthUrl": "/health"}`, 400, "", nil},
		{"POST /instances", `{"name": "web", "healthUrl": "http://web/health"}`, 201, `{"id":"b7049c96e606"}`, []string{"b7049c96e606"}},
		{"POST /instances", `{"name": "web", "healthUrl": "http://web/health"}`, 201, `{"id":"b7049c96e606"}`, []string{"b7049c96e606"}},
		{"GET /instances/b7049c96e606", "", 200, `"name":"web"`, []string{"b7049c96e606"}},
		{"GET /instances", "", 200, `"registered":true`, []string{"b7049c96e606"}},
		{"DELETE /instances/b7049c96e606", "", 204, "", nil},
		{"DELETE /instances/b7049c96e606", "", 204, "", nil},
		{"GET /instances/b7049c96e606", "", 404, "", nil},
	}},
	{"management", func() Registry { return new(Management) }, []step{
		{"GET /register?instance=pod-1", "", 404, "", nil},
		{"POST /register", "ip=127.0.0.1", 400, "", nil},
		{"POST /register", "instance=pod-1&ip=127.0.0.1", 201, `{"id":"1"}`, []string{"pod-1"}},
		{"POST /register", `{"instance": "pod-1"}`, 201, `{"id":"2"}`, []string{"pod-1", "pod-1"}},
		{"PUT /register", "instance=pod-1&ip=127.0.0.2", 200, `{"id":"1"}`, []string{"pod-1", "pod-1"}},
		{"GET /register?instance=pod-1", "", 200, `"ip":"127.0.0.2"`, []string{"pod-1", "pod-1"}},
		{"DELETE /instances/2", "", 204, "", []string{"pod-1"}},
		{"DELETE /register?instance=pod-1", "", 204, "", nil},
		{"DELETE /register?instance=pod-1", "", 404, "", nil},
	}},
	{"management, unique", func() Registry { return &Management{Unique: true} }, []step{
		{"POST /register", "instance=pod-1", 201, "", []string{"pod-1"}},
		{"POST /register", "instance=pod-1", 409, `"id":"1"`, []string{"pod-1"}},
	}},
}

const (
	nacosWeb  = "::1#80#DEFAULT#DEFAULT_GROUP@@web"
	eurekaPod = `{"instance": {"instanceId": "pod/1", "hostName": "h", "app": "web", "ipAddr": "127.0.0.1", "status": "UP",
		"port": {"$": 80, "@enabled": "true"}, "dataCenterInfo": {"name": "MyOwn"}}}`
)

func TestLifecycles(t *testing.T) {
	for _, l := range lifecycles {
		t.Run(l.name, func(t *testing.T) {
			registry := l.registry()
			server := httptest.NewServer(registry)
			defer server.Close()
			for _, s := range l.steps {
				status, answer, err := send(t.Context(), server.URL, s.does, s.body, nil)
				if err != nil {
					t.Fatal(err)
				}
				if status != s.status || !strings.Contains(answer, s.answer) {
					t.Errorf("%s: status %d, want %d: %s", s.does, status, s.status, answer)
				}
				if got := registry.Entries(); !slices.Equal(got, s.entries) {
					t.Errorf("%s: entries %q, want %q", s.does, got, s.entries)
				}
			}
			if n := registry.Requests(); n != len(l.steps) {
				t.Errorf("%d requests counted, want %d", n, len(l.steps))
			}
		})
	}
}

func send(ctx context.Context, base, does, body string, header http.Header) (status int, answer string, err error) {
	method, path, _ := strings.Cut(does, " ")
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func TestNacosLogin(t *testing.T) {
	n := &Nacos{Version: 2, User: "nacos", Password: "pa&ss"}
	server := httptest.NewServer(n)
	defer server.Close()
	const register = "POST /nacos/v1/ns/instance?serviceName=web&ip=::1&port=80&accessToken="
	want := func(does, body string, status int) (answer string) {
		t.Helper()
		got, answer, err := send(t.Context(), server.URL, does, body, nil)
		if err != nil || got != status {
			t.Fatalf("%s: status %d, want %d: %s %v", does, got, status, answer, err)
		}
		return answer
	}
	want(register, "", 403)
	want("POST /nacos/v1/auth/login", "username=nacos&password=wrong", 403)
	answer := want("POST /nacos/v1/auth/login", "username=nacos&password="+url.QueryEscape(n.Password), 200)
	_, token, _ := strings.Cut(answer, `"accessToken":"`)
	token, _, _ = strings.Cut(token, `"`)
	want(register+token, "", 200)
	n.ExpireTokens()
	want(register+token, "", 403)
}

func TestExpireAndForget(t *testing.T) {
	n := &Nacos{Version: 1}
	n.add(nacosInstance{service: "web", ip: "::1", port: "80", ephemeral: true})
	n.add(nacosInstance{service: "db", ip: "::1", port: "80"})
	n.Expire()
	if got := n.Entries(); len(got) != 1 || !strings.Contains(got[0], "db") {
		t.Errorf("after Expire: %q, want that of db", got)
	}
	n.Forget()
	if got := n.Entries(); len(got) != 0 {
		t.Errorf("after Forget: %q", got)
	}
}

func TestManagementKnowsIdempotencyKeys(t *testing.T) {
	m := new(Management)
	server := httptest.NewServer(m)
	defer server.Close()
	for range 2 {
		status, answer, err := send(t.Context(), server.URL, "POST /register", "instance=pod-1", http.Header{"Idempotency-Key": {"a"}})
		if err != nil || status != 201 || !strings.Contains(answer, `"id":"1"`) {
			t.Errorf("status %d: %s %v", status, answer, err)
		}
	}
	if got := m.Entries(); len(got) != 1 {
		t.Errorf("entries %q, want one", got)
	}
}

func TestFaults(t *testing.T) {
	m := new(Management)
	f := &Faults{Registry: m, Only: func(r *http.Request) bool { return r.Method == "POST" }}
	server := httptest.NewServer(f)
	defer server.Close()
	post := func(ctx context.Context) (int, error) {
		status, _, err := send(ctx, server.URL, "POST /register", "instance=pod-1", nil)
		return status, err
	}

	f.LoseAnswers(1)
	if status, _, err := send(t.Context(), server.URL, "GET /register?instance=pod-1", "", nil); status != 404 {
		t.Errorf("not a POST: status %d, %v", status, err)
	}
	if status, err := post(t.Context()); err == nil {
		t.Errorf("the answer should be lost: status %d", status)
	}
	if got := m.Entries(); len(got) != 1 {
		t.Errorf("after the lost answer: entries %q, want one", got)
	}
	f.Busy(1)
	f.Refuse(1, 429, 7)
	for _, want := range []int{503, 429, 201} {
		if status, err := post(t.Context()); status != want {
			t.Errorf("status %d, want %d: %v", status, want, err)
		}
	}

	resume := f.Hang()
	ctx, leave := context.WithCancel(t.Context())
	seen := len(f.Seen())
	left := make(chan error)
	go func() { _, err := post(ctx); left <- err }()
	Await(t, "a request hangs", func() bool { return len(f.Seen()) == seen+1 })
	leave()
	if err := <-left; err == nil {
		t.Error("a request that hangs was answered")
	}
	answered := make(chan int)
	go func() { status, _ := post(t.Context()); answered <- status }()
	Await(t, "another one hangs", func() bool { return len(f.Seen()) == seen+2 })
	resume()
	if status := <-answered; status != 201 {
		t.Errorf("after hanging: status %d", status)
	}
	if got := m.Entries(); len(got) != 3 {
		t.Errorf("entries %q, want three: the request of the disconnected client was dropped", got)
	}
	if n := m.Requests(); n != 4 {
		t.Errorf("%d requests have reached it, want 4", n)
	}
}

func TestEtcd(t *testing.T) {
	e := Etcd(t, servers.EtcdOptions{Auth: true})
	f := &Faults{Registry: e}
	server := httptest.NewServer(f)
	defer server.Close()
	token := func() string {
		t.Helper()
		_, answer, err := send(t.Context(), server.URL, "POST /v3/auth/authenticate",
			`{"name": "`+servers.EtcdUser+`", "password": "`+e.Password+`"}`, nil)
		_, rest, ok := strings.Cut(answer, `"token":"`)
		if !ok {
			t.Fatalf("no token: %v", err)
		}
		token, _, _ := strings.Cut(rest, `"`)
		return token
	}
	now := http.Header{"Authorization": {token()}}
	want := func(does, body string, status int) {
		t.Helper()
		if got, answer, err := send(t.Context(), server.URL, does, body, now); got != status {
			t.Errorf("%s: status %d, want %d: %s %v", does, got, status, answer, err)
		}
	}
	entries := func(want ...string) {
		t.Helper()
		if got := e.Entries(); !slices.Equal(got, want) {
			t.Errorf("entries %q, want %q", got, want)
		}
	}

	want("POST /v3/lease/grant", `{"TTL": 600, "ID": 5}`, 200)
	want("POST /v3/lease/grant", `{"TTL": 600, "ID": 5}`, 412)
	f.LoseAnswers(1)
	if _, _, err := send(t.Context(), server.URL, "POST /v3/kv/put", `{"key": "L2E=", "lease": 5}`, now); err == nil {
		t.Error("the answer should be lost")
	}
	want("POST /v3/kv/put", `{"key": "L2I="}`, 200)
	entries("/a", "/b")
	want("POST /v3/lease/keepalive", `{"ID": 5}`, 200)
	e.Expire()
	entries("/b")
	want("POST /v3/kv/put", `{"key": "L2E=", "lease": 5}`, 404)
	e.ExpireTokens()
	want("POST /v3/kv/put", `{"key": "L2E="}`, 401)
	now.Set("Authorization", token())
	want("POST /v3/kv/put", `{"key": "L2E="}`, 200)
	e.Forget()
	entries()
}

// consulLife are the steps for both Consuls: at the start, after Expire, after Forget.
var consulLife = [...][]step{{
	{"GET /v1/agent/service/web%2F1", "", 404, "unknown service ID: web/1", nil},
	{"PUT /v1/agent/service/deregister/web%2F1", "", 404, `Unknown service ID "web/1". Ensure that the service ID is passed, not the service name.`, nil},
	{"PUT /v1/agent/check/pass/service:web%2F1", "", 404, `Unknown check ID "service:web/1". Ensure that the check ID is passed, not the check name.`, nil},
	{"POST /v1/agent/service/register", `{"Name": "web"}`, 405, "method POST not allowed", nil},
	{"PUT /v1/agent/nothing", "", 404, "Invalid URL path: not a recognized HTTP API endpoint", nil},

	{"PUT /v1/agent/service/register", "", 400, "Request decode failed: EOF", nil},
	{"PUT /v1/agent/service/register", `{`, 400, "Request decode failed: unexpected EOF", nil},
	{"PUT /v1/agent/service/register", `{"ID": "web/1"}`, 400, "Missing service name", nil},
	{"PUT /v1/agent/service/register", `{"Name": "web", "Bogus": 1}`, 400, `Request decode failed: json: unknown field "Bogus"`, nil},
	{"PUT /v1/agent/service/register", `{"Name": "web", "Check": {"TTL": "9s", "Bogus": 1}}`, 400, `Request decode failed: json: unknown field "Bogus"`, nil},
	{"PUT /v1/agent/service/register", `{"Name": "web", "Check": {"TTL": "10"}}`, 400, `Request decode failed: time: missing unit in duration "10"`, nil},
	{"PUT /v1/agent/service/register", `{"Name": "web", "Check": {"Name": "none"}}`, 400, "Invalid check: TTL must be > 0", nil},
	{"PUT /v1/agent/service/register", `{"Name": "web", "Check": {"HTTP": "http://127.0.0.7:1/"}}`, 400, "Invalid check: Interval must be > 0", nil},
	{"PUT /v1/agent/service/register", `{"Name": "web", "Check": {"TTL": "9s", "Interval": "9s"}}`, 400, "Invalid check: Interval and TTL cannot both", nil},
	{"PUT /v1/agent/service/register", `{"Name": "web", "Check": {"TTL": "9s", "Status": "well"}}`, 400, "Status for checks must", nil},
	{"PUT /v1/agent/service/register", `{"Name": "web", "Meta": {"a/b": "c"}}`, 400, "Invalid Service Meta: Couldn't load metadata pair ('a/b', 'c')", nil},

	{"PUT /v1/agent/service/register", consulWeb, 200, "", []string{"web/1"}},
	{"PUT /v1/agent/service/register?replace-existing-checks=true", consulWeb, 200, "", []string{"web/1"}},
	{"PUT /v1/agent/service/register", `{"name": "db"}`, 200, "", []string{"db", "web/1"}},
	{"GET /v1/agent/service/web%2F1", "", 200, `"Meta":{"zone":"a"}`, []string{"db", "web/1"}},
	{"GET /v1/agent/service/db", "", 200, `"Service":"db"`, []string{"db", "web/1"}},
	{"PUT /v1/agent/check/pass/service:web%2F1", "", 200, "", []string{"db", "web/1"}},
	{"PUT /v1/agent/check/pass/service:web%2F1:health", "", 500, `CheckID "service:web/1:health" does not have associated TTL`, []string{"db", "web/1"}},
	{"PUT /v1/agent/check/pass/service:db", "", 404, `Unknown check ID "service:db"`, []string{"db", "web/1"}},
	{"GET /v1/agent/checks", "", 200, `"service:web/1":`, []string{"db", "web/1"}},

	// A service that is registered again has its new checks in addition to the old ones, which are unchanged.
	{"PUT /v1/agent/service/register", `{"Name": "db", "Checks": [{"TTL": "900s"}, {"TTL": "900s"}]}`, 200, "", []string{"db", "web/1"}},
	{"PUT /v1/agent/check/pass/service:db:2", "", 200, "", []string{"db", "web/1"}},
	{"PUT /v1/agent/service/register", `{"Name": "db", "Check": {"CheckID": "more", "TTL": "900s"}}`, 200, "", []string{"db", "web/1"}},
	{"PUT /v1/agent/service/register", `{"Name": "db", "Check": {"CheckID": "more", "TTL": "900s", "Status": "passing"}}`, 200, "", []string{"db", "web/1"}},
	{"GET /v1/agent/checks", "", 200, `"service:db:2":`, []string{"db", "web/1"}},
	{"PUT /v1/agent/service/register?replace-existing-checks=true", `{"Name": "db"}`, 200, "", []string{"db", "web/1"}},
	{"PUT /v1/agent/check/pass/more", "", 404, "Unknown check ID", []string{"db", "web/1"}},

	{"GET /v1/catalog/node/pod-1", "", 200, "null", []string{"db", "web/1"}},
	{"GET /v1/catalog/node/", "", 400, "Missing node name", []string{"db", "web/1"}},
	{"PUT /v1/catalog/register", `{`, 400, "Request decode failed: unexpected EOF", []string{"db", "web/1"}},
	{"PUT /v1/catalog/register", `{"Node": "pod-1", "Address": "127.0.0.2", "Bogus": 1}`, 400, `json: unknown field "Bogus"`, []string{"db", "web/1"}},
	{"PUT /v1/catalog/register", `{"Address": "127.0.0.2"}`, 500, "Must provide node", []string{"db", "web/1"}},
	{"PUT /v1/catalog/register", `{"Node": "pod-1"}`, 500, "Must provide address", []string{"db", "web/1"}},
	{"PUT /v1/catalog/register", `{"Node": "pod-1", "Address": "127.0.0.2", "Service": {"ID": "web"}}`, 500, "Must provide service name", []string{"db", "web/1"}},
	{"PUT /v1/catalog/register", `{"Node": "pod-1", "Address": "127.0.0.2", "Service": {"Service": "web", "Meta": {"a/b": "c"}}}`, 500,
		"Invalid Service Meta for node pod-1 and serviceID web: Couldn't load metadata pair", []string{"db", "web/1"}},
	{"PUT /v1/catalog/register", `{"Node": "pod-1", "Address": "127.0.0.2", "Check": {"Name": "c", "ServiceID": "web"}}`, 500,
		"Unknown service ID 'web' for check ID 'c'", []string{"db", "web/1"}},
	{"PUT /v1/catalog/register", consulPod, 200, "true", []string{"db", "pod-1/web", "web/1"}},
	{"PUT /v1/catalog/register", consulPod, 200, "true", []string{"db", "pod-1/web", "web/1"}},
	{"GET /v1/catalog/node/pod-1", "", 200, `"Services":{"web":{`, []string{"db", "pod-1/web", "web/1"}},
	{"PUT /v1/catalog/register", `{"Node": "pod-1", "Address": "127.0.0.3", "Service": {"Service": "more", "ID": "2"}}`, 200, "true", []string{"db", "pod-1/2", "pod-1/web", "web/1"}},
	{"GET /v1/catalog/node/pod-1", "", 200, `"Address":"127.0.0.3"`, []string{"db", "pod-1/2", "pod-1/web", "web/1"}},
	{"PUT /v1/catalog/deregister", `{}`, 500, "Must provide node", []string{"db", "pod-1/2", "pod-1/web", "web/1"}},
	{"PUT /v1/catalog/deregister", `{"Node": "pod-2"}`, 200, "true", []string{"db", "pod-1/2", "pod-1/web", "web/1"}},
	{"PUT /v1/catalog/deregister", `{"Node": "pod-1"}`, 200, "true", []string{"db", "web/1"}},
	{"GET /v1/catalog/node/pod-1", "", 200, "null", []string{"db", "web/1"}},
	{"PUT /v1/catalog/register", consulPod, 200, "true", []string{"db", "pod-1/web", "web/1"}},
}, {
	{"PUT /v1/agent/service/deregister/web%2F1", "", 404, "Unknown service ID", []string{"db", "pod-1/web"}},
	{"PUT /v1/agent/check/pass/service:web%2F1", "", 404, "Unknown check ID", []string{"db", "pod-1/web"}},
	{"PUT /v1/agent/service/register", consulWeb, 200, "", []string{"db", "pod-1/web", "web/1"}},
	{"PUT /v1/agent/service/deregister/web/1", "", 200, "", []string{"db", "pod-1/web"}},
	{"PUT /v1/agent/service/register", consulWeb, 200, "", []string{"db", "pod-1/web", "web/1"}},
}, {
	{"GET /v1/agent/service/db", "", 404, "unknown service ID: db", nil},
	{"GET /v1/catalog/node/pod-1", "", 200, "null", nil},
	{"GET /v1/agent/checks", "", 200, "{}", nil},
}}

const (
	consulWeb = `{"ID": "web/1", "Name": "web", "Address": "127.0.0.7", "Port": 80, "Tags": ["blue"], "Meta": {"zone": "a"}, "Checks": [
		{"CheckID": "service:web/1", "Name": "Heartbeat", "TTL": "900s", "Status": "passing", "DeregisterCriticalServiceAfter": "45m"},
		{"CheckID": "service:web/1:health", "Name": "Health", "HTTP": "http://127.0.0.7:1/", "Interval": "900s", "Timeout": "5s"}]}`
	consulPod = `{"Node": "pod-1", "Address": "127.0.0.2", "NodeMeta": {"external-node": "true"}, "Service": {"Service": "web", "Port": 80},
		"Checks": [{"CheckID": "web:health", "Name": "Health", "ServiceID": "web", "Status": "passing", "Definition": {"HTTP": "http://127.0.0.2/", "Interval": "10s"}}]}`
)

// consulDenied are the answers to clients with an unknown token, and without a token, while web and pod-1 are
// registered.
var consulDenied = []struct {
	does, body         string
	unknown, anonymous int
	answer             string // to the anonymous client, a part of it
}{
	{"PUT /v1/agent/service/register", `{}`, 400, 400, "Missing service name"},
	{"PUT /v1/agent/service/register", `{"Name": "x", "Check": {"HTTP": "x"}}`, 403, 400, "Invalid check: Interval must be > 0"},
	{"PUT /v1/agent/service/register", `{"Name": "x"}`, 403, 403, `Permission denied: anonymous token lacks permission 'service:write' on "x"`},
	{"GET /v1/agent/service/web%2F1", "", 403, 403, `lacks permission 'service:read' on "web"`},
	{"GET /v1/agent/service/x", "", 403, 404, "unknown service ID: x"},
	{"PUT /v1/agent/service/deregister/web%2F1", "", 403, 403, `lacks permission 'service:write' on "web"`},
	{"PUT /v1/agent/service/deregister/x", "", 403, 404, "Unknown service ID"},
	{"PUT /v1/agent/check/pass/service:web%2F1", "", 403, 403, `lacks permission 'service:write' on "web"`},
	{"PUT /v1/agent/check/pass/x", "", 403, 404, "Unknown check ID"},
	{"GET /v1/agent/checks", "", 403, 200, "{}"},
	{"PUT /v1/catalog/register", `{}`, 403, 500, "Must provide node"},
	{"PUT /v1/catalog/register", consulPod, 403, 403, `lacks permission 'service:write' on "web"`},
	{"PUT /v1/catalog/register", `{"Node": "pod-1", "Address": "127.0.0.2"}`, 403, 403, `lacks permission 'node:write' on "pod-1"`},
	{"PUT /v1/catalog/deregister", `{}`, 500, 500, "Must provide node"},
	{"PUT /v1/catalog/deregister", `{"Node": "x"}`, 403, 403, `lacks permission 'node:write' on "x"`},
	{"GET /v1/catalog/node/pod-1", "", 403, 200, "null"},
}

// TestConsul sends the same requests to both Consuls. If the real one is built, its answers must match those of this
// package: the same text, or JSON with at least the same content.
func TestConsul(t *testing.T) {
	fake := &FakeConsul{Token: "11111111-2222-3333-4444-555555555555"}
	said := livesAsConsul(t, fake, fake.Token)
	t.Run("real", func(t *testing.T) {
		c := Consul(t, servers.ConsulOptions{ACL: true})
		for i, answer := range livesAsConsul(t, c, c.Token) {
			if !within(said[i].answer, answer.answer) {
				t.Errorf("%s: the real one answers\n%s\nand not\n%s", answer.does, answer.answer, said[i].answer)
			}
		}
	})
}

// said is a request with its answer.
type said struct{ does, answer string }

func livesAsConsul(t *testing.T, r Registry, token string) (answers []said) {
	t.Helper()
	server := httptest.NewServer(r)
	defer server.Close()
	ask := func(does, body string, header http.Header, want int, part string, entries []string) {
		t.Helper()
		status, answer, err := send(t.Context(), server.URL, does, body, header)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer // the real one's JSON has line breaks
		if json.Compact(&compact, []byte(answer)) == nil {
			answer = compact.String()
		}
		if status != want || !strings.Contains(answer, part) {
			t.Errorf("%s %s: status %d, want %d: %s", does, body, status, want, answer)
		}
		if got := r.Entries(); !slices.Equal(got, entries) {
			t.Errorf("%s: entries %q, want %q", does, got, entries)
		}
		answers = append(answers, said{does, answer})
	}

	then := []func(){func() {}, r.Expire, r.Forget}
	for i, steps := range consulLife {
		then[i]()
		for n, s := range steps {
			bearer := http.Header{"Authorization": {"Bearer " + token}}
			if n%2 == 1 { // Consul's own token takes precedence
				bearer = http.Header{"X-Consul-Token": {token}, "Authorization": {"Bearer unknown"}}
			}
			ask(s.does, s.body, bearer, s.status, s.answer, s.entries)
		}
		if i == 1 {
			there := r.Entries()
			for _, d := range consulDenied {
				ask(d.does, d.body, http.Header{"Authorization": {"Bearer unknown"}}, d.unknown, "", there)
				ask(d.does, d.body, nil, d.anonymous, d.answer, there)
			}
		}
	}
	return answers
}

// within reports whether both texts are equal, or both are JSON and the second contains all content of the first.
func within(part, whole string) bool {
	var p, w any
	if json.Unmarshal([]byte(part), &p) != nil || json.Unmarshal([]byte(whole), &w) != nil {
		return part == whole
	}
	return jsonWithin(p, w)
}

func jsonWithin(part, whole any) bool {
	p, ok := part.(map[string]any)
	w, both := whole.(map[string]any)
	if !ok || !both {
		return reflect.DeepEqual(part, whole)
	}
	for name, value := range p {
		if is, ok := w[name]; !ok || !jsonWithin(value, is) {
			return false
		}
	}
	return true
}

// A late heartbeat makes a check critical, until the next one.
func TestFakeConsulWithoutHeartbeats(t *testing.T) {
	c := new(FakeConsul)
	server := httptest.NewServer(c)
	defer server.Close()
	const web = `{"Name": "web", "Check": {"TTL": "9s", "Status": "passing"}}`
	status := func(want string) {
		t.Helper()
		if _, answer, err := send(t.Context(), server.URL, "GET /v1/agent/checks", "", nil); !strings.Contains(answer, `"Status":"`+want+`"`) {
			t.Errorf("want it %s: %s %v", want, answer, err)
		}
	}
	for _, does := range []string{"PUT /v1/agent/service/register", "PUT /v1/agent/check/pass/service:web"} {
		if got, answer, err := send(t.Context(), server.URL, does, web, nil); got != 200 {
			t.Fatalf("%s: status %d: %s %v", does, got, answer, err)
		}
		status("passing")
		c.Expire()
		status("critical")
		send(t.Context(), server.URL, "PUT /v1/agent/service/register", web, nil)
		status("critical")
	}
}
