package gotemplate_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"initbox/render/engine"
	"initbox/render/gotemplate"
)

func ExampleNew() {
	data := &engine.Data{Values: map[string]any{"port": int64(8080)}}
	templates := gotemplate.New(data, engine.Options{Limits: engine.DefaultLimits})
	template, err := templates.Parse("app.conf", "listen {{ .Values.port | default 80 }};\n")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(template.Execute(context.Background(), os.Stdout))
	// Output:
	// listen 8080;
	// <nil>
}
