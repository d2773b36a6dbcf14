package waitfor

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"initbox/internal/failure"
)

var temporalKind = Kind{
	Schemes: []string{"temporal"},
	Usage:   "temporal://HOST[:PORT][,HOST…]",
	Ready:   "the frontend's health service says SERVING; a namespace is registered, a task queue polled",
	Settings: slices.Concat([]Setting{
		{Name: "namespace", Value: "NAMESPACE", Usage: "the namespace is registered"},
		{Name: "task-queue", Value: "NAME", Usage: "a worker polls the task queue for workflow tasks"},
		{Name: "token-file", Value: "FILE", Usage: "file with a bearer token"},
	}, encryptionSettings),
	Protocol: "that of Temporal",
	Hosts:    true,
	parse:    parseTemporal,
}

// temporalCheck asks the health service, without a login, or one method of the
// WorkflowService, which tells that and more at once.
//
// https://github.com/temporalio/api/blob/master/temporal/api/workflowservice/v1/service.proto
type temporalCheck struct {
	server
	client               grpcClient
	namespace, taskQueue string
}

const workflowService = "temporal.api.workflowservice.v1.WorkflowService"

func parseTemporal(t *target) (Check, error) {
	if err := t.only("query"); err != nil {
		return nil, err
	}
	s, err := newServer(t, "7233")
	s.encrypted = s.encrypted || yes(t.param("tls"))
	return temporalCheck{
		s, newGRPC(s.dialer, s.tls, s.encrypted),
		cmp.Or(t.settings.get("namespace"), t.param("namespace")), t.settings.get("task-queue"),
	}, err
}

func (c temporalCheck) Check(ctx context.Context) error { return c.any(ctx, c.ask) }

func (c temporalCheck) ask(ctx context.Context, addr string) error {
	token, err := c.token("token-file", "TEMPORAL_API_KEY")
	if err != nil {
		return err
	}
	header := http.Header{}
	var secrets []string
	if token != "" {
		if header, secrets, err = authorization("Bearer", token); err != nil {
			return err
		}
	}
	namespace := c.namespace
	if c.taskQueue != "" {
		namespace = cmp.Or(namespace, "default")
	}
	if namespace != "" {
		header.Set("Temporal-Namespace", namespace) // by which Temporal's cloud knows whose server is meant
	}
	switch {
	case c.taskQueue != "":
		a, err := c.call(ctx, addr, "/"+workflowService+"/DescribeTaskQueue", describeTaskQueue(namespace, c.taskQueue), header)
		return c.judge(a, err, secrets, c.polled)
	case namespace != "":
		a, err := c.call(ctx, addr, "/"+workflowService+"/DescribeNamespace", protoText(nil, 1, namespace), header)
		return c.judge(a, err, secrets, c.registered)
	}
	a, err := c.call(ctx, addr, healthMethod, healthRequest(workflowService), header)
	return c.judge(a, err, secrets, func(a grpcAnswer) error { return a.serving() })
}

func (c temporalCheck) call(ctx context.Context, addr, method string, message []byte, header http.Header) (grpcAnswer, error) {
	a, err := c.client.call(ctx, addr, method, message, header)
	if err != nil {
		err = httpFailure(c.target, err, addr)
	}
	return a, err
}

// judge returns what err is, else what the status of the answer means, else what the
// message does.
func (c temporalCheck) judge(a grpcAnswer, err error, secrets []string, message func(grpcAnswer) error) error {
	switch words := strings.TrimSuffix(quote(a.words, append(c.url.Secrets(), secrets...)...), "."); {
	case err != nil:
		return err
	case a.status == "0":
		return message(a)
	case words == "" || a.status == "":
		return grpcFailure(a.status)
	default:
		f := failure.New(failure.Unexpected, "%s", words)
		switch a.status {
		case "5":
			f.Hint = "what should register the namespace? (temporal operator namespace create)"
		case "7", "16":
			f.Class = failure.Authentication
			f.Hint = "it wants to know who asks: give an API key with --token-file, or a client certificate"
		case "12":
			f.Hint = "is it the frontend's port? the other services of Temporal do not have this method"
		default:
			f.Hint = "the frontend is there, but not what it needs: look at its log, and at its database"
		}
		return f
	}
}

// describeTaskQueue returns the DescribeTaskQueueRequest for workflow tasks: field 1 is
// the namespace, field 2 the queue, whose field 1 is its name, field 3 the type.
func describeTaskQueue(namespace, queue string) []byte {
	message := protoText(protoText(nil, 1, namespace), 2, string(protoText(nil, 1, queue)))
	return protoNumber(message, 3, 1)
}

// polled reads the DescribeTaskQueueResponse: field 1 is there once for each worker that
// polls, or did so in the last minutes.
func (c temporalCheck) polled(a grpcAnswer) error {
	pollers := 0
	message, ok := grpcMessage(a.frame)
	if !ok || !protoFields(message, func(field, _ uint64, text []byte) {
		if field == 1 && text != nil {
			pollers++
		}
	}) {
		return c.otherProtocol()
	}
	if pollers > 0 {
		return nil
	}
	f := failure.New(failure.Unexpected, "no worker polls task queue %s", quote(c.taskQueue))
	f.Hint = "are the workers running, with this task queue and this namespace?"
	return f
}

// namespaceStates are those of temporal.api.enums.v1.NamespaceState.
var namespaceStates = []string{"unspecified", "registered", "deprecated", "deleted"}

// registered reads the DescribeNamespaceResponse: in field 1, field 2 is the state.
func (c temporalCheck) registered(a grpcAnswer) error {
	state, wellFormed := uint64(0), true
	message, ok := grpcMessage(a.frame)
	if !ok || !protoFields(message, func(field, _ uint64, info []byte) {
		if field == 1 && info != nil {
			wellFormed = protoFields(info, func(field, number uint64, text []byte) {
				if field == 2 && text == nil {
					state = number
				}
			})
		}
	}) || !wellFormed {
		return c.otherProtocol()
	}
	if state == 1 || state == 2 { // what runs in a deprecated one goes on
		return nil
	}
	name := fmt.Sprint("in state ", state)
	if state < uint64(len(namespaceStates)) {
		name = namespaceStates[state]
	}
	return failure.New(failure.Unexpected, "namespace %s is %s", quote(strings.TrimSpace(c.namespace)), name)
}
