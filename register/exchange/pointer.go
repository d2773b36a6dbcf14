package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"initbox/internal/httpclient"
)

// Pointer returns the value in a JSON text that a JSON Pointer (RFC 6901) leads to:
// a string as it is, anything else as JSON. Its errors do not quote the text.
func Pointer(text []byte, path string) (string, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // 1e400, and 12345678901234567890
	var value any
	if err := d.Decode(&value); err != nil {
		return "", errors.New("is not JSON")
	}
	if path != "" && path[0] != '/' {
		return "", fmt.Errorf("%s is not a JSON Pointer, as in /service/id", path)
	}
	for i, word := range strings.Split(path, "/") {
		if i == 0 {
			continue
		}
		word = strings.NewReplacer("~1", "/", "~0", "~").Replace(word)
		found := false
		switch v := value.(type) {
		case map[string]any:
			value, found = v[word]
		case []any:
			if n, err := strconv.Atoi(word); err == nil && n >= 0 && n < len(v) && word == strconv.Itoa(n) {
				value, found = v[n], true
			}
		}
		if !found {
			return "", fmt.Errorf("has no %s", path)
		}
	}
	if s, ok := value.(string); ok {
		return s, nil
	}
	out, err := json.Marshal(value)
	return string(out), err
}

// Take returns the body of an answer, or the value in it that a JSON Pointer leads to. Its error is about the answer,
// as in "has no /id".
func Take(a *httpclient.Answer, pointer string) ([]byte, error) {
	switch {
	case a.Cut:
		return nil, errors.New("is longer than 1 MiB")
	case pointer == "":
		return a.Body, nil
	case len(a.Body) == 0:
		return nil, errors.New("is empty")
	}
	value, err := Pointer(a.Body, pointer)
	if err == nil && value == "null" { // which no application takes for a missing value
		err = errors.New("has null at " + pointer)
	}
	return []byte(value), err
}
