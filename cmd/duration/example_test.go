package duration_test

import (
	"fmt"

	"initbox/cmd/duration"
)

func ExampleParse() {
	for _, text := range []string{"0.5", "1m30s", "soon"} {
		d, err := duration.Parse(text)
		fmt.Println(duration.Value(d), err)
	}
	// Output:
	// 500ms <nil>
	// 1m30s <nil>
	// 0s want a duration such as 30s, 1m30s or 500ms
}
