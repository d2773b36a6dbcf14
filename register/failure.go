package register

import (
	"net/http"

	"initbox/internal/httpclient"
)

// explain returns an error that says what was being done and why it failed, without secrets.
func (r *Registration) explain(doing string, c *call, err error) error {
	return r.server.Explain(doing, r.named(c), err)
}

// refusal is the error of an answer that a retry would not change.
func (r *Registration) refusal(doing string, c *call, a *httpclient.Answer) error {
	return r.server.Refusal(doing, r.named(c), a)
}

// named returns what the call is, unless the user has given its path.
func (r *Registration) named(c *call) string {
	if r.o.Protocol.Custom != nil {
		return ""
	}
	return c.method + " " + c.path
}

// refusalHints say what to do about a status that is not retried.
var refusalHints = map[int]string{
	http.StatusUnauthorized:         credentialsHint,
	http.StatusForbidden:            credentialsHint,
	http.StatusNotFound:             "is the path right? if it will exist later, retry with --retry-status 404",
	http.StatusMethodNotAllowed:     "does the server expect another --method?",
	http.StatusConflict:             "if this means that the Pod is already registered, accept it with --success-status 409",
	http.StatusUnsupportedMediaType: "does the server expect a form (--field) or JSON (--json)? see also --content-type",
}

const credentialsHint = "are the credentials right? give them with --token-file, --user and --password-file, or --header-file"
