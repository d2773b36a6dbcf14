package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/readfile"
	"initbox/internal/resolver"
	"initbox/internal/tlsconfig"
)

// Fetcher reads values from HTTP servers, which may start later than the Pod.
type Fetcher struct {
	TokenFile string // a bearer token, read again for each attempt; "" for none
	CAFile    string // certificates trusted besides the roots; "" for none
	Log       *slog.Logger
}

// attemptTimeout is the limit of one request.
const attemptTimeout = 10 * time.Second

// Fetch returns the response's body and media type. It retries until ctx ends: a server may be unreachable at first, or
// not know the file or the token yet. Its errors do not contain the query, which may hold a token.
func (f Fetcher) Fetch(ctx context.Context, address string) (body []byte, mediaType string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, "", errors.New("want a URL such as https://config/app.yaml")
	}
	if u.User != nil {
		return nil, "", errors.New("a URL with a user in it shows in the Pod's specification; put a token into a file, for --values-token-file")
	}
	shown := failure.Printable(u.Scheme + "://" + u.Host + u.Path)
	last := ""
	policy := poll.Policy{AttemptTimeout: attemptTimeout, Notify: func(e poll.Event) {
		if e.Err == nil {
			return
		}
		if found := failure.Of(e.Err); found.Text != last {
			last = found.Text
			f.Log.Info(fmt.Sprintf("%s: %v", shown, found), failure.Fields(shown, 0, found), "attempt", e.Attempt)
		}
	}}
	options := httpclient.Options{Dial: dial.New(nil).DialContext, TLS: tlsconfig.Options{CAFile: f.CAFile}}
	var got atomic.Pointer[answer] // an attempt may continue after the deadline
	err = poll.Until(ctx, policy, func(ctx context.Context) error {
		a, err := f.get(ctx, u, options)
		if err == nil {
			got.Store(a)
		}
		return err
	})
	var ended *poll.Error
	if errors.As(err, &ended) && ended.Last != nil {
		last := failure.Of(ended.Last)
		err = failure.About(shown, last, gaveUp(ended.Cause, last))
	}
	if err != nil {
		return nil, "", err
	}
	return got.Load().body, got.Load().mediaType, nil
}

// answer is a server's response.
type answer struct {
	body      []byte
	mediaType string
}

// gaveUp returns the error for a deadline or signal before the response. It drops hints about
// credentials, certificates and proxies, which name flags of other commands.
func gaveUp(cause error, last *failure.Failure) error {
	err := fmt.Errorf("%w; the last attempt: %v", cause, last) // which may be a deadline, but not the one that ended it
	switch last.Class {
	case failure.NoSuchName, failure.NoData, failure.ServerFailure, failure.Refused, failure.Unreachable, failure.TimedOut:
		if last.Hint != "" && !last.Elsewhere {
			return failure.WithHint(err, last.Hint)
		}
	}
	return err
}

func (f Fetcher) get(ctx context.Context, u *url.URL, o httpclient.Options) (*answer, error) {
	req, err := http.NewRequestWithContext(httpclient.Trace(ctx), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, poll.Permanent(err)
	}
	req.Header.Set("User-Agent", "initbox")
	if _, err := (httpclient.Credentials{TokenFile: f.TokenFile}).Apply(req); err != nil {
		return nil, err
	}
	resp, err := httpclient.Do(req, o)
	if err != nil {
		return nil, failure.HTTP(err, u.Host)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, failure.Status(resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, readfile.Limit+1))
	if err != nil {
		return nil, failure.HTTP(err, resp.Request.URL.Host)
	}
	if len(body) > readfile.Limit {
		return nil, poll.Permanent(fmt.Errorf("the answer is longer than %d bytes", readfile.Limit))
	}
	return &answer{body, resp.Header.Get("Content-Type")}, nil
}

// Names looks up host names for templates, each once.
type Names struct{ *resolver.Resolver }

// Addresses returns the addresses of a host name, sorted, so that the result does not depend
// on the order in the DNS response.
func (n Names) Addresses(ctx context.Context, host string) ([]string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []string{addr.String()}, nil
	}
	answer, err := n.Lookup(ctx, resolver.Query{Name: host, Types: []uint16{dns.TypeA, dns.TypeAAAA}})
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, record := range answer.Records {
		var ip net.IP
		switch r := record.(type) {
		case *dns.A:
			ip = r.A
		case *dns.AAAA:
			ip = r.AAAA
		}
		if addr, ok := netip.AddrFromSlice(ip); ok {
			addrs = append(addrs, addr.Unmap())
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	var texts []string
	for _, addr := range slices.Compact(addrs) {
		texts = append(texts, addr.String())
	}
	return texts, nil
}

// Services returns the SRV records of a name (RFC 2782), each with its host, port, priority and weight: those that
// clients try first come first. A Service that says that it does not exist is an error.
func (n Names) Services(ctx context.Context, name string) ([]any, error) {
	answer, err := n.Lookup(ctx, resolver.Query{Name: name, Types: []uint16{dns.TypeSRV}})
	if err != nil {
		return nil, err
	}
	var records []*dns.SRV
	for _, record := range answer.Records {
		if srv, ok := record.(*dns.SRV); ok && srv.Target != "." {
			records = append(records, srv)
		}
	}
	if len(records) == 0 {
		return nil, errors.New("the service is not available at this domain")
	}
	slices.SortFunc(records, func(a, b *dns.SRV) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port))
	})
	var list []any
	for _, r := range records {
		list = append(list, map[string]any{
			"host": strings.TrimSuffix(r.Target, "."), "port": int64(r.Port), "priority": int64(r.Priority), "weight": int64(r.Weight),
		})
	}
	return list, nil
}
