package clickhouse_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"initbox/waitfor/clickhouse"
	"initbox/waitfor/target"
)

// The setting query waits for an answer whose first column is true.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ping" {
			fmt.Fprintln(w, "Ok.")
		} else {
			fmt.Fprintln(w, "0")
		}
	}))
	defer server.Close()
	check, err := target.Kinds{&clickhouse.Kind}.Parse("clickhouse://"+strings.TrimPrefix(server.URL, "http://")+"#query=SELECT count() FROM app.migrations", target.Options{})
	if err == nil {
		err = check.Check(context.Background())
	}
	fmt.Println(err)
	// Output: the query returns 0
}
