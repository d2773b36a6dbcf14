package register

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"initbox/internal/dial"
	"initbox/internal/httpclient"
	"initbox/internal/resolver"
	"initbox/internal/secret"
)

// Registration is an entry at a registry. Its methods are not to be called at
// once.
type Registration struct {
	o        Options
	protocol *Preset
	entry    Entry
	url      *secret.URL
	log      *slog.Logger
	client   httpclient.Options

	answerWithin time.Duration // the constant, but in tests

	kept      map[string]string // of answers, for later calls
	token     string            // from the protocol's login, "" before it
	resumed   bool              // an earlier run has registered it
	forgotten int               // heartbeats in a row that found it gone
	answer    []byte            // what is wanted of the registry's
	round     int               // see state.Round
	key       string            // the Idempotency-Key of what is being sent
	before    *state            // see state.Before
	unsure    bool              // a heartbeat was on its way while somebody else took the entry away, and may have brought it back

	mu      sync.Mutex
	secrets map[string]bool // what has been sent and must not be shown
}

// Open returns a registration of which nothing has been sent yet. Its error tells
// what is wrong with the options.
func Open(o Options) (*Registration, error) {
	r := &Registration{o: o, protocol: o.Protocol.preset(), entry: o.Entry, log: o.Log, answerWithin: answerWithin, secrets: map[string]bool{}}
	if r.protocol == nil {
		return nil, fmt.Errorf("no such preset: %s", o.Protocol.Preset)
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	for _, s := range o.Secrets {
		r.hide(s)
	}
	var err error
	if r.url, err = secret.ParseURL(o.Server.URL, o.Getenv); err != nil {
		return nil, err
	}
	if password, set := r.url.User.Password(); set && !r.url.In(password) {
		return nil, errors.New("a password in the URL is visible in the Pod's specification: refer to a file, as in http://user:${file:/secrets/password}@host/, or use --user and --password-file")
	}
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

// place is where the registration is, for messages.
func (r *Registration) place() string { return r.url.String() }

// names are the values that paths and queries may refer to.
func (r *Registration) names() map[string]string {
	names := r.entry.names()
	if r.protocol.names != nil {
		maps.Copy(names, r.protocol.names(&r.entry))
	}
	maps.Copy(names, r.kept)
	return names
}
