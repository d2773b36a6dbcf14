// Package webdatabases implements the readiness checks of Elasticsearch, ClickHouse, InfluxDB and Temporal, from the
// documentation of their protocols: Debian has no packages of the servers themselves.
package webdatabases

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// Options set a server's behavior, by names:
//
//	after=N       it is not ready for the first N requests
//	user=, password=, token=   the required credentials, if any
//	status=       of Elasticsearch's cluster, or "none" without a master; default green
//	index=, database=, bucket=, namespace=, queue=   the only existing one
//	deleted=1     the namespace was deleted
//	value=        ClickHouse's answer to a query
//	version=      of InfluxDB: 1.7, 1, 2 or 3
type Options map[string]string

// Kinds are the available servers.
var Kinds = map[string]func(Options) http.Handler{
	"elasticsearch": func(o Options) http.Handler { return o.late(o.elasticsearch) },
	"clickhouse":    func(o Options) http.Handler { return o.late(o.clickhouse) },
	"influxdb":      func(o Options) http.Handler { return o.late(o.influxdb) },
	"temporal":      func(o Options) http.Handler { return o.late(o.temporal) },
}

// late counts the requests.
func (o Options) late(serve func(w http.ResponseWriter, r *http.Request, ready bool)) http.Handler {
	var asked atomic.Int64
	after := int64(0)
	fmt.Sscan(o["after"], &after)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, asked.Add(1) > after)
	})
}

// knows reports whether a request has valid credentials. The schemes are for a token.
func (o Options) knows(r *http.Request, schemes ...string) bool {
	if o["user"] == "" && o["token"] == "" {
		return true
	}
	for _, scheme := range schemes {
		if o["token"] != "" && r.Header.Get("Authorization") == scheme+" "+o["token"] {
			return true
		}
	}
	user, password, _ := r.BasicAuth()
	return o["user"] != "" && user == o["user"] && password == o["password"]
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

type object = map[string]any

// elasticsearch answers as
// https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-cluster-health
func (o Options) elasticsearch(w http.ResponseWriter, r *http.Request, ready bool) {
	failed := func(status int, kind, reason string) {
		cause := object{"type": kind, "reason": reason}
		answer(w, status, object{"error": object{"root_cause": []object{cause}, "type": kind, "reason": reason}, "status": status})
	}
	index, isHealth := strings.CutPrefix(r.URL.Path, "/_cluster/health")
	index = strings.TrimPrefix(index, "/")
	status := cmp.Or(o["status"], "green")
	switch {
	case !o.knows(r, "ApiKey", "Bearer"):
		w.Header().Set("WWW-Authenticate", `Basic realm="security", charset="UTF-8"`)
		failed(401, "security_exception", "missing authentication credentials for REST request ["+r.URL.Path+"]")
	case !isHealth:
		answer(w, 400, object{"error": "no handler found for uri [" + r.URL.Path + "] and method [GET]"})
	case r.URL.Query().Get("timeout") != "0s":
		<-r.Context().Done() // the server would hold the request
	case status == "none":
		answer(w, 503, object{"error": object{"type": "master_not_discovered_exception", "reason": nil}, "status": 503})
	case index != "" && index != o["index"]:
		answer(w, 408, object{"cluster_name": "test", "status": "red", "timed_out": true, "unassigned_shards": 0})
	case !ready:
		answer(w, 200, object{"cluster_name": "test", "status": "red", "timed_out": false, "unassigned_shards": 3, "initializing_shards": 1})
	default:
		answer(w, 200, object{"cluster_name": "test", "status": status, "timed_out": false, "unassigned_shards": 1, "initializing_shards": 0})
	}
}

// clickhouse answers as https://clickhouse.com/docs/interfaces/http
func (o Options) clickhouse(w http.ResponseWriter, r *http.Request, ready bool) {
	exception := func(status, code int, name, text string) {
		w.Header().Set("X-Clickhouse-Exception-Code", fmt.Sprint(code))
		w.WriteHeader(status)
		fmt.Fprintf(w, "Code: %d. DB::Exception: %s. (%s) (version 24.8.4.13 (official build))\n", code, text, name)
	}
	switch r.URL.Path {
	case "/ping":
		io.WriteString(w, "Ok.\n")
		return
	case "/replicas_status":
		if !ready {
			w.WriteHeader(503)
			io.WriteString(w, "shop.orders: Absolute delay: 31. Relative delay: 31.\n")
			return
		}
		io.WriteString(w, "Ok.\n")
		return
	}
	user, password, _ := r.BasicAuth()
	query, _ := io.ReadAll(r.Body)
	switch database := r.URL.Query().Get("database"); {
	case !o.knows(r):
		exception(403, 516, "AUTHENTICATION_FAILED", user+": Authentication failed: password "+password+" is incorrect, or there is no user with such name")
	case database != "" && database != o["database"]:
		exception(404, 81, "UNKNOWN_DATABASE", "Database "+database+" does not exist")
	case !ready:
		exception(404, 60, "UNKNOWN_TABLE", "Unknown table expression identifier 'orders' in scope "+string(query))
	default:
		fmt.Fprintf(w, "%s\tx\n2\ty\n", cmp.Or(o["value"], "1"))
	}
}

// influxdb answers as https://docs.influxdata.com/influxdb/v2/api/ and
// https://docs.influxdata.com/influxdb/v1/tools/api/
func (o Options) influxdb(w http.ResponseWriter, r *http.Request, ready bool) {
	version := cmp.Or(o["version"], "2")
	w.Header().Set("X-Influxdb-Version", "v"+version)
	known := o.knows(r, "Token", "Bearer")
	switch {
	case version == "3" && !known:
		answer(w, 401, object{"error": "the request was not authenticated"})
	case r.URL.Path == "/health" && version == "3":
		io.WriteString(w, "OK")
	case r.URL.Path == "/health" && version == "1.7":
		http.NotFound(w, r)
	case r.URL.Path == "/ping":
		w.WriteHeader(204)
	case r.URL.Path == "/health" && !ready:
		answer(w, 503, object{"name": "influxdb", "message": "starting up", "status": "fail", "checks": []object{}})
	case r.URL.Path == "/health":
		answer(w, 200, object{"name": "influxdb", "message": "ready for queries and writes", "status": "pass", "checks": []object{}})
	case !known && version == "2":
		answer(w, 401, object{"code": "unauthorized", "message": "unauthorized access"})
	case !known:
		answer(w, 401, object{"error": "authorization failed"})
	case r.URL.Path == "/query":
		answer(w, 200, object{"results": []object{{"statement_id": 0, "series": []object{{"name": "databases", "columns": []string{"name"}, "values": [][]string{{"_internal"}, {o["database"]}}}}}}})
	case r.URL.Path == "/api/v2/buckets" && version != "2":
		http.NotFound(w, r)
	case r.URL.Path == "/api/v2/buckets" && r.URL.Query().Get("name") == o["bucket"]:
		answer(w, 200, object{"buckets": []object{{"id": "1", "name": o["bucket"]}}})
	case r.URL.Path == "/api/v2/buckets":
		answer(w, 404, object{"code": "not found", "message": "bucket \"" + r.URL.Query().Get("name") + "\" not found"})
	default:
		http.NotFound(w, r)
	}
}
