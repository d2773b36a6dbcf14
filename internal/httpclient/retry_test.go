package httpclient

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

const secretURL = "http://user:hunter2@server/register?token=hunter3"

// script answers the n-th request, counted from 0, and notes when each came.
type script struct {
	start  time.Time
	answer func(n int, w http.ResponseWriter, r *http.Request)

	mu   sync.Mutex
	came []time.Duration
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	n := len(s.came)
	s.came = append(s.came, time.Since(s.start))
	s.mu.Unlock()
	s.answer(n, w, r)
}

// run sends a request to a server in memory, in virtual time, and returns when each attempt came.
func run(t *testing.T, limit time.Duration, r *Retry, answer func(n int, w http.ResponseWriter, r *http.Request)) (came []time.Duration, a *Answer, err error) {
	t.Helper()
	s := &script{start: time.Now(), answer: answer}
	options := inMemory(t, s.ServeHTTP)
	if r.Dial == nil {
		r.Options = options
	}
	ctx := t.Context()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	a, err = r.Do(ctx, "POST", secretURL, http.Header{"X": {"y"}}, []byte("body"))
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.came), a, err
}

func status(code int, header ...string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// silence ends with the connection, whose end a server sees only once it has read the body.
func silence(_ int, _ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// TestRounds pins that a server which says "not now" gets one attempt of each round.
func TestRounds(t *testing.T) {
	for _, spread := range []time.Duration{0, 2 * time.Second, 200 * time.Second} {
		for seed := range uint64(15) {
			synctest.Test(t, func(t *testing.T) {
				last := errors.New("enough")
				r := &Retry{Spread: spread, Seed: seed, Prepare: func() func(*http.Request) error {
					n := 0
					return func(*http.Request) error {
						if n++; n > 10 {
							return poll.Permanent(last)
						}
						return nil
					}
				}()}
				came, _, err := run(t, 0, r, status(503))
				if !errors.Is(err, last) || len(came) != 10 || came[0] != 0 {
					t.Fatalf("%v, requests at %v", err, came)
				}
				unit := spread
				if unit == 0 {
					unit = DefaultSpread
				}
				var begin time.Duration
				for i, at := range came[1:] {
					length := min(time.Duration([]float64{1, 0.45, 0.35, 1, 1.5, 2, 3, 3, 3}[i]*float64(unit)), max(time.Minute, unit))
					if at < begin || at > begin+length {
						t.Errorf("seed %d: request %d at %v, want one from %v to %v", seed, i+2, at, begin, begin+length)
					}
					begin += length
				}
			})
		}
	}
}

// TestRetryAfter pins that the header is obeyed as the least pause, up to a minute, and never to the second.
func TestRetryAfter(t *testing.T) {
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	date := func(from time.Time, d time.Duration) string {
		return from.Add(d).UTC().Format(http.TimeFormat)
	}
	for name, tt := range map[string]struct {
		status     int
		value      func(now time.Time) []string
		least, max time.Duration
	}{
		"none":              {503, func(time.Time) []string { return nil }, 0, second(20)},
		"seconds":           {503, func(time.Time) []string { return []string{"Retry-After", "7"} }, second(7), second(27)},
		"429":               {429, func(time.Time) []string { return []string{"Retry-After", " 7 "} }, second(7), second(27)},
		"with 500":          {500, func(time.Time) []string { return []string{"Retry-After", "7"} }, second(7), second(27)},
		"zero":              {503, func(time.Time) []string { return []string{"Retry-After", "0"} }, 0, second(20)},
		"a minute":          {503, func(time.Time) []string { return []string{"Retry-After", "60"} }, second(60), second(80)},
		"an hour":           {503, func(time.Time) []string { return []string{"Retry-After", "3600"} }, second(40), second(60)},
		"huge":              {503, func(time.Time) []string { return []string{"Retry-After", strings.Repeat("9", 50)} }, second(40), second(60)},
		"as many as fit":    {503, func(time.Time) []string { return []string{"Retry-After", "9223372036854775807"} }, second(40), second(60)},
		"negative":          {503, func(time.Time) []string { return []string{"Retry-After", "-7"} }, 0, second(20)},
		"garbage":           {503, func(time.Time) []string { return []string{"Retry-After", "soon"} }, 0, second(20)},
		"a fraction":        {503, func(time.Time) []string { return []string{"Retry-After", "1.5"} }, 0, second(20)},
		"garbage, 500":      {500, func(time.Time) []string { return []string{"Retry-After", "soon"} }, 0, second(0.55)},
		"a date":            {503, func(now time.Time) []string { return []string{"Retry-After", date(now, second(30))} }, second(29), second(50)},
		"a date that is by": {503, func(now time.Time) []string { return []string{"Retry-After", date(now, -second(30))} }, 0, second(20)},
		"another clock": {503, func(now time.Time) []string {
			return []string{"Retry-After", date(now, time.Hour+second(30)), "Date", date(now, time.Hour)}
		}, second(30), second(50)},
		"a far date": {503, func(now time.Time) []string { return []string{"Retry-After", date(now, 1000*time.Hour)} }, second(40), second(60)},
	} {
		t.Run(name, func(t *testing.T) {
			var pauses []time.Duration
			for seed := range uint64(60) {
				synctest.Test(t, func(t *testing.T) {
					came, _, err := run(t, 0, &Retry{Seed: seed}, func(n int, w http.ResponseWriter, r *http.Request) {
						if n == 0 {
							status(tt.status, tt.value(time.Now())...)(n, w, r)
						}
					})
					if err != nil || len(came) != 2 {
						t.Fatalf("%v, requests at %v", err, came)
					}
					pauses = append(pauses, came[1])
				})
			}
			low, high := slices.Min(pauses), slices.Max(pauses)
			if low < tt.least || high > tt.max {
				t.Errorf("pauses from %v to %v, want %v to %v", low, high, tt.least, tt.max)
			}
			if high-low < (tt.max-tt.least)*3/4 {
				t.Errorf("pauses from %v to %v, want them spread from %v to %v", low, high, tt.least, tt.max)
			}
		})
	}
}

// TestBackoff pins that a server which fails is asked less and less often.
func TestBackoff(t *testing.T) {
	for _, code := range []int{408, 425, 500, 501, 502, 504, 599} {
		for seed := range uint64(5) {
			synctest.Test(t, func(t *testing.T) {
				came, _, err := run(t, 10*time.Minute, &Retry{Seed: seed}, status(code))
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				for i := range came[1:] {
					most := min(minBackoff<<min(i, 20), maxBackoff) + leastPause
					if pause := came[i+1] - came[i]; pause < leastPause || pause > most && i < len(came)-3 {
						t.Errorf("status %d, seed %d: pause %d is %v, want %v to %v", code, seed, i+1, pause, leastPause, most)
					}
				}
				if len(came) < 25 || len(came) > 120 {
					t.Errorf("%d requests in ten minutes", len(came))
				}
			})
		}
	}
}

// TestNothingReached pins that a server which is not there is asked as a wait asks.
func TestNothingReached(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			start, up := time.Now(), 30*time.Second
			var tried []time.Duration
			r := &Retry{Seed: seed}
			r.Dial = func(context.Context, string, string) (net.Conn, error) {
				tried = append(tried, time.Since(start))
				return nil, syscall.ECONNREFUSED
			}
			r.NoProxy = true
			_, _, err := run(t, up, r, nil)
			var ended *poll.Error
			if !errors.As(err, &ended) || !errors.Is(err, context.DeadlineExceeded) || failure.Of(ended.Last).Class != failure.Refused {
				t.Fatal(err)
			}
			if ended.Attempts != len(tried) || ended.Waited != up {
				t.Errorf("%d attempts in %v, want %d in %v", ended.Attempts, ended.Waited, len(tried), up)
			}
			for i := range tried[1:] {
				pause, want := tried[i+1]-tried[i], min(max(tried[i]/20, 50*time.Millisecond), time.Second)
				if (pause < want*8/10 || pause > want*12/10) && i < len(tried)-2 {
					t.Errorf("seed %d: pause %v after %v, want about %v", seed, pause, tried[i], want)
				}
			}
		})
	}
}

// TestDeadline pins that the end of the context is the end, that there is an attempt
// shortly before it, whatever the server asks for, and not a crowd of them.
func TestDeadline(t *testing.T) {
	for name, answer := range map[string]func(int, http.ResponseWriter, *http.Request){
		"503":                  status(503),
		"503, Retry-After: 60": status(503, "Retry-After", "60"),
		"429, Retry-After: 1":  status(429, "Retry-After", "1"),
		"500":                  status(500),
		"silence":              silence,
	} {
		for _, limit := range []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprintf("%s within %v", name, limit), func(t *testing.T) {
				for seed := range uint64(5) {
					synctest.Test(t, func(t *testing.T) {
						start := time.Now()
						var told []time.Duration
						r := &Retry{Seed: seed, AttemptTimeout: 10 * time.Second, Notify: func(_ int, _ *Answer, _ error, next time.Duration) { told = append(told, next) }}
						came, a, err := run(t, limit, r, answer)
						var ended *poll.Error
						if !errors.As(err, &ended) || !errors.Is(err, context.DeadlineExceeded) || a != nil {
							t.Fatalf("%v, %v", a, err)
						}
						if took := time.Since(start); took != limit || ended.Waited != limit {
							t.Errorf("ended after %v, says %v, want %v", took, ended.Waited, limit)
						}
						if ended.Attempts != len(came) || ended.Last == nil {
							t.Errorf("says %d attempts, want %d; last failure %v", ended.Attempts, len(came), ended.Last)
						}
						if name == "silence" {
							return
						}
						if last := came[len(came)-1]; len(came) < 2 || last < limit/2 || last >= limit {
							t.Errorf("requests at %v, want one shortly before %v", came, limit)
						}
						soon := slices.DeleteFunc(slices.Clone(came), func(at time.Duration) bool { return at < limit*9/10 })
						if len(soon) > 6 {
							t.Errorf("%d requests in the last tenth: %v", len(soon), soon)
						}
						if told[len(told)-1] != 0 || slices.Contains(told[:len(told)-1], 0) {
							t.Errorf("told of pauses %v, want 0 for the last", told)
						}
						var status *StatusError
						if !errors.As(ended.Last, &status) || errors.As(err, &status) {
							t.Errorf("last failure is %v; it must not pass for the end", ended.Last)
						}
					})
				}
			})
		}
	}
}

// TestStops pins that the end of the context is heard at once, in a pause and in an attempt, and told with its cause.
func TestStops(t *testing.T) {
	stop := errors.New("stopped")
	for name, answer := range map[string]func(int, http.ResponseWriter, *http.Request){
		"pause":   status(503),
		"attempt": silence,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				options, start := inMemory(t, (&script{answer: answer}).ServeHTTP), time.Now()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				time.AfterFunc(1234*time.Millisecond, func() { cancel(stop) })
				_, err := (&Retry{Options: options}).Do(ctx, "GET", "http://server", nil, nil)
				if !errors.Is(err, stop) || time.Since(start) != 1234*time.Millisecond {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		})
	}
}

// TestVerdicts pins what is done for good and what is not, and that the last answer is not lost.
func TestVerdicts(t *testing.T) {
	for code, want := range map[int]Verdict{
		200: Done, 201: Done, 204: Done, 299: Done, 300: Failed, 304: Failed, 400: Failed, 401: Failed, 404: Failed, 409: Failed,
		408: Again, 425: Again, 429: Again, 500: Again, 501: Again, 503: Again, 599: Again,
	} {
		synctest.Test(t, func(t *testing.T) {
			came, a, err := run(t, time.Minute, &Retry{}, func(n int, w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != "body" || r.Header.Get("X") != "y" || r.Method != "POST" {
					t.Errorf("request %d: %s with %q, %v", n+1, r.Method, body, err)
				}
				if n == 1 {
					code = 200
				}
				w.Header().Set("From", "server")
				w.WriteHeader(code)
				if code != 204 && code != 304 {
					io.WriteString(w, "said")
				}
			})
			var failed *StatusError
			switch {
			case a == nil || a.Status != code || a.Header.Get("From") != "server" || string(a.Body) != "said" && code != 204 && code != 304:
				t.Errorf("%d: the answer is %+v, %v", code, a, err)
			case want == Done && (err != nil || len(came) != 1), want == Again && (err != nil || len(came) != 2):
				t.Errorf("%d: %v after %d attempts", code, err, len(came))
			case want == Failed && (!errors.As(err, &failed) || failed.Status != code || len(came) != 1):
				t.Errorf("%d: %v after %d attempts", code, err, len(came))
			case err != nil && strings.Contains(err.Error(), "said"):
				t.Errorf("%d: %v quotes the answer", code, err)
			}
		})
	}
}

// TestJudge pins that the caller's verdict counts, and that Again for any status has the pauses of a failure.
func TestJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		came, a, err := run(t, time.Minute, &Retry{Judge: func(a *Answer) Verdict {
			switch a.Status {
			case 200:
				return Again
			case 409:
				return Done
			}
			return Failed
		}}, func(n int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader([]int{200, 409}[n]) })
		if err != nil || a.Status != 409 || len(came) != 2 || came[1] > minBackoff+leastPause {
			t.Errorf("%+v, %v, requests at %v", a, err, came)
		}
	})
}

// TestPrepare pins that each attempt is prepared again, from the request as it was
// given, and that only what cannot heal ends the attempts.
func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		var tokens []string
		came, _, err := run(t, time.Minute, &Retry{Prepare: func(r *http.Request) error {
			if n++; n == 2 {
				return errors.New("the file is not there")
			}
			if r.Header.Get("Authorization") != "" {
				t.Error("the request has the header of the last attempt")
			}
			if password, _ := r.URL.User.Password(); password != "hunter2" {
				t.Errorf("the password in the URL is %q", password)
			}
			r.Header.Set("Authorization", fmt.Sprint("Bearer ", n))
			r.URL.Path = fmt.Sprint("/", n)
			if n == 4 {
				r.Header.Del("Authorization")
				r.URL.User = url.UserPassword("new", "password")
			}
			return nil
		}}, func(n int, w http.ResponseWriter, r *http.Request) {
			tokens = append(tokens, r.Header.Get("Authorization")+" "+r.URL.Path)
			w.WriteHeader([]int{500, 500, 200}[n])
		})
		if want := []string{"Bearer 1 /1", "Bearer 3 /3", "Basic bmV3OnBhc3N3b3Jk /4"}; err != nil || len(came) != 3 || !slices.Equal(tokens, want) {
			t.Errorf("%v, %q, want %q", err, tokens, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		cannot := errors.New("cannot")
		came, _, err := run(t, time.Minute, &Retry{Prepare: func(*http.Request) error { return poll.Permanent(cannot) }}, status(200))
		if !errors.Is(err, cannot) || !poll.IsPermanent(err) || len(came) > 0 {
			t.Errorf("%v, requests at %v", err, came)
		}
	})
}

// TestNoRequest pins that what cannot be sent is said at once, without quoting it.
func TestNoRequest(t *testing.T) {
	for _, tt := range [][2]string{
		{"POST", "http://user:hunter2@server:port/"}, {"POST", "ftp://user:hunter2@server/"}, {"POST", "/hunter2"},
		{"POST", "http:///hunter2"}, {"POST", "http://server/%zz-hunter2"}, {"PO ST", "http://hunter2/"}, {"POST", "\x00hunter2"},
	} {
		_, err := new(Retry).Do(t.Context(), tt[0], tt[1], nil, nil)
		if !poll.IsPermanent(err) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s %q: %v", tt[0], tt[1], err)
		}
	}
}

// TestSameSeed pins that the seed determines the moments.
func TestSameSeed(t *testing.T) {
	times := func(seed uint64) (came []time.Duration) {
		synctest.Test(t, func(t *testing.T) { came, _, _ = run(t, time.Minute, &Retry{Seed: seed}, status(503)) })
		return came
	}
	if a, b := times(1), times(1); !slices.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	if a, b := times(1), times(2); slices.Equal(a, b) {
		t.Errorf("%v twice", a)
	}
}

// TestFaults sends to real servers that do what servers should not. Each is tried
// again, for as long as there is time, and reported without what the server sent.
func TestFaults(t *testing.T) {
	t.Parallel()
	read := func(c net.Conn) bool {
		_, err := http.ReadRequest(bufio.NewReader(c))
		return err == nil
	}
	// Until the client has enough of it.
	forever := func(begin, more string, pause time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			if !read(c) {
				return
			}
			_, err := io.WriteString(c, begin)
			for err == nil {
				_, err = io.WriteString(c, more)
				time.Sleep(pause)
			}
		}
	}
	reset := func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() }
	closing := func(c net.Conn) { c.Close() }
	then := func(do ...func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) {
			for _, f := range do {
				f(c)
			}
		}
	}
	long := strings.Repeat("hunter4", 100)
	for name, tt := range map[string]struct {
		handle func(net.Conn)
		class  failure.Class
	}{
		"silence":               {func(c net.Conn) { read(c) }, failure.TimedOut},
		"closes":                {closing, failure.Reset},
		"closes when asked":     {then(func(c net.Conn) { read(c) }, closing), failure.Reset},
		"resets when asked":     {then(func(c net.Conn) { read(c) }, reset), failure.Reset},
		"resets in the middle":  {then(answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhunter4"), reset), failure.Reset},
		"half a status line":    {then(answer("HTTP/1.1 20"), closing), failure.Unexpected},
		"half a header":         {then(answer("HTTP/1.1 200 OK\r\nX: hunter4"), closing), failure.Reset},
		"half a body":           {then(answer("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nhunter4"), closing), failure.Reset},
		"half a chunk":          {then(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n99\r\nhunter4"), closing), failure.Reset},
		"hangs in the header":   {answer("HTTP/1.1 200 OK\r\nX: hunter4"), failure.TimedOut},
		"hangs in the body":     {answer("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nhunter4"), failure.TimedOut},
		"not HTTP":              {answer("220 hunter4 ESMTP\r\n"), failure.Unexpected},
		"not a length":          {answer("HTTP/1.1 200 OK\r\nContent-Length: hunter4\r\n\r\n"), failure.Unexpected},
		"trickles the header":   {forever("HTTP/1.1 200 OK\r\nX: ", "h", 5*time.Millisecond), failure.TimedOut},
		"trickles the body":     {forever("HTTP/1.1 200 OK\r\n\r\n", "h", 5*time.Millisecond), failure.TimedOut},
		"endless header":        {forever("HTTP/1.1 200 OK\r\nX: ", long, 0), failure.Unexpected},
		"endless headers":       {forever("HTTP/1.1 200 OK\r\n", "X: "+long+"\r\n", 0), failure.Unexpected},
		"100 Continue forever":  {forever("", "HTTP/1.1 100 Continue\r\n\r\n", time.Millisecond), failure.TimedOut},
		"103 Early Hints, fast": {forever("", "HTTP/1.1 103 Early Hints\r\nLink: "+long+"\r\n\r\n", 0), failure.Unexpected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, tt.handle)
			// On a machine that is busy an attempt may time out before the server has
			// done its worst; then one that finds it counts, however long that takes.
			ctx, enough := context.WithTimeout(t.Context(), time.Minute)
			defer enough()
			found, attempts := false, 0
			r := loopback(&Retry{AttemptTimeout: 500 * time.Millisecond, Notify: func(_ int, a *Answer, err error, _ time.Duration) {
				attempts++
				if a != nil || strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "\n") {
					t.Errorf("told of %v, %v", a, err)
				}
				if found = found || failure.Of(err).Class == tt.class; found && attempts > 1 {
					enough()
				}
			}})
			_, err := r.Do(ctx, "POST", "http://user:hunter2@"+addr+"/?token=hunter3", nil, []byte("x"))
			var ended *poll.Error
			if !errors.As(err, &ended) || !found {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter") {
				t.Errorf("%v quotes a secret", err)
			}
		})
	}
}

// loopback lets r connect to a real server of this host.
func loopback(r *Retry) *Retry {
	r.Dial, r.NoProxy = new(net.Dialer).DialContext, true
	return r
}

// TestOddAnswers pins that an answer counts although there is something odd about it.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handle func(net.Conn)
		status int
		body   string
	}{
		"longer than it says": {answer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhalf and more"), 200, "half"},
		"endless refusal":     {answer("HTTP/1.1 403 No\r\nContent-Length: 999\r\n\r\nhalf"), 403, "half"},
		"continues":           {answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"), 201, ""},
		"redirect to nowhere": {answer("HTTP/1.1 307 There\r\nContent-Length: 0\r\n\r\n"), 307, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := loopback(&Retry{AttemptTimeout: 2 * time.Second})
			a, err := r.Do(t.Context(), "POST", "http://"+serve(t, tt.handle), nil, []byte("x"))
			var failed *StatusError
			if a == nil || a.Status != tt.status || string(a.Body) != tt.body || (err == nil) != a.success() || err != nil && !errors.As(err, &failed) {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// TestLongAnswer pins that only a part of an endless answer is read, which decides.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	r := loopback(&Retry{})
	a, err := r.Do(t.Context(), "GET", "http://"+serve(t, func(c net.Conn) {
		answer("HTTP/1.1 200 OK\r\n\r\n")(c)
		var err error
		for err == nil {
			_, err = io.WriteString(c, strings.Repeat("x", 1<<16))
		}
	}), nil, nil)
	if err != nil || len(a.Body) != maxAnswer {
		t.Errorf("%v", err)
	}
}

// TestRedirects pins that a POST is repeated where 307 and 308 lead, on the same
// server, and that nothing else passes for its success.
func TestRedirects(t *testing.T) {
	var posts, gets atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the body went elsewhere") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var code int
		fmt.Sscanf(r.URL.Path, "/%d", &code)
		switch {
		case r.URL.Path == "/301/loop", r.URL.Path == "/308/loop":
			http.Redirect(w, r, r.URL.Path, code)
		case strings.HasSuffix(r.URL.Path, "/elsewhere"):
			w.Header().Set("Location", elsewhere.URL+"/hunter2")
			w.WriteHeader(code)
		case code != 0:
			w.Header().Set("Location", "/there?token=hunter2")
			w.WriteHeader(code)
		case r.Method == "POST":
			if body, _ := io.ReadAll(r.Body); string(body) == "body" {
				posts.Add(1)
			}
		default:
			gets.Add(1)
		}
	}))
	defer server.Close()
	for _, tt := range []struct {
		method, path string
		ok           bool
	}{
		{"POST", "/301", false}, {"POST", "/302", false}, {"POST", "/303", false}, {"POST", "/307", true}, {"POST", "/308", true},
		{"PUT", "/303", false}, {"POST", "/307/elsewhere", false}, {"POST", "/308/loop", false}, {"GET", "/301/loop", false},
		{"GET", "/302", true}, {"GET", "/301", true},
	} {
		posts.Store(0)
		gets.Store(0)
		_, err := loopback(&Retry{}).Do(t.Context(), tt.method, server.URL+tt.path, nil, []byte("body"))
		if (err == nil) != tt.ok || err != nil && (!poll.IsPermanent(err) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s %s: %v", tt.method, tt.path, err)
		}
		wantPosts, wantGets := int32(0), int32(0)
		if tt.ok && tt.method == "POST" {
			wantPosts = 1
		} else if tt.ok {
			wantGets = 1
		}
		if posts.Load() != wantPosts || gets.Load() != wantGets {
			t.Errorf("%s %s: %d times posted and %d times got", tt.method, tt.path, posts.Load(), gets.Load())
		}
	}
}

// TestUntrusted pins that a certificate that does not verify ends the attempts,
// unless it may yet, and that the authority's file is read each time.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")

	_, err := loopback(&Retry{}).Do(t.Context(), "POST", server.URL, nil, nil)
	if !poll.IsPermanent(err) || failure.Of(err).Class != failure.TLS || errors.As(err, new(*poll.Error)) {
		t.Errorf("%v, want one that is permanent", err)
	}
	r := loopback(&Retry{RetryTLS: true})
	r.TLS.CAFile = ca
	var told []failure.Class
	r.Notify = func(attempt int, _ *Answer, err error, _ time.Duration) {
		told = append(told, failure.Of(err).Class)
		switch attempt {
		case 2: // mounted, but not the right one yet
			write(t, ca, otherCertificate(t))
		case 4:
			write(t, ca, server.Certificate().Raw)
		}
	}
	if _, err := r.Do(t.Context(), "POST", server.URL, nil, nil); err != nil {
		t.Error(err)
	}
	if want := []failure.Class{failure.Local, failure.Local, failure.TLS, failure.TLS}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = loopback(&Retry{Notify: func(int, *Answer, error, time.Duration) { cancel() }}).Do(ctx, "POST", strings.Replace(plain.URL, "http", "https", 1), nil, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want what is not about a certificate to be tried again", err)
	}
}

// otherCertificate returns one that no server here has.
func otherCertificate(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func write(t *testing.T, name string, certificate []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Error(err)
	}
}

// TestNothingRemains pins that nothing runs on after an answer, or after the end.
func TestNothingRemains(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("servers", func(t *testing.T) {
		silent := serve(t, func(net.Conn) {})
		ok := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer ok.Close()
		for range 20 {
			if _, err := loopback(&Retry{AttemptTimeout: time.Minute}).Do(t.Context(), "POST", ok.URL, nil, []byte("x")); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			if _, err := loopback(&Retry{AttemptTimeout: 10 * time.Millisecond}).Do(ctx, "POST", "http://"+silent, nil, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
	})
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, before there were %d\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestOnce pins that Once makes one attempt, whatever its outcome.
func TestOnce(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	_, err := (&Retry{Once: true, Options: Options{Dial: new(net.Dialer).DialContext}}).Do(t.Context(), http.MethodPost, server.URL, nil, nil)
	var status *StatusError
	if !errors.As(err, &status) || status.Status != http.StatusServiceUnavailable || asked.Load() != 1 {
		t.Errorf("%v, %d requests, want status 503 and 1", err, asked.Load())
	}
	server.Close()
	if _, err := (&Retry{Once: true, Options: Options{Dial: new(net.Dialer).DialContext}}).Do(t.Context(), http.MethodPost, server.URL, nil, nil); failure.Of(err).Class != failure.Refused {
		t.Errorf("%v, want refused", err)
	}
}
