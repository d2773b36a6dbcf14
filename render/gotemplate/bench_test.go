package gotemplate

import (
	"context"
	"io"
	"strings"
	"testing"

	"initbox/render/engine"
)

// small is a file of about 1 kB, as a Pod may have a hundred of them.
const small = `# {{ .Template.Name }}
server {
    listen {{ .Values.port }};
    server_name {{ .Values.name | quote }};
{{- range .Values.hosts }}
    upstream {{ .name }};
{{- end }}
{{- with .Values.db }}
    db {{ .host }}:{{ .port }};
{{- end }}
    home {{ .Env.HOME }};
    debug {{ if .Values.debug }}on{{ else }}off{{ end }};
    level {{ .Values.level | default "info" }};
    gzip on;
    gzip_types text/plain text/css application/json application/javascript text/xml application/xml;
    location / {
        proxy_pass http://{{ .Values.db.host }}:{{ .Values.db.port }};
        proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
    }
    error_page 500 502 503 504 /50x.html;
    location = /50x.html {
        root /usr/share/nginx/html;
    }
}
`

func BenchmarkFile(b *testing.B) {
	for _, bench := range []struct {
		name, text string
		options    engine.Options
	}{
		{"strict", small, engine.Options{}},
		{"zero", small, engine.Options{MissingZero: true}},
		{"text", strings.Repeat("plain text without actions\n", 40), engine.Options{}},
		{"define", `{{define "x"}}{{.}}{{end}}` + small + `{{include "x" .Values.name}}`, engine.Options{}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e := New(sample(), bench.options)
			b.ReportAllocs()
			for b.Loop() {
				t, err := e.Parse("t", bench.text)
				if err == nil {
					err = t.Execute(context.Background(), io.Discard)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParallel shares one engine.
func BenchmarkParallel(b *testing.B) {
	e := New(sample(), engine.Options{})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			t, err := e.Parse("t", small)
			if err == nil {
				err = t.Execute(context.Background(), io.Discard)
			}
			if err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkFirst is what a run with one file pays.
func BenchmarkFirst(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		t, err := New(sample(), engine.Options{}).Parse("t", "{{.Values.name}}")
		if err == nil {
			err = t.Execute(context.Background(), io.Discard)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInclude(b *testing.B) {
	e := New(sample(), engine.Options{})
	if err := e.AddPartial("_p", `{{define "p"}}{{.host}}{{end}}`); err != nil {
		b.Fatal(err)
	}
	t, err := e.Parse("t", strings.Repeat(`{{include "p" .Values.db}}`, 100))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := t.Execute(context.Background(), io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
