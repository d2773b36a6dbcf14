package register

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"initbox/internal/httpclient"
	"initbox/register/exchange"
)

// A call is one request of a protocol. Its path and query may have names in braces, as in /apps/{service}/{id}, which
// stand for fields of the entry and for values of earlier answers (see keep). A value is escaped for its position.
type call struct {
	method string
	path   string                                     // below the server's URL; or a whole URL
	query  string                                     // besides that of the server's URL, as in serviceName={service}&ip={address}
	when   func(*Entry) bool                          // whether it is to be sent; nil for always
	body   func(*Entry) any                           // to be sent as JSON; nil for none
	form   func(*Entry) url.Values                    // to be sent as a form; nil for none
	raw    *exchange.Body                             // to be sent as it is; nil for none
	login  func(user, password string) *exchange.Body // to be sent by a call that logs in; nil for none
	judge  func(*Entry, *httpclient.Answer) finding   // nil for byStatus
	keep   map[string]string                          // by the name for later calls, the JSON Pointer in this one's answer, or the name of a header
}

// finding is what an answer says of the entry.
type finding int

const (
	there   finding = iota // it is registered; after a call that deregisters: it no longer is
	gone                   // the registry does not have it
	again                  // not now
	refused                // this request will never succeed
	stale                  // not with this token, but perhaps with a new one
)

// byStatus judges an answer by its HTTP status alone.
func byStatus(a *httpclient.Answer) finding {
	switch httpclient.ByStatus(a) {
	case httpclient.Done:
		return there
	case httpclient.Again:
		return again
	}
	if a.Status == http.StatusNotFound || a.Status == http.StatusGone {
		return gone
	}
	return refused
}

// content returns the body of the call for e.
func (c *call) content(e *Entry) (*exchange.Body, error) {
	switch {
	case c.raw != nil:
		return c.raw, nil
	case c.form != nil:
		return &exchange.Body{Type: exchange.FormType, Content: []byte(c.form(e).Encode())}, nil
	case c.body != nil:
		text, err := json.Marshal(c.body(e))
		return &exchange.Body{Type: exchange.JSONType, Content: text}, err
	}
	return nil, nil
}

// expand replaces names in braces by their escaped values. A name without a value is an error.
func expand(text string, values map[string]string, escape func(string) string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, rest, closed := strings.Cut(after, "}")
		value, known := values[name]
		if !closed || !known {
			return "", fmt.Errorf("no answer contained {%s}", name)
		}
		b.WriteString(escape(value))
		text = rest
	}
}
