package http_test

import (
	"context"
	"fmt"
	nethttp "net/http"
	"net/http/httptest"

	"initbox/waitfor/http"
	"initbox/waitfor/target"
)

// The setting json says what must be in the body.
func Example() {
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		fmt.Fprint(w, `{"status": "UP", "db": {"status": "DOWN"}}`)
	}))
	defer server.Close()
	check, err := target.Kinds{&http.Kind}.Parse(server.URL+"/health#json=.status==UP&json=.db.status==UP", target.Options{})
	if err == nil {
		err = check.Check(context.Background())
	}
	fmt.Println(err)
	// Output: JSON .db.status is "DOWN"
}
