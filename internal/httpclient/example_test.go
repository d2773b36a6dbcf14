package httpclient_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"initbox/internal/httpclient"
)

func ExampleRetry_Do() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "registered")
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := &httpclient.Retry{
		Options:        httpclient.Options{Dial: new(net.Dialer).DialContext, NoProxy: true},
		AttemptTimeout: 10 * time.Second,
		Spread:         10 * time.Millisecond, // the second attempt is made within it
		Notify:         func(n int, a *httpclient.Answer, _ error, _ time.Duration) { fmt.Println("attempt", n, a.Status) },
	}
	answer, err := r.Do(ctx, "POST", server.URL+"/register", nil, []byte("id=web-0"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Status, string(answer.Body))
	// Output:
	// attempt 1 503
	// 200 registered
}

func ExampleParseStatuses() {
	s, err := httpclient.ParseStatuses("200,401-403")
	fmt.Println(s.Has(402), s.Has(404), err)
	// Output: true false <nil>
}
