// Package target parses targets: their kinds, their URLs, the settings after #, and the secrets that they refer to.
//
// A kind of target is a [Kind]: how its URL differs from a plain one, which settings it takes, and the function that
// turns a parsed [Target] into a [Check]. [Kinds.Parse] does that for a table of kinds; package waitfor has the table
// of all kinds.
package target

import (
	"slices"
	"strings"

	"initbox/internal/words"
)

// A Kind is one kind of target.
type Kind struct {
	Schemes  []string
	Usage    string // how a target of the kind is written
	Ready    string // what ready means
	Settings []Setting
	Protocol string // the protocol of the servers, for messages; may be empty
	Without  string // which of user, path and query its URL does not take

	// How the kind's targets differ from a plain URL.
	Hosts   bool   // the URL may name several hosts, joined by commas
	Port    string // of hosts without one
	TLSPort string // the same with the setting tls, or a scheme that means it, if that differs
	Name    bool   // a name follows the colon, and may contain any character
	File    bool   // the path is that of a file, and shown whole
	Filters bool   // settings may contain an @, as in a JSONPath filter
	Secure  string // the scheme that means the setting tls, for kinds with one such scheme
	Socket  string // the scheme, if any, whose host is the percent-encoded path of a socket

	// Parse returns the check that waits for t. Its errors do not quote anything that may be a password; the caller
	// puts the target before them.
	Parse func(t *Target) (Check, error)
	// Show returns the target without credentials; nil means the URL without user, query and fragment.
	Show func(t *Target) string
}

// Kinds is a table of kinds of target.
type Kinds []*Kind

// Of returns the kind with the scheme, or nil.
func (l Kinds) Of(scheme string) *Kind {
	for _, k := range l {
		if slices.Contains(k.Schemes, scheme) {
			return k
		}
	}
	return nil
}

// Has reports whether a kind has the scheme.
func (l Kinds) Has(scheme string) bool { return l.Of(scheme) != nil }

// HasHosts reports whether the URLs of the kind with the scheme may name several hosts.
func (l Kinds) HasHosts(scheme string) bool {
	k := l.Of(scheme)
	return k != nil && k.Hosts
}

// HasSetting reports whether the kind with the scheme takes the setting.
func (l Kinds) HasSetting(scheme, name string) bool {
	k := l.Of(scheme)
	return k != nil && k.all().Of(name) != nil
}

// Schemes returns the schemes of all kinds, sorted.
func (l Kinds) Schemes() []string {
	var all []string
	for _, k := range l {
		all = append(all, k.Schemes...)
	}
	return slices.Sorted(slices.Values(all))
}

// firstSchemes lists the kinds by the first of their schemes.
func (l Kinds) firstSchemes() string {
	return strings.Join(words.Each(l, func(k *Kind) string { return k.Schemes[0] }), ", ")
}
