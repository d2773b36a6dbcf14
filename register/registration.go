package register

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/register/exchange"
)

// Registration is an entry at a registry. Its methods must not be called concurrently.
type Registration struct {
	o        Options
	protocol *Preset
	entry    Entry
	server   *exchange.Server
	url      *secret.URL
	log      *slog.Logger
	client   httpclient.Options

	answerWithin time.Duration // the constant, except in tests

	kept      map[string]string // of answers, for later calls
	token     string            // from the protocol's login, "" before it
	resumed   bool              // an earlier run has registered it
	forgotten int               // heartbeats in a row that found it gone
	answer    []byte            // as Output or Extract want it
	round     int               // see state.Round
	key       string            // the Idempotency-Key of what is being sent
	before    *state            // see state.Before
	unsure    bool              // a heartbeat was in flight while another process deregistered, and may have restored the entry
	random    *rand.Rand        // of the heartbeats' jitter

	mu      sync.Mutex
	answers map[string]int // see Answers
}

// Open prepares a registration and sends nothing. Its error says which option is invalid.
func Open(o Options) (*Registration, error) {
	r := &Registration{o: o, protocol: o.Protocol.preset(), entry: o.Entry, log: o.Log, answerWithin: answerWithin,
		random: rand.New(rand.NewPCG(o.Seed, 1)), answers: map[string]int{}}
	if r.protocol == nil {
		return nil, fmt.Errorf("no such preset: %s", o.Protocol.Preset)
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if r.url, err = secret.ParseURL(o.Server.URL, o.Getenv); err != nil {
		return nil, err
	}
	if r.url.PasswordShown() {
		return nil, errors.New("a password in the URL is visible in the Pod's specification: refer to a file, as in http://user:${file:/secrets/password}@host/, or use --user and --password-file")
	}
	r.log = r.log.With(failure.Fields(r.url.String(), 0, nil))
	r.server = &exchange.Server{URL: r.url, Log: r.log, Hints: refusalHints}
	r.server.Hide(o.Secrets...)
	if err := o.Protocol.Custom.check(); err != nil {
		return nil, err
	}
	names := o.Resolver
	if names == nil {
		names = new(resolver.Resolver)
	}
	r.client = httpclient.Options{Dial: dial.New(names).DialContext, TLS: o.Server.TLS, NoProxy: o.Server.NoProxy}
	return r, nil
}

// Answers returns how many attempts were answered with each status, or failed in each class without an answer. It may
// be called at any time.
func (r *Registration) Answers() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.answers)
}

func (r *Registration) count(answer string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[answer]++
}

// place returns the URL of the server for messages, without secrets.
func (r *Registration) place() string { return r.server.Place() }

// names returns the values that paths and queries may refer to.
func (r *Registration) names() map[string]string {
	names := r.entry.names()
	if r.protocol.names != nil {
		maps.Copy(names, r.protocol.names(&r.entry))
	}
	maps.Copy(names, r.kept)
	return names
}
