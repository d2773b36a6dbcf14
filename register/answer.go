package register

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/mounts"
	"initbox/internal/secret"
)

// pointer returns the value in a JSON text that a JSON Pointer (RFC 6901) leads to:
// a string as it is, anything else as JSON. Its errors do not quote the text.
func pointer(text []byte, path string) (string, error) {
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

func (r *Registration) wantsAnswer() bool { return r.o.Output != "" || r.o.Extract != "" }

// extract takes from the answer what the options ask for.
func (r *Registration) extract(a *httpclient.Answer) ([]byte, error) {
	if a.Cut {
		return nil, fmt.Errorf("%s: the answer is longer than 1 MiB", r.place())
	}
	if r.o.Extract == "" {
		return a.Body, nil
	}
	value, err := pointer(a.Body, r.o.Extract)
	if err != nil {
		return nil, failure.WithHint(fmt.Errorf("%s: %s is registered, but the answer %w", r.place(), r.entry.shown(), err), "look at the whole answer: --output FILE without --extract")
	}
	return []byte(value), nil
}

// checkOutput fails if the answer could not be written, before there is one: a custom
// server may have a stale entry for each answer that is lost.
func (r *Registration) checkOutput() error {
	if r.o.Output == "" {
		return nil
	}
	const writable = 2 // W_OK of access(2)
	if err := syscall.Access(filepath.Dir(r.o.Output), writable); err != nil {
		return failure.WithHint(fmt.Errorf("write the answer to %s: %w", r.o.Output, err), mounts.WriteHint(err, r.o.Output, volumeHint))
	}
	return nil
}

func (r *Registration) writeAnswer() error {
	if r.o.Output == "" {
		return nil
	}
	if err := (atomicfile.Writer{Follow: r.o.Follow}).Write(r.o.Output, r.answer, 0o600); err != nil {
		return failure.WithHint(fmt.Errorf("write the answer to %s: %w", r.o.Output, err), mounts.WriteHint(err, r.o.Output, volumeHint))
	}
	return nil
}

// said returns the beginning of an answer, for a message, without the secrets that were
// sent: some servers quote the request.
func (r *Registration) said(a *httpclient.Answer) string {
	text := r.redactor().Quote(string(a.Body))
	if text == "" {
		return ""
	}
	return strconv.Quote(text)
}

// hide treats texts as secret from now on.
func (r *Registration) hide(texts ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range texts {
		if !slices.Contains(r.secrets, text) {
			r.secrets, r.redacts = append(r.secrets, text), nil
		}
	}
}

// redactor removes the texts that are secret by now.
func (r *Registration) redactor() *secret.Redactor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.redacts == nil {
		r.redacts = secret.NewRedactor(r.secrets...)
	}
	return r.redacts
}

func (r *Registration) redact(text string) string { return r.redactor().Redact(text) }
