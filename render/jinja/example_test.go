package jinja_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"initbox/render/engine"
	"initbox/render/jinja"
)

func ExampleNew() {
	data := &engine.Data{Values: map[string]any{"hosts": []any{"a", "b"}}}
	templates := jinja.New(data, engine.Options{Limits: engine.DefaultLimits})
	if err := templates.AddPartial("macros.j2", "{% macro server(host) %}server {{ host }};{% endmacro %}"); err != nil {
		log.Fatal(err)
	}
	template, err := templates.Parse("app.conf.j2", `{% from "macros.j2" import server %}{% for h in hosts %}{{ server(h) }}
{% endfor %}listen {{ port | default(80) }};
`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(template.Execute(context.Background(), os.Stdout))
	// Output:
	// server a;
	// server b;
	// listen 80;
	// <nil>
}
