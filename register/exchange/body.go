package exchange

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
)

// Media types.
const (
	FormType = "application/x-www-form-urlencoded"
	JSONType = "application/json"
)

// Body is what a request carries.
type Body struct {
	Type    string // the media type
	Content []byte
}

// Detect sets the type to JSON, if none is set and the content is JSON.
func (b *Body) Detect() {
	if b.Type == "" && json.Valid(b.Content) {
		b.Type = JSONType
	}
}

// Field is one of a form, in the order given.
type Field struct{ Name, Value string }

// Form returns the fields as a body.
func Form(fields []Field) *Body {
	values := url.Values{}
	for _, f := range fields {
		values.Add(f.Name, f.Value)
	}
	return &Body{FormType, []byte(values.Encode())}
}

// QueryOnly returns whether a request of the method has no body that means anything (RFC 9110, section 9.3), so that a
// form is sent as the query.
func QueryOnly(method string) bool { return method == "GET" || method == "HEAD" || method == "DELETE" }

// Digest returns a hash of parts, which is another one wherever a part ends elsewhere.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// UUID returns the same UUID for the same text (RFC 9562, version 8), as a value of Idempotency-Key: many servers
// require that form. A server that knows the key repeats its answer and does nothing else.
func UUID(text string) string {
	h := sha256.Sum256([]byte(text))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
