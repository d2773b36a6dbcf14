package resolver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/miekg/dns"

	"initbox/internal/resolver"
)

func ExampleResolver_Lookup() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte("10.1.2.3 mydb\n"), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r := &resolver.Resolver{Hosts: hosts}
	answer, err := r.Lookup(ctx, resolver.Query{Name: "mydb", Types: []uint16{dns.TypeA}, Memory: new(resolver.Memory)})
	if err != nil {
		fmt.Println(err) // a resolver.Failure: its kind, name and server
		return
	}
	for _, record := range answer.Records {
		fmt.Println(answer.Name, record.(*dns.A).A)
	}
	// Output: mydb. 10.1.2.3
}
