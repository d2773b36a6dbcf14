package values_test

import (
	"context"
	"fmt"

	"initbox/render/values"
)

func ExampleLoad() {
	v, err := values.Load(context.Background(), []values.Source{
		{Kind: values.SetJSON, Text: `server={"host": "db", "port": 5432}`},
		{Kind: values.Set, Text: "server.port=5433"},
	}, values.Options{})
	fmt.Println(v.Map(), err)
	// Output: map[server:map[host:db port:5433]] <nil>
}
