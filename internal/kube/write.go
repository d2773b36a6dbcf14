package kube

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"initbox/internal/secret"
)

// Create creates the object in a namespace, and returns it as the server has stored it. The error is a [StatusError]
// with Code 409 if there is one of that name, which is left as it is. After an error of another type the object may
// exist: the answer was lost. No error quotes the object's data.
//
// https://kubernetes.io/docs/reference/using-api/api-concepts/#api-verbs
func (c *Client) Create(ctx context.Context, r Resource, namespace string, o Object) (Object, error) {
	return c.write(ctx, o, request{method: http.MethodPost, verb: "create", resource: r, namespace: namespace, name: o.Name(), path: r.path(namespace, "")})
}

// Replace replaces the object of that name, and returns it as the server has stored it. The object has to have the
// metadata.resourceVersion of the one that it replaces: the error is a [StatusError] with Code 409 if another client
// has changed that meanwhile. As with [Client.Create], no error quotes the object's data, and it may have been replaced
// if the answer was lost.
//
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
func (c *Client) Replace(ctx context.Context, r Resource, namespace string, o Object) (Object, error) {
	if o.meta("resourceVersion") == "" {
		return nil, errors.New("an object without a resourceVersion would replace any other")
	}
	return c.write(ctx, o, request{method: http.MethodPut, verb: "update", resource: r, namespace: namespace, name: o.Name(), path: r.path(namespace, o.Name())})
}

// write sends the object o as the body of r.
func (c *Client) write(ctx context.Context, o Object, r request) (stored Object, err error) {
	if r.body, err = json.Marshal(o); err != nil {
		return nil, err
	}
	err = c.ask(ctx, r, func(body io.Reader) error {
		data, err := io.ReadAll(&meter{body, maxObject})
		if err == nil {
			stored, err = decode(data)
		}
		return answer(err)
	})
	var status *StatusError
	if errors.As(err, &status) {
		hidden := secret.NewRedactor(o.values()...)
		status.Reason, status.Message = hidden.Redact(status.Reason), hidden.Redact(status.Message)
	}
	return stored, err
}

// values returns what the data of a Secret or a ConfigMap holds, which a server or an admission webhook may repeat.
func (o Object) values() (all []string) {
	for _, part := range []string{"data", "stringData", "binaryData"} {
		m, _ := o[part].(map[string]any)
		for _, v := range m {
			text, _ := v.(string)
			all = append(all, text)
			if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
				all = append(all, string(plain))
			}
		}
	}
	return all
}

// Data returns the values of a Secret by key. A value that is not in base64 is left out.
func (o Object) Data() map[string][]byte {
	data, _ := o["data"].(map[string]any)
	values := map[string][]byte{}
	for key, v := range data {
		text, _ := v.(string)
		if value, err := base64.StdEncoding.DecodeString(text); err == nil {
			values[key] = value
		}
	}
	return values
}
