package dial_test

import (
	"context"
	"fmt"
	"net"

	"initbox/internal/dial"
	"initbox/internal/failure"
)

func ExampleDialer_DialContext() {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	d := dial.New(nil) // resolves names as resolv.conf says
	conn, err := d.DialContext(context.Background(), "tcp", server.Addr().String())
	if err != nil {
		fmt.Println(failure.Of(err).Hint)
		return
	}
	defer conn.Close()
	fmt.Println("connected over", conn.RemoteAddr().Network())
	// Output: connected over tcp
}
