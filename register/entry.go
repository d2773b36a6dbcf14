package register

import (
	"cmp"
	"net"
	"net/url"
	"strconv"
	"time"

	"initbox/internal/failure"
)

// Entry is what a registry is told of a Pod. It is stored in the state, and holds
// no secret.
type Entry struct {
	Service string            `json:"service,omitempty"` // what the Pod is one instance of
	ID      string            `json:"id,omitempty"`      // unique among them
	Address string            `json:"address,omitempty"` // an IP address, or a name that others resolve
	Port    int               `json:"port,omitempty"`
	Secure  bool              `json:"secure,omitempty"` // the port speaks TLS
	Tags    []string          `json:"tags,omitempty"`
	Meta    map[string]string `json:"meta,omitempty"`
	Health  string            `json:"health,omitempty"` // URL that a registry may ask

	// TTL is how long the entry lives without a heartbeat; 0 if there are to be
	// none, because nobody stays to send them.
	TTL time.Duration `json:"ttl,omitempty"`

	// Extra are members that the user adds to what the preset tells the registry,
	// or puts in place of it.
	Extra map[string]any `json:"extra,omitempty"`
}

// names are the values that paths and queries may refer to.
func (e *Entry) names() map[string]string {
	return map[string]string{
		"service": e.Service,
		"id":      e.ID,
		"address": e.Address,
		"port":    strconv.Itoa(e.Port),
	}
}

// scheme is that of the entry's own URLs.
func (e *Entry) scheme() string {
	if e.Secure {
		return "https"
	}
	return "http"
}

// shown is the entry's name in messages.
func (e *Entry) shown() string { return failure.Printable(cmp.Or(e.ID, e.Address, "this Pod")) }

// URL is a URL of the entry's own, with the path.
func (e *Entry) URL(path string) string {
	return (&url.URL{Scheme: e.scheme(), Host: net.JoinHostPort(e.Address, strconv.Itoa(e.Port)), Path: path}).String()
}
