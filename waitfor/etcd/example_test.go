package etcd_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"initbox/waitfor/etcd"
	"initbox/waitfor/target"
)

// A member reports why it is not healthy.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"health": "false", "reason": "RAFT NO LEADER"}`)
	}))
	defer server.Close()
	check, err := target.Kinds{&etcd.Kind}.Parse("etcd://"+strings.TrimPrefix(server.URL, "http://"), target.Options{})
	if err == nil {
		err = check.Check(context.Background())
	}
	fmt.Println(err)
	// Output: RAFT NO LEADER
}
