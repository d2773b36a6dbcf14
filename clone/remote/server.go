package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/pktline"
)

// server is a repository behind git-upload-pack, which speaks version 2 of Git's
// protocol (gitprotocol-v2(5)) or versions 0 and 1 (gitprotocol-pack(5)).
type server struct {
	transport
	url *URL
	log *slog.Logger
	*advert

	// In version 0: the references of the advertisement that have not been read, and the first of them; else nil.
	refs  *reply
	first []byte
}

// agent is the name by which initbox identifies itself.
const agent = "agent=initbox"

// openServer reads the advertisement of a server.
func openServer(ctx context.Context, u *URL, o Options, t transport) (Repository, error) {
	s := &server{transport: t, url: u, log: o.Log, advert: new(advert)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.begin(ctx); err != nil {
		t.Close()
		return nil, err
	}
	return s, nil
}

// begin reads the advertisement.
func (s *server) begin(ctx context.Context) error {
	r, err := s.advertise(ctx)
	if err != nil {
		return err
	}
	a, first, err := s.readAdvert(r)
	if err != nil {
		return err
	}
	s.advert = a
	if format := a.value("object-format"); format != "" && format != "sha1" || foreign(first) {
		r.fail(nil)
		return never("convert the repository, or clone it with git", "the repository uses SHA-256 object names, which initbox does not support")
	}
	if a.version == 2 {
		return nil
	}
	if first == nil {
		r.end()
		return nil
	}
	s.refs, s.first = r, first
	return nil
}

// foreign reports whether a line begins with an object name of 64 digits, which is one of SHA-256.
func foreign(line []byte) bool {
	id, _, _ := strings.Cut(string(line), " ")
	return len(id) == 64
}

// next returns the next packet. If that is an error message of the server, it is returned as an error. Any error ends
// the reply.
func (s *server) next(r *reply) (pktline.Kind, []byte, error) {
	kind, line, err := r.Next()
	switch {
	case errors.Is(err, pktline.ErrMalformed):
		return 0, nil, s.broken(r, "the answer is not in Git's protocol")
	case err == io.EOF:
		return 0, nil, r.fail(io.ErrUnexpectedEOF)
	case err != nil:
		return 0, nil, r.fail(err)
	}
	if text, isError := strings.CutPrefix(string(line), "ERR "); isError {
		r.fail(nil)
		return 0, nil, s.said(text)
	}
	return kind, line, nil
}

// broken abandons a reply that violates the protocol.
func (s *server) broken(r *reply, format string, args ...any) error {
	r.fail(nil)
	return unexpected("%s", fmt.Sprintf(format, args...))
}

// Capable implements [Repository].
func (s *server) Capable(feature string) bool {
	switch {
	case feature == AnyID && s.version == 2:
		return true
	case feature == AnyID: // uploadpack.allowAnySHA1InWant implies both
		return s.has("allow-tip-sha1-in-want") && s.has("allow-reachable-sha1-in-want")
	case feature == Filter && s.version == 2:
		return s.fetches("filter")
	case feature == Filter:
		return s.has("filter")
	}
	return false
}

// Close implements [Repository].
func (s *server) Close() error {
	s.drop()
	return s.transport.Close()
}

// drop abandons the rest of the advertisement.
func (s *server) drop() {
	if s.refs != nil {
		s.refs.fail(nil)
		s.refs = nil
	}
}

// Fetch implements [Repository].
func (s *server) Fetch(ctx context.Context, q Request) (*Answer, error) {
	if len(q.Wants) == 0 {
		return nil, errors.New("no object to fetch")
	}
	if err := ctx.Err(); err != nil { // else a server that answers at once could win the race with it
		return nil, err
	}
	if q.Depth > 0 && !s.shallow() {
		s.log.Warn(s.url.String() + ": the server cannot truncate the history: fetching all of it")
		q.Depth = 0
	}
	if q.Filter != "" && !s.Capable(Filter) {
		s.log.Warn(s.url.String() + ": the server cannot filter objects: fetching all of them")
		q.Filter = ""
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	message := s.message
	if s.version != 2 {
		message = s.message0
	}
	r, err := s.send(ctx, message(q), true)
	if err != nil {
		return nil, err
	}
	if s.version != 2 {
		return s.answer0(r, q)
	}
	return s.answer(r)
}

// ready makes sure that a message can be sent: the whole advertisement must have been read before.
func (s *server) ready(ctx context.Context) error {
	if s.refs != nil {
		if err := s.each(func(Ref) error { return nil }); err != nil {
			return err
		}
	}
	if s.live() {
		return nil
	}
	if err := s.begin(ctx); err != nil || s.refs == nil {
		return err
	}
	return s.each(func(Ref) error { return nil })
}

// message returns the request for a pack in version 2.
func (s *server) message(q Request) []byte {
	b := s.command("fetch")
	b = pktline.Append(b, "ofs-delta\n")
	b = pktline.Append(b, "no-progress\n")
	if q.Tags {
		b = pktline.Append(b, "include-tag\n")
	}
	if q.Depth > 0 {
		b = pktline.Append(b, fmt.Sprintf("deepen %d\n", q.Depth))
	}
	if q.Filter != "" {
		b = pktline.Append(b, "filter "+q.Filter+"\n")
	}
	for _, id := range q.Wants {
		b = pktline.Append(b, "want "+id.String()+"\n")
	}
	return pktline.AppendFlush(pktline.Append(b, "done\n"))
}

// command begins a message of version 2.
func (s *server) command(name string) []byte {
	b := pktline.Append(nil, "command="+name+"\n")
	if s.has("agent") {
		b = pktline.Append(b, agent+"\n")
	}
	if s.has("object-format") {
		b = pktline.Append(b, "object-format=sha1\n")
	}
	return pktline.AppendDelimiter(b)
}

// answer reads the sections that precede the pack in version 2.
func (s *server) answer(r *reply) (*Answer, error) {
	var shallow []plumbing.Hash
	for {
		kind, line, err := s.next(r)
		if err != nil {
			return nil, err
		}
		section := strings.TrimRight(string(line), "\n")
		switch {
		case kind != pktline.Data:
			return nil, s.broken(r, "the server's answer has no pack")
		case section == "packfile":
			return &Answer{Pack: s.newPack(r, bands), Shallow: shallow}, nil
		}
		for kind == pktline.Data {
			if kind, line, err = s.next(r); err != nil {
				return nil, err
			}
			if kind == pktline.Data && section == "shallow-info" {
				if shallow, err = s.addShallow(r, shallow, line); err != nil {
					return nil, err
				}
			}
		}
		if kind != pktline.Delimiter {
			return nil, s.broken(r, "the server's answer has no pack")
		}
	}
}

// maxShallow is how many commits an answer may list as shallow.
const maxShallow = 1 << 20

// addShallow parses one of the lines that say where the history is truncated.
func (s *server) addShallow(r *reply, shallow []plumbing.Hash, line []byte) ([]plumbing.Hash, error) {
	verb, text, _ := strings.Cut(strings.TrimRight(string(line), "\n"), " ")
	if verb == "unshallow" { // about history that the client has; there is none
		return shallow, nil
	}
	if verb != "shallow" || !plumbing.IsHash(text) || len(text) != 40 || len(shallow) == maxShallow {
		return nil, s.broken(r, "the server does not say where the history is truncated")
	}
	return append(shallow, plumbing.NewHash(text)), nil
}
