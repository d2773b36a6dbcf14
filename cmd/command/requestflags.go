package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/internal/httpclient"
	"initbox/internal/podinfo"
	"initbox/internal/secret"
	"initbox/register/exchange"
	"initbox/render"
	"initbox/render/engine"
	"initbox/render/values"
)

// bodyFlags say what a request carries.
type bodyFlags struct {
	template, contentType    string
	fields, fieldFiles, json cli.StringSlice
}

func (b *bodyFlags) flags(category, ofJSON string) []cli.Flag {
	return []cli.Flag{
		textsFlag("field", "`NAME=VALUE`: field of a form", category, &b.fields),
		textsFlag("field-file", "`NAME=FILE`: field of a form, whose value is the secret in FILE", category, &b.fieldFiles),
		textsFlag("json", "`NAME=TEXT|NAME:=JSON`: member of a JSON object"+ofJSON, category, &b.json),
		textFlag("body-template", "`FILE` to render as the body: a Go template with .Pod and .Env, or, by its extension, another language of initbox render", category, &b.template),
		textFlag("content-type", "`TYPE` of the body (default application/json if it is JSON)", category, &b.contentType),
	}
}

// check refuses more than one body.
func (b *bodyFlags) check(c *cli.Context) error {
	if bodies := given(c, "field", "json", "body-template"); len(bodies) > 1 {
		return usagef("%s are mutually exclusive", strings.Join(bodies, " and "))
	}
	if isSet(c, "field-file") && given(c, "json", "body-template") != nil {
		return usagef("--field-file is for a form, and cannot be combined with --json or --body-template")
	}
	if c.Command.Name == "register" {
		return needs(c, [][2]string{{"content-type", "body-template"}})
	}
	return nil
}

// given returns whether there is a body.
func (b *bodyFlags) given() bool {
	return b.template != "" || len(b.json.Value())+len(b.fields.Value())+len(b.fieldFiles.Value()) > 0
}

// content returns the body, and the secrets in it. A template sees the values.
func (b *bodyFlags) content(ctx context.Context, e *env, source podinfo.Source, see []values.Source) (body *exchange.Body, secrets []string, err error) {
	switch {
	case b.template != "":
		return b.render(ctx, e, source, see)
	case len(b.json.Value()) > 0:
		members, err := jsonMembers(b.json.Value())
		if err != nil {
			return nil, nil, err
		}
		text, err := json.Marshal(members)
		return &exchange.Body{Type: cmp.Or(b.contentType, exchange.JSONType), Content: text}, nil, err
	}
	fields, secrets, err := b.form()
	body = exchange.Form(fields)
	body.Type = cmp.Or(b.contentType, body.Type)
	return body, secrets, err
}

// form returns the fields of a form, and the secrets in them.
func (b *bodyFlags) form() (fields []exchange.Field, secrets []string, err error) {
	for _, text := range b.fields.Value() {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, nil, usagef("--field %s: want NAME=VALUE", text)
		}
		fields = append(fields, exchange.Field{Name: name, Value: value})
	}
	for _, text := range b.fieldFiles.Value() {
		name, file, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, nil, usagef("--field-file %s: want NAME=FILE", text)
		}
		value, err := secret.Read(file)
		if err != nil {
			return nil, nil, err
		}
		fields, secrets = append(fields, exchange.Field{Name: name, Value: value}), append(secrets, value)
	}
	return fields, secrets, nil
}

// render renders --body-template as initbox render does. The values of environment variables count as secret if they
// are long enough.
func (b *bodyFlags) render(ctx context.Context, e *env, source podinfo.Source, see []values.Source) (body *exchange.Body, secrets []string, err error) {
	var text bytes.Buffer
	_, err = render.Run(ctx, render.Options{
		Sources: []render.Source{{From: b.template, To: "-"}},
		Values:  see,
		Environ: os.Environ(),
		Pod:     source,
		Options: engine.Options{Limits: engine.DefaultLimits},
		Stdin:   e.stdin,
		Stdout:  &text,
		Log:     e.log,
	})
	if err != nil {
		return nil, nil, err
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if len(value) >= secret.Likely && !strings.HasPrefix(name, "POD_") {
			secrets = append(secrets, value)
		}
		if file, found := strings.CutSuffix(name, "_FILE"); found && file != "" { // as render reads it
			if value, err := secret.Read(value); err == nil {
				secrets = append(secrets, value)
			}
		}
	}
	body = &exchange.Body{Type: b.contentType, Content: text.Bytes()}
	body.Detect()
	return body, secrets, nil
}

// jsonMembers reads NAME=TEXT and NAME:=JSON.
func jsonMembers(texts []string) (map[string]any, error) {
	members := map[string]any{}
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if !found || strings.TrimSuffix(name, ":") == "" {
			return nil, usagef("--json %s: want NAME=TEXT or NAME:=JSON", text)
		}
		name, typed := strings.CutSuffix(name, ":")
		members[name] = value
		if typed {
			if !json.Valid([]byte(value)) {
				return nil, usagef("--json %s: what follows := is not JSON", text).hint("write a text as " + name + "=" + value)
			}
			members[name] = json.RawMessage(value)
		}
	}
	if len(members) == 0 {
		return nil, nil
	}
	return members, nil
}

// setHeader reads --header. What is secret in it must be a reference.
func setHeader(to *httpclient.Credentials, lines []string) error {
	to.Header, to.HeaderRefs, to.Getenv = http.Header{}, nil, os.Getenv
	for _, line := range lines {
		header := http.Header{}
		text, refs, err := secret.Extract(line, "--header", os.Getenv)
		if err == nil {
			err = httpclient.AddHeader(header, text)
		}
		if err != nil {
			return usagef("--header: %w", err)
		}
		for name := range header {
			switch {
			case refs.In(text) && !refs.In(name):
				to.HeaderRefs = append(to.HeaderRefs, line)
			case httpclient.SecretHeader(name):
				return usagef("--header: %s is secret and would show in the Pod's specification", name).hint("refer to a file, as in '" + name + ": ${file:/secrets/key}', or put the line into a file and give it with --header-file")
			default:
				to.Header.Add(name, header.Get(name))
			}
		}
	}
	return nil
}

// statusFlags say what the statuses of answers mean.
type statusFlags struct{ success, again string }

func (s *statusFlags) flags(category string) []cli.Flag {
	return []cli.Flag{
		textFlag("success-status", "`LIST` of statuses, besides 2xx, that mean success, as in 409", category, &s.success),
		textFlag("retry-status", "`LIST` of statuses, besides 408, 425, 429 and 5xx, to retry after, as in 404", category, &s.again),
	}
}

func (s *statusFlags) set(success, again *httpclient.Statuses) (err error) {
	for _, list := range []struct {
		flag, text string
		to         *httpclient.Statuses
	}{{"success-status", s.success, success}, {"retry-status", s.again, again}} {
		if list.text == "" {
			continue
		}
		if *list.to, err = httpclient.ParseStatuses(list.text); err != nil {
			return usagef("--%s %s: %w", list.flag, list.text, err)
		}
	}
	return nil
}

// tryFlags returns the flags that say how requests are retried, and how host names are looked up.
func tryFlags(attempt, spread *time.Duration, retryTLS *bool, names *resolverFlags) []cli.Flag {
	*spread = httpclient.DefaultSpread
	return slices.Concat([]cli.Flag{
		attemptTimeoutFlag(attempt),
		durationFlag("spread", "after status 429 or 503, retry at a random moment within this time: the time the server needs for all Pods that may arrive at once", categoryWait, spread),
		onFlag("retry-tls", "retry even if the server's certificate is not trusted: the CA may be mounted late", categoryWait, retryTLS),
	}, names.flags())
}

// checkCredentials refuses credentials that exclude each other, or are incomplete.
func checkCredentials(c *cli.Context) error {
	if isSet(c, "user") && isSet(c, "token-file") {
		return usagef("--user and --token-file are mutually exclusive")
	}
	return needs(c, [][2]string{{"user", "password-file"}, {"password-file", "user"}, {"key-file", "cert-file"}})
}
