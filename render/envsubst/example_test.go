package envsubst_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"initbox/render/engine"
	"initbox/render/envsubst"
)

func ExampleNew() {
	data := &engine.Data{Values: map[string]any{"PORT": int64(8080)}}
	templates := envsubst.New(data, engine.Options{Limits: engine.DefaultLimits})
	template, err := templates.Parse("app.conf", "listen ${PORT:-80};\n")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(template.Execute(context.Background(), os.Stdout))
	// Output:
	// listen 8080;
	// <nil>
}
