// Package exchange is what requests to a server have in common, whatever they are for: [Server.Send] repeats one until
// its answer is final and logs the course of that, [Server.Explain] says why it failed, and neither shows a secret.
//
//	server := exchange.Server{URL: address, Log: log}
//	answer, err := server.Send(ctx, "register web-0", retry, "POST", "http://registry/nodes", nil, body)
//	if err != nil {
//		return server.Explain("register web-0", "", err)
//	}
package exchange

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"initbox/internal/httpclient"
	"initbox/internal/secret"
)

// Server is a server that gets requests, and what it must not be quoted with. Its methods may be called concurrently.
type Server struct {
	URL   *secret.URL
	Log   *slog.Logger
	Hints map[int]string // what to do about a status that is not retried

	mu      sync.Mutex
	secrets map[string]bool  // values sent so far that must not be shown
	redacts *secret.Redactor // of secrets; nil if one was added
	muted   bool             // nothing that the server says is shown
}

// maxHidden is how many bytes are hidden at once at most. A redactor takes many times as much.
const maxHidden = 256 << 10

// Place returns the URL of the server for messages, without secrets.
func (s *Server) Place() string { return s.URL.String() }

// Expand returns the URL with its secrets as they are now, and hides them.
func (s *Server) Expand() (*url.URL, error) {
	u, err := s.URL.Expand()
	if err != nil {
		return nil, err
	}
	s.Hide(s.URL.Secrets()...)
	for _, values := range u.Query() {
		for _, value := range values {
			if len(value) >= secret.Likely {
				s.Hide(value)
			}
		}
	}
	return u, nil
}

// Hide treats texts as secret from now on. Of more than 256 KiB, nothing is looked for, and what the server says is not
// shown.
func (s *Server) Hide(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	if size > maxHidden {
		s.muted = true
		return
	}
	if s.secrets == nil {
		s.secrets = map[string]bool{}
	}
	for _, text := range texts {
		if !s.secrets[text] {
			s.secrets[text], s.redacts = true, nil
		}
	}
}

// redactor removes the texts that are secret by now.
func (s *Server) redactor() *secret.Redactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redacts == nil {
		s.redacts = secret.NewRedactor(slices.Collect(maps.Keys(s.secrets))...)
	}
	return s.redacts
}

func (s *Server) redact(text string) string { return s.redactor().Redact(text) }

// said returns the beginning of an answer, after a colon, for a message, without the secrets
// that were sent: some servers quote the request.
func (s *Server) said(a *httpclient.Answer) string {
	text := s.redactor().Quote(string(a.Body))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case text == "":
		return ""
	case s.muted:
		return " (what the server says is not shown, because most of the request is secret)"
	}
	return ": " + strconv.Quote(text)
}

// Send sends a request as [httpclient.Retry.Do] does, and logs what changes from attempt to attempt. Its errors are
// those of Do, which [Server.Explain] makes readable. doing says what it is for, as in "register web-0".
func (s *Server) Send(ctx context.Context, doing string, retry httpclient.Retry, method, address string, header http.Header, body []byte) (*httpclient.Answer, error) {
	report := s.newReport(ctx, doing)
	defer report.close()
	notify := retry.Notify
	retry.Notify = func(attempt int, a *httpclient.Answer, err error, next time.Duration) {
		if notify != nil {
			notify(attempt, a, err, next)
		}
		report.attempt(attempt, a, err, next)
	}
	answer, err := retry.Do(ctx, method, address, header, body)
	if err == nil {
		report.done()
	}
	return answer, err
}
