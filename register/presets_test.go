package register

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"initbox/internal/httpclient"
	"initbox/register/exchange"
)

// written returns the calls of the preset for e as they are sent, one a paragraph:
// the request line and the body, a form with its values decoded.
func written(t *testing.T, name string, e Entry, kept map[string]string) string {
	t.Helper()
	r, err := Open(Options{Server: Server{URL: "http://registry:1/base?tenant=a"}, Protocol: Protocol{Preset: name}, Entry: e})
	if err != nil {
		t.Fatal(err)
	}
	r.kept = kept
	var b strings.Builder
	write := func(step string, calls ...call) {
		for _, c := range calls {
			if c.when != nil && !c.when(&e) {
				continue
			}
			q, err := r.request(&c)
			if err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			fmt.Fprintf(&b, "%s: %s %s\n", step, q.method, q.resolve(r.url.URL))
			body := q.body
			if c.login != nil {
				body = c.login("ann", `p"w&`)
			}
			if body == nil {
				continue
			}
			content := string(body.Content)
			if name == "etcd" {
				content = inBase64.ReplaceAllStringFunc(content, func(member string) string {
					m := inBase64.FindStringSubmatch(member)
					text, err := base64.StdEncoding.DecodeString(m[2])
					if err != nil {
						t.Errorf("%s: %v", member, err)
					}
					return fmt.Sprintf("%q:base64(%s)", m[1], text)
				})
			}
			if body.Type == exchange.FormType {
				form, err := url.ParseQuery(content)
				if err != nil {
					t.Fatal(err)
				}
				content = ""
				for _, name := range slices.Sorted(maps.Keys(form)) {
					content += fmt.Sprintf(" %s=%s", name, strings.Join(form[name], ","))
				}
				content = "form" + content
			}
			fmt.Fprintln(&b, content)
		}
	}
	p := PresetOf(name)
	if p.login != nil {
		write("login", *p.login)
	}
	write("register", p.register...)
	write("ask", *p.ask)
	if p.beat != nil && held(&e) {
		write("beat", *p.beat)
	}
	write("leave", p.leave...)
	return b.String()
}

// inBase64 are the members that etcd wants so.
var inBase64 = regexp.MustCompile(`"(key|value)":"([^"]*)"`)

var full = Entry{
	Service: "web", ID: "web-0", Address: "fd00::7", Port: 8443, Secure: true,
	Tags: []string{"v2", "blue"}, Meta: map[string]string{"zone": "a"},
	Health: "https://[fd00::7]:8443/actuator/health", TTL: 30 * time.Second,
	Extra: map[string]any{"extra": []any{1.0, "x"}},
}

var minimal = Entry{Service: "web", ID: "web-0", Address: "172.16.0.7", Port: 80, Health: "http://172.16.0.7/health"}

// presetCalls has what is sent, as the registries' documentation wants it; see the
// addresses at the functions that make the bodies.
var presetCalls = []struct {
	preset, name string
	entry        Entry
	want         string
}{
	{"consul", "full", full, `
register: PUT http://registry:1/base/v1/agent/service/register?tenant=a&replace-existing-checks=true
{"Address":"fd00::7","Checks":[{"CheckID":"service:web-0","DeregisterCriticalServiceAfter":"1m30s","Name":"Heartbeat","Status":"passing","TTL":"30s"},{"CheckID":"service:web-0:health","HTTP":"https://[fd00::7]:8443/actuator/health","Interval":"10s","Name":"Health","Timeout":"5s"}],"ID":"web-0","Meta":{"secure":"true","zone":"a"},"Name":"web","Port":8443,"Tags":["v2","blue"],"extra":[1,"x"]}
register: PUT http://registry:1/base/v1/agent/check/pass/service:web-0?tenant=a
ask: GET http://registry:1/base/v1/agent/service/web-0?tenant=a
beat: PUT http://registry:1/base/v1/agent/check/pass/service:web-0?tenant=a
leave: PUT http://registry:1/base/v1/agent/service/deregister/web-0?tenant=a
`},
	{"consul", "minimal", minimal, `
register: PUT http://registry:1/base/v1/agent/service/register?tenant=a&replace-existing-checks=true
{"Address":"172.16.0.7","Checks":[{"CheckID":"service:web-0:health","HTTP":"http://172.16.0.7/health","Interval":"10s","Name":"Health","Timeout":"5s"}],"ID":"web-0","Name":"web","Port":80}
ask: GET http://registry:1/base/v1/agent/service/web-0?tenant=a
leave: PUT http://registry:1/base/v1/agent/service/deregister/web-0?tenant=a
`},
	{"consul-catalog", "full", full, `
register: PUT http://registry:1/base/v1/catalog/register?tenant=a
{"Address":"fd00::7","Checks":[{"CheckID":"service:web-0:health","Definition":{"HTTP":"https://[fd00::7]:8443/actuator/health","Interval":"10s","Timeout":"5s"},"Name":"Health","ServiceID":"web-0","Status":"passing"}],"Node":"web-0","NodeMeta":{"external-node":"true","external-probe":"false"},"Service":{"Address":"fd00::7","ID":"web-0","Meta":{"secure":"true","zone":"a"},"Port":8443,"Service":"web","Tags":["v2","blue"]},"extra":[1,"x"]}
ask: GET http://registry:1/base/v1/catalog/node/web-0?tenant=a
leave: PUT http://registry:1/base/v1/catalog/deregister?tenant=a
{"Node":"web-0"}
`},
	{"consul-catalog", "minimal", minimal, `
register: PUT http://registry:1/base/v1/catalog/register?tenant=a
{"Address":"172.16.0.7","Checks":[{"CheckID":"service:web-0:health","Definition":{"HTTP":"http://172.16.0.7/health","Interval":"10s","Timeout":"5s"},"Name":"Health","ServiceID":"web-0","Status":"passing"}],"Node":"web-0","NodeMeta":{"external-node":"true","external-probe":"false"},"Service":{"Address":"172.16.0.7","ID":"web-0","Port":80,"Service":"web"}}
ask: GET http://registry:1/base/v1/catalog/node/web-0?tenant=a
leave: PUT http://registry:1/base/v1/catalog/deregister?tenant=a
{"Node":"web-0"}
`},
	{"etcd", "full", full, `
login: POST http://registry:1/base/v3/auth/authenticate?tenant=a
{"name":"ann","password":"p\"w\u0026"}
register: POST http://registry:1/base/v3/lease/grant?tenant=a
{"ID":"6578338812807415733","TTL":"30"}
register: POST http://registry:1/base/v3/lease/keepalive?tenant=a
{"ID":"6578338812807415733"}
register: POST http://registry:1/base/v3/kv/put?tenant=a
{"key":base64(/services/web/web-0),"lease":"6578338812807415733","value":base64({"address":"fd00::7","extra":[1,"x"],"health":"https://[fd00::7]:8443/actuator/health","id":"web-0","meta":{"zone":"a"},"port":8443,"secure":true,"service":"web","tags":["v2","blue"]})}
ask: POST http://registry:1/base/v3/kv/range?tenant=a
{"count_only":true,"key":base64(/services/web/web-0)}
beat: POST http://registry:1/base/v3/lease/keepalive?tenant=a
{"ID":"6578338812807415733"}
leave: POST http://registry:1/base/v3/kv/deleterange?tenant=a
{"key":base64(/services/web/web-0)}
leave: POST http://registry:1/base/v3/lease/revoke?tenant=a
{"ID":"6578338812807415733"}
`},
	{"etcd", "minimal", minimal, `
login: POST http://registry:1/base/v3/auth/authenticate?tenant=a
{"name":"ann","password":"p\"w\u0026"}
register: POST http://registry:1/base/v3/kv/put?tenant=a
{"key":base64(/services/web/web-0),"value":base64({"address":"172.16.0.7","health":"http://172.16.0.7/health","id":"web-0","port":80,"service":"web"})}
ask: POST http://registry:1/base/v3/kv/range?tenant=a
{"count_only":true,"key":base64(/services/web/web-0)}
leave: POST http://registry:1/base/v3/kv/deleterange?tenant=a
{"key":base64(/services/web/web-0)}
`},
	{"eureka", "full", full, `
register: POST http://registry:1/base/apps/web?tenant=a
{"instance":{"app":"WEB","dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"},"extra":[1,"x"],"homePageUrl":"https://[fd00::7]:8443/","hostName":"fd00::7","instanceId":"web-0","ipAddr":"fd00::7","leaseInfo":{"durationInSecs":30,"renewalIntervalInSecs":10},"metadata":{"tags":"v2,blue","zone":"a"},"port":{"$":80,"@enabled":"false"},"secureHealthCheckUrl":"https://[fd00::7]:8443/actuator/health","securePort":{"$":8443,"@enabled":"true"},"secureVipAddress":"web","status":"UP","vipAddress":"web"}}
ask: GET http://registry:1/base/apps/web/web-0?tenant=a
beat: PUT http://registry:1/base/apps/web/web-0?tenant=a
leave: DELETE http://registry:1/base/apps/web/web-0?tenant=a
`},
	{"eureka", "minimal", minimal, `
register: POST http://registry:1/base/apps/web?tenant=a
{"instance":{"app":"WEB","dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"},"healthCheckUrl":"http://172.16.0.7/health","homePageUrl":"http://172.16.0.7:80/","hostName":"172.16.0.7","instanceId":"web-0","ipAddr":"172.16.0.7","port":{"$":80,"@enabled":"true"},"securePort":{"$":443,"@enabled":"false"},"secureVipAddress":"web","status":"UP","vipAddress":"web"}}
ask: GET http://registry:1/base/apps/web/web-0?tenant=a
leave: DELETE http://registry:1/base/apps/web/web-0?tenant=a
`},
	{"nacos", "full", full, `
login: POST http://registry:1/base/v1/auth/login?tenant=a
form password=p"w& username=ann
register: POST http://registry:1/base/v1/ns/instance?tenant=a
form ephemeral=true extra=[1,"x"] ip=fd00::7 metadata={"preserved.heart.beat.interval":"5000","preserved.heart.beat.timeout":"15000","preserved.ip.delete.timeout":"30000","secure":"true","tags":"v2,blue","zone":"a"} port=8443 serviceName=web
ask: GET http://registry:1/base/v1/ns/instance/list?tenant=a&serviceName=web
beat: PUT http://registry:1/base/v1/ns/instance/beat?tenant=a&serviceName=web&ip=fd00%3A%3A7&port=8443
leave: DELETE http://registry:1/base/v1/ns/instance?tenant=a&serviceName=web&ip=fd00%3A%3A7&port=8443&ephemeral=true
`},
	{"nacos", "minimal", minimal, `
login: POST http://registry:1/base/v1/auth/login?tenant=a
form password=p"w& username=ann
register: POST http://registry:1/base/v1/ns/instance?tenant=a
form ephemeral=false ip=172.16.0.7 port=80 serviceName=web
ask: GET http://registry:1/base/v1/ns/instance/list?tenant=a&serviceName=web
leave: DELETE http://registry:1/base/v1/ns/instance?tenant=a&serviceName=web&ip=172.16.0.7&port=80&ephemeral=false
`},
	{"nacos3", "full", full, `
login: POST http://registry:1/base/v3/auth/user/login?tenant=a
form password=p"w& username=ann
register: POST http://registry:1/base/v3/client/ns/instance?tenant=a
form ephemeral=true extra=[1,"x"] ip=fd00::7 metadata={"preserved.heart.beat.interval":"5000","preserved.heart.beat.timeout":"15000","preserved.ip.delete.timeout":"30000","secure":"true","tags":"v2,blue","zone":"a"} port=8443 serviceName=web
ask: GET http://registry:1/base/v3/client/ns/instance/list?tenant=a&serviceName=web
beat: POST http://registry:1/base/v3/client/ns/instance?tenant=a&serviceName=web&ip=fd00%3A%3A7&port=8443&heartBeat=true
leave: DELETE http://registry:1/base/v3/client/ns/instance?tenant=a&serviceName=web&ip=fd00%3A%3A7&port=8443&ephemeral=true
`},
	{"nacos3", "minimal", minimal, `
login: POST http://registry:1/base/v3/auth/user/login?tenant=a
form password=p"w& username=ann
register: POST http://registry:1/base/v3/client/ns/instance?tenant=a
form ephemeral=false ip=172.16.0.7 port=80 serviceName=web
ask: GET http://registry:1/base/v3/client/ns/instance/list?tenant=a&serviceName=web
leave: DELETE http://registry:1/base/v3/client/ns/instance?tenant=a&serviceName=web&ip=172.16.0.7&port=80&ephemeral=false
`},
	{"spring-boot-admin", "full", full, `
register: POST http://registry:1/base/instances?tenant=a
{"extra":[1,"x"],"healthUrl":"https://[fd00::7]:8443/actuator/health","managementUrl":"https://[fd00::7]:8443/actuator","metadata":{"tags":"v2,blue","zone":"a"},"name":"web","serviceUrl":"https://[fd00::7]:8443/"}
ask: GET http://registry:1/base/instances/be9a%2F1?tenant=a
leave: DELETE http://registry:1/base/instances/be9a%2F1?tenant=a
`},
	{"spring-boot-admin", "minimal", minimal, `
register: POST http://registry:1/base/instances?tenant=a
{"healthUrl":"http://172.16.0.7/health","managementUrl":"http://172.16.0.7","name":"web","serviceUrl":"http://172.16.0.7:80/"}
ask: GET http://registry:1/base/instances/be9a%2F1?tenant=a
leave: DELETE http://registry:1/base/instances/be9a%2F1?tenant=a
`},
}

func TestPresetCalls(t *testing.T) {
	kept := map[string]string{"instance": "be9a/1"}
	for _, c := range presetCalls {
		t.Run(c.preset+"/"+c.name, func(t *testing.T) {
			got := written(t, c.preset, c.entry, kept)
			if want := strings.TrimPrefix(c.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestPresetsEscapeNames pins that names are escaped for their position.
func TestPresetsEscapeNames(t *testing.T) {
	odd := Entry{Service: "a/b c", ID: "ä?#%1&=", Address: "fd00::7", Port: 80, Health: "http://[fd00::7]/health", TTL: time.Minute}
	for _, p := range Presets() {
		for _, line := range strings.Split(written(t, p.Name, odd, map[string]string{"instance": odd.ID}), "\n") {
			step, rest, isCall := strings.Cut(line, ": ")
			if !isCall || !slices.Contains([]string{"login", "register", "ask", "beat", "leave"}, step) {
				continue
			}
			_, text, _ := strings.Cut(rest, " ")
			u, err := url.Parse(text)
			if err != nil {
				t.Errorf("%s: %s: %v", p.Name, line, err)
				continue
			}
			if u.Fragment != "" || u.Query().Get("tenant") != "a" || strings.ContainsAny(text, " ä") {
				t.Errorf("%s: %s", p.Name, line)
			}
			names := strings.Split(u.EscapedPath()+"/"+u.RawQuery, "/")
			if strings.Contains(u.Path, "a/b c") && !slices.Contains(names, "a%2Fb%20c") {
				t.Errorf("%s: %s: the service is two segments", p.Name, line)
			}
			if strings.Contains(u.Path, odd.ID) && !strings.Contains(u.EscapedPath(), "%C3%A4%3F%23%251&=") {
				t.Errorf("%s: %s: the ID has come apart", p.Name, line)
			}
			if got := u.Query().Get("serviceName"); got != "" && got != odd.Service {
				t.Errorf("%s: %s: serviceName is %q", p.Name, line, got)
			}
		}
	}
}

func TestPresetsSayWhatTheyDo(t *testing.T) {
	var names []string
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Entry]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = true
	}
	for _, p := range Presets() {
		names = append(names, p.Name)
		if p.About == "" || len(p.Needs) == 0 {
			t.Errorf("%s: says too little", p.Name)
		}
		for _, need := range p.Needs {
			if !fields[need] {
				t.Errorf("%s: needs %s, which is no field of an entry", p.Name, need)
			}
		}
		if len(p.register) == 0 || p.ask == nil || len(p.leave) == 0 {
			t.Errorf("%s: lacks calls", p.Name)
		}
		if (p.login == nil) != (p.tokenAs == "") || p.login != nil && !strings.Contains(p.tokenAs, "{token}") {
			t.Errorf("%s: the token is got, or sent, but not both", p.Name)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("not sorted: %v", names)
	}
}

// What the user gives besides the entry replaces what the entry says.
func TestPresetsExtra(t *testing.T) {
	e := minimal
	e.Extra = map[string]any{"weight": 0.5, "metadata": map[string]any{"k": "v"}, "ip": "172.16.0.8"}
	form := nacosInstance(&e)
	if form.Get("weight") != "0.5" || form.Get("metadata") != `{"k":"v"}` || form.Get("ip") != "172.16.0.8" || form.Get("port") != "80" {
		t.Errorf("form: %v", form)
	}
	e.Extra = map[string]any{"Name": "other", "Weights": map[string]any{"Passing": 10.0}}
	text, _ := json.Marshal(consulService(&e))
	if want := `{"Address":"172.16.0.7","Checks":[{"CheckID":"service:web-0:health","HTTP":"http://172.16.0.7/health","Interval":"10s","Name":"Health","Timeout":"5s"}],"ID":"web-0","Name":"other","Port":80,"Weights":{"Passing":10}}`; string(text) != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
	if len(e.Extra) != 2 {
		t.Errorf("the entry was changed: %v", e.Extra)
	}
}

// An entry's lease has the same number in every process, another for another name
// or TTL, and one that etcd accepts: an int64 above 0.
func TestEtcdLeaseID(t *testing.T) {
	seen := map[string]Entry{}
	for i := range 1000 {
		e := Entry{Service: "web", ID: fmt.Sprint("web-", i/2), TTL: time.Duration(1+i%2) * time.Minute}
		id := etcdLeaseID(&e)
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || n <= 0 {
			t.Fatalf("%+v: %s", e, id)
		}
		if other, twice := seen[id]; twice {
			t.Fatalf("%+v and %+v have the same", e, other)
		}
		if seen[id] = e; etcdLeaseID(&e) != id {
			t.Fatalf("%+v: %s, then another", e, id)
		}
	}
}

func TestHeartbeatPace(t *testing.T) {
	for name, want := range map[string]time.Duration{"nacos": 5 * time.Second, "nacos3": 5 * time.Second, "eureka": 10 * time.Second, "consul": 10 * time.Second, "etcd": 10 * time.Second} {
		r, err := Open(Options{Server: Server{URL: "http://registry:1"}, Protocol: Protocol{Preset: name}, Entry: Entry{TTL: 30 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.pace(); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// answers are what registries have been seen, or are documented, to say.
var answers = []struct {
	preset, step string
	status       int
	body         string
	want         finding
}{
	{"consul", "ask", 200, `{"ID":"web-0","Service":"web"}`, there},
	{"consul", "ask", 404, `unknown service ID: web-0`, gone},
	{"consul", "beat", 200, ``, there},
	{"consul", "beat", 404, `Unknown check ID "service:web-0". Ensure that the check ID is passed, not the check name.`, gone},
	{"consul", "beat", 500, `Unknown check "service:web-0"`, gone}, // 1.10
	{"consul", "beat", 500, `CheckID "service:web-0" does not have associated TTL`, gone},
	{"consul", "beat", 500, `No cluster leader`, again},
	{"consul", "beat", 403, `Permission denied: token with AccessorID '…' lacks permission 'service:write'`, refused},
	{"consul", "leave", 404, `Unknown service ID "web-0". Ensure that the service ID is passed, not the service name.`, gone},
	{"consul", "leave", 500, `Unknown service "web-0"`, gone},

	{"consul-catalog", "register", 200, `true`, there},
	{"consul-catalog", "register", 500, `failed inserting service: Invalid Service Meta: Key contains invalid characters`, refused},
	{"consul-catalog", "register", 500, `No cluster leader`, again},
	{"consul-catalog", "ask", 200, `null`, gone},
	{"consul-catalog", "ask", 200, `{"Node":{"Node":"web-0"},"Services":{}}`, gone},
	{"consul-catalog", "ask", 200, `{"Node":{"Node":"web-0"},"Services":{"web-0":{"ID":"web-0"}}}`, there},
	{"consul-catalog", "ask", 200, `<html>`, refused},
	{"consul-catalog", "ask", 500, `No cluster leader`, again},

	{"etcd", "login", 200, `{"header":{},"token":"x.1"}`, there},
	{"etcd", "login", 400, `{"error":"etcdserver: authentication failed, invalid user ID or password","message":"etcdserver: authentication failed, invalid user ID or password","code":3}`, refused},
	{"etcd", "register 0", 200, `{"header":{},"ID":"7","TTL":"30"}`, there},
	{"etcd", "register 0", 412, `{"error":"etcdserver: lease already exists","message":"etcdserver: lease already exists","code":9}`, there}, // 3.4
	{"etcd", "register 0", 400, `{"error":"etcdserver: lease already exists","message":"etcdserver: lease already exists","code":9}`, there}, // 3.5
	{"etcd", "register 0", 400, `{"code":9,"message":"etcdserver: lease already exists","details":[]}`, there},                               // 3.6
	{"etcd", "register 0", 400, `{"error":"etcdserver: too large lease TTL","message":"etcdserver: too large lease TTL","code":11}`, refused},
	{"etcd", "register 0", 404, "Not Found\n", refused}, // no gateway, or not at this path
	{"etcd", "register 0", 503, `{"error":"etcdserver: request timed out","message":"etcdserver: request timed out","code":14}`, again},
	{"etcd", "register 0", 502, `<html>bad gateway`, again},
	{"etcd", "register 1", 200, `{"result":{"header":{},"ID":"7","TTL":"30"}}` + "\n", there},
	{"etcd", "register 1", 200, `{"result":{"header":{},"ID":"7"}}` + "\n", gone},
	{"etcd", "register 2", 200, `{"header":{}}`, there},
	{"etcd", "register 2", 404, `{"error":"etcdserver: requested lease not found","message":"etcdserver: requested lease not found","code":5}`, gone},
	{"etcd", "register 2", 401, `{"error":"etcdserver: invalid auth token","message":"etcdserver: invalid auth token","code":16}`, stale},
	{"etcd", "register 2", 400, `{"error":"etcdserver: revision of auth store is old","message":"etcdserver: revision of auth store is old","code":3}`, stale},
	{"etcd", "register 2", 400, `{"error":"etcdserver: user name is empty","message":"etcdserver: user name is empty","code":3}`, refused},
	{"etcd", "register 2", 403, `{"error":"etcdserver: permission denied","message":"etcdserver: permission denied","code":7}`, refused},
	{"etcd", "register 2", 429, `{"error":"etcdserver: mvcc: database space exceeded","message":"etcdserver: mvcc: database space exceeded","code":8}`, again},
	{"etcd", "ask", 200, `{"header":{},"count":"1"}`, there},
	{"etcd", "ask", 200, `{"header":{}}`, gone},
	{"etcd", "ask", 200, `{"header":{},"count":"0"}`, gone},
	{"etcd", "beat", 200, `{"result":{"header":{},"ID":"7","TTL":"0"}}`, gone},
	{"etcd", "beat", 200, `{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"Service Unavailable"}}`, again},
	{"etcd", "beat", 200, `{"error":{"code":16,"message":"etcdserver: invalid auth token"}}`, stale},
	{"etcd", "beat", 200, `{"error":{"code":7,"message":"etcdserver: permission denied"}}`, refused},
	{"etcd", "beat", 200, ``, refused},
	{"etcd", "leave 0", 200, `{"header":{}}`, there},
	{"etcd", "leave 1", 404, `{"error":"etcdserver: requested lease not found","message":"etcdserver: requested lease not found","code":5}`, gone},

	{"eureka", "register", 204, ``, there},
	{"eureka", "register", 400, `Missing instanceId`, refused},
	{"eureka", "ask", 200, `{"instance":{}}`, there},
	{"eureka", "ask", 404, ``, gone},
	{"eureka", "beat", 200, ``, there},
	{"eureka", "beat", 404, ``, gone},
	{"eureka", "beat", 500, ``, again},
	{"eureka", "leave", 404, ``, gone},

	{"nacos", "login", 200, `{"accessToken":"ey…","tokenTtl":18000,"globalAdmin":false}`, there},
	{"nacos", "login", 403, `unknown user!`, refused},
	{"nacos", "register", 200, `ok`, there},
	{"nacos", "register", 200, `<html>the console`, refused},
	{"nacos", "register", 400, `caused: Param 'ip' is required.;`, refused},
	{"nacos", "register", 403, `token expired!`, stale},
	{"nacos", "register", 410, `{"code":30000,"message":"Current API will be deprecated","data":null}`, refused},
	{"nacos", "register", 503, `server is STARTING now, please try again later!`, again},
	{"nacos", "ask", 200, `{"hosts":[{"ip":"172.16.0.7","port":80},{"ip":"fd00::7","port":8443}]}`, there},
	{"nacos", "ask", 200, `{"hosts":[{"ip":"fd00::7","port":80}]}`, gone},
	{"nacos", "ask", 200, `{"name":"DEFAULT_GROUP@@web","hosts":[]}`, gone},
	{"nacos", "ask", 200, `ok`, refused},
	{"nacos", "beat", 200, `{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}`, there},
	{"nacos", "beat", 200, `{"clientBeatInterval":5000,"code":20404}`, gone},
	{"nacos", "leave 0", 200, `ok`, there},

	{"nacos3", "register", 200, `{"code":0,"message":"success","data":"ok"}`, there},
	{"nacos3", "register", 400, `{"code":10000,"message":"parameter missing","data":"Required parameter 'ip' type String is not present"}`, refused},
	{"nacos3", "register", 401, `{"code":401,"message":"token expired!"}`, stale},
	{"nacos3", "beat", 200, `{"code":0,"message":"success","data":"ok"}`, there},
	{"nacos3", "beat", 200, `{"code":21003,"message":"instance not found","data":null}`, gone},
	{"nacos3", "beat", 200, `{"code":30000,"message":"server error","data":null}`, refused},
	{"nacos3", "ask", 200, `{"code":0,"message":"success","data":[{"ip":"fd00::7","port":8443,"healthy":true}]}`, there},
	{"nacos3", "ask", 200, `{"code":0,"message":"success","data":[]}`, gone},

	{"spring-boot-admin", "register", 201, `{"id":"be9a1f0c2d3e"}`, there},
	{"spring-boot-admin", "register", 400, ``, refused},
	{"spring-boot-admin", "ask", 200, `{"id":"be9a1f0c2d3e"}`, there},
	{"spring-boot-admin", "ask", 404, ``, gone},
	{"spring-boot-admin", "leave", 204, ``, there},
	{"spring-boot-admin", "leave", 404, ``, gone},
}

func TestPresetAnswers(t *testing.T) {
	for _, c := range answers {
		p := PresetOf(c.preset)
		step, index, _ := strings.Cut(c.step, " ")
		i, _ := strconv.Atoi(index)
		asked := map[string]*call{"login": p.login, "register": &p.register[min(i, len(p.register)-1)], "ask": p.ask, "beat": p.beat, "leave": &p.leave[min(i, len(p.leave)-1)]}[step]
		judge := asked.judge
		if judge == nil {
			judge = func(_ *Entry, a *httpclient.Answer) finding { return byStatus(a) }
		}
		if got := judge(&full, &httpclient.Answer{Status: c.status, Body: []byte(c.body)}); got != c.want {
			t.Errorf("%s, %s: %d %s: got %d, want %d", c.preset, c.step, c.status, c.body, got, c.want)
		}
	}
}

// Whatever a server answers, the judges have a word for it.
func FuzzPresetAnswers(f *testing.F) {
	for _, c := range answers {
		f.Add(c.status, c.body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		for _, p := range Presets() {
			for _, c := range slices.Concat(p.register, p.leave, []call{*p.ask}) {
				if c.judge != nil {
					c.judge(&full, &httpclient.Answer{Status: status, Body: []byte(body)})
				}
			}
			if p.beat != nil && p.beat.judge != nil {
				p.beat.judge(&full, &httpclient.Answer{Status: status, Body: []byte(body)})
			}
		}
	})
}
