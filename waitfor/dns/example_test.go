package dns_test

import (
	"fmt"

	"initbox/waitfor/dns"
	"initbox/waitfor/target"
)

// A target is shown as its name; a mistake in it is reported before anything is tried.
func Example() {
	kinds := target.Kinds{&dns.Kind}
	check, err := kinds.Parse("dns:_pg._tcp.mydb#type=SRV&min-records=3", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("dns:mydb#type=A&family=4", target.Options{})
	fmt.Println(err)
	// Output:
	// _pg._tcp.mydb <nil>
	// mydb: type and family are mutually exclusive
}
