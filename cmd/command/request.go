package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"initbox/internal/dial"
	"initbox/internal/httpclient"
	"initbox/internal/podinfo"
	"initbox/internal/secret"
	"initbox/register/exchange"
	"initbox/register/request"
	"initbox/render/values"
)

// Categories of request's flags.
const (
	categorySend = "What is sent"
	categoryMany = "Many, and once"
)

func requestCommand(e *env) *cli.Command {
	var r requestFlags
	return &cli.Command{
		Usage:     "send an HTTP request until it succeeds",
		ArgsUsage: "URL",
		Description: `Sends a request, and repeats it until the answer is final: after connection errors, and
status 408, 425, 429 and 5xx, as Retry-After says, within the deadline. 2xx is success;
the server's message is printed if it refuses. With --each, each file of a directory is
sent. URL may refer to secrets: https://me:${file:/secrets/password}@HOST/PATH

A restart of the container sends it again. That is right for PUT and GET; for POST, give
--once FILE, or --idempotency-key if the server knows that header.

Examples:
  initbox request http://search:9200/_index_template/logs --method PUT --request-body-file /config/logs.json
  initbox request 'http://schemas:8081/subjects/{name}/versions' --each /schemas --body-template /config/schema.tmpl
  initbox request https://chat.example/hook --json text="$(POD_NAME) starts" --once /state/told
  initbox request http://auth/clients --json name=web --idempotency-key --extract /id --output /shared/client-id`,
		Flags: r.flags(),
		Action: e.action(func(c *cli.Context) (work, error) {
			o, err := r.options(c, e)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				if e.parts != nil && o.Each != "" {
					o.Sent = e.parts
				}
				answer, err := request.Run(ctx, o)
				if err == nil && !o.DryRun {
					e.warnNowhere(o.Output.Name)
				}
				if err != nil || o.Output.Name != "" || r.output != "-" && o.Extract == "" {
					return err
				}
				return e.print(string(bytes.TrimSuffix(answer, []byte("\n"))) + "\n")
			}, nil
		}),
	}
}

// requestFlags are the values of the flags.
type requestFlags struct {
	o           request.Options // what flags set directly
	body        bodyFlags
	text, file  string
	uploads     cli.StringSlice
	header      cli.StringSlice
	credentials credentialFlags
	proxy       string
	status      statusFlags
	output      string
	files       outputFlags
	key         optionalText
	pod         podFlags
	names       resolverFlags
}

func (r *requestFlags) flags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		textFlag("method", "`METHOD` of the request (default GET, with a body POST)", categorySend, &r.o.Method),
		textFlag("request-body", "`TEXT` to send", categorySend, &r.text),
		textFlag("request-body-file", "`FILE` to send", categorySend, &r.file),
	}, r.body.flags(categorySend, ""), []cli.Flag{
		textsFlag("upload", "`NAME=FILE`: file in a form, which is then multipart/form-data; NAME alone for the file of --each", categorySend, &r.uploads),

		textsFlag("header", "`NAME:VALUE`: header of the request; refer to a secret in it, as in 'X-Api-Key: ${file:/secrets/key}'", categoryServer, &r.header),
	}, r.credentials.flags(categoryServer), []cli.Flag{
		textFlag("netrc", "`FILE` with logins by host", categoryServer, &r.credentials.Netrc),
	}, tlsFlags(categoryServer, &r.o.Retry.TLS), []cli.Flag{
		textFlag("proxy", "`URL` of an http, https or socks5 proxy, instead of those in HTTPS_PROXY and similar variables", categoryServer, &r.proxy),
		onFlag("no-proxy", "connect directly, whatever HTTP_PROXY says", categoryServer, &r.o.Retry.NoProxy),
		onFlag("no-redirect", "judge a redirect itself instead of following it; so does --success-status 302", categoryServer, &r.o.Retry.NoRedirect),
	}, r.status.flags(categoryAnswer), []cli.Flag{
		textFlag("extract", "`POINTER`: keep only this value of the answer, a JSON Pointer as in /id; it is printed if there is no --output", categoryAnswer, &r.o.Extract),
		textFlag("output", "`FILE` for the answer, - for stdout", categoryAnswer, &r.output),
	}, r.files.flags(categoryAnswer, "0600"), []cli.Flag{
		textFlag("each", "`DIR` whose files are sent one by one; in URL, {name} is the file's name without its extension, and {file} all of it", categoryMany, &r.o.Each),
		&cli.GenericFlag{Name: "idempotency-key", Usage: "send a header Idempotency-Key: `VALUE`, or one that is the same for the same request of the same Pod", Category: categoryMany, Value: &r.key},
		onFlag("dry-run", "send nothing, and say what would be sent", categoryMany, &r.o.DryRun),
	}, r.pod.flags(categoryPod), tryFlags(&r.o.Retry.AttemptTimeout, &r.o.Retry.Spread, &r.o.Retry.RetryTLS, &r.names))
}

// options returns what the flags say.
func (r *requestFlags) options(c *cli.Context, e *env) (o request.Options, err error) {
	if err := r.check(c); err != nil {
		return o, err
	}
	e.inParts = r.o.Each != ""
	if err := setHeader(&r.credentials.Credentials, r.header.Value()); err != nil {
		return o, err
	}
	if r.o.Retry.Proxy, err = parseProxy(r.proxy); err != nil {
		return o, err
	}
	names, err := r.names.resolver(e)
	if err != nil {
		return o, err
	}
	if err := r.status.set(&r.o.Success, &r.o.Again); err != nil {
		return o, err
	}
	o = r.o
	o.URL, o.Credentials = c.Args().First(), r.credentials.value()
	o.Retry.Dial, o.Retry.Seed, o.Getenv, o.Log = dial.New(names).DialContext, podinfo.Seed(), os.Getenv, e.log
	if r.output != "-" {
		o.Output = exchange.Output{Name: r.output, Writer: r.files.writer(), Mode: r.files.of(0o600)}
	}
	source, err := r.pod.source(e)
	if err != nil {
		return o, err
	}
	o.Answer = r.output != "" || o.Extract != ""
	hasBody := given(c, "request-body", "request-body-file", "upload", "each") != nil || r.body.given()
	switch o.Method = strings.ToUpper(o.Method); {
	case !hasBody && r.body.contentType != "":
		return o, usagef("--content-type: the request has no body")
	case o.Method == "" && hasBody:
		o.Method = "POST"
	case o.Method == "":
		o.Method = "GET"
	}
	if hasBody {
		o.Body = func(ctx context.Context, f *request.File) (*exchange.Body, []string, error) {
			return r.content(ctx, e, source, f)
		}
	}
	if isSet(c, "idempotency-key") {
		if err := r.setKey(&o, e, source); err != nil {
			return o, err
		}
	}
	if err := o.Check(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

// setKey sets from what the header Idempotency-Key is made.
func (r *requestFlags) setKey(o *request.Options, e *env, source podinfo.Source) error {
	if o.Key, o.KeyAsIs = string(r.key), r.key != ""; o.KeyAsIs {
		return nil
	}
	pod, err := source.Read()
	if err != nil {
		return fmt.Errorf("read the downward API: %w", err)
	}
	if pod.UID == "" {
		e.log.Warn("the Pod's UID is not known, so the next Pod of the same name would have the same Idempotency-Key: set $POD_UID from the downward API")
	}
	o.Key = cmp.Or(pod.UID, pod.Namespace+"/"+pod.Name)
	return nil
}

// check refuses flags that exclude each other, and values that cannot be right.
func (r *requestFlags) check(c *cli.Context) error {
	const example = "as in: initbox request http://search:9200/_index_template/logs --method PUT --request-body-file /config/logs.json"
	switch bodies := given(c, "request-body", "request-body-file", "json", "body-template", "upload"); {
	case c.NArg() == 0:
		return usagef("no URL given").hint(example)
	case c.NArg() > 1:
		return usagef("unexpected argument: %s", c.Args().Get(1)).hint(example)
	case len(bodies) > 1, len(bodies) == 1 && bodies[0] != "--upload" && given(c, "field", "field-file") != nil:
		return usagef("%s are mutually exclusive", strings.Join(append(bodies, given(c, "field", "field-file")...), " and "))
	case isSet(c, "upload") && isSet(c, "content-type"):
		return usagef("--upload and --content-type are mutually exclusive: a form with files is multipart/form-data")
	case r.o.Each == "":
	case given(c, "request-body", "request-body-file", "json", "extract", "output") != nil:
		return usagef("%s and --each are mutually exclusive", given(c, "request-body", "request-body-file", "json", "extract", "output")[0])
	case given(c, "field", "field-file") != nil && !isSet(c, "upload"):
		return usagef("--field and --each need --upload NAME, for the file").hint("or make the body with --body-template")
	}
	if strings.ContainsAny(r.o.Method, " \t\r\n:/") {
		return usagef("--method %s: want a method such as POST or PUT", r.o.Method)
	}
	for _, flag := range [][2]string{{"content-type", r.body.contentType}, {"idempotency-key", string(r.key)}} {
		if httpclient.AddHeader(http.Header{}, flag[0]+": "+flag[1]) != nil {
			return usagef("--%s: a header cannot have a line break or a control character in it", flag[0])
		}
	}
	if own := given(c, "mode", "owner", "follow"); own != nil && r.output == "-" {
		return usagef("%s: only with a file for --output", own[0])
	}
	if once := c.String(flagOnce); once != "" && r.o.Each != "" && filepath.Dir(once) == filepath.Clean(r.o.Each) {
		return usagef("--%s %s: it is in the directory of --each, and would be sent", flagOnce, once)
	}
	if r.o.Extract != "" && r.o.Extract[0] != '/' {
		return usagef("--extract %s: want a JSON Pointer, as in /service/id", r.o.Extract)
	}
	texts := map[string][]string{
		"field": r.body.fields.Value(), "json": r.body.json.Value(), "header": r.header.Value(), "upload": r.uploads.Value(),
		"request-body": {r.text}, "idempotency-key": {string(r.key)},
	}
	for flag, values := range texts {
		if err := unreplaced("--"+flag, strings.Join(values, " ")); err != nil {
			return err
		}
	}
	if err := needs(c, [][2]string{{"mode", "output"}, {"owner", "output"}, {"follow", "output"}}); err != nil {
		return err
	}
	if err := checkCredentials(c); err != nil {
		return err
	}
	return r.files.check()
}

// content returns the body of a request, and the secrets in it; f is the file of --each, or nil.
func (r *requestFlags) content(ctx context.Context, e *env, source podinfo.Source, f *request.File) (body *exchange.Body, secrets []string, err error) {
	switch {
	case r.text != "":
		return &exchange.Body{Type: r.body.contentType, Content: []byte(r.text)}, nil, nil
	case r.file != "":
		f, err = request.ReadFile(r.file)
	case len(r.uploads.Value()) > 0:
		return r.multipart(f)
	case r.body.given():
		if f == nil {
			return r.body.content(ctx, e, source, nil)
		}
		if !utf8.Valid(f.Content) {
			return nil, nil, errors.New("it is not UTF-8, so it cannot be in a template")
		}
		text, err := json.Marshal(map[string]any{"file": map[string]string{"name": f.Stem(), "file": f.Name, "content": string(f.Content)}})
		if err != nil {
			return nil, nil, err
		}
		body, secrets, err = r.body.content(ctx, e, source, []values.Source{{Kind: values.SetJSON, Text: string(text)}})
		return body, append(secrets, secretsIn(f)...), err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--request-body-file: %w", err)
	}
	return &exchange.Body{Type: r.body.contentType, Content: f.Content}, secretsIn(f), nil
}

// multipart returns a form with files (RFC 7578), and the secrets in it. The boundary depends on the content alone, so
// that the same form is the same request.
func (r *requestFlags) multipart(each *request.File) (body *exchange.Body, secrets []string, err error) {
	fields, secrets, err := r.body.form()
	if err != nil {
		return nil, nil, err
	}
	var files []*request.File
	var parts []string
	for _, text := range r.uploads.Value() {
		name, path, found := strings.Cut(text, "=")
		f := each
		switch {
		case name == "", !found && each == nil:
			return nil, nil, usagef("--upload %s: want NAME=FILE", text)
		case found:
			if f, err = request.ReadFile(path); err != nil {
				return nil, nil, fmt.Errorf("--upload: %w", err)
			}
		}
		files, parts, secrets = append(files, f), append(parts, name, string(f.Content)), append(secrets, secretsIn(f)...)
	}
	var text bytes.Buffer
	w := multipart.NewWriter(&text)
	err = w.SetBoundary(exchange.UUID(exchange.Digest(parts...)))
	for _, field := range fields {
		err = cmp.Or(err, w.WriteField(field.Name, field.Value))
	}
	for i, f := range files {
		part, failed := w.CreateFormFile(parts[2*i], f.Name)
		if err = cmp.Or(err, failed); err == nil {
			_, err = part.Write(f.Content)
		}
	}
	err = cmp.Or(err, w.Close())
	return &exchange.Body{Type: w.FormDataContentType(), Content: text.Bytes()}, secrets, err
}

// secretsIn returns what is secret in a file, which a server may quote: if it is in a mounted Secret, or other users
// cannot read it, each text in its JSON; if it is something else, each line and each long word of it.
func secretsIn(f *request.File) (secrets []string) {
	stat, err := os.Stat(f.Path)
	if err != nil || !values.Private(stat.Mode()) && !values.OnSecretMount(filepath.Dir(f.Path)) && !values.OnSecretMount(f.Path) {
		return nil
	}
	var collect func(any)
	collect = func(value any) {
		switch value := value.(type) {
		case string:
			secrets = append(secrets, value)
		case []any:
			for _, item := range value {
				collect(item)
			}
		case map[string]any:
			for _, item := range value {
				collect(item)
			}
		}
	}
	d := json.NewDecoder(bytes.NewReader(f.Content)) // several values, where each line is one
	for err == nil {
		var value any
		if err = d.Decode(&value); err == nil {
			collect(value)
		}
	}
	if err == io.EOF {
		return secrets
	}
	text := string(f.Content)
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n=:&,;<>\"'", r) }) {
		if len(word) >= secret.Likely {
			secrets = append(secrets, word)
		}
	}
	return append(secrets, strings.Split(text, "\n")...)
}
