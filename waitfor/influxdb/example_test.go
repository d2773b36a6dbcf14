package influxdb_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"initbox/waitfor/influxdb"
	"initbox/waitfor/target"
)

// The setting bucket waits for a bucket, besides the health.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			fmt.Fprint(w, `{"name": "influxdb", "status": "pass"}`)
		} else {
			fmt.Fprint(w, `{"buckets": []}`)
		}
	}))
	defer server.Close()
	check, err := target.Kinds{&influxdb.Kind}.Parse("influxdb://"+strings.TrimPrefix(server.URL, "http://")+"#bucket=metrics", target.Options{})
	if err == nil {
		err = check.Check(context.Background())
	}
	fmt.Println(err)
	// Output: bucket metrics does not exist
}
