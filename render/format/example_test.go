package format_test

import (
	"fmt"

	"initbox/render/format"
)

func ExampleFor() {
	f := format.For("values.yaml")
	data, err := f.Parse([]byte("server: {port: 8080}\n"))
	fmt.Println(f.Name, data, err)
	_, err = f.Parse([]byte("a: 1\na: 2\n"))
	fmt.Println(err)
	// Output:
	// yaml map[server:map[port:8080]] <nil>
	// line 2: duplicate key "a"
}
