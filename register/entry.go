package register

import (
	"cmp"
	"net"
	"net/url"
	"strconv"
	"time"

	"initbox/internal/failure"
)

// Entry describes a Pod to a registry. It is stored in the state, and has no secrets.
type Entry struct {
	Service string            `json:"service,omitempty"` // of which the Pod is an instance
	ID      string            `json:"id,omitempty"`      // unique among them
	Address string            `json:"address,omitempty"` // an IP address, or a name that others resolve
	Port    int               `json:"port,omitempty"`
	Secure  bool              `json:"secure,omitempty"` // the port speaks TLS
	Tags    []string          `json:"tags,omitempty"`
	Meta    map[string]string `json:"meta,omitempty"`
	Health  string            `json:"health,omitempty"` // URL that a registry may ask

	// TTL is how long the entry lives without a heartbeat; 0 if no process stays to send heartbeats.
	TTL time.Duration `json:"ttl,omitempty"`

	// Extra are members that the user adds to the preset's request, or that replace those of the same name.
	Extra map[string]any `json:"extra,omitempty"`
}

// names returns the values that paths and queries may refer to.
func (e *Entry) names() map[string]string {
	return map[string]string{
		"service": e.Service,
		"id":      e.ID,
		"address": e.Address,
		"port":    strconv.Itoa(e.Port),
	}
}

// scheme returns the scheme of the entry's own URLs.
func (e *Entry) scheme() string {
	if e.Secure {
		return "https"
	}
	return "http"
}

// shown returns the entry's name for messages.
func (e *Entry) shown() string { return failure.Printable(cmp.Or(e.ID, e.Address, "this Pod")) }

// URL returns the entry's own URL with the path.
func (e *Entry) URL(path string) string {
	return (&url.URL{Scheme: e.scheme(), Host: net.JoinHostPort(e.Address, strconv.Itoa(e.Port)), Path: path}).String()
}
