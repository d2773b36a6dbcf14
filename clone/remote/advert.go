package remote

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/clone/pktline"
)

// advert is the advertisement of a server: its features.
type advert struct {
	version  int                 // of the protocol: 2, or 0, also for version 1
	features map[string][]string // the values of each; at most one in version 2
}

// maxFeatures is a limit that no server reaches.
const maxFeatures = 1000

// has reports whether the server has a feature.
func (a *advert) has(name string) bool { _, ok := a.features[name]; return ok }

// value returns the first value of a feature, or "".
func (a *advert) value(name string) string {
	if values := a.features[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// fetches reports whether version 2's fetch has a feature.
func (a *advert) fetches(name string) bool {
	return slices.Contains(strings.Fields(a.value("fetch")), name)
}

func (a *advert) add(feature string) {
	name, value, _ := strings.Cut(feature, "=")
	if a.features == nil {
		a.features = map[string][]string{}
	}
	if name != "" && len(a.features[name]) < maxFeatures && (a.has(name) || len(a.features) < maxFeatures) {
		a.features[name] = append(a.features[name], value)
	}
}

// shallow reports whether the server can truncate the history.
func (a *advert) shallow() bool {
	if a.version == 2 {
		return a.fetches("shallow")
	}
	return a.has("shallow")
}

// readAdvert reads the advertisement of a server. In version 0 that includes the first reference, whose packet it
// returns without the features; the other references follow. first is nil if there are none.
func (s *server) readAdvert(r *reply) (a *advert, first []byte, err error) {
	kind, line, err := s.next(r)
	if err == nil && bytes.HasPrefix(line, []byte("# service=")) { // of HTTP
		if kind, _, err = s.next(r); err == nil && kind == pktline.Flush {
			kind, line, err = s.next(r)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	switch version := string(bytes.TrimRight(line, "\n")); {
	case kind != pktline.Data:
		return new(advert), nil, nil // an old server, and an empty repository
	case version == "version 2":
		a, err = s.readFeatures(r)
		return a, nil, err
	case strings.HasPrefix(version, "version ") && version != "version 1":
		return nil, nil, s.broken(r, "the server speaks another version of the protocol")
	case version == "version 1":
		if kind, line, err = s.next(r); err != nil {
			return nil, nil, err
		}
		if kind != pktline.Data {
			return new(advert), nil, nil
		}
	}
	line, features, _ := bytes.Cut(line, []byte{0})
	a = new(advert)
	for feature := range strings.FieldsSeq(string(features)) {
		a.add(feature)
	}
	return a, bytes.Clone(line), nil
}

// readFeatures reads the features of version 2, one per packet, to the end of the advertisement.
func (s *server) readFeatures(r *reply) (*advert, error) {
	a := &advert{version: 2}
	for range maxFeatures {
		kind, line, err := s.next(r)
		switch {
		case err != nil:
			return nil, err
		case kind == pktline.Data:
			a.add(string(bytes.TrimRight(line, "\n")))
		default:
			r.end()
			return a, nil
		}
	}
	return nil, s.broken(r, "the server's list of features is too long")
}

// parseRef parses a line of version 0: ID NAME.
func parseRef(line []byte) (ref Ref, ok bool) {
	id, name, found := strings.Cut(strings.TrimRight(string(line), "\n"), " ")
	ref.Name = name
	var err error
	ref.ID, err = object.ParseID(id)
	return ref, found && err == nil
}

// parseListed parses a line of version 2: ID NAME [symref-target:NAME] [peeled:ID].
func parseListed(line []byte) (ref Ref, ok bool) {
	id, rest, found := strings.Cut(strings.TrimRight(string(line), "\n"), " ")
	if !found {
		return Ref{}, false
	}
	var attributes string
	ref.Name, attributes, _ = strings.Cut(rest, " ")
	var err error
	if id != "unborn" {
		if ref.ID, err = object.ParseID(id); err != nil {
			return Ref{}, false
		}
	}
	for attribute := range strings.FieldsSeq(attributes) {
		if target, ok := strings.CutPrefix(attribute, "symref-target:"); ok && validRef(target) {
			ref.Target = strings.Clone(target)
		}
		if peeled, ok := strings.CutPrefix(attribute, "peeled:"); ok {
			if ref.Peeled, err = object.ParseID(peeled); err != nil {
				return Ref{}, false
			}
		}
	}
	ref.Name = strings.Clone(ref.Name)
	return ref, ref.ID != plumbing.ZeroHash || ref.Target != "" && id == "unborn"
}

// maxRefName is longer than any file system allows for a reference, in bytes.
const maxRefName = 4096

// maxRefPart is the longest name of a file, in bytes, without the .lock that git appends.
const maxRefPart = 255 - len(".lock")

// validRef reports whether name is HEAD, or valid for git-check-ref-format(1) and git branch. Some servers list others,
// which git skips, too.
func validRef(name string) bool {
	if name == "HEAD" {
		return true
	}
	if len(name) > maxRefName || !strings.HasPrefix(name, "refs/") || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte("~^:?*[\\", c) >= 0 {
			return false
		}
	}
	for i, part := range strings.Split(name, "/") {
		if part == "" || part == "@" || part[0] == '.' || part[0] == '-' && i == 2 || strings.HasSuffix(part, ".lock") || len(part) > maxRefPart {
			return false
		}
	}
	return true
}
