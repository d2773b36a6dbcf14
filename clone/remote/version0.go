package remote

import (
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/pktline"
)

// message0 returns the request for a pack in version 0.
func (s *server) message0(q Request) []byte {
	b := []byte(nil)
	features := " " + strings.Join(s.chosen(q), " ")
	for _, id := range q.Wants {
		b = pktline.Append(b, "want "+id.String()+features+"\n")
		features = ""
	}
	if q.Depth > 0 {
		b = pktline.Append(b, fmt.Sprintf("deepen %d\n", q.Depth))
	}
	if q.Filter != "" {
		b = pktline.Append(b, "filter "+q.Filter+"\n")
	}
	return pktline.Append(pktline.AppendFlush(b), "done\n")
}

// chosen returns the features of version 0 to request. Azure DevOps requires one of the first two, which have no effect
// in a clone.
func (s *server) chosen(q Request) (features []string) {
	first := func(names ...string) {
		for _, name := range names {
			if s.has(name) {
				features = append(features, name)
				return
			}
		}
	}
	first("multi_ack_detailed", "multi_ack")
	first("side-band-64k", "side-band")
	first("ofs-delta")
	first("no-progress")
	if q.Tags {
		first("include-tag")
	}
	if q.Filter != "" {
		first("filter")
	}
	if s.value("object-format") == "sha1" {
		features = append(features, "object-format=sha1")
	}
	if s.has("agent") {
		features = append(features, agent)
	}
	return features
}

// answer0 reads what precedes the pack in version 0.
func (s *server) answer0(r *reply, q Request) (*Answer, error) {
	var shallow []plumbing.Hash
	for q.Depth > 0 {
		kind, line, err := s.next(r)
		if err != nil {
			return nil, err
		}
		if kind != pktline.Data {
			break
		}
		if shallow, err = s.addShallow(r, shallow, line); err != nil {
			return nil, err
		}
	}
	for {
		kind, line, err := s.next(r)
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(string(line))
		switch {
		case kind == pktline.Data && len(fields) == 3 && fields[0] == "ACK": // another line follows
			continue
		case kind == pktline.Data && (len(fields) == 1 && fields[0] == "NAK" || len(fields) == 2 && fields[0] == "ACK"):
		default:
			return nil, s.broken(r, "its answer has no pack")
		}
		how := raw
		if s.has("side-band-64k") || s.has("side-band") {
			how = bands
		}
		return &Answer{Pack: s.newPack(r, how), Shallow: shallow}, nil
	}
}
