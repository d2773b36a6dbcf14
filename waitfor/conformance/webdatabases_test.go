package conformance_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/test/webdatabases"
	"initbox/waitfor"
	"initbox/waitfor/target"
)

// kinds is the table of all kinds.
var kinds = waitfor.Kinds()

// Elasticsearch, ClickHouse, InfluxDB and Temporal are tested against servers written from their documentation.

// startWeb starts a server, with TLS if there is a certificate, and returns its address.
func startWeb(t testing.TB, handler http.Handler, pair servers.KeyPair) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols, server.Config.ErrorLog = webdatabases.Protocols(), log.New(io.Discard, "", 0)
	if pair.CertFile == "" {
		server.Start()
	} else {
		certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		server.EnableHTTP2 = true
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestWebDatabases(t *testing.T) {
	t.Parallel()
	key := kindtest.File(t, "a2V5\n")
	type options = webdatabases.Options
	safe := options{"user": "app", "password": "hUnter2", "token": "a2V5", "database": "shop", "bucket": "shop", "namespace": "shop", "queue": "orders"}
	for _, tt := range []struct {
		options options
		target  string // with the server's address for ADDR, a file with a token for FILE
		text    string // of the failure; "" means ready
		class   failure.Class
	}{
		{nil, "elasticsearch://ADDR", "", ""},
		{nil, "opensearch://ADDR/#status=green", "", ""},
		{options{"status": "yellow"}, "elasticsearch://ADDR", "", ""},
		{options{"status": "yellow"}, "elasticsearch://ADDR#status=green", "status yellow", failure.Unexpected},
		{options{"status": "red"}, "elasticsearch://ADDR", "status red", failure.Unexpected},
		{options{"status": "red"}, "elasticsearch://ADDR#status=red", "", ""},
		{options{"status": "none"}, "elasticsearch://ADDR", "master_not_discovered_exception", failure.Unexpected},
		{options{"index": "a b/c"}, "elasticsearch://ADDR#index=a%20b/c", "", ""},
		{options{"index": "a"}, "elasticsearch://ADDR#index=b", "no index b", failure.Unexpected},
		{safe, "elasticsearch://app:hUnter2@ADDR", "", ""},
		{safe, "elasticsearch://ADDR?user=app&password=hUnter2", "", ""},
		{safe, "elasticsearch://ADDR#api-key-file=FILE", "", ""},
		{safe, "elasticsearch://ADDR#token-file=FILE", "", ""},
		{safe, "elasticsearch://ADDR", "security_exception: missing authentication credentials", failure.Authentication},
		{nil, "elasticsearch://ADDR/es", "no handler found for uri [/es/_cluster/health]", failure.Unexpected},

		{nil, "clickhouse://ADDR", "", ""},
		{safe, "clickhouse://ADDR", "", ""},
		{safe, "clickhouse://app:hUnter2@ADDR/shop", "", ""},
		{safe, "clickhouse://ADDR?username=app&password=hUnter2&database=shop", "", ""},
		{safe, "clickhouse://app:hUnter3@ADDR", "app: Authentication failed: password […] is incorrect", failure.Authentication},
		{safe, "clickhouse://app:hUnter2@ADDR/other", "Database other does not exist. (UNKNOWN_DATABASE)", failure.Unexpected},
		{nil, "clickhouse://ADDR#query=SELECT%201", "", ""},
		{options{"value": "0"}, "clickhouse://ADDR#query=SELECT%200", "the query returns 0", failure.Unexpected},
		{options{"value": `\N`}, "clickhouse://ADDR#query=SELECT%20NULL", "the query returns NULL", failure.Unexpected},
		{options{"after": "9"}, "clickhouse://ADDR#query=SELECT%201%20FROM%20orders", "Unknown table expression identifier 'orders'", failure.Unexpected},
		{options{"after": "9"}, "clickhouse://ADDR#replicas", "replicas lag behind", failure.Unexpected},
		{nil, "clickhouse://ADDR#replicas", "", ""},

		{nil, "influxdb://ADDR", "", ""},
		{options{"after": "1"}, "influxdb://ADDR", "health: fail: starting up", failure.Unexpected},
		{options{"version": "1.7"}, "influxdb://ADDR", "", ""},
		{options{"version": "1", "database": "shop"}, "influxdb://ADDR/shop", "", ""},
		{options{"version": "1", "database": "shop"}, "influxdb://ADDR/other", "database other does not exist", failure.Unexpected},
		{options{"version": "1"}, "influxdb://ADDR#bucket=a", "the server has no buckets", failure.Unexpected},
		{options{"version": "3", "token": "a2V5"}, "influxdb://ADDR#token-file=FILE", "", ""},
		{options{"version": "3", "token": "a2V5"}, "influxdb://ADDR", "the request was not authenticated", failure.Authentication},
		{safe, "influxdb://ADDR#bucket=shop&token-file=FILE", "", ""},
		{safe, "influxdb://ADDR#bucket=other&token-file=FILE", "bucket other does not exist", failure.Unexpected},
		{safe, "influxdb://ADDR#bucket=shop", "unauthorized access", failure.Authentication},

		{nil, "temporal://ADDR", "", ""},
		{options{"after": "1"}, "temporal://ADDR", "the service reports NOT_SERVING", failure.Unexpected},
		{safe, "temporal://ADDR", "", ""},
		{safe, "temporal://ADDR#namespace=shop&token-file=FILE", "", ""},
		{safe, "temporal://ADDR?namespace=shop#token-file=FILE", "", ""},
		{safe, "temporal://ADDR#namespace=shop&task-queue=orders&token-file=FILE", "", ""},
		{safe, "temporal://ADDR#namespace=shop&task-queue=carts&token-file=FILE", "no worker polls task queue carts", failure.Unexpected},
		{safe, "temporal://ADDR#task-queue=orders&token-file=FILE", "Namespace default is not found", failure.Unexpected},
		{safe, "temporal://ADDR#namespace=shop", "Request unauthorized", failure.Authentication},
		{options{"namespace": "shop", "deleted": "1"}, "temporal://ADDR#namespace=shop", "namespace shop is deleted", failure.Unexpected},
		{options{"namespace": "shop", "after": "1"}, "temporal://ADDR#namespace=shop", "Not enough hosts to serve the request", failure.Unexpected},
	} {
		kind := webdatabases.Kinds[waitfor.KindOf(schemeOf(tt.target)).Schemes[0]]
		addr := startWeb(t, kind(tt.options), servers.KeyPair{})
		given := strings.NewReplacer("ADDR", addr, "FILE", key).Replace(tt.target)
		err := kindtest.Check(t, kinds, given, target.Options{})
		switch {
		case err == nil && tt.text == "":
		case err == nil || tt.text == "":
			t.Errorf("%s: %v, want %q", tt.target, err, tt.text)
		default:
			f := failure.Of(err)
			if f.Class != tt.class || !strings.Contains(f.Text, tt.text) || strings.Contains(f.Error(), "hUnter") {
				t.Errorf("%s: %s, %q, want %s, %q", tt.target, f.Class, f, tt.class, tt.text)
			}
			if f.Hint == "" && !strings.Contains(tt.target, "/es") && !strings.Contains(tt.text, "deleted") {
				t.Errorf("%s: no hint", tt.target)
			}
		}
	}
}

func schemeOf(target string) string { scheme, _, _ := strings.Cut(target, ":"); return scheme }

func TestWebDatabasesTLS(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	pair := ca.Server(t, "127.0.0.1")
	for _, scheme := range []string{"elasticsearch", "clickhouse", "influxdb", "temporal"} {
		addr := startWeb(t, webdatabases.Kinds[scheme](nil), pair)
		text := scheme + "://" + addr
		if err := kindtest.Check(t, kinds, text+"#tls&ca-file="+ca.File, target.Options{}); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
		if err := kindtest.Check(t, kinds, text+"?tls=true#insecure", target.Options{}); err != nil {
			t.Errorf("%s?tls=true: %v", scheme, err)
		}
		if f := failure.Of(kindtest.Check(t, kinds, text+"#tls", target.Options{})); f.Class != failure.TLS {
			t.Errorf("%s without its CA: %s, %v", scheme, f.Class, f)
		}
		if err := kindtest.Check(t, kinds, text, target.Options{}); err == nil || failure.Of(err).Hint == "" {
			t.Errorf("%s without TLS: %v", scheme, err)
		}
	}
}

// TestWebDatabasesUsage pins that mistakes in the target are reported at once.
func TestWebDatabasesUsage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"elasticsearch://h#status=200":                  "status: want green, yellow or red",
		"elasticsearch://h#index=..":                    "index: not a valid name of an index",
		"elasticsearch://h#api-key-file=a&token-file=b": "are mutually exclusive",
		"clickhouse://h:9000#query=SELECT%201":          "need HTTP",
		"clickhouse://h:1?protocol=native#replicas":     "need HTTP",
		"etcd://h/key":             "has a path",
		"temporal://app:pw@h":      "has a user",
		"influxdb://":              "host missing",
		"temporal://h1,,h2":        "a host is missing",
		"elasticsearch://h1:92000": "port must be a number",
	} {
		if _, err := waitfor.Parse(text, target.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestWebDatabasesVariables pins that the environment variables of the servers' own clients supply the credentials.
func TestWebDatabasesVariables(t *testing.T) {
	t.Parallel()
	safe := webdatabases.Options{"user": "elastic", "password": "hUnter2", "token": "a2V5", "namespace": "shop", "bucket": "shop"}
	for text, environment := range map[string]string{
		"elasticsearch://ADDR":           "ELASTIC_PASSWORD=hUnter2",
		"clickhouse://ADDR":              "CLICKHOUSE_USER=elastic CLICKHOUSE_PASSWORD=hUnter2",
		"influxdb://ADDR#bucket=shop":    "INFLUX_TOKEN=a2V5",
		"temporal://ADDR?namespace=shop": "TEMPORAL_API_KEY=a2V5",
	} {
		addr := startWeb(t, webdatabases.Kinds[schemeOf(text)](safe), servers.KeyPair{})
		getenv := func(name string) string {
			for _, variable := range strings.Fields(environment) {
				if value, ok := strings.CutPrefix(variable, name+"="); ok {
					return value
				}
			}
			return ""
		}
		if err := kindtest.Check(t, kinds, strings.Replace(text, "ADDR", addr, 1), target.Options{Getenv: getenv}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestWebDatabasesDoNotFollow pins that a redirect sends no credentials to another server.
func TestWebDatabasesDoNotFollow(t *testing.T) {
	t.Parallel()
	reached := false
	other := startWeb(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }), servers.KeyPair{})
	addr := startWeb(t, http.RedirectHandler("http://"+other+"/", http.StatusTemporaryRedirect), servers.KeyPair{})
	for _, scheme := range []string{"etcd", "elasticsearch", "clickhouse", "influxdb"} {
		err := kindtest.Check(t, kinds, scheme+"://app:hUnter2@"+addr, target.Options{})
		if f := failure.Of(err); err == nil || !strings.Contains(f.Text, "307") || !strings.Contains(f.Hint, "#tls") {
			t.Errorf("%s: %v", scheme, err)
		}
	}
	if reached {
		t.Error("a redirect is followed")
	}
}

// TestWebDatabasesSeveral pins that one of several servers is enough, and that otherwise the answer of one is reported.
func TestWebDatabasesSeveral(t *testing.T) {
	t.Parallel()
	red := startWeb(t, webdatabases.Kinds["elasticsearch"](webdatabases.Options{"status": "red"}), servers.KeyPair{})
	green := startWeb(t, webdatabases.Kinds["elasticsearch"](nil), servers.KeyPair{})
	refused := kindtest.RefusedAddr(t)
	if err := kindtest.Check(t, kinds, "elasticsearch://"+strings.Join([]string{refused, red, green}, ","), target.Options{}); err != nil {
		t.Error(err)
	}
	err := kindtest.Check(t, kinds, "elasticsearch://"+strings.Join([]string{refused, red}, ","), target.Options{})
	if f := failure.Of(err); err == nil || !slices.Contains([]string{"status red"}, f.Text) {
		t.Errorf("%v", err)
	}
}

// TestWebDatabasesNotQuite pins that an answer does not count as ready if its status, its headers or the name of the
// server contradict it.
func TestWebDatabasesNotQuite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		target string
		status int
		header string // its name and value
		body   string
		text   string
	}{
		{"etcd://ADDR", 503, "", `{"health":"true"}`, "status 503"},
		{"influxdb://ADDR", 200, "", `{"status":"pass"}`, "the answer is not that of InfluxDB"},
		{"influxdb://ADDR", 503, "", `{"name":"influxdb","status":"pass","message":"ready"}`, "ready"},
		{"elasticsearch://ADDR#index=logs-*", 200, "", `{"status":"green","active_primary_shards":0}`, "no index logs-*"},
		{"clickhouse://ADDR#query=SELECT 1", 200, "X-ClickHouse-Exception-Code 395", "Code: 395. DB::Exception: thrown", "thrown"},
		{"clickhouse://ADDR#query=SELECT 0 FORMAT JSON", 200, "X-ClickHouse-Format JSON", "{", "the query has the format JSON"},
	} {
		addr := startWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/ping" {
				io.WriteString(w, "Ok.\n")
				return
			}
			if name, value, ok := strings.Cut(tt.header, " "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(tt.status)
			io.WriteString(w, tt.body)
		}), servers.KeyPair{})
		err := kindtest.Check(t, kinds, strings.Replace(tt.target, "ADDR", addr, 1), target.Options{})
		if f := failure.Of(err); err == nil || f.Class != failure.Unexpected || !strings.Contains(f.Text, tt.text) {
			t.Errorf("%s: %v, want %q", tt.target, err, tt.text)
		}
	}
}
