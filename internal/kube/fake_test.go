package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is an API server that has Pods of one namespace, and can be told to misbehave. Its connections are in memory, so
// that it can live in the time of a synctest bubble.
type fake struct {
	conns chan net.Conn
	done  chan struct{}

	mu      sync.Mutex
	open    []net.Conn
	closed  bool
	counts  map[string]int // requests by verb, and "dial"
	version int
	pods    map[string]string // JSON by name
	log     []fakeEvent
	changed chan struct{} // closed at each change
	oldest  int           // events before it are forgotten

	// What it is told to do; nil or zero means to be good.
	forbid   func(verb, name string) bool
	answer   http.HandlerFunc // in place of everything
	watching http.HandlerFunc // in place of watches
	silent   bool             // watches neither tell anything nor end
	deny     error            // of dials
}

type fakeEvent struct {
	version    int
	kind, name string
	object     string
}

func newFake(t *testing.T) *fake {
	f := &fake{
		conns: make(chan net.Conn), done: make(chan struct{}), counts: map[string]int{}, version: 100,
		pods: map[string]string{}, changed: make(chan struct{}),
	}
	server := &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(f)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return f
}

// client returns a client of the fake's.
func (f *fake) client(t *testing.T) *Client {
	server, _ := url.Parse("http://api.test")
	c := New(&Config{Server: server, Namespace: "default", NoProxy: true}, Options{Dial: f.dial})
	t.Cleanup(func() { hangUp(c) })
	return c
}

func (f *fake) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	f.mu.Lock()
	f.counts["dial"]++
	deny := f.deny
	f.mu.Unlock()
	if deny != nil {
		return nil, deny
	}
	client, server := net.Pipe()
	select {
	case f.conns <- server:
		f.do(func() { f.open = append(f.open, server) })
		return client, nil
	case <-f.done:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// crash breaks all connections and takes no new ones.
func (f *fake) crash() {
	f.do(func() {
		f.deny = errRefused
		for _, c := range f.open {
			c.Close()
		}
	})
}

func (f *fake) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

func (f *fake) Close() error {
	f.do(func() {
		if !f.closed {
			f.closed = true
			close(f.done)
		}
	})
	return nil
}

func (f *fake) Addr() net.Addr { return &net.TCPAddr{} }

// do changes what the fake is told.
func (f *fake) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) count(verb string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[verb]
}

// put creates or changes a Pod.
func (f *fake) put(name, phase string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := "ADDED"
	if f.pods[name] != "" {
		kind = "MODIFIED"
	}
	f.version++
	f.pods[name] = fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","resourceVersion":"%d","managedFields":[{"manager":"m"}]},"status":{"phase":%q}}`, name, f.version, phase)
	f.happened(kind, name, f.pods[name])
}

// remove deletes a Pod.
func (f *fake) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	object := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","resourceVersion":"%d"}}`, name, f.version)
	delete(f.pods, name)
	f.happened("DELETED", name, object)
}

func (f *fake) bookmark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.happened("BOOKMARK", "", fmt.Sprintf(`{"kind":"Pod","metadata":{"resourceVersion":"%d"}}`, f.version))
}

func (f *fake) happened(kind, name, object string) {
	f.log = append(f.log, fakeEvent{f.version, kind, name, object})
	close(f.changed)
	f.changed = make(chan struct{})
}

// compact forgets all events so far.
func (f *fake) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.oldest = f.version
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, _ := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/default/pods")
	name := strings.TrimPrefix(rest, "/")
	q := r.URL.Query()
	verb := "list"
	switch {
	case name != "":
		verb = "get"
	case q.Get("watch") == "1":
		verb = "watch"
	}
	if verb != "get" {
		name, _ = strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
	}
	f.mu.Lock()
	f.counts[verb]++
	forbid, special := f.forbid, f.answer
	if verb == "watch" && f.watching != nil {
		special = f.watching
	}
	f.mu.Unlock()
	switch {
	case special != nil:
		special(w, r)
	case forbid != nil && forbid(verb, name):
		refuse(w, 403, "Forbidden", fmt.Sprintf(`pods is forbidden: User "system:serviceaccount:default:me" cannot %s resource "pods" in API group "" in the namespace "default"`, verb), "")
	case verb == "get":
		f.get(w, name)
	case verb == "list":
		f.list(w, name)
	default:
		f.watch(w, r, name)
	}
}

func refuse(w http.ResponseWriter, code int, reason, message, name string) {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "details": map[string]any{"name": name}})
}

func (f *fake) get(w http.ResponseWriter, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods[name] == "" {
		refuse(w, 404, "NotFound", fmt.Sprintf("pods %q not found", name), name)
		return
	}
	io.WriteString(w, f.pods[name])
}

func (f *fake) list(w http.ResponseWriter, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var items []string
	for n, pod := range f.pods {
		if name == "" || name == n {
			items = append(items, pod)
		}
	}
	slices.Sort(items)
	fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, f.version, strings.Join(items, ","))
}

func (f *fake) watch(w http.ResponseWriter, r *http.Request, name string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	f.mu.Lock()
	oldest := f.oldest
	f.mu.Unlock()
	if from < oldest {
		refuse(w, 410, "Expired", "too old resource version", "")
		return
	}
	w.WriteHeader(200)
	http.NewResponseController(w).Flush()
	for {
		f.mu.Lock()
		var lines []string
		for _, e := range f.log {
			if e.version > from && (name == "" || e.name == name || e.kind == "BOOKMARK") {
				lines = append(lines, fmt.Sprintf(`{"type":%q,"object":%s}`, e.kind, e.object))
			}
		}
		from = f.version
		changed, silent := f.changed, f.silent
		f.mu.Unlock()
		if silent {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		for _, l := range lines {
			io.WriteString(w, l+"\n")
		}
		http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// follow runs a follower of the Pods for as long as the test.
func follow(t *testing.T, c *Client, names ...string) *Follower {
	t.Helper()
	return followQuery(t, c, Query{Resource: pods, Namespace: "default", Names: names})
}

func followQuery(t *testing.T, c *Client, q Query) *Follower {
	t.Helper()
	f := c.Follow(q)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

var pods, _ = Lookup("pods")

// phase is what the follower knows of a Pod: its phase, "none" or "error: …".
func phase(f *Follower, name string) string {
	o, err := f.Object(name)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case o == nil:
		return "none"
	}
	p, _ := o.At("status", "phase").(string)
	return p
}

var errRefused = errors.New("connection refused by the fake")

// hangUp closes the connections of c, which an abandoned attempt may still use.
func hangUp(c *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}
