package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"initbox/internal/lazy"
	"initbox/internal/secret"
)

// StatusError is an answer of the API server, or of something in front of it, other than success.
type StatusError struct {
	Code       int           // of HTTP
	Reason     string        // one word, such as "Forbidden" or "NotFound"; may be empty
	Message    string        // the server's text, which may be anything; may be empty
	RetryAfter time.Duration // what the server asks for; 0 if it does not

	// What was tried.
	Verb      string // as RBAC names it: get, list, watch; empty for a path that is not a resource
	Resource  Resource
	Namespace string
	Name      string // of the only object that was asked for; may be empty
	Path      string // if it is not a resource

	missing bool // the object with the Name, not a resource that contains it
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: status %d", e.tried(), e.Code)
	if t := http.StatusText(e.Code); t != "" {
		text += " " + t
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// tried describes the request, such as "list pods in namespace default".
func (e *StatusError) tried() string {
	if e.Verb == "" {
		return "get " + e.Path
	}
	text := e.Verb + " " + e.Resource.String()
	if e.Name != "" {
		text += " " + e.Name
	}
	if e.Namespace != "" {
		text += " in namespace " + e.Namespace
	}
	return text
}

// User returns who the server says the client is, such as "system:serviceaccount:default:myapp", or "" if it does not
// say. It does so when it refuses a request.
func (e *StatusError) User() string {
	if m := userInMessage().FindStringSubmatch(e.Message); m != nil && e.Code == http.StatusForbidden {
		if user, err := strconv.Unquote(m[1]); err == nil {
			return user
		}
	}
	return ""
}

var userInMessage = lazy.Regexp(`User ("(?:\\.|[^"\\])*") cannot`)

// Missing returns whether the object that was asked for does not exist. Its kind does.
func (e *StatusError) Missing() bool { return e.missing }

// hasCode reports whether err is a StatusError with the HTTP status code.
func hasCode(err error, code int) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == code
}

// statusDocument has the parts in use of metav1.Status.
type statusDocument struct {
	Kind    string `json:"kind"`
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Details struct {
		Name              string `json:"name"`
		RetryAfterSeconds int    `json:"retryAfterSeconds"`
	} `json:"details"`
}

// failed makes e the error of an answer.
func (e StatusError) failed(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	e.Code = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(min(seconds, 1<<20)) * time.Second
	}
	e.read(data)
	if e.Code >= 300 && e.Code < 400 && e.Message == "" {
		e.Message = "redirects are not followed, since the credentials are meant for this server"
	}
	return &e
}

// redact removes the credentials in the header of the request, which the server or a proxy may repeat.
func (e *StatusError) redact(header http.Header) {
	_, token, _ := strings.Cut(header.Get("Authorization"), " ")
	r := secret.NewRedactor(token)
	e.Reason, e.Message = r.Redact(e.Reason), r.Redact(e.Message)
}

// read sets the fields of e from data, if that is a Status.
func (e *StatusError) read(data []byte) {
	var s statusDocument
	if json.Unmarshal(data, &s) != nil || s.Kind != "Status" {
		return // the page of a proxy
	}
	const longest = 2000
	e.Reason, e.Message = s.Reason, strings.ToValidUTF8(s.Message[:min(len(s.Message), longest)], "")
	if e.Code == 0 {
		e.Code = s.Code
	}
	e.missing = e.Code == http.StatusNotFound && s.Details.Name == e.Name && e.Name != ""
	if e.RetryAfter == 0 && s.Details.RetryAfterSeconds > 0 {
		e.RetryAfter = time.Duration(min(s.Details.RetryAfterSeconds, 1<<20)) * time.Second
	}
}
