package kube

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// Review has the server answer a question, such as a SelfSubjectReview, which it does not store. It returns the status
// of the answer. The error is that of [Client.Create].
//
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#self-subject-review
func (c *Client) Review(ctx context.Context, r Resource, spec map[string]any) (status Object, err error) {
	version := r.Version
	if r.Group != "" {
		version = r.Group + "/" + r.Version
	}
	question := Object{"apiVersion": version, "kind": r.Kind}
	if spec != nil {
		question["spec"] = spec
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	asked := request{method: http.MethodPost, verb: "create", resource: r, path: r.path("", ""), body: body}
	err = c.ask(ctx, asked, func(body io.Reader) error {
		data, err := io.ReadAll(&meter{body, maxObject})
		if err != nil {
			return answer(err)
		}
		var reply struct{ Status Object }
		if err := json.Unmarshal(data, &reply); err != nil {
			return &answerError{err}
		}
		status = reply.Status
		return nil
	})
	return status, err
}
