package exchange

import "net/url"

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
