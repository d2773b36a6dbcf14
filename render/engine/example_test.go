package engine_test

import (
	"fmt"

	"initbox/render/engine"
)

// All inputs that are missing are reported together, each with its place.
func ExampleMissingError() {
	err := &engine.MissingError{Missing: []engine.Input{
		{Position: engine.Position{File: "app.conf", Line: 3, Column: 9}, Name: ".Values.db.host"},
		{Position: engine.Position{File: "app.conf", Line: 7}, Name: ".Env.TOKEN", Why: "the token of the API"},
	}}
	fmt.Println(err)
	// Output: app.conf:3:9: .Values.db.host is missing; app.conf:7: .Env.TOKEN is missing: the token of the API
}
