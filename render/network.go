package render

import (
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

	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/readfile"
	"initbox/internal/resolver"
	"initbox/internal/tlsconfig"
)

// Fetcher gets values from HTTP servers, which may come up later than the Pod.
type Fetcher struct {
	TokenFile string // a bearer token, read anew for each attempt; "" for none
	CAFile    string // certificates trusted besides the roots; "" for none
	Log       *slog.Logger
}

// attemptTimeout is the limit of one request.
const attemptTimeout = 10 * time.Second

// Fetch returns the answer's body and media type. It tries again until ctx ends:
// a server that is not there, or does not know the file or the token yet, may do
// so later. Its errors hold no query, in which there may be a token.
func (f Fetcher) Fetch(ctx context.Context, address string) (body []byte, mediaType string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, "", errors.New("want a URL such as https://config/app.yaml")
	}
	if u.User != nil {
		return nil, "", errors.New("a URL with a user in it shows in the Pod's specification; put a token into a file, for --values-token-file")
	}
	shown := u.Scheme + "://" + u.Host + u.Path
	last := ""
	policy := poll.Policy{AttemptTimeout: attemptTimeout, Notify: func(e poll.Event) {
		if e.Err != nil && e.Err.Error() != last {
			last = e.Err.Error()
			f.Log.Info(fmt.Sprintf("%s: %s", shown, last))
		}
	}}
	var got atomic.Pointer[answer] // an attempt may go on when the time is up
	err = poll.Until(ctx, policy, func(ctx context.Context) error {
		a, err := f.get(ctx, u)
		if err == nil {
			got.Store(a)
		}
		return err
	})
	var ended *poll.Error
	if errors.As(err, &ended) && ended.Last != nil {
		err = fmt.Errorf("%w; the last attempt: %w", ended.Cause, ended.Last)
	}
	if err != nil {
		return nil, "", err
	}
	return got.Load().body, got.Load().mediaType, nil
}

// answer is what a server says.
type answer struct {
	body      []byte
	mediaType string
}

func (f Fetcher) get(ctx context.Context, u *url.URL) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, poll.Permanent(err)
	}
	if f.TokenFile != "" {
		token, err := readfile.All(f.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := httpclient.Do(req, httpclient.Options{Dial: new(net.Dialer).DialContext, TLS: tlsconfig.Options{CAFile: f.CAFile}})
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, readfile.Limit+1))
	if err == nil && len(body) > readfile.Limit {
		err = poll.Permanent(fmt.Errorf("the answer is longer than %d bytes", readfile.Limit))
	}
	return &answer{body, resp.Header.Get("Content-Type")}, err
}

// Resolve returns the addresses of a host name, sorted, so that an answer in
// another order makes no other file.
func Resolve(ctx context.Context, host string) ([]string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []string{addr.String()}, nil
	}
	answer, err := new(resolver.Resolver).Lookup(ctx, resolver.Query{Name: host, Types: []uint16{dns.TypeA, dns.TypeAAAA}})
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
