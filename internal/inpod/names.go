package inpod

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"initbox/internal/failure"
	"initbox/internal/podinfo"
	"initbox/internal/resolver"
	"initbox/internal/words"
)

// probe is the name that every cluster has.
const probe = "kubernetes.default.svc"

// dnsLimit is how long a name server may take to answer.
const dnsLimit = 4 * time.Second

// reply is what one server said to one name.
type reply struct {
	records int
	kind    resolver.Kind // "" if there are records
	text    string
	took    time.Duration
}

// nameServers asks each server of resolv.conf for the API server's name in each search domain, as a lookup of the short
// name would.
func nameServers(ctx context.Context, o *Options, s *section) {
	conf := filepath.Join(o.Root, "/etc/resolv.conf")
	c := (&resolver.Resolver{ResolvConf: conf}).Config()
	s.add("search", "%s", printable(words.Each(c.Search, func(domain string) string { return strings.TrimSuffix(domain, ".") })))
	inCluster := o.Getenv("KUBERNETES_SERVICE_HOST") != ""
	if inCluster && !slices.ContainsFunc(c.Search, func(domain string) bool { return strings.HasPrefix(domain, "svc.") }) {
		s.problem("dnsPolicy: ClusterFirst in the Pod's spec; with hostNetwork, ClusterFirstWithHostNet", "no search domain is the cluster's, so that names such as mydb or mydb.shop are not those of Services")
	}
	s.add("options", "ndots:%d timeout:%d attempts:%d", c.Ndots, c.Timeout/time.Second, c.Attempts)
	switch {
	case c.Named == 0:
		s.problem("dnsPolicy: ClusterFirst, or nameservers in dnsConfig", "resolv.conf names no name server")
	case c.Named > len(c.Servers):
		s.add("not asked", "%s beyond the third", words.Plural(c.Named-len(c.Servers), "name server"))
	}
	domains := append(slices.Clone(c.Search), ".")
	replies := ask(ctx, conf, c.Servers, domains)
	reportServers(c.Servers, replies, s)
	reportDomains(domains, replies, inCluster, s)
}

// ask asks all servers for the name in all domains at once. The result is by server, and then by domain.
func ask(ctx context.Context, conf string, servers []netip.AddrPort, domains []string) [][]reply {
	ctx, cancel := context.WithTimeout(ctx, dnsLimit)
	defer cancel()
	replies := make([][]reply, len(servers))
	var all sync.WaitGroup
	for i, server := range servers {
		replies[i] = make([]reply, len(domains))
		r := &resolver.Resolver{Servers: []netip.AddrPort{server}, ResolvConf: conf, Hosts: "/dev/null"}
		for j, domain := range domains {
			all.Go(func() {
				begin := time.Now()
				answer, err := r.Lookup(ctx, resolver.Query{Name: dns.CanonicalName(probe + "." + strings.TrimPrefix(domain, ".")), Types: []uint16{dns.TypeA, dns.TypeAAAA}})
				replies[i][j] = newReply(answer, err, time.Since(begin))
			})
		}
	}
	all.Wait()
	return replies
}

func newReply(answer *resolver.Answer, err error, took time.Duration) reply {
	var failed *resolver.Failure
	switch {
	case err == nil:
		return reply{records: len(answer.Records), took: took}
	case errors.As(err, &failed):
		most := failed.Most()
		text := string(most.Kind)
		if most.Detail != "" {
			text += " (" + failure.Printable(most.Detail) + ")"
		}
		return reply{kind: most.Kind, text: text, took: took}
	}
	return reply{kind: resolver.TimedOut, text: failure.Of(err).Text, took: took}
}

// answered reports whether the reply is one of a server that does its work.
func (r reply) answered() bool { return r.kind == "" || r.kind.Gone() }

// reportServers adds an item for each server: how fast it answered, or why it did not.
func reportServers(servers []netip.AddrPort, replies [][]reply, s *section) {
	for i, server := range servers {
		best := replies[i][0]
		for _, r := range replies[i] {
			if r.answered() && (!best.answered() || r.took < best.took) {
				best = r
			}
		}
		if best.answered() {
			s.add(server.String(), "answers in %s", took(best.took))
			continue
		}
		s.add(server.String(), "%s", best.text)
		fix := "does it run? kubectl get pods -n kube-system -l k8s-app=kube-dns; is the address that of kubectl get service -n kube-system kube-dns?"
		if best.kind == resolver.TimedOut {
			s.items[len(s.items)-1].Text = fmt.Sprintf("no answer in %s", took(best.took))
			fix = "look for a NetworkPolicy without an egress rule for port 53, UDP and TCP; " + fix
		}
		s.problem(fix, "the name server does not answer: %s", best.text)
	}
}

// reportDomains adds an item for each search domain, with the reply of the first server that works.
func reportDomains(domains []string, replies [][]reply, inCluster bool, s *section) {
	found, works := false, false
	for j, domain := range domains {
		name := strings.TrimSuffix(probe+"."+strings.TrimPrefix(domain, "."), ".")
		for i := range replies {
			r := replies[i][j]
			if !slices.ContainsFunc(replies[i], reply.answered) {
				continue // said already
			}
			works = true
			if r.kind == "" {
				found = true
				s.add(name, "%s in %s", words.Plural(r.records, "address record"), took(r.took))
			} else {
				s.add(name, "%s in %s", r.text, took(r.took))
			}
			if !r.answered() && domain != "." { // names outside of the cluster may have no server here
				s.problem("remove the domain from the node's or the Pod's search list (dnsConfig), or repair the name server that is responsible for it",
					"%s: each lookup of a short name waits for this domain", r.text)
			}
			break
		}
	}
	if works && inCluster && !found {
		s.problem("is it the cluster's name server? compare with kubectl get service -n kube-system kube-dns, and see its log", "the name server does not know %s", probe)
	}
}

// hosts tells what the file of that name has that is unusual.
func hosts(_ context.Context, o *Options, s *section) {
	text, err := o.read("/etc/hosts")
	if err != nil {
		s.unknown("file", err)
		return
	}
	own, addrs, _ := podinfo.Hosts()
	if len(own) > 0 {
		s.add("this Pod", "%s: %s", strings.Join(words.Each(addrs, netip.Addr.String), ", "), printable(own))
	}
	local := false
	var others []string
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		addr, err := netip.ParseAddr(f[0])
		switch {
		case err != nil || len(f) == 1:
			s.add(fmt.Sprintf("line %d", number), "%s", failure.Printable(strings.TrimSpace(line)))
			s.problem("correct the Pod's hostAliases, or the image's file", "not an address and its names")
		case addr.IsLoopback():
			local = local || slices.Contains(f[1:], "localhost")
		case slices.Contains(addrs, addr) || strings.HasPrefix(f[1], "ip6-"): // the kubelet's
		default:
			others = append(others, strings.Join(f[1:], " ")+" = "+f[0])
		}
	}
	if len(others) > 0 {
		s.add("other names", "%s", printable(others))
	}
	if !local {
		s.add("localhost", "missing")
		s.problem("is a volume mounted over /etc/hosts?", "the file has no localhost")
	}
}
