package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

func parseJSON(data []byte) (any, error) {
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return nextJSON(dec)
}

// checkJSON requires one value, without duplicate keys: which of them counts depends on the
// reader (RFC 8259, section 4).
func checkJSON(data []byte) error {
	if err := checkText(data); err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &Error{Text: "empty; the least JSON is null"}
	}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return at(data, 0, "a byte order mark, which JSON must not have")
	}
	if err := json.Unmarshal(data, new(nothing)); err != nil {
		return jsonError(data, err)
	}
	return checkKeys(data)
}

// nothing takes any JSON, and keeps nothing of it.
type nothing struct{}

func (*nothing) UnmarshalJSON([]byte) error { return nil }

// checkKeys looks for duplicate keys in data, which is JSON.
func checkKeys(data []byte) error {
	type level struct {
		keys map[string]bool // nil in a list
		key  bool            // the next string is a key
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // a number may be too large for a float64
	var open []level
	for {
		start := int(dec.InputOffset())
		token, err := dec.Token()
		if err != nil { // the end
			return nil
		}
		in := len(open) - 1
		switch delim, _ := token.(json.Delim); {
		case delim == '{':
			open = append(open, level{keys: map[string]bool{}, key: true})
		case delim == '[':
			open = append(open, level{})
		case delim == '}' || delim == ']':
			open = open[:in]
			if in--; in >= 0 {
				open[in].key = open[in].keys != nil
			}
		case in >= 0 && open[in].key:
			key := token.(string)
			if open[in].keys[key] {
				start += bytes.IndexByte(data[start:], '"')
				return at(data, start, "duplicate key KEY").about(strconv.Quote(key))
			}
			open[in].keys[key], open[in].key = true, false
		case in >= 0:
			open[in].key = open[in].keys != nil
		}
		if len(open) > MaxDepth {
			return tooDeep()
		}
	}
}

// jsonCauses translates the messages of encoding/json.
var jsonCauses = causes{
	{"unexpected end", "the file ends in the middle of a value"},
	{"looking for beginning of value", "a value is expected here"},
	{"beginning of object key string", "a key in double quotes is expected here (no comma may stand before })"},
	{"after object key:value pair", "a comma or } is expected here"},
	{"after object key", "a colon is expected here"},
	{"after array element", "a comma or ] is expected here"},
	{"after top-level value", "something follows the value"},
	{"in string escape code", "an unknown escape in a string"},
	{"in \\u hexadecimal", "four hexadecimal digits are expected after \\u"},
	{"in string literal", "a control character in a string: a line break is written \\n there"},
	{"numeric literal", "not a number"},
	{"in literal", "neither true, false nor null"},
	{"exceeded max depth", "nested too deep"},
}

func jsonError(data []byte, err error) error {
	text := jsonCauses.text(err.Error(), "not JSON")
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		if strings.Contains(err.Error(), "unexpected end") {
			return at(data, len(data), "%s", text)
		}
		return at(data, int(syntax.Offset)-1, "%s", text)
	}
	return &Error{Text: text}
}

// nextJSON reads a value, which is known to be well-formed.
func nextJSON(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		return jsonNumber(string(token))
	case json.Delim:
		if token == '{' {
			return jsonObject(dec)
		}
		list := []any{}
		for dec.More() {
			v, err := nextJSON(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return token, nil
}

func jsonObject(dec *json.Decoder) (any, error) {
	m := &Map{Values: map[string]any{}}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := nextJSON(dec)
		if err != nil {
			return nil, err
		}
		m.Set(key.(string), v)
	}
	_, err := dec.Token()
	return m, err
}

func jsonNumber(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if i := Whole(text); i != nil {
			return i, nil
		}
		return nil, &Error{Text: "a number is too large"}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, &Error{Text: "a number is too large"}
	}
	return f, nil
}
