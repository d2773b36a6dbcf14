package remote

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/pktline"
)

// Limits for the list of a server: what is received, and what is kept.
const (
	maxListing = 1 << 30  // bytes
	maxRefs    = 1 << 19  // references
	maxNames   = 32 << 20 // bytes of their names
)

// Refs implements [Repository].
func (s *server) Refs(ctx context.Context, prefixes ...string) ([]Ref, error) {
	k := &keeper{s: s, prefixes: prefixes}
	list := s.listed
	if s.version == 2 {
		list = s.list
	}
	if err := list(ctx, k); err != nil {
		return nil, err
	}
	return k.refs, nil
}

// list requests the references in version 2.
func (s *server) list(ctx context.Context, k *keeper) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	b := s.command("ls-refs")
	b = pktline.Append(b, "peel\n")
	b = pktline.Append(b, "symrefs\n")
	if strings.Contains(s.value("ls-refs"), "unborn") {
		b = pktline.Append(b, "unborn\n")
	}
	for _, prefix := range k.prefixes {
		if len(prefix) > maxRefName || strings.ContainsAny(prefix, "\n\x00") {
			return errors.New("invalid prefix of a reference name")
		}
		b = pktline.Append(b, "ref-prefix "+prefix+"\n")
	}
	r, err := s.send(ctx, pktline.AppendFlush(b), false)
	if err != nil {
		return err
	}
	for size := 0; ; {
		kind, line, err := s.next(r)
		if err != nil {
			return err
		}
		if kind != pktline.Data {
			r.end()
			return nil
		}
		ref, ok := parseListed(line)
		if size += len(line); !ok || size > maxListing {
			return s.broken(r, "the server's list of references is malformed or too long")
		}
		if err := k.keep(ref); err != nil {
			r.fail(nil)
			return err
		}
	}
}

// listed reads the references that the server lists unasked in version 0.
func (s *server) listed(ctx context.Context, k *keeper) error {
	if s.refs == nil {
		if err := s.begin(ctx); err != nil || s.refs == nil {
			return err
		}
	}
	targets := map[string]string{}
	for _, symref := range s.features["symref"] {
		if name, target, ok := strings.Cut(symref, ":"); ok && validRef(target) {
			targets[name] = target
		}
	}
	return s.each(func(ref Ref) error {
		if name, ok := strings.CutSuffix(ref.Name, "^{}"); ok {
			if last := len(k.refs) - 1; last >= 0 && k.refs[last].Name == name {
				k.refs[last].Peeled = ref.ID
			}
			return nil
		}
		ref.Target = targets[ref.Name]
		return k.keep(ref)
	})
}

// each calls f for each reference of the advertisement that has not been read yet.
func (s *server) each(f func(Ref) error) error {
	r := s.refs
	s.refs = nil
	for line, size := s.first, 0; ; {
		ref, ok := parseRef(line)
		shallow := strings.HasPrefix(string(line[:min(len(line), 8)]), "shallow ") // the repository's own
		if size += len(line); !ok && !shallow || size > maxListing {
			return s.broken(r, "the server's list of references is malformed or too long")
		}
		if ok && ref.Name != "capabilities^{}" { // of an empty repository
			if err := f(ref); err != nil {
				r.fail(nil)
				return err
			}
		}
		kind, next, err := s.next(r)
		if err != nil {
			return err
		}
		if kind != pktline.Data {
			r.end()
			return nil
		}
		line = next
	}
}

// keeper keeps the references that were requested.
type keeper struct {
	s        *server
	prefixes []string
	refs     []Ref
	size     int // of their names
}

func (k *keeper) keep(ref Ref) error {
	if !k.wanted(ref.Name) || ref.ID == plumbing.ZeroHash && ref.Target == "" {
		return nil
	}
	if !validRef(ref.Name) {
		k.s.log.Debug(k.s.url.String() + ": skipping a malformed reference name: " + k.s.quote(ref.Name))
		return nil
	}
	k.size += len(ref.Name) + len(ref.Target)
	if len(k.refs) == maxRefs || k.size > maxNames {
		return unexpected("the server has more than %d references", len(k.refs))
	}
	k.refs = append(k.refs, ref)
	return nil
}

// wanted reports whether a name begins with one of the prefixes.
func (k *keeper) wanted(name string) bool {
	return len(k.prefixes) == 0 || slices.ContainsFunc(k.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
