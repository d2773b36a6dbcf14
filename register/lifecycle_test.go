package register_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/register"
	"initbox/test/registries"
	"initbox/test/servers"
)

// kinds are the registries; TestLifecycle runs with each.
var kinds = []struct {
	name, preset string
	entry        string // the entry as the registry names it
	tells        string // the registering request: its method, and a part of its path
	keeps        string // the heartbeat, likewise
	leased       bool   // the entry expires without heartbeats

	start func(testing.TB) (registries.Registry, login)
}{
	{"eureka", "eureka", "WEB/web-0", "POST /eureka/apps/", "PUT /eureka/apps/", true, fake(func() registries.Registry { return new(registries.Eureka) })},
	{"nacos 1", "nacos", nacosEntry, "POST /nacos/v1/ns/instance", "PUT /nacos/v1/ns/instance/beat", true, fake(func() registries.Registry { return &registries.Nacos{Version: 1} })},
	{"nacos 2 with users", "nacos", nacosEntry, "POST /nacos/v1/ns/instance", "PUT /nacos/v1/ns/instance/beat", true, nacosUser(2)},
	{"nacos 3", "nacos3", nacosEntry, "POST /nacos/v3/client/ns/instance", "POST /nacos/v3/client/ns/instance", true, fake(func() registries.Registry { return &registries.Nacos{Version: 3} })},
	{"nacos 3 with users", "nacos3", nacosEntry, "POST /nacos/v3/client/ns/instance", "POST /nacos/v3/client/ns/instance", true, nacosUser(3)},
	{"spring boot admin", "spring-boot-admin", adminEntry, "POST /instances", "GET /instances/" + adminEntry, false, fake(func() registries.Registry { return new(registries.SpringBootAdmin) })},
	{"etcd", "etcd", "/services/web/web-0", "POST /v3/kv/put", "POST /v3/lease/keepalive", true, etcd(false)},
	{"etcd with users", "etcd", "/services/web/web-0", "POST /v3/kv/put", "POST /v3/lease/keepalive", true, etcd(true)},
	{"consul", "consul", "web-0", "PUT /v1/agent/service/register", "PUT /v1/agent/check/pass/", true, fakeConsul("")},
	{"consul with tokens", "consul", "web-0", "PUT /v1/agent/service/register", "PUT /v1/agent/check/pass/", true, fakeConsul("9f0c8f34-token-of-ann")},
	{"consul catalog", "consul-catalog", "web-0/web-0", "PUT /v1/catalog/register", "GET /v1/catalog/node/", false, fakeConsul("")},
	{"consul (real)", "consul", "web-0", "PUT /v1/agent/service/register", "PUT /v1/agent/check/pass/", true, consul(false)},
	{"consul with tokens (real)", "consul", "web-0", "PUT /v1/agent/service/register", "PUT /v1/agent/check/pass/", true, consul(true)},
	{"consul catalog (real)", "consul-catalog", "web-0/web-0", "PUT /v1/catalog/register", "GET /v1/catalog/node/", false, consul(false)},
}

const (
	nacosEntry = "127.0.0.7#1#DEFAULT#DEFAULT_GROUP@@web"
	adminEntry = "febd24bf0e28" // of the health URL, SHA-1
)

// login has the credentials for a registry.
type login struct{ user, password, token string }

func fake(of func() registries.Registry) func(testing.TB) (registries.Registry, login) {
	return func(testing.TB) (registries.Registry, login) { return of(), login{} }
}

func nacosUser(version int) func(testing.TB) (registries.Registry, login) {
	return func(testing.TB) (registries.Registry, login) {
		n := &registries.Nacos{Version: version, User: "ann", Password: "secret of ann"}
		return n, login{user: n.User, password: n.Password}
	}
}

func etcd(users bool) func(testing.TB) (registries.Registry, login) {
	return func(t testing.TB) (registries.Registry, login) {
		e := registries.Etcd(t, servers.EtcdOptions{Auth: users})
		if !users {
			return e, login{}
		}
		return e, login{user: servers.EtcdUser, password: e.Password}
	}
}

func fakeConsul(token string) func(testing.TB) (registries.Registry, login) {
	return func(testing.TB) (registries.Registry, login) {
		return &registries.FakeConsul{Token: token}, login{token: token}
	}
}

// consul is the real one, where it is built.
func consul(tokens bool) func(testing.TB) (registries.Registry, login) {
	return func(t testing.TB) (registries.Registry, login) {
		c := registries.Consul(t, servers.ConsulOptions{ACL: tokens})
		return c, login{token: c.Token}
	}
}

// life is one Pod's life at one registry.
type life struct {
	*testing.T
	registry *registries.Faults
	crash    *crash
	options  register.Options
	entry    string
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			registry, who := kind.start(t)
			faults := &registries.Faults{Registry: registry, Only: func(r *http.Request) bool {
				return strings.HasPrefix(r.Method+" "+r.URL.Path, kind.tells)
			}}
			dying := &crash{Handler: faults, of: faults.Only}
			server := httptest.NewServer(dying)
			t.Cleanup(server.Close)
			l := &life{T: t, registry: faults, crash: dying, entry: kind.entry, options: register.Options{
				Server:   register.Server{URL: server.URL + registry.Base(), Credentials: credentials(t, who)},
				Protocol: register.Protocol{Preset: kind.preset},
				Entry: register.Entry{ // of this machine: Consul asks the health URL
					Service: "web", ID: "web-0", Address: "127.0.0.7", Port: 1, Health: "http://127.0.0.7:1/actuator/health",
					Tags: []string{"blue"}, Meta: map[string]string{"zone": "a"}, TTL: 30 * time.Second,
				},
				Pod: "2c1f0b1e", AttemptTimeout: 3 * time.Second, Spread: 10 * time.Millisecond, Every: 10 * time.Millisecond,
			}}
			l.registerOnce(kind.tells)
			l.leaveTwice()
			l.loseTheAnswer(kind.tells)
			l.die()
			l.keepAlive(kind.tells, kind.keeps, kind.leased)
			l.leaveWhileKept(kind.keeps)
		})
	}
}

// open returns the registration as a container finds it when it starts, with the
// state that an earlier one may have left.
func (l *life) open() *register.Registration {
	l.Helper()
	r, err := register.Open(l.options)
	if err != nil {
		l.Fatal(err)
	}
	return r
}

// newPod starts with an empty volume.
func (l *life) newPod() { l.options.State = filepath.Join(l.TempDir(), "state") }

func (l *life) register() register.Result {
	l.Helper()
	result, err := l.open().Register(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	l.holds(l.entry)
	return result
}

// holds fails the test unless the registry has these entries and no others.
func (l *life) holds(want ...string) {
	l.Helper()
	if got := l.registry.Entries(); !slices.Equal(got, want) {
		l.Fatalf("the registry has %v, want %v", got, want)
	}
}

// seen returns the number of requests with the prefix.
func (l *life) seen(prefix string) int {
	n := 0
	for _, request := range l.registry.Seen() {
		if strings.HasPrefix(request, prefix) {
			n++
		}
	}
	return n
}

// registerOnce: a second registration adds no entry, and with the state it is not even sent.
func (l *life) registerOnce(tells string) {
	l.newPod()
	if l.register().Already {
		l.Error("registered before the first registration")
	}
	told := l.seen(tells)
	if !l.register().Already || l.seen(tells) != told {
		l.Error("registered again, though the state has it")
	}
	l.newPod()
	if l.register().Already || l.seen(tells) == told {
		l.Error("not registered again, though there is no state")
	}
	told = l.seen(tells)
	l.registry.Forget()
	if l.register().Already || l.seen(tells) == told {
		l.Error("not registered again, though the registry has lost it")
	}
}

// leaveTwice: deregistering twice, or after the registry has lost the entry, succeeds.
func (l *life) leaveTwice() {
	for range 2 {
		l.leave()
	}
	l.newPod()
	l.register()
	l.registry.Forget()
	l.leave()
}

// leave is what a preStop hook does.
func (l *life) leave() {
	l.Helper()
	deregister(l, l.options)
	l.holds()
}

// deregister removes the entry of the state.
func deregister(t testing.TB, o register.Options) {
	t.Helper()
	r, err := register.Load(o)
	if err == nil {
		err = r.Leave(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (l *life) loseTheAnswer(tells string) {
	l.newPod()
	told := l.seen(tells)
	l.registry.LoseAnswers(1)
	l.register()
	if n := l.seen(tells) - told; n < 2 {
		l.Errorf("%d registering requests, want two: the first answer was lost", n)
	}
	l.leave()
	l.registry.Busy(1)
	l.newPod()
	l.register()
	l.leave()
}

// die: the process is killed after the registry has registered the Pod and before it
// answers. A restart registers once; without one, the entry can be deregistered.
func (l *life) die() {
	l.registerAndDie()
	l.register()
	l.leave()
	l.registerAndDie()
	l.leave()
}

func (l *life) registerAndDie() {
	l.Helper()
	l.newPod()
	ctx, kill := context.WithCancel(l.Context())
	defer kill()
	r, handled, ended := l.open(), l.crash.arm(), make(chan error, 1)
	go func() {
		_, err := r.Register(ctx)
		ended <- err
	}()
	select {
	case <-handled:
	case err := <-ended:
		l.Fatalf("no registering request: %v", err)
	}
	kill()
	if err := <-ended; err == nil {
		l.Fatal("registered without an answer")
	}
	l.holds(l.entry)
}

// keepAlive: the registry gets heartbeats, and gets the entry again after it has lost it.
func (l *life) keepAlive(tells, keeps string, leased bool) {
	l.newPod()
	kept := l.keep()
	beats := l.seen(keeps)
	registries.Await(l, "three heartbeats", func() bool { return l.seen(keeps) >= beats+3 })
	l.holds(l.entry)
	lose := []func(){l.registry.Forget}
	if leased {
		lose = append(lose, l.registry.Expire)
	}
	if n, ok := l.registry.Registry.(*registries.Nacos); ok {
		lose = append(lose, func() { n.Forget(); n.ExpireTokens() })
	}
	for _, lose := range lose {
		told := l.seen(tells)
		lose()
		registries.Await(l, "a second registration", func() bool { return l.seen(tells) > told && len(l.registry.Entries()) > 0 })
		l.holds(l.entry)
	}
	kept.stop()
	l.leave()
}

// leaveWhileKept: a preStop hook deregisters before the sidecar is stopped, and the sidecar does not restore the entry.
func (l *life) leaveWhileKept(keeps string) {
	l.newPod()
	kept := l.keep()
	beats := l.seen(keeps)
	registries.Await(l, "a heartbeat", func() bool { return l.seen(keeps) > beats })
	r, err := register.Load(l.options)
	if err == nil {
		err = r.Leave(l.Context())
	}
	if err != nil {
		l.Fatal(err)
	}
	// What must not happen would: once a heartbeat that was under way has ended, each turn
	// of Keep's loop asks its context once.
	turns := kept.turns.Load()
	registries.Await(l, "it goes on", func() bool { return kept.turns.Load() >= turns+50 })
	kept.stop()
	l.holds()
}

// keep registers, and keeps alive until that is stopped, or the test ends.
func (l *life) keep() *keeper {
	l.Helper()
	r := l.open()
	if _, err := r.Register(l.Context()); err != nil {
		l.Fatal(err)
	}
	return keeping(l, r)
}

// A keeper sends heartbeats, as a sidecar does.
type keeper struct {
	context.Context
	turns  atomic.Int64 // how often the sidecar, or what it calls, has asked whether the context is done
	cancel context.CancelFunc
	done   chan struct{}
}

func (k *keeper) Done() <-chan struct{} {
	k.turns.Add(1)
	return k.Context.Done()
}

// stop ends the keeper's context, and returns when no heartbeat is under way.
func (k *keeper) stop() {
	k.cancel()
	<-k.done
}

// keeping keeps the registration alive until that is stopped, or the test ends.
func keeping(t testing.TB, r *register.Registration) *keeper {
	k := &keeper{done: make(chan struct{})}
	k.Context, k.cancel = context.WithCancel(t.Context())
	go func() {
		defer close(k.done)
		for pause := r.Pause(); pause > 0 && poll.Sleep(k, pause) == nil; pause = r.Pause() {
			if err := r.Beat(k); err != nil && k.Err() == nil {
				t.Log(err)
			}
		}
	}()
	t.Cleanup(k.stop)
	return k
}

// credentials writes the files that a Secret would be mounted as.
func credentials(t *testing.T, who login) (c httpclient.Credentials) {
	t.Helper()
	write := func(name, content string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if who.user != "" {
		c.User, c.PasswordFile = who.user, write("password", who.password)
	}
	if who.token != "" {
		c.TokenFile = write("token", who.token)
	}
	return c
}

// crash makes a client die between its effect and the answer.
type crash struct {
	http.Handler
	of      func(*http.Request) bool
	handled atomic.Pointer[chan struct{}] // nil unless the next such request is the last of its client
}

// arm returns a channel that is closed when the next request has been handled.
func (c *crash) arm() <-chan struct{} {
	handled := make(chan struct{})
	c.handled.Store(&handled)
	return handled
}

func (c *crash) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Until the body is read, the server does not notice that the client goes away.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !c.of(r) {
		c.Handler.ServeHTTP(w, r)
		return
	}
	handled := c.handled.Swap(nil)
	if handled == nil {
		c.Handler.ServeHTTP(w, r)
		return
	}
	c.Handler.ServeHTTP(httptest.NewRecorder(), r.Clone(context.WithoutCancel(r.Context())))
	close(*handled)
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}
