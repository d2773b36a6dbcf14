package helpers_test

import (
	"fmt"

	"initbox/render/engine"
	"initbox/render/helpers"
)

func ExampleFuncs() {
	pod := map[string]any{"Name": "db-2", "Limits": map[string]any{"memory": int64(1 << 30)}}
	funcs := helpers.Funcs(&engine.Data{Pod: pod})
	fmt.Println(funcs["ordinal"].(func(...string) (int, error))())
	fmt.Println(funcs["jvmHeap"].(func(...any) (string, error))())
	fmt.Println(helpers.HostPort("::1", 5432))
	fmt.Println(helpers.ShellQuote("it's"))
	// Output:
	// 2 <nil>
	// -Xmx768m <nil>
	// [::1]:5432
	// 'it'\''s' <nil>
}
