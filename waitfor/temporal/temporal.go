// Package temporal waits for Temporal: temporal://HOST[:PORT][,HOST…], with the address of the frontend.
//
// A cluster is ready when the frontend's health service reports SERVING. The setting namespace waits until a namespace
// is registered, task-queue until a worker polls a task queue. A login is an API key in token-file or a certificate.
package temporal

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/httpapi"
	"initbox/waitfor/wire/rpc"
)

// Kind is the kind of targets with the scheme temporal.
var Kind = target.Kind{
	Schemes: []string{"temporal"},
	Usage:   "temporal://HOST[:PORT][,HOST…]",
	Ready:   "the frontend's health service reports SERVING; a namespace is registered, a task queue polled",
	Settings: slices.Concat([]target.Setting{
		{Name: "namespace", Value: "NAMESPACE", Usage: "the namespace is registered"},
		{Name: "task-queue", Value: "NAME", Usage: "a worker polls the task queue for workflow tasks"},
		{Name: "token-file", Value: "FILE", Usage: "file with a bearer token"},
	}, wire.EncryptionSettings),
	Protocol: "that of Temporal",
	Hosts:    true,
	Port:     "7233",
	Without:  "user path",
	Parse:    wire.Parse(newCheck),
}

// check asks the health service, without a login, or calls one method of the WorkflowService, which also shows that the
// service is ready.
//
// https://github.com/temporalio/api/blob/master/temporal/api/workflowservice/v1/service.proto
type check struct {
	wire.Server
	client               rpc.Client
	namespace, taskQueue string
}

const workflowService = "temporal.api.workflowservice.v1.WorkflowService"

func newCheck(s wire.Server) target.Check {
	s.Encrypted = s.Encrypted || forms.Yes(s.URL.Param("tls"))
	namespace := cmp.Or(s.Settings.Get("namespace"), s.URL.Param("namespace"))
	return check{s, rpc.New(s.Dialer, s.TLS, s.Encrypted), namespace, s.Settings.Get("task-queue")}
}

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server, c.ask) }

func (c check) ask(ctx context.Context, addr string) error {
	token, err := target.Token(c.Target, "token-file", "TEMPORAL_API_KEY")
	if err != nil {
		return err
	}
	header := http.Header{}
	var secrets []string
	if token != "" {
		if header, secrets, err = httpapi.Authorization("Bearer", token); err != nil {
			return err
		}
	}
	namespace := c.namespace
	if c.taskQueue != "" {
		namespace = cmp.Or(namespace, "default")
	}
	if namespace != "" {
		header.Set("Temporal-Namespace", namespace) // Temporal Cloud routes requests by it
	}
	switch {
	case c.taskQueue != "":
		a, err := c.call(ctx, addr, "/"+workflowService+"/DescribeTaskQueue", describeTaskQueue(namespace, c.taskQueue), header)
		return c.judge(a, err, secrets, c.polled)
	case namespace != "":
		a, err := c.call(ctx, addr, "/"+workflowService+"/DescribeNamespace", rpc.AppendText(nil, 1, namespace), header)
		return c.judge(a, err, secrets, c.registered)
	}
	a, err := c.call(ctx, addr, rpc.HealthMethod, rpc.HealthRequest(workflowService), header)
	return c.judge(a, err, secrets, func(a rpc.Answer) error { return a.Serving() })
}

func (c check) call(ctx context.Context, addr, method string, message []byte, header http.Header) (rpc.Answer, error) {
	a, err := c.client.Call(ctx, addr, method, message, header)
	if err != nil {
		err = httpapi.Failure(c.Target, err, addr)
	}
	return a, err
}

// judge returns err, else the failure that the answer's status means, else the result of message.
func (c check) judge(a rpc.Answer, err error, secrets []string, message func(rpc.Answer) error) error {
	switch words := strings.TrimSuffix(secret.Quote(a.Words, append(c.URL.Secrets(), secrets...)...), "."); {
	case err != nil:
		return err
	case a.Status == "0":
		return message(a)
	case words == "" || a.Status == "":
		return rpc.Failure(a.Status)
	default:
		f := failure.New(failure.Unexpected, "%s", words)
		switch a.Status {
		case "5":
			f.Hint = "what should register the namespace? (temporal operator namespace create)"
		case "7", "16":
			f.Class = failure.Authentication
			f.Hint = "the server requires a login: set an API key with --token-file, or a client certificate"
		case "12":
			f.Hint = "is it the frontend's port? the other services of Temporal do not have this method"
		default:
			f.Hint = "the frontend is running, but a service that it needs is not available: look at its log, and at its database"
		}
		return f
	}
}

// describeTaskQueue returns the DescribeTaskQueueRequest for workflow tasks: field 1 is the namespace, field 2 the
// queue, whose field 1 is its name, field 3 the type.
func describeTaskQueue(namespace, queue string) []byte {
	message := rpc.AppendText(rpc.AppendText(nil, 1, namespace), 2, string(rpc.AppendText(nil, 1, queue)))
	return rpc.AppendNumber(message, 3, 1)
}

// polled reads the DescribeTaskQueueResponse: it has a field 1 for each worker that polls, or did so in the last
// minutes.
func (c check) polled(a rpc.Answer) error {
	pollers := 0
	message, ok := rpc.Message(a.Frame)
	if !ok || !rpc.Fields(message, func(field, _ uint64, text []byte) {
		if field == 1 && text != nil {
			pollers++
		}
	}) {
		return c.Kind.OtherProtocol()
	}
	if pollers > 0 {
		return nil
	}
	return failure.New(failure.Unexpected, "no worker polls task queue %s", secret.Quote(c.taskQueue)).
		WithHint("are the workers running, with this task queue and this namespace?")
}

// namespaceStates are the names in temporal.api.enums.v1.NamespaceState.
var namespaceStates = []string{"unspecified", "registered", "deprecated", "deleted"}

// registered reads the DescribeNamespaceResponse: in field 1, field 2 is the state.
func (c check) registered(a rpc.Answer) error {
	state, wellFormed := uint64(0), true
	message, ok := rpc.Message(a.Frame)
	if !ok || !rpc.Fields(message, func(field, _ uint64, info []byte) {
		if field == 1 && info != nil {
			wellFormed = rpc.Fields(info, func(field, number uint64, text []byte) {
				if field == 2 && text == nil {
					state = number
				}
			})
		}
	}) || !wellFormed {
		return c.Kind.OtherProtocol()
	}
	if state == 1 || state == 2 { // workflows in a deprecated one continue
		return nil
	}
	name := fmt.Sprint("in state ", state)
	if state < uint64(len(namespaceStates)) {
		name = namespaceStates[state]
	}
	return failure.New(failure.Unexpected, "namespace %s is %s", secret.Quote(strings.TrimSpace(c.namespace)), name)
}
