package elasticsearch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"initbox/waitfor/elasticsearch"
	"initbox/waitfor/target"
)

// A cluster whose status is yellow is ready by default, but not with the setting status=green.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"status": "yellow", "unassigned_shards": 2, "initializing_shards": 1}`)
	}))
	defer server.Close()
	check, err := target.Kinds{&elasticsearch.Kind}.Parse("elasticsearch://"+strings.TrimPrefix(server.URL, "http://")+"#status=green", target.Options{})
	if err == nil {
		err = check.Check(context.Background())
	}
	fmt.Println(err)
	// Output: status yellow (2 shards unassigned, 1 initializing)
}
