package conformance_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Every kind of target with servers is tried on servers that refuse, hang, hang up, send an endless answer, announce
// more than fits into memory, or speak another protocol or none. A new kind needs only a line in [dialects].

// TestMain runs more tests in parallel than there are processors: most of them wait.
func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// A dialect is what a fault needs to know about a kind's protocol.
type dialect struct {
	first    bool   // the server speaks first
	greeting string // the beginning of a server's answer, which does not suffice to be ready

	// again returns the answer to a request after which the client sends another one, or "".
	again func(request []byte) string
	// greet returns the greeting where that depends on the request.
	greet func(request []byte) string

	startTLS bool     // a conversation with TLS begins without it
	huge     []string // announcements of 2 GB
	forms    []string // more targets, with which the check sends or reads more
}

// webGreeting is the beginning of an answer over HTTP.
const webGreeting = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"

// webHuge are announcements of 2 GB in HTTP.
var webHuge = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 2147483647\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n",
	"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2147483647\r\n\r\n",
}

// dialects are the dialects by the first scheme of the kind.
var dialects = map[string]dialect{
	"memcached": {greeting: "VERSION 1.", huge: []string{"VALUE k 0 2147483647\r\n"}},
	"redis":     {greeting: "+PON", huge: []string{"$2147483647\r\n", "*2147483647\r\n", "+" + strings.Repeat("x", 1<<16)}},
	"nats": {
		first: true, startTLS: true,
		greeting: `INFO {"server_id":"N","version":"2.9.10","proto":1,"host":"0.0.0.0","port":4222,"headers":true,"max_payload":1048576}` + "\r\n",
		huge:     []string{"INFO {" + strings.Repeat(" ", 1<<16), "INFO {}\r\nMSG a 1 2147483647\r\n"},
	},
	"postgres": {
		startTLS: true,
		greeting: "R\x00\x00\x00\x0c\x00\x00", // the beginning of a request for a password; a whole one would be ready without a user
		again: func(request []byte) string { // SSLRequest, GSSENCRequest
			if binary.BigEndian.Uint32(request) == 8 && binary.BigEndian.Uint32(request[4:])-80877103 <= 1 {
				return "N"
			}
			return ""
		},
		huge:  []string{"R\x7f\xff\xff\xff", "E\x7f\xff\xff\xff", "N\x7f\xff\xff\xff", "S\x7f\xff\xff\xff", "NR\x7f\xff\xff\xff"},
		forms: []string{"postgres://app:PASSWORD@ADDR/app?sslmode=disable", "postgres://ADDR?sslmode=allow"},
	},
	"mysql": {
		first: true, startTLS: true,
		greeting: faultMySQLGreeting,
		huge:     []string{"\xff\xff\xff\x00", "\xff\xff\xff\x00\x0a8.0.36\x00"},
	},
	"amqp": {
		greeting: "\x01\x00\x00\x00\x00\x01\x00\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLA",
		huge:     []string{"\x01\x00\x00\x7f\xff\xff\xff", "\x01\x00\x00\x7f\xff\xff\xff\x00\x0a\x00\x0a\x00\x09\x7f\xff\xff\xff"},
	},
	"mongodb": {
		greet: func(request []byte) string { // a reply to the request's id
			return "\xc8\x00\x00\x00\x01\x00\x00\x00" + requestPart(request, 4, 8) + "\xdd\x07\x00\x00\x00\x00\x00\x00\x00\xb3\x00\x00\x00\x08"
		},
		huge: []string{
			"\xff\xff\xff\x7f\x01\x00\x00\x00\x01\x00\x00\x00\xdd\x07\x00\x00",
			"\x40\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\x7f\x02a\x00\xff\xff\xff\x7f",
		},
		forms: []string{"mongodb://ADDR/?replicaSet=rs0"},
	},
	"kafka": {
		greet: func(request []byte) string { return "\x00\x00\x00\x40" + requestPart(request, 8, 12) + "\x00\x00" },
		huge:  []string{"\x7f\xff\xff\xff\x00\x00\x00\x00", "\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff"},
	},
	"zookeeper": {
		greeting: "Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25 08:49 UTC\nLatency min/avg/max: 0/0.0/0\n",
	},
	"cassandra": {
		greet: func(request []byte) string {
			return "\x84\x00" + requestPart(request, 2, 4) + "\x06\x00\x00\x00\x40\x00\x03"
		},
		huge: []string{"\x84\x00\x00\x00\x06\x7f\xff\xff\xff", "\x84\x00\x00\x00\x00\x7f\xff\xff\xff", "\x84\x00\x00\x01\x06\x00\x00\x00\x40\xff\xff"},
	},
	"etcd":          {greeting: webGreeting, huge: webHuge},
	"elasticsearch": {greeting: webGreeting, huge: webHuge},
	"clickhouse":    {greeting: webGreeting, huge: webHuge},
	"influxdb":      {greeting: webGreeting, huge: webHuge},
	"temporal": {
		greeting: "\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		huge:     []string{"\x7f\xff\xff\x00\x00\x00\x00\x00\x01", "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x7f\xff\xff\x01\x04\x00\x00\x00\x01"},
	},
}

// faultMySQLGreeting is the greeting of a MySQL 8.0 server without TLS.
var faultMySQLGreeting = func() string {
	payload := "\x0a8.0.36\x00\x07\x00\x00\x00saltsalt\x00\x08\x82\x21\x02\x00\x08\x00\x15" + strings.Repeat("\x00", 10) + "saltsaltsalt\x00mysql_native_password\x00"
	return string([]byte{byte(len(payload)), 0, 0, 0}) + payload
}()

// requestPart returns a part of a request, or zeros in its place.
func requestPart(request []byte, from, to int) string {
	return string(append(request, make([]byte, to)...)[from:to])
}

// A fault is a way in which a server fails.
type fault struct {
	name    string
	serve   func(c net.Conn, d dialect) // nil if there is no server
	hangs   bool                        // the attempt ends at its own deadline
	classes []failure.Class             // any of them is correct
	strange bool                        // may also count as ready: it contains an answer
}

// ending is a fault that ends the attempt.
func ending(name string, serve func(net.Conn, dialect), classes ...failure.Class) fault {
	return fault{name: name, serve: serve, classes: classes}
}

// strange is a fault after a valid beginning.
func strange(name string, serve func(net.Conn, dialect)) fault {
	return fault{name: name, serve: serve, classes: brokenOff, strange: true}
}

// hanging is a fault that makes the attempt hang.
func hanging(name string, serve func(net.Conn, dialect), classes ...failure.Class) fault {
	return fault{name: name, serve: serve, hangs: true, classes: classes}
}

// faultTexts are the patterns of the messages of a class; other classes have messages of the kind.
var faultTexts = map[failure.Class]string{
	failure.Refused:  `^connection refused$`,
	failure.TimedOut: `^\S.*: no answer$`, // after what was being done
	failure.Reset:    `closed`,
	failure.TLS:      `^TLS: `,
}

var (
	brokenOff  = []failure.Class{failure.Reset, failure.Unexpected}
	oddAnswer  = []failure.Class{failure.Unexpected}
	unanswered = []failure.Class{failure.TimedOut}
)

// faults are the faults of servers that accept a connection, or have completed the TLS handshake.
func faults(d dialect) []fault {
	all := []fault{
		hanging("hangs after accept", silently, unanswered...),
		ending("closes after accept", func(net.Conn, dialect) {}, brokenOff...),
		ending("closes after the request", speaking("", ""), brokenOff...),
		hanging("one byte a second", func(c net.Conn, _ dialect) { dripSlowly(c, "xxxxxxxxxxxx") }, failure.TimedOut, failure.Unexpected),

		ending("closes after the greeting", func(c net.Conn, d dialect) { d.greetClient(c) }, brokenOff...),
		hanging("hangs after the greeting", after(silently), unanswered...),
		hanging("greets with one byte a second", func(c net.Conn, d dialect) { dripSlowly(c, d.ask(c)) }, unanswered...),
		strange("greets endlessly", func(c net.Conn, d dialect) { talkEndlessly(c, d.ask(c)) }),
		strange("greets, then endless zeros", after(endlessly("\x00"))),
		strange("greets, then an endless line", after(endlessly("x"))),
		strange("greets, then endless lines", after(endlessly("x\r\n"))),

		ending("endless zeros", endlessly("\x00"), oddAnswer...),
		ending("an endless line", endlessly("x"), oddAnswer...),
		ending("endless lines", endlessly("x\r\n"), oddAnswer...),
		ending("an endless number", endlessly("9"), oddAnswer...),
		ending("endless bytes", endlessly("\xff"), oddAnswer...),

		ending("SMTP", hangingUp("220 mail.example ESMTP Postfix\r\n", "500 5.5.2 mail.example: syntax\r\n"), oddAnswer...),
		ending("SSH", hangingUp("SSH-2.0-OpenSSH_9.2p1 mail.example\r\n", "Invalid SSH identification string.\r\n"), oddAnswer...),
		ending("HTTP", hangingUp("", "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request"), oddAnswer...),
		ending("a TLS alert", speaking("", "\x15\x03\x03\x00\x02\x02\x46"), failure.TLS, failure.Unexpected, failure.Reset),
	}
	announcements := map[string]string{
		"a big-endian number": "\x7f\xff\xff\xff", "a little-endian number": "\xff\xff\xff\x7f", "a uvarint": "\xff\xff\xff\xff\x07",
		"RESP": "$2147483647\r\n", "an AMQP frame": "\x01\x00\x00\x7f\xff\xff\xff",
	}
	for i, huge := range d.huge {
		announcements[fmt.Sprintf("its own protocol (%d)", i)] = huge
	}
	for name, text := range announcements {
		all = append(all, ending("announces 2 GB in "+name, announceHuge(text), oddAnswer...))
	}
	for seed := range uint64(4) {
		r := rand.NewChaCha8([32]byte{byte(seed)})
		garbage := make([]byte, 1<<16)
		r.Read(garbage)
		all = append(all,
			ending(fmt.Sprintf("garbage %d", seed), speaking("", string(garbage)), brokenOff...),
			strange(fmt.Sprintf("greets, then garbage %d", seed), after(func(c net.Conn, _ dialect) { c.Write(garbage) })))
	}
	return all
}

func silently(c net.Conn, _ dialect) { io.Copy(io.Discard, c) }

// after returns a server that greets and then does something else.
func after(then func(net.Conn, dialect)) func(net.Conn, dialect) {
	return func(c net.Conn, d dialect) {
		d.greetClient(c)
		then(c, d)
	}
}

// ask waits until it is the server's turn to greet, and returns the greeting.
func (d dialect) ask(c net.Conn) string {
	request := make([]byte, 1<<12)
	for !d.first {
		n, err := c.Read(request)
		if err != nil {
			return ""
		}
		request := request[:n]
		if d.again != nil && d.again(request) != "" {
			io.WriteString(c, d.again(request))
			continue
		}
		if d.greet != nil {
			return d.greet(request)
		}
		break
	}
	return d.greeting
}

func (d dialect) greetClient(c net.Conn) { io.WriteString(c, d.ask(c)) }

// speaking returns a server that sends first at once, and second after a request, or without one if its clients wait
// for the server to begin.
func speaking(first, second string) func(net.Conn, dialect) {
	return func(c net.Conn, d dialect) {
		io.WriteString(c, first)
		if !d.first {
			c.Read(make([]byte, 1<<12))
		}
		io.WriteString(c, second)
	}
}

// hangingUp is speaking with an orderly close: the unread part of a request would reset the connection, and lose the
// answer.
func hangingUp(first, second string) func(net.Conn, dialect) {
	return func(c net.Conn, d dialect) {
		speaking(first, second)(c, d)
		c.(interface{ CloseWrite() error }).CloseWrite()
		silently(c, d)
	}
}

func dripSlowly(c net.Conn, text string) {
	gone := make(chan struct{})
	go func() { silently(c, dialect{}); close(gone) }()
	for _, b := range []byte(text) {
		c.Write([]byte{b})
		select {
		case <-time.After(time.Second):
		case <-gone:
			return
		}
	}
	<-gone
}

// muchMore is how many bytes an endless server sends to a client that does not stop reading.
const muchMore = 64 << 20

// mostRead bounds what a server can send in an attempt that reads at most 1 MiB of it: the rest waits in the buffers of
// the sockets (tcp(7): tcp_rmem).
const mostRead = 1<<20 + 8<<20

func endlessly(text string) func(net.Conn, dialect) {
	return func(c net.Conn, _ dialect) { talkEndlessly(c, text) }
}

func announceHuge(text string) func(net.Conn, dialect) {
	return func(c net.Conn, d dialect) {
		speaking("", text)(c, d)
		talkEndlessly(c, "\x00")
	}
}

func talkEndlessly(c net.Conn, text string) {
	if text == "" {
		return
	}
	go silently(c, dialect{})
	block := bytes.Repeat([]byte(text), 1+(32<<10)/len(text))
	for sent := 0; sent < muchMore; sent += len(block) {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

// faultyServer is a server with a fault.
type faultyServer struct {
	addr string
	sent atomic.Int64 // the maximum on one connection
	l    net.Listener
	wg   sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// countedConn counts what its server sends.
type countedConn struct {
	*net.TCPConn
	sent int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	c.sent += int64(n)
	return n, err
}

func startFaulty(t testing.TB, f fault, d dialect, conf *tls.Config) *faultyServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &faultyServer{addr: l.Addr().String(), l: l}
	s.wg.Go(func() {
		for {
			accepted, err := l.Accept()
			if err != nil {
				return
			}
			counted := &countedConn{TCPConn: accepted.(*net.TCPConn)}
			counted.SetWriteBuffer(64 << 10) // otherwise megabytes are written that no client reads
			var c net.Conn = counted
			if conf != nil {
				c = tls.Server(counted, conf)
			}
			s.mu.Lock()
			s.conns = append(s.conns, counted)
			s.mu.Unlock()
			s.wg.Go(func() {
				defer c.Close()
				f.serve(c, d)
				for most := s.sent.Load(); counted.sent > most && !s.sent.CompareAndSwap(most, counted.sent); most = s.sent.Load() {
				}
			})
		}
	})
	return s
}

func (s *faultyServer) close() {
	s.l.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// faultPassword is in the targets of the tests, and must not be in any message.
var faultPassword = kindtest.Secrets[0]

// faultForms returns targets of a kind: of each scheme, with and without a login, with each of its settings. PASSWORD
// and ADDR are placeholders.
func faultForms(t *testing.T, k *target.Kind, d dialect) (plain, encrypted []string) {
	t.Helper()
	file := kindtest.File(t, faultPassword.Text)
	forms := slices.Clone(d.forms)
	for _, scheme := range k.Schemes {
		for _, user := range []string{"", "app:PASSWORD@"} {
			base := scheme + "://" + user + "ADDR"
			forms = append(forms, base, base+"#tls&insecure")
			for _, s := range k.Settings {
				if scheme == k.Schemes[0] && !slices.ContainsFunc(wire.EncryptionSettings, func(e target.Setting) bool { return e.Name == s.Name }) && !slices.Contains(keySettings, s.Name) {
					forms = append(forms, base+"#"+sample(s, file))
				}
			}
		}
	}
	for _, form := range forms {
		check, err := waitfor.Parse(faultTarget(form, "127.0.0.1:1"), target.Options{Getenv: func(string) string { return "" }})
		switch scheme, _, _ := strings.Cut(form, ":"); {
		case err != nil:
		case overTLS(k, scheme) || strings.Contains(form, "#tls"):
			if !strings.Contains(form, "insecure") {
				continue
			}
			encrypted = append(encrypted, form)
		default:
			plain = append(plain, form)
		}
		if err == nil && strings.Contains(check.String(), faultPassword.Text) {
			t.Errorf("%s is shown as %s", form, check)
		}
	}
	if len(plain) == 0 {
		t.Errorf("Parse takes none of %s", strings.Join(forms, " "))
	}
	return plain, encrypted
}

// keySettings name files that must be valid.
var keySettings = []string{"creds-file", "nkey-file"}

// overTLS reports whether a scheme is the kind's scheme with TLS.
func overTLS(k *target.Kind, scheme string) bool {
	program, rest, _ := strings.Cut(scheme, "+")
	without := strings.TrimSuffix(strings.TrimSuffix(program, "s")+"+"+rest, "+")
	return without != scheme && slices.Contains(k.Schemes, without) || rest == "srv"
}

// sample returns a setting with a valid value.
func sample(s target.Setting, file string) string {
	values := map[string]string{"": "", "FILE": file, "SQL": "select 1", "N": "1", "K": "k", "DURATION": "1s"}
	value, ok := values[s.Value]
	switch {
	case s.Value == "":
		return s.Name
	case !ok && strings.Contains(s.Value, "|"):
		value, _, _ = strings.Cut(s.Value, "|")
	case !ok:
		value = "x"
	}
	return s.Name + "=" + value
}

func faultTarget(form, addr string) string {
	return strings.NewReplacer("ADDR", addr, "PASSWORD", faultPassword.Text).Replace(form)
}

// servingKinds are the kinds whose targets are servers with their own protocol.
func servingKinds() []*target.Kind {
	return slices.DeleteFunc(slices.Clone(waitfor.Kinds()), func(k *target.Kind) bool { return !k.Hosts })
}

// TestFaults is not parallel: it counts goroutines and file descriptors, and what is allocated.
func TestFaults(t *testing.T) {
	servers.Slow(t)
	certificate := servers.NewCA(t).Server(t, "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(certificate.CertFile, certificate.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}}
	startFaulty(t, fault{}, dialect{}, nil).close() // the files of package net's own
	for _, k := range servingKinds() {
		goroutines, descriptors, allocated, attempts := runtime.NumGoroutine(), openFiles(t), totalAlloc(), 0
		t.Run(k.Schemes[0], func(t *testing.T) { attempts = testFaults(t, k, conf) })
		if spent := totalAlloc() - allocated; spent > 1<<30+uint64(attempts)<<20 {
			t.Errorf("%s: %d attempts, %d MB of memory: does an announcement make room for what is announced?", k.Schemes[0], attempts, spent>>20)
		}
		requireNoneLeft(t, goroutines, descriptors)
	}
}

func testFaults(t *testing.T, k *target.Kind, conf *tls.Config) (attempts int) {
	d, ok := dialects[k.Schemes[0]]
	if !ok {
		t.Fatalf("no dialect: give %s a line in dialects", k.Schemes[0])
	}
	plain, encrypted := faultForms(t, k, d)
	var wg sync.WaitGroup
	answered, waiting := make(chan struct{}, 32), make(chan struct{}, 512) // attempts at once: those that wait cost nothing
	try := func(f fault, forms []string, addr string, done func()) {
		var these sync.WaitGroup
		running := answered
		if f.hangs {
			running = waiting
		}
		for _, form := range forms {
			attempts++
			these.Add(1)
			wg.Go(func() {
				defer these.Done()
				running <- struct{}{}
				defer func() { <-running }()
				tryFault(t, f, faultTarget(form, addr))
			})
		}
		wg.Go(func() { these.Wait(); done() })
	}
	serve := func(f fault, forms []string, conf *tls.Config) {
		if len(forms) == 0 {
			return
		}
		s := startFaulty(t, f, d, conf)
		try(f, forms, s.addr, func() {
			s.close()
			if sent := s.sent.Load(); sent > mostRead {
				t.Errorf("%s: the server could send %d MB", f.name, sent>>20)
			}
		})
	}

	all := slices.Concat(plain, encrypted)
	try(ending("refuses", nil, failure.Refused), all, kindtest.RefusedAddr(t), func() {})
	hole, release := blackHole(t)
	defer release()
	try(hanging("black hole", nil, unanswered...), all, hole, func() {})
	for _, f := range faults(d) {
		f.name = "without TLS: " + f.name
		serve(f, plain, nil)
		if !d.startTLS {
			f.name = "with TLS: " + f.name[len("without TLS: "):]
			serve(f, encrypted, conf)
		}
	}
	anything := []failure.Class{failure.Reset, failure.Unexpected, failure.TLS}
	maybe := append(slices.Clone(anything), unanswered...)
	serve(ending("resets after accept", resetAtOnce, brokenOff...), plain, nil)
	serve(ending("resets where TLS should be", resetAtOnce, brokenOff...), encrypted, nil)
	serve(hanging("TLS on a plain port", silently, maybe...), plain, conf) // if the server should speak first, both wait
	serve(hanging("hangs where TLS should be", silently, unanswered...), encrypted, nil)
	serve(hanging("no TLS where it should be", after(silently), maybe...), encrypted, nil)
	serve(ending("mail where TLS should be", speaking("220 mail.example ESMTP\r\n", "500 what?\r\n"), anything...), encrypted, nil)
	serve(ending("garbage where TLS should be", speaking("", strings.Repeat("garbage", 1000)), anything...), encrypted, nil)
	wg.Wait()
	return attempts
}

// librarySpeech are messages of libraries, which must not be in a log.
var librarySpeech = regexp.MustCompile(`EOF|i/o timeout|(read|write|dial) tcp|malformed|closed network|strconv|invalid character|%!|busy buffer|runtime error|panic|bad connection|0x[0-9a-f]{6}|mail\.example|OpenSSH`)

// tryFault makes two attempts, which must fail with the same message.
func tryFault(t *testing.T, f fault, text string) {
	limit := 20 * time.Second // only a check that hangs takes as long
	if f.hangs {
		limit = 250 * time.Millisecond
	}
	o := target.Options{Getenv: func(string) string { return "" }}
	check, err := waitfor.Parse(text, o)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	before := ""
	for attempt := range 2 {
		start := time.Now()
		err := poll.Try(context.Background(), limit, check.Check)
		took := time.Since(start)
		if err == nil {
			if !f.strange {
				t.Errorf("%s: %s: ready", f.name, text)
			}
			return
		}
		said := failure.Of(err)
		complain := func(what string) {
			t.Errorf("%s: %s: %s: %s: %q (note %q, hint %q)", f.name, text, what, said.Class, said.Text, said.Note, said.Hint)
		}
		switch all := err.Error() + said.Text + said.Note + said.Hint; {
		case poll.IsPermanent(err):
			complain("is permanent")
		case took > limit+10*time.Second:
			complain(fmt.Sprintf("took %v", took))
		case !slices.Contains(f.classes, said.Class):
			complain("the class is wrong")
		case !regexp.MustCompile(faultTexts[said.Class]).MatchString(said.Text):
			complain("does not match " + faultTexts[said.Class])
		case librarySpeech.MatchString(said.Text + said.Note):
			complain("is a library's message")
		case said.Hint == "":
			complain("has no hint")
		case faultPassword.In(all) != "":
			complain("shows the password")
		case attempt > 0 && said.Text != before && !f.hangs && said.Class != failure.Reset && before != "":
			complain("differs from " + before)
		}
		if said.Class != failure.Reset {
			before = said.Text
		}
		if t.Failed() || f.hangs {
			return
		}
	}
}

func resetAtOnce(c net.Conn, _ dialect) {
	if c, ok := c.(*countedConn); ok {
		c.SetLinger(0)
	}
}

// blackHole returns an address that does not answer at all: Linux drops a SYN when the queue of connections to accept
// is full.
func blackHole(t testing.TB) (addr string, release func()) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr = fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
	var conns []net.Conn
	release = func() {
		syscall.Close(fd)
		for _, c := range conns {
			c.Close()
		}
	}
	for len(conns) < 8 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr, release
		}
		conns = append(conns, c)
	}
	release()
	t.Fatal("the queue does not fill")
	return "", nil
}

func openFiles(t testing.TB) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // not on Linux
	}
	return len(files)
}

func totalAlloc() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// requireNoneLeft requires that there are no more goroutines and open files than before.
func requireNoneLeft(t *testing.T, goroutines, descriptors int) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > goroutines || openFiles(t) > descriptors {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines and %d files are left, before there were %d and %d\n%s", runtime.NumGoroutine(), openFiles(t),
				goroutines, descriptors, stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(10 * time.Millisecond)
	}
}
