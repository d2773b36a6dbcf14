package register_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"initbox/register"
	"initbox/test/registries"
)

func Example() {
	eureka := new(registries.Eureka)
	server := httptest.NewServer(eureka)
	defer server.Close()

	r, err := register.Open(register.Options{
		Server:   register.Server{URL: server.URL + eureka.Base()},
		Protocol: register.Protocol{Preset: "eureka"},
		Entry:    register.Entry{Service: "web", ID: "web-0", Address: "10.1.2.3", Port: 8080},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := r.Register(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(eureka.Entries())
	if err := r.Leave(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(eureka.Entries())
	// Output:
	// [WEB/web-0]
	// []
}
