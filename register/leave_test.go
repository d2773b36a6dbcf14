package register_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"initbox/internal/httpclient"
	"initbox/register"
	"initbox/register/exchange"
	"initbox/test/registries"
)

// own is a custom server, at which each POST adds an entry.
type own struct {
	*testing.T
	registries.Management
	options register.Options
	before  func(http.ResponseWriter, *http.Request) (answered bool) // may be nil; set before requests come
}

func newOwn(t *testing.T, before func(http.ResponseWriter, *http.Request) bool) *own {
	o := &own{T: t, before: before}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.before == nil || !o.before(w, r) {
			o.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	o.options = register.Options{
		Server: register.Server{URL: server.URL + "/register"},
		Protocol: register.Protocol{Custom: &register.Custom{
			Method: "POST", CheckURL: "/instances/{/id}", DeregisterURL: "/instances/{/id}",
		}},
		Entry: register.Entry{ID: "web-0"}, Pod: "2c1f0b1e", State: filepath.Join(t.TempDir(), "state"),
		AttemptTimeout: 10 * time.Second, Spread: 10 * time.Millisecond, Every: 10 * time.Millisecond,
	}
	o.tells("10.1.2.3")
	return o
}

// tells changes the Pod's address.
func (o *own) tells(ip string) {
	custom := *o.options.Protocol.Custom
	custom.Body = exchange.Form([]exchange.Field{{Name: "instance", Value: ip}})
	o.options.Protocol.Custom = &custom
}

func (o *own) open() *register.Registration {
	o.Helper()
	r, err := register.Open(o.options)
	if err != nil {
		o.Fatal(err)
	}
	return r
}

func (o *own) register() {
	o.Helper()
	if _, err := o.open().Register(o.Context()); err != nil {
		o.Fatal(err)
	}
}

func (o *own) holds(want ...string) {
	o.Helper()
	if got := o.Entries(); !slices.Equal(got, want) {
		o.Fatalf("the server has %v, want %v", got, want)
	}
}

// TestLeaveWhileRegistering: a preStop hook deregisters while the sidecar registers again,
// and the sidecar is stopped before it has an answer. Its late request leaves no entry.
func TestLeaveWhileRegistering(t *testing.T) {
	t.Parallel()
	var again atomic.Bool
	arrived, late := make(chan struct{}), make(chan struct{})
	var o *own
	o = newOwn(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" || !again.CompareAndSwap(true, false) {
			return false
		}
		close(arrived)
		<-late
		o.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	o.options.Protocol.Custom.CheckURL = "/register?instance=10.1.2.3"
	o.options.Protocol.Custom.DeregisterURL = "/register?instance=10.1.2.3"
	o.tells("10.1.2.3")
	r := o.open()
	if _, err := r.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	again.Store(true)
	o.Forget()
	kept := keeping(t, r)
	<-arrived
	deregister(t, o.options)
	kept.stop()
	close(late)
	registries.Await(t, "the late request", func() bool { return len(o.Entries()) == 1 })
	if err := r.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.holds()
}

// TestStopWhileRegistering: a sidecar that is stopped while it registers again waits for the
// answer, without which it could not deregister.
func TestStopWhileRegistering(t *testing.T) {
	t.Parallel()
	var again, gaveUp atomic.Bool
	arrived, stopped := make(chan struct{}), make(chan struct{})
	o := newOwn(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && again.CompareAndSwap(true, false) {
			// Until the body is read, the server does not notice that the client goes away.
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			close(arrived)
			<-stopped
			select {
			case <-r.Context().Done():
				gaveUp.Store(true)
			case <-time.After(50 * time.Millisecond): // a client that gives up does so at once
			}
		}
		return false
	})
	r := o.open()
	r.SetAnswerWithin(time.Minute)
	if _, err := r.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	again.Store(true)
	o.Forget()
	kept := keeping(t, r)
	<-arrived
	kept.cancel()
	close(stopped)
	<-kept.done
	if gaveUp.Load() {
		t.Error("Keep did not wait for the answer")
	}
	o.holds("10.1.2.3")
	if err := r.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.holds()
}

// TestKeepEnds: when Keep has returned, no heartbeat is in flight that could disturb what follows.
func TestKeepEnds(t *testing.T) {
	t.Parallel()
	for range 20 {
		beats := make(chan struct{}, 1000)
		o := newOwn(t, func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == "GET" {
				beats <- struct{}{}
			}
			return false
		})
		o.options.Every = time.Microsecond
		r := o.open()
		if _, err := r.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		kept := keeping(t, r)
		<-beats
		kept.stop()
		if err := r.Leave(t.Context()); err != nil { // the race detector has an eye on it
			t.Fatal(err)
		}
		o.holds()
	}
}

// TestLeaveBeforeRegister: a run that is stopped before it has registered anything
// deregisters the different entry of the state.
func TestLeaveBeforeRegister(t *testing.T) {
	t.Parallel()
	o := newOwn(t, nil)
	o.options.Protocol.Custom.DeregisterURL = "/register?instance=10.1.2.3"
	o.tells("10.1.2.3")
	o.register()
	o.options.Protocol.Custom.DeregisterURL = "/register?instance=10.1.2.4"
	o.tells("10.1.2.4")
	o.holds("10.1.2.3")
	if err := o.open().Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.holds()
}

// TestLeaveIsLogged: the log says what deregistering found.
func TestLeaveIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := newOwn(t, nil)
	o.options.Log = slog.New(slog.NewTextHandler(&log, nil))
	leave := func(want string) {
		t.Helper()
		log.Reset()
		deregister(t, o.options)
		if !strings.Contains(log.String(), want) {
			t.Errorf("logged %s, want %s", &log, want)
		}
	}
	o.register()
	leave(": deregistered web-0")
	leave(": web-0 was already deregistered")
	o.register()
	o.Forget()
	leave(": web-0 was already gone")
}

// TestCannotLeave: nothing is deregistered without a way to do so, and without a registration.
func TestCannotLeave(t *testing.T) {
	t.Parallel()
	o := newOwn(t, nil)
	if _, err := register.Load(o.options); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("without a state: %v", err)
	}
	if err := o.open().Leave(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer contained") {
		t.Errorf("without an answer: %v", err)
	}
	o.options.Protocol.Custom.DeregisterURL = ""
	o.register()
	if err := o.open().Leave(t.Context()); !errors.Is(err, register.ErrCannotLeave) {
		t.Errorf("without a URL: %v", err)
	}
	if err := os.WriteFile(o.options.State, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := register.Load(o.options); err == nil || !strings.Contains(err.Error(), "is not a state file") {
		t.Errorf("with another file: %v", err)
	}
}

// TestEarlierEntriesStay: an earlier entry that could not be deregistered is remembered,
// however often the container runs again.
func TestEarlierEntriesStay(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		do   func(*own)
		want []string
	}{
		"run again":   {(*own).register, []string{"10.1.2.5"}},
		"deregister":  {func(o *own) { deregister(o, o.options) }, nil},
		"hold's end":  {func(o *own) { o.leave() }, nil},
		"other again": {func(o *own) { o.tells("10.1.2.6"); o.register() }, []string{"10.1.2.6"}},
		"as at first": {func(o *own) { o.tells("10.1.2.3"); o.register() }, []string{"10.1.2.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			var refuses atomic.Bool
			o := newOwn(t, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != "DELETE" || !refuses.Load() {
					return false
				}
				http.Error(w, "not now", http.StatusForbidden)
				return true
			})
			o.register()
			refuses.Store(true)
			o.tells("10.1.2.4")
			o.register()
			o.tells("10.1.2.5")
			o.register()
			o.holds("10.1.2.3", "10.1.2.4", "10.1.2.5")
			refuses.Store(false)
			end.do(o)
			o.holds(end.want...)
		})
	}
}

// leave is what a sidecar does that finds the Pod registered.
func (o *own) leave() {
	o.Helper()
	r := o.open()
	if _, err := r.Register(o.Context()); err != nil {
		o.Fatal(err)
	}
	if err := r.Leave(o.Context()); err != nil {
		o.Fatal(err)
	}
}

// TestRetryStatusIsForRegistering: a 404 that is retried when registering still means, for
// a registered entry, that it is gone.
func TestRetryStatusIsForRegistering(t *testing.T) {
	t.Parallel()
	o := newOwn(t, nil)
	var err error
	if o.options.Again, err = httpclient.ParseStatuses("404"); err != nil {
		t.Fatal(err)
	}
	o.register()
	o.Forget()
	o.register()
	o.Forget()
	o.leave()
}

// TestLargeAnswer: a state with the largest answer can be read again; a larger answer is not stored in part.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	size := 1 << 20
	o := newOwn(t, func(w http.ResponseWriter, r *http.Request) bool {
		w.Write(slices.Repeat([]byte("x"), size))
		return true
	})
	o.options.Protocol.Custom.CheckURL, o.options.Protocol.Custom.DeregisterURL = "/", ""
	o.tells("10.1.2.3")
	o.options.Output = filepath.Join(t.TempDir(), "answer")
	o.register()
	os.Remove(o.options.Output)
	o.register()
	if info, err := os.Stat(o.options.Output); err != nil || info.Size() != 1<<20 {
		t.Errorf("%v, %v", info, err)
	}
	size++
	o.options.State = filepath.Join(t.TempDir(), "state")
	if _, err := o.open().Register(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than 1 MiB") {
		t.Error(err)
	}
}

// TestKeepWithoutState: a sidecar that can no longer write the state still registers a lost
// entry again, and deregisters.
func TestKeepWithoutState(t *testing.T) {
	t.Parallel()
	o := newOwn(t, nil)
	r := o.open()
	if _, err := r.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(o.options.State); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.options.State, 0o700); err != nil {
		t.Fatal(err)
	}
	o.Forget()
	kept := keeping(t, r)
	registries.Await(t, "a second registration", func() bool { return len(o.Entries()) == 1 })
	kept.stop()
	if err := r.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.holds()
}

// TestLockedState: a process that keeps the directory locked does not prevent deregistering.
func TestLockedState(t *testing.T) {
	t.Parallel()
	o := newOwn(t, nil)
	o.register()
	dir, err := os.Open(filepath.Dir(o.options.State))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	deregister(t, o.options)
	o.holds()
}

// TestRedirectHint: the hint names only flags that register has.
func TestRedirectHint(t *testing.T) {
	t.Parallel()
	o := newOwn(t, func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		return true
	})
	_, err := o.open().Register(t.Context())
	hinted, ok := err.(interface{ Hint() string })
	if !ok || hinted.Hint() != "give the URL that the redirect leads to" {
		t.Errorf("%v: hint %v", err, hinted)
	}
}
