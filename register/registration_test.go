package register

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"initbox/register/exchange"
)

// TestResolve pins where calls go: those of a preset below the server's URL with its
// query, others as a reference (RFC 3986, section 5.2).
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		server, ref string
		below       bool
		want        string
	}{
		{"http://h", "/v1/x", true, "http://h/v1/x"},
		{"http://h/", "/v1/x", true, "http://h/v1/x"},
		{"http://h/base/?dc=a", "/v1/x?b=c", true, "http://h/base/v1/x?dc=a&b=c"},
		{"http://h/base", "/a%2Fb", true, "http://h/base/a%2Fb"},
		{"http://h/base%2F1", "/x", true, "http://h/base%2F1/x"},
		{"http://u:p@h/", "/x", true, "http://u:p@h/x"},
		{"http://h/register?a=b", "", false, "http://h/register?a=b"},
		{"http://h/register?a=b", "?c=d", false, "http://h/register?a=b&c=d"},
		{"http://u:p@h/register?a=b", "/nodes/7", false, "http://u:p@h/nodes/7"},
		{"http://h/api/register", "nodes/a%2Fb?x=y", false, "http://h/api/nodes/a%2Fb?x=y"},
		{"http://u:p@h/register", "http://other/nodes/7", false, "http://other/nodes/7"},
		{"http://u:p@h/register", "http://h/nodes/7", false, "http://u:p@h/nodes/7"},
		{"http://u:p@h/register", "mailto:h", false, "mailto:h"},
		{"https://u:p@h/register", "http://h/nodes/7", false, "http://h/nodes/7"},
	} {
		server, err1 := url.Parse(c.server)
		ref, err2 := url.Parse(c.ref)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got := (&request{ref: ref, below: c.below}).resolve(server).String(); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.ref, c.server, got, c.want)
		}
	}
}

// TestIdentity pins what makes a registration another one.
func TestIdentity(t *testing.T) {
	base := func() Options {
		return Options{Pod: "5f1b", Server: Server{URL: "http://h/register"}, Protocol: Protocol{Custom: &Custom{Method: "POST", Body: exchange.Form([]exchange.Field{{Name: "a", Value: "b"}})}}}
	}
	identity := func(change func(*Options)) string {
		o := base()
		change(&o)
		r, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		id, err := r.identity()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	same := identity(func(*Options) {})
	for name, change := range map[string]func(*Options){
		"log, state":  func(o *Options) { o.State, o.Output, o.Extract = "s", "o", "/id" },
		"credentials": func(o *Options) { o.Server.Credentials.TokenFile = "t" },
	} {
		if identity(change) != same {
			t.Errorf("%s: another identity", name)
		}
	}
	for name, change := range map[string]func(*Options){
		"Pod":    func(o *Options) { o.Pod = "5f1c" },
		"URL":    func(o *Options) { o.Server.URL += "/" },
		"method": func(o *Options) { o.Protocol.Custom.Method = "PUT" },
		"body":   func(o *Options) { o.Protocol.Custom.Body = exchange.Form([]exchange.Field{{Name: "a", Value: "c"}}) },
		"preset": func(o *Options) {
			o.Protocol = Protocol{Preset: "eureka"}
			o.Entry = Entry{Service: "a", ID: "b", Address: "c"}
		},
	} {
		if identity(change) == same {
			t.Errorf("another %s: the same identity", name)
		}
	}
	if a, b := idempotencyKey(same, 0), idempotencyKey(same, 1); a == b || a != idempotencyKey(same, 0) || len(a) != 36 {
		t.Errorf("keys %s and %s", a, b)
	}
}

// TestStateOfTwo pins that a process that keeps an entry alive never overwrites the state of
// another that has deregistered.
func TestStateOfTwo(t *testing.T) {
	t.Parallel()
	for i := range 50 {
		start := time.Now()
		name := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := (&state{Version: stateVersion, Protocol: Protocol{Preset: "etcd"}, Phase: registered}).write(name); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 5 {
				if err := (&state{Version: stateVersion, Protocol: Protocol{Preset: "etcd"}, Phase: registered, Round: 1}).writeUnlessLeft(name); err != nil && !errors.Is(err, errLeft) {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			if st, err := markLeft(t.Context(), name); err != nil || st == nil {
				t.Error(st, err)
			}
		})
		wg.Wait()
		if time.Since(start) > lockWithin {
			continue // on a machine as busy as that, the lock may have been given up
		}
		if st, err := readState(name); err != nil || st.Phase != left {
			t.Fatalf("%+v, %v", st, err)
		}
	}
}

// TestOutlast pins that a context ends so long after another one, for the same reason, or when nothing needs it.
func TestOutlast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("SIGTERM")
		ctx, stop := context.WithCancelCause(t.Context())
		longer, cancel := outlast(ctx, time.Second)
		defer cancel()
		stop(reason)
		time.Sleep(time.Second - 1)
		if synctest.Wait(); longer.Err() != nil {
			t.Errorf("ended too soon: %v", context.Cause(longer))
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); context.Cause(longer) != reason {
			t.Errorf("ended with %v, want %v", context.Cause(longer), reason)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		longer, cancel := outlast(t.Context(), time.Second)
		cancel()
		if longer.Err() == nil {
			t.Error("cancelled, and not ended")
		}
	})
}

// TestLeavesLike pins when registering has replaced an earlier entry, so that deregistering that would remove the new
// one.
func TestLeavesLike(t *testing.T) {
	t.Parallel()
	entry := Entry{ID: "web-0", Service: "web", Address: "10.1.2.3", Port: 80}
	held, renamed := entry, entry
	held.TTL = 30 * time.Second
	renamed.ID = "web-1"
	preset := func(name string) Protocol { return Protocol{Preset: name} }
	custom := func(path string) Protocol { return Protocol{Custom: &Custom{Method: "POST", DeregisterURL: path}} }
	const server = "http://registry:1"
	same := Options{Server: Server{URL: server}, Protocol: preset("etcd"), Entry: entry}
	for name, c := range map[string]struct {
		o    Options
		want bool
	}{
		"same":            {same, true},
		"other server":    {Options{Server: Server{URL: server + "1"}, Protocol: same.Protocol, Entry: entry}, false},
		"other entry":     {Options{Server: same.Server, Protocol: same.Protocol, Entry: renamed}, false},
		"other lifetime":  {Options{Server: same.Server, Protocol: same.Protocol, Entry: held}, false},
		"other protocol":  {Options{Server: same.Server, Protocol: preset("consul"), Entry: entry}, false},
		"unknown answer":  {Options{Server: same.Server, Protocol: custom("/{/id}"), Entry: entry}, false},
		"no way to leave": {Options{Server: same.Server, Protocol: custom(""), Entry: entry}, false},
	} {
		r, other := opened(t, same), opened(t, c.o)
		if got := r.leavesLike(other); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if never := opened(t, Options{Server: same.Server, Protocol: custom("/{/id}"), Entry: entry}); !never.leavesLike(opened(t, same)) {
		t.Error("an entry whose registration has not been answered remains to be deregistered")
	}
}

func opened(t *testing.T, o Options) *Registration {
	t.Helper()
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
