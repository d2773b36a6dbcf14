package sidecar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/internal/secret"
)

// TestRun pins when the loop checks: at once, after each period, earlier when it is woken or has failed, and that it
// ends without an error when it is stopped.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		wake := make(chan struct{}, 1)
		var log bytes.Buffer
		var looks []time.Duration
		start, started := time.Now(), 0
		o := Options{Wake: wake, Started: func() { started++ }, Log: slog.New(slog.NewTextHandler(&log, nil))}
		err := Run(ctx, o, time.Minute, func(context.Context) (string, bool, error) {
			looks = append(looks, time.Since(start))
			switch len(looks) {
			case 2:
				wake <- struct{}{}
			case 3, 4:
				return "", false, errors.New("the server is away")
			case 6:
				cancel()
			}
			return "1", true, nil
		})
		want := []time.Duration{0, time.Minute, time.Minute, 70 * time.Second, 90 * time.Second, 150 * time.Second}
		if err != nil || len(looks) != len(want) || started != 1 {
			t.Fatalf("%v, %v, started %d times", err, looks, started)
		}
		for i := range want {
			if looks[i] != want[i] {
				t.Errorf("looked after %v, want %v", looks, want)
				break
			}
		}
		if got := strings.Count(log.String(), "the server is away; trying again in 10s"); got != 1 {
			t.Errorf("warned %d times:\n%s", got, &log)
		}
	})
}

// TestRunFirst pins that what fails at first ends the program, and that nothing is reported before.
func TestRunFirst(t *testing.T) {
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	failed := errors.New("no such secret")
	o := Options{File: ready, Started: func() { t.Error("started") }}
	err := Run(t.Context(), o, time.Minute, func(context.Context) (string, bool, error) { return "", false, failed })
	if !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
	if _, err := os.Stat(ready); err == nil {
		t.Error("the startup probe succeeds")
	}
	os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
	o = Options{Touch: filepath.Join(dir, "file", "touched")}
	if err := Run(t.Context(), o, time.Minute, func(context.Context) (string, bool, error) { return "1", true, nil }); err == nil {
		t.Error("a file that cannot be touched: no error")
	}
}

// TestNotReadyWhy pins that the port says why the first check has not succeeded yet, which tries several times, and
// that the metrics count its attempts.
func TestNotReadyWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &loop{every: time.Minute, tally: newTally()}
		tries := 0
		l.look = func(ctx context.Context) (string, bool, error) {
			return "1", true, poll.Until(ctx, poll.Policy{}, func(context.Context) error {
				if tries > 0 {
					for _, path := range []string{"/healthz", "/readyz"} {
						if a := l.answers(path, ""); a.text != "not ready: connection refused" || a.status != "503 Service Unavailable" {
							t.Errorf("%s: %+v", path, a)
						}
					}
				}
				if tries++; tries < 4 {
					return syscall.ECONNREFUSED
				}
				return nil
			})
		}
		if err := l.once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(l.tally.failures, map[string]int{"refused": 3}) || !maps.Equal(l.tally.attempts(), map[string]int{changed: 1, unchanged: 0, failed: 3}) || l.unhealthy() != nil {
			t.Errorf("%+v, %v", l.tally, l.unhealthy())
		}
		l.look = func(ctx context.Context) (string, bool, error) {
			return "", false, After(3*time.Second, syscall.ECONNREFUSED)
		}
		for range 3 {
			if err := l.once(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) || l.pause() != 3*time.Second {
				t.Errorf("%v, a pause of %v", err, l.pause())
			}
		}
		if l.tally.failures["refused"] != 6 {
			t.Errorf("%v", l.tally.failures)
		}
	})
}

// TestTouched pins that the file that says that something has changed is not made again until the next change: who
// reads it may remove it.
func TestTouched(t *testing.T) {
	file := filepath.Join(t.TempDir(), "touched")
	l := &loop{Options: Options{Touch: file}, tally: newTally()}
	for _, step := range []struct{ ready, news, want bool }{{false, false, true}, {true, false, false}, {true, true, true}, {true, false, false}} {
		l.ready = step.ready
		l.look = func(context.Context) (string, bool, error) { return "1", step.news, nil }
		os.Remove(file)
		if err := l.once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); (err == nil) != step.want {
			t.Errorf("%+v: %v", step, err)
		}
	}
}

// TestTouchedAndRemoved removes the file as soon as it is there, as a program may that waits for it.
func TestTouchedAndRemoved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "touched")
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				os.Remove(file)
			}
		}
	})
	for range 200 {
		if err := Touch(file, "1", true); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	reader.Wait()
}

// TestUnhealthy pins when /healthz fails: before the first success, some time after the next one was due, and while
// the subcommand says so.
func TestUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := error(nil)
		l := &loop{Options: Options{Health: func() error { return sick }}, period: time.Minute, tally: newTally()}
		want := func(text string) {
			t.Helper()
			got := ""
			if err := l.unhealthy(); err != nil {
				got = err.Error()
			}
			if got != text {
				t.Errorf("%q, want %q", got, text)
			}
		}
		want("not ready")
		l.look = func(context.Context) (string, bool, error) { return "", false, nil }
		l.once(t.Context())
		want("")
		time.Sleep(3*time.Minute + grace)
		want("")
		time.Sleep(time.Second)
		want("no success for 3m31s")
		l.look = func(context.Context) (string, bool, error) { return "", false, errors.New("disk full") }
		l.once(t.Context())
		want("no success for 3m31s")
		l.look = func(context.Context) (string, bool, error) { return "", false, nil }
		l.once(t.Context())
		l.look = func(context.Context) (string, bool, error) { return "", false, errors.New("disk full") }
		l.once(t.Context())
		time.Sleep(20 * time.Second)
		l.once(t.Context())
		want("")
		time.Sleep(11 * time.Second)
		want("failing for 31s: disk full")
		l.look = func(context.Context) (string, bool, error) { return "", false, nil }
		l.once(t.Context())
		sick = errors.New("forbidden")
		want("forbidden")
		time.Sleep(3*time.Minute + grace + time.Second)
		l.once(t.Context()) // is no success
		want("forbidden")
		sick = nil
		want("no success for 3m31s")
		l.look = func(ctx context.Context) (string, bool, error) { // no check of everything, but woken by a failure
			poll.Noticed(ctx, errors.New("status 500"))
			return "", false, nil
		}
		before := l.tally.attempts()
		l.once(t.Context())
		want("no success for 3m31s")
		if now := l.tally.attempts(); now[unchanged] != before[unchanged] || now[failed] != before[failed]+1 {
			t.Errorf("%v, then %v", before, now)
		}
		l.look = func(ctx context.Context) (string, bool, error) { // several attempts, as a heartbeat makes
			poll.Noticed(ctx, errors.New("status 500"))
			want("no success for 3m31s: status 500")
			poll.Noticed(ctx, nil)
			return "", false, nil
		}
		l.once(t.Context())
		want("")
	})
}

// TestStuck pins that /livez fails while a check other than the first does not end.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &loop{tally: newTally()}
		l.look = func(context.Context) (string, bool, error) {
			time.Sleep(longest + time.Second)
			if err := l.stuck(); (err == nil) == l.ready || err != nil && err.Error() != "an attempt has been running for 1h0m1s" {
				t.Errorf("%v, if ready is %v", err, l.ready)
			}
			return "", false, nil
		}
		for _, l.ready = range []bool{false, true} {
			l.once(t.Context())
			if err := l.stuck(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPause pins that a program may say how long it is until the next check, and that there may be none.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		pauses := []time.Duration{time.Hour, time.Nanosecond, 0}
		looks := 0
		err := Run(ctx, Options{Pause: func() time.Duration { return pauses[looks-1] }}, 0, func(context.Context) (string, bool, error) {
			looks++
			return "", false, nil
		})
		if err != nil || looks != 3 {
			t.Errorf("%d looks, %v", looks, err)
		}
	})
}

// counted counts what is to be told of its end, as the contexts that are made of it are.
type counted struct {
	context.Context
	told int
}

func (c *counted) AfterFunc(func()) (stop func() bool) {
	c.told++
	return func() bool { c.told--; return true }
}

func (c *counted) Value(any) any { return nil } // or package context would not ask it

// TestWaitLeavesNothing pins that no pause leaves anything with the context of a sidecar, which lives for months.
func TestWaitLeavesNothing(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx, wake := &counted{Context: parent}, make(chan struct{}, 1)
	for name, l := range map[string]*loop{
		"a pause": {every: time.Hour},
		"none":    {Options: Options{Pause: func() time.Duration { return 0 }}},
	} {
		l.Wake = wake
		wake <- struct{}{}
		if err := l.wait(ctx); err != nil || ctx.told != 0 {
			t.Errorf("%s: %v, and %d contexts are left", name, err, ctx.told)
		}
	}
}

// TestWebhook pins what is sent, after changes only, and that a call that failed is repeated without another change.
func TestWebhook(t *testing.T) {
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	os.WriteFile(password, []byte("hunter2\n"), 0o600)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, pass, _ := r.BasicAuth()
		mu.Lock()
		defer mu.Unlock()
		got = append(got, strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Revision"), user, pass, string(body)}, " "))
		if len(got) == 1 {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	address, err := secret.ParseURL(server.URL+"/reload?token=hunter3", os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	success, _ := httpclient.ParseStatuses("200-299")
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	hook := &Webhook{
		URL: address, Method: "PUT", Body: `{"a":1}`, Revision: "Revision", Timeout: 10 * time.Second, Once: true,
		Credentials: httpclient.Credentials{User: "admin", PasswordFile: password},
		Success:     success, Names: new(resolver.Resolver), Log: logger,
	}
	looks, after := 0, 0
	err = Run(ctx, Options{Hooks: []*Hook{hook.Hook()}, Log: logger}, 50*time.Millisecond, func(context.Context) (string, bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(got) == 2 {
			after++
		}
		if after == 3 {
			cancel()
		}
		looks++
		return "r1", looks == 1, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `PUT /reload application/json r1 admin hunter2 {"a":1}`
	if len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("%q, want %q twice", got, want)
	}
	if strings.Contains(log.String(), "hunter") || !strings.Contains(log.String(), "called with r1") {
		t.Errorf("the log: %s", &log)
	}
}

// TestWebhookHints pins that the hints name flags that sidecars have.
func TestWebhookHints(t *testing.T) {
	t.Parallel()
	encrypted := httptest.NewUnstartedServer(http.NotFoundHandler())
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, err := strconv.Atoi(r.URL.Path[1:]); err == nil {
			w.WriteHeader(status)
		} else if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		} else {
			http.Redirect(w, r, encrypted.URL, map[string]int{"/found": http.StatusFound, "/temporary": http.StatusTemporaryRedirect}[r.URL.Path])
		}
	}))
	defer server.Close()
	success, _ := httpclient.ParseStatuses("200-299")
	const login, path, redirect = "are the credentials right? give them with --webhook-user and --webhook-password-file, or --webhook-header-file",
		"is the path right, and does --webhook-success-status list this status?", "give the URL that the redirect leads to"
	for to, want := range map[string]string{
		server.URL + "/401": login, server.URL + "/403": login, server.URL + "/404": path, server.URL + "/304": path,
		server.URL + "/500": "the server failed: look at its log", server.URL + "/407": "the proxy needs a login: HTTP_PROXY and HTTPS_PROXY may have one, from a Secret",
		server.URL + "/found": redirect, server.URL + "/temporary": redirect, server.URL + "/loop": "the redirects probably form a loop: give a URL that is not redirected",
		encrypted.URL: "give the authority's certificate with --webhook-ca-file",
	} {
		address, err := secret.ParseURL(to, os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		hook := &Webhook{URL: address, Method: "POST", Body: "x", Timeout: 10 * time.Second, Once: true, Success: success, Names: new(resolver.Resolver), Log: slog.New(slog.DiscardHandler)}
		if err := hook.Call(t.Context(), ""); err == nil || failure.Hint(err) != want {
			t.Errorf("%s: %v: hint %q, want %q", to, err, failure.Hint(err), want)
		}
	}
}

// TestUntil pins that a hook runs until it succeeds, and that its last failure is reported if the time is over.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := &Hook{Pause: 3 * time.Second, Run: func(ctx context.Context, _ string) error {
			if runs++; runs < 4 {
				return failure.New(failure.Unexpected, "exit status 3").WithHint("look at its output")
			}
			return poll.Sleep(ctx, time.Second)
		}}
		var log bytes.Buffer
		logger, start := slog.New(slog.NewTextHandler(&log, nil)), time.Now()
		if err := h.Until(t.Context(), logger, "r1"); err != nil || time.Since(start) != 10*time.Second || h.failed.Load() != 3 || h.succeeded.Load() != 1 {
			t.Errorf("%v after %v, %d failures", err, time.Since(start), h.failed.Load())
		}
		if n := strings.Count(log.String(), "exit status 3; trying again in 3s; hint: look at its output"); n != 1 {
			t.Errorf("%d lines, want 1: %s", n, &log)
		}
		for wait, want := range map[time.Duration]string{
			// Between two runs, and during one.
			5 * time.Second:         "context deadline exceeded after 5s and 2 attempts: exit status 3",
			9500 * time.Millisecond: "context deadline exceeded after 9.5s and 4 attempts: exit status 3",
		} {
			runs = 0
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			err := h.Until(ctx, logger, "r1")
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || err.Error() != want || failure.Hint(err) != "look at its output" {
				t.Errorf("%v, want %s", err, want)
			}
		}
		runs = 4
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := h.Until(ctx, logger, "r1"); err != context.DeadlineExceeded {
			t.Errorf("%v, want that of the run", err)
		}
		h.Run = func(context.Context, string) error { return poll.Permanent(errors.New("not permitted")) }
		if err := h.Until(t.Context(), logger, "r1"); !poll.IsPermanent(err) {
			t.Error(err)
		}
	})
}

// TestHooks pins which revisions hooks run for and when: after the first check, even if it has changed nothing, and
// after each change; again after a failure, which holds up neither the checks nor the other hooks; and for the newest
// revision only.
func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		since := func() string { return time.Since(start).String() }
		var broken, good, stubborn, looks []string
		l := Options{Hooks: []*Hook{
			{Name: "broken", Run: func(_ context.Context, revision string) error {
				broken = append(broken, revision+" "+since())
				if len(broken) < 5 {
					return errors.New("refused")
				}
				return nil
			}},
			{Name: "good", Run: func(_ context.Context, revision string) error {
				good = append(good, revision+" "+since())
				return nil
			}},
			{Name: "stubborn", Pause: time.Second, Run: func(_ context.Context, revision string) error {
				stubborn = append(stubborn, revision+" "+since())
				return poll.Permanent(errors.New("not permitted"))
			}},
		}}
		err := Run(ctx, l, time.Minute, func(context.Context) (string, bool, error) {
			looks = append(looks, since())
			synctest.Wait()
			switch len(looks) {
			case 1, 2:
				return "a", false, nil
			case 3:
				return "b", true, nil
			case 6:
				cancel()
			}
			return "b", false, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, lists := range map[string][2][]string{
			"broken":   {broken, {"a 0s", "a 10s", "a 30s", "a 1m10s", "b 2m0s"}},
			"good":     {good, {"a 0s", "b 2m0s"}},
			"stubborn": {stubborn, {"a 0s", "b 2m0s"}},
			"looks":    {looks, {"0s", "1m0s", "2m0s", "3m0s", "4m0s", "5m0s"}},
		} {
			if !slices.Equal(lists[0], lists[1]) {
				t.Errorf("%s: %q, want %q", name, lists[0], lists[1])
			}
		}
	})
}

// TestQuiet pins that the hooks do not run for what was there, or was made, at first.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		hook := &Hook{Name: "hook", Run: func(_ context.Context, revision string) error {
			told = append(told, revision)
			return nil
		}}
		looks := 0
		err := Run(ctx, Options{Hooks: []*Hook{hook}, Quiet: true}, time.Minute, func(context.Context) (string, bool, error) {
			synctest.Wait()
			if looks++; looks == 4 {
				cancel()
			}
			return strconv.Itoa(looks), looks != 2, nil
		})
		if err != nil || !slices.Equal(told, []string{"3"}) {
			t.Errorf("%q, %v", told, err)
		}
	})
}

// TestWarnings pins that a failure is logged once while it lasts, although the texts of repeated attempts have times.
func TestWarnings(t *testing.T) {
	var log bytes.Buffer
	l := &loop{Options: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	logged := ""
	for i, last := range []error{syscall.ECONNREFUSED, syscall.ECONNREFUSED, syscall.ECONNRESET} {
		err := &poll.Error{Attempts: i + 7, Waited: time.Duration(i) * time.Second, Cause: context.DeadlineExceeded, Last: last}
		logged = warn(l.Log, fmt.Errorf("call the webhook: %w", err), logged, time.Second)
	}
	if got := strings.Count(log.String(), "call the webhook"); got != 2 {
		t.Errorf("%d lines, want 2:\n%s", got, &log)
	}
}
