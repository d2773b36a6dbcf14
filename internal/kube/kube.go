// Package kube reads objects from a Kubernetes API server, follows their changes, and creates and replaces objects.
//
// [InCluster] or [Kubeconfig] returns the configuration for [New]. Get and List ask once; Follow returns a [Follower],
// which keeps up with the objects by a list and watches, and falls back to polling where a Role grants no watch.
// Create and Replace write once; neither overwrites what another client has written.
// [Lookup] finds a built-in resource by any name that kubectl accepts; [Client.Resource] asks the server for others.
//
// https://kubernetes.io/docs/reference/using-api/api-concepts/
package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
)

// Options configures [New].
type Options struct {
	// Dial connects to "host:port"; nil means a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	Seed uint64 // of all jitter
}

// Client sends requests to one API server as one user. It is safe for concurrent use.
type Client struct {
	config *Config
	http   httpclient.Options
	seed   uint64
	times  times
	room   int // maxKept; tests have less

	mu   sync.Mutex
	kept *kept

	discovery discovery
}

// times are how long things take; tests have shorter ones.
type times struct {
	answer  time.Duration // the longest time for an answer, and for the opening of a watch
	watch   time.Duration // the shortest time for which the server should hold a watch
	spread  time.Duration // how much longer than that it may be
	overrun time.Duration // a watch that has not ended this long after its time is dead
	short   time.Duration // a watch that lasts less is a failure, and obeys the pace
	poll    time.Duration // between two requests where there is no watch
	upgrade time.Duration // between two attempts at a forbidden request, while another one serves
}

// A watch is noticed to be dead within 28 s.
var usual = times{
	answer:  10 * time.Second,
	watch:   20 * time.Second,
	spread:  5 * time.Second,
	overrun: 3 * time.Second,
	short:   time.Second,
	poll:    time.Second,
	upgrade: 5 * time.Second,
}

// New returns a client. It connects when it is first used.
func New(c *Config, o Options) *Client {
	dial := o.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return &Client{
		config: c,
		seed:   o.Seed,
		times:  usual,
		room:   maxKept,
		http: httpclient.Options{
			Dial:       dial,
			Protocol:   httpclient.Auto,
			Proxy:      c.Proxy,
			NoProxy:    c.NoProxy,
			NoRedirect: true, // the credentials are for this server
			Window:     window,
		},
	}
}

// Namespace returns the namespace that is used if none is named.
func (c *Client) Namespace() string { return c.config.Namespace }

// Query selects objects.
type Query struct {
	Resource      Resource
	Namespace     string   // empty means all of them, or a resource without namespaces
	Names         []string // those objects only; empty means all that the selectors leave
	LabelSelector string   // as kubectl takes it
	FieldSelector string
	Sparse        bool // keep only the parts of objects that show their state: see sparse

	// Visitor, if set, receives the objects that a follower would otherwise keep, however large they are together.
	Visitor Visitor
}

// Visitor receives the objects of a [Follower], one call at a time. The follower knows only its errors then. The query
// must not have several names.
type Visitor interface {
	Begin()        // a list begins
	Put(Object)    // an object of the list, or one that was created or changed
	Delete(Object) // an object was deleted
	End()          // a list has ended: objects that were not put since Begin do not exist
}

// Get returns the object. The error is a [StatusError] with Code 404 if it does not exist.
func (c *Client) Get(ctx context.Context, r Resource, namespace, name string) (Object, error) {
	var o Object
	err := c.ask(ctx, request{verb: "get", resource: r, namespace: namespace, name: name, path: r.path(namespace, name)}, func(body io.Reader) error {
		data, err := io.ReadAll(&meter{body, maxObject})
		if err != nil {
			return answer(err)
		}
		o, err = decode(data)
		return err
	})
	return o, err
}

// pageSize is how many objects of a list come at a time; kubectl's. A visitor gets less at a time, since it may write
// them to a disk meanwhile, and each may have a MiB.
const (
	pageSize  = 500
	visitSize = 20
)

// window is how much of an answer waits in memory while what came before is written to a disk, say.
const window = 256 << 10

// maxPages is far more than any namespace has, and stops at a server that never ends.
const maxPages = 10_000

// List returns the objects of the query, in the server's order: by namespace and name.
func (c *Client) List(ctx context.Context, q Query) ([]Object, error) {
	var all []Object
	_, err := c.list(ctx, q, func(o Object, _ int) { all = append(all, o) })
	if err != nil {
		return nil, err
	}
	return all, nil
}

// list passes all objects of the query to take, and returns the version from which a watch continues. Of objects that
// the query does not name, nothing is kept.
func (c *Client) list(ctx context.Context, q Query, take func(o Object, size int)) (version string, err error) {
	kept := 0
	keep := func(item []byte) error {
		if len(q.Names) > 0 {
			m, err := peek(item)
			if err != nil || !slices.Contains(q.Names, m.Metadata.Name) {
				return err
			}
		}
		if kept += len(item); kept > c.room && q.Visitor == nil {
			return errTooMuch
		}
		o, err := q.decode(item)
		if err == nil {
			take(o, len(item))
		}
		return err
	}
	next := ""
	for range maxPages {
		query := q.values()
		query.Set("limit", strconv.Itoa(pageSize))
		if q.Visitor != nil {
			query.Set("limit", strconv.Itoa(visitSize))
		}
		if next != "" {
			query.Set("continue", next)
		}
		var page meta
		err := c.ask(ctx, q.request("list", query), func(body io.Reader) (err error) {
			page, err = readList(body, keep)
			return err
		})
		if err != nil {
			return "", err
		}
		if next = page.Metadata.Continue; next == "" {
			return page.Metadata.ResourceVersion, nil
		}
	}
	return "", &answerError{fmt.Errorf("a list of more than %d pages", maxPages)}
}

// values are the parameters that select the query's objects. One name is
// selected by the server, and so may be granted by a Role with resourceNames.
func (q Query) values() url.Values {
	v := url.Values{}
	fields := q.FieldSelector
	if len(q.Names) == 1 {
		fields = strings.TrimSuffix("metadata.name="+fieldValue.Replace(q.Names[0])+","+fields, ",")
	}
	if fields != "" {
		v.Set("fieldSelector", fields)
	}
	if q.LabelSelector != "" {
		v.Set("labelSelector", q.LabelSelector)
	}
	return v
}

// fieldValue escapes a value in a field selector.
var fieldValue = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`)

func (q Query) request(verb string, v url.Values) request {
	r := request{verb: verb, resource: q.Resource, namespace: q.Namespace, path: q.Resource.path(q.Namespace, ""), query: v}
	if !q.Resource.Namespaced {
		r.namespace = ""
	}
	if len(q.Names) == 1 {
		r.name = q.Names[0]
	}
	return r
}

// request is one request to the server.
type request struct {
	method          string // of HTTP; empty means GET
	body            []byte // JSON; nil for none
	verb            string // of RBAC; empty if path is not a resource
	resource        Resource
	namespace, name string
	path            []string
	query           url.Values
	accept          string // media types; empty means JSON
}

// tried returns the error of r, without its cause.
func (r request) tried() StatusError {
	return StatusError{Verb: r.verb, Resource: r.resource, Namespace: r.namespace, Name: r.name, Path: "/" + strings.Join(r.path, "/")}
}

// url fails for a path that a server would read as another one.
func (r request) url(server *url.URL) (string, error) {
	for _, part := range append(r.path[1:len(r.path):len(r.path)], r.name) {
		if part == "." || part == ".." || strings.ContainsAny(part, "/%") {
			return "", poll.Permanent(fmt.Errorf("%q is not a valid name", part))
		}
	}
	u := *server
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + strings.Join(r.path, "/")
	u.RawQuery = r.query.Encode()
	return u.String(), nil
}

// ask sends r and has its answer read, all within the time for an answer.
func (c *Client) ask(ctx context.Context, r request, read func(io.Reader) error) error {
	return c.converse(ctx, r, 0, read)
}

// converse sends r and lets read read the answer, which must begin within the limit for answers. Reading may take the
// duration while, or, if that is 0, the rest of the limit.
func (c *Client) converse(ctx context.Context, r request, while time.Duration, read func(io.Reader) error) error {
	whole, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	doing := &stage{context: ctx}
	stop := deadline(whole, c.times.answer, func() { cancel(doing.hung(c.times.answer)) })
	header := http.Header{}
	resp, from, err := c.send(whole, r, header, doing)
	if err == nil {
		defer resp.Body.Close()
		if while > 0 && stop() {
			stop = deadline(whole, while, func() { cancel(&poll.Hung{For: while, Doing: "watching " + r.resource.String()}) })
		}
		if err = read(resp.Body); err == nil {
			io.CopyN(io.Discard, resp.Body, 1<<10) // the end, without which the connection would not be kept
		}
	}
	stop()
	var status *StatusError
	if errors.As(err, &status) {
		status.redact(header)
		return err
	}
	if err == nil || errors.As(err, new(*answerError)) {
		return err
	}
	var hung *poll.Hung
	if errors.As(context.Cause(whole), &hung) {
		err = hung
	}
	if ctx.Err() == nil && from != nil {
		c.giveUp(from)
	}
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err // it quotes the URL
	}
	return err
}

// deadline calls expired after d, unless stop is called before or ctx ends.
func deadline(ctx context.Context, d time.Duration, expired func()) (stop func() bool) {
	limit, done := context.WithTimeout(ctx, d)
	inTime := context.AfterFunc(limit, expired)
	return func() bool { ok := inTime(); done(); return ok }
}

// send returns the answer to r, if it is a success, and the connections it came over. It sets the header that is sent.
func (c *Client) send(ctx context.Context, r request, header http.Header, doing *stage) (*http.Response, *kept, error) {
	target, err := r.url(c.config.Server)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(doing.trace(ctx), cmp.Or(r.method, http.MethodGet), target, bytes.NewReader(r.body))
	if err != nil {
		return nil, nil, errors.New("the server's address is not a URL") // the error quotes it
	}
	req.Header = header
	req.Header.Set("Accept", "application/json")
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	req.Header.Set("User-Agent", "initbox")
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.config.Authorize != nil {
		if err := c.config.Authorize(req.Header); err != nil {
			return nil, nil, &CredentialsError{err}
		}
	}
	from, err := c.connections()
	if err != nil {
		return nil, nil, err
	}
	resp, err := from.do(req)
	if err != nil && from.gone.Load() && ctx.Err() == nil { // another request gave the connections up while this one was sent
		if from, err = c.connections(); err == nil {
			req.Body, _ = req.GetBody()
			resp, err = from.do(req)
		}
	}
	if err != nil {
		return nil, from, err
	}
	if resp.StatusCode != http.StatusOK && (r.body == nil || resp.StatusCode != http.StatusCreated) {
		defer resp.Body.Close()
		tried := r.tried()
		return nil, from, tried.failed(resp)
	}
	return resp, from, nil
}

// kept are connections that are reused.
//
// To a server with TLS, they speak HTTP/2 where it does. A watch is then a stream, not a connection: a hundred of them,
// one per name where a Role grants no more, cost one handshake, one socket and one ping that finds all of them dead
// (see httpclient). The price is that what breaks one breaks all; but each continues from where it was, and the first
// to notice moves the others to a new connection too.
type kept struct {
	*httpclient.Client
	tls  tlsconfig.Options
	turn chan struct{} // held by the goroutine that opens the first connection
	up   atomic.Bool   // there was one
	gone atomic.Bool   // they were given up
}

// do sends req, but waits while the first request is under way: a hundred requests without a connection would each open
// one, before it is known that one is enough.
func (k *kept) do(req *http.Request) (*http.Response, error) {
	if !k.up.Load() {
		select {
		case k.turn <- struct{}{}:
			if k.up.Load() {
				<-k.turn
			} else {
				defer func() { <-k.turn }()
			}
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	resp, err := k.Do(req)
	if err == nil {
		k.up.Store(true)
	}
	return resp, err
}

// connections returns those in use, or new ones if the CA or the client certificate has changed.
func (c *Client) connections() (*kept, error) {
	o := c.http
	if c.config.TLS != nil {
		var err error
		if o.TLS, err = c.config.TLS(); err != nil {
			return nil, &CredentialsError{err}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept != nil && c.kept.tls == o.TLS {
		return c.kept, nil
	}
	client, err := httpclient.New(o)
	if err != nil {
		return nil, &CredentialsError{err}
	}
	c.drop()
	c.kept = &kept{Client: client, tls: o.TLS, turn: make(chan struct{}, 1)}
	return c.kept, nil
}

// giveUp makes the next request open a new connection: the failed one's may be dead without any sign.
func (c *Client) giveUp(k *kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == k {
		c.drop()
	}
}

func (c *Client) drop() {
	if c.kept != nil {
		c.kept.gone.Store(true)
		c.kept.Close()
		c.kept = nil
	}
}

// stage is what a request is doing, for the message if it never ends.
type stage struct {
	context context.Context
	last    atomic.Pointer[string]
}

func (s *stage) is(what string) {
	s.last.Store(&what)
	poll.Doing(s.context, what)
}

func (s *stage) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(addr string) { s.is("connecting to " + addr) },
		TLSHandshakeStart:    func() { s.is("TLS handshake") },
		WroteHeaders:         func() { s.is("connected, waiting for the answer") },
		GotFirstResponseByte: func() { s.is("reading the answer") },
	})
}

func (s *stage) hung(d time.Duration) error {
	h := &poll.Hung{For: d}
	if last := s.last.Load(); last != nil {
		h.Doing = *last
	}
	return h
}
