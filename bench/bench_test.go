package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"initbox/test/servers"
)

func TestPercentile(t *testing.T) {
	var hundred sample
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, c := range []struct {
		s    sample
		p    float64
		want time.Duration
	}{
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{sample{7}, 0.5, 7},
		{sample{7}, 0.99, 7},
		{sample{1, 2, 3}, 0.9, 3},
		{nil, 0.5, 0},
	} {
		if got := c.s.percentile(c.p); got != c.want {
			t.Errorf("percentile %v of %d values: %d, want %d", c.p, len(c.s), got, c.want)
		}
	}
}

func TestHuman(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234 * time.Microsecond:       "1.23 ms",
		85400 * time.Microsecond:      "85.4 ms",
		123456 * time.Microsecond:     "123 ms",
		1234 * time.Millisecond:       "1.23 s",
		-17300 * time.Microsecond:     "-17.3 ms",
		999_999 * time.Nanosecond / 2: "0.50 ms",
	} {
		if got := human(d); got != want {
			t.Errorf("human(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestOver(t *testing.T) {
	some := []outcome{
		{waited: 2 * time.Second, reaction: 130 * time.Millisecond},
		{waited: 2 * time.Second, reaction: time.Hour, err: errEarly}, // failed: does not count
	}
	if got := over(some); !slices.Equal(got, sample{10 * time.Millisecond}) {
		t.Errorf("over = %v, want only 130 ms − 6 %% of 2 s", got)
	}
}

func TestParseRefusesAReportThatIsNotWhole(t *testing.T) {
	for _, args := range [][]string{
		{"-write", "x", "-quick"},
		{"-only", "nothing"},
		{"-trials", "0"},
		{"-trials", "1001"},
		{"size"},
	} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("parse(%q) accepted", args)
		}
	}
	if o, err := parse([]string{"-only", "size"}, io.Discard); err != nil || o.trials != 100 {
		t.Errorf("parse(-only size) = %+v, %v", o, err)
	}
}

func TestWrap(t *testing.T) {
	word := strings.Repeat("é", 59) // columns are characters, not bytes
	if got, want := wrap(word+"  "+word+" a\nb c"), word+" "+word+"\na b c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReplaceReport(t *testing.T) {
	page := "# Title\n\n" + beginMark + "\nold\n" + endMark + "\n\nEnd.\n"
	want := "# Title\n\n" + beginMark + "\n\nnew\n\n" + endMark + "\n\nEnd.\n"
	got, err := replaceReport(page, "new\n")
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if again, err := replaceReport(got, "new\n"); err != nil || again != want {
		t.Errorf("not the same when done twice: %q, %v", again, err)
	}
	if _, err := replaceReport("# Title\n", "new\n"); err == nil {
		t.Error("a page without markers was accepted")
	}
}

func TestReplaceSection(t *testing.T) {
	report := func(targets, sections string) string {
		return "# Title\n\n" + beginMark + "\n\n### Targets\n\n| target | limit | measured |  |\n|---|---|---|---|\n" + targets +
			"\n" + sections + "\n### Machine and versions\n\n| a | b |\n\n" + endMark + "\n\nEnd.\n"
	}
	one, two := "### One\n\nfirst\n", "### Two\n\nsecond\n"
	s := &section{title: "New", about: "third", targets: []target{{"new", "1", "2", false}}}
	added := report("| one | 1 | 1 | met |\n| new | 1 | 2 | **missed** |\n", one+"\n"+two+"\n### New\n\nthird\n")
	got, err := replaceSection(report("| one | 1 | 1 | met |\n", one+"\n"+two), s)
	if err != nil || got != added {
		t.Errorf("added: %v\n%s\nwant\n%s", err, got, added)
	}
	if again, err := replaceSection(got, s); err != nil || again != added {
		t.Errorf("not the same when done twice: %v\n%s", err, again)
	}
	s = &section{title: "One", about: "changed", targets: []target{{"one", "3", "2", true}}}
	want := report("| one | 3 | 2 | met |\n| new | 1 | 2 | **missed** |\n", "### One\n\nchanged\n\n"+two+"\n### New\n\nthird\n")
	if got, err = replaceSection(added, s); err != nil || got != want {
		t.Errorf("replaced: %v\n%s\nwant\n%s", err, got, want)
	}
	if _, err := replaceSection(beginMark+"\n"+endMark, s); err == nil {
		t.Error("a page without a report was accepted")
	}
}

// A page that lost its markers would make a run of ten minutes worthless at its end.
func TestThePageHasItsMarkers(t *testing.T) {
	page, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replaceReport(string(page), ""); err != nil {
		t.Error(err)
	}
}

func TestArgv(t *testing.T) {
	vars := map[string]string{"host": "127.0.0.1", "port": "80", "addr": "127.0.0.1:80"}
	for _, c := range []struct {
		w    waiter
		want []string
	}{
		{dockerize("tcp://{addr}"), []string{"/x", "-wait", "tcp://127.0.0.1:80", "-timeout", patience}},
		{loop("nc", "nc", "{tool} -z {host} {port}", 2), []string{"/bin/sh", "-c", "until /x -z 127.0.0.1 80; do sleep 2; done"}},
		{loop("busybox", "busybox nc", "{tool} nc {host} {port}", 1), []string{"/x", "sh", "-c", "until /x nc 127.0.0.1 80; do /x sleep 1; done"}},
	} {
		if got := c.w.argv("/x", vars); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.w.name, got, c.want)
		}
	}
}

// everything pretends that all tools are installed.
func everything() *bench {
	b := &bench{tools: map[string]tool{}, trials: 3}
	for _, t := range known {
		b.tools[t.name] = t
	}
	return b
}

func TestPlanGivesEveryWaiterTheSameDelays(t *testing.T) {
	b := everything()
	delays := map[series][]time.Duration{}
	numbers := map[int]bool{}
	for _, tr := range b.plan(kinds(nil)) {
		key := series{tr.kind.name, tr.waiter.name}
		delays[key] = append(delays[key], tr.delay)
		numbers[tr.number] = true
		if tr.delay < 200*time.Millisecond || tr.delay > 5*time.Second {
			t.Errorf("a delay of %v", tr.delay)
		}
	}
	want := delays[series{"tcp", ours}]
	if len(want) != b.trials || want[0] == want[1] {
		t.Fatalf("delays of initbox: %v, want %d different ones", want, b.trials)
	}
	for key, got := range delays {
		if !slices.Equal(got, want) {
			t.Errorf("%v: delays %v, want %v", key, got, want)
		}
	}
	if len(numbers) != b.trials*len(delays) {
		t.Errorf("%d numbers for %d trials: services would share addresses", len(numbers), b.trials*len(delays))
	}
}

func TestDelaysCoverTheRange(t *testing.T) {
	ds := delays(rand.New(rand.NewPCG(1, 2)), 10, time.Second, 2*time.Second)
	if slices.IsSorted(ds) {
		t.Error("the delays only grow")
	}
	slices.Sort(ds)
	for i, d := range ds {
		from := time.Second + time.Duration(i)*100*time.Millisecond
		if d < from || d >= from+100*time.Millisecond {
			t.Errorf("no delay in the 100 ms after %v: %v", from, ds)
		}
	}
}

func TestEveryWaiterNamesAKnownTool(t *testing.T) {
	b := everything()
	b.tools[hello] = tool{name: hello}
	lists := [][]waiter{dnsWaiters, blackHoleWaiters, startWaiters, crowds[0].waiters(b)}
	for _, k := range kinds(nil) {
		lists = append(lists, k.waiters)
	}
	for _, d := range databaseServers {
		for _, k := range d.waits {
			lists = append(lists, k.waiters)
		}
	}
	for _, list := range lists {
		if got := b.present(list); len(got) != len(list) {
			t.Errorf("%d of %d waiters have a known tool", len(got), len(list))
		}
		seen := map[string]bool{}
		for _, w := range list {
			if seen[w.name] {
				t.Errorf("two waiters are called %q: their outcomes would be mixed up", w.name)
			}
			seen[w.name] = true
			if line := strings.Join(w.argv("/x", b.vars("h")), " "); !strings.Contains(line, "/x") {
				t.Errorf("%s does not run its tool: %s", w.name, line)
			}
		}
	}
}

// newTestBench can start processes and services.
func newTestBench(t *testing.T) *bench {
	port, claim, err := claimPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { claim.Close() })
	return &bench{dir: t.TempDir(), port: port, log: io.Discard}
}

func TestAwait(t *testing.T) {
	b := newTestBench(t)
	flag := filepath.Join(b.dir, "there")
	create := func() error { return os.WriteFile(flag, nil, 0o644) }
	const delay = 200 * time.Millisecond

	o := b.await(t.Context(), []string{"/bin/sh", "-c", "until test -e " + flag + "; do sleep 0.05; done"}, delay, create)
	if o.err != nil || o.waited < delay || o.reaction <= 0 || o.reaction > 30*time.Second {
		t.Errorf("a loop: %+v", o)
	}
	// A waiter that is done before there is anything must not look like a fast one.
	o = b.await(t.Context(), []string{"/bin/sh", "-c", "exit 0"}, time.Minute, create)
	if !errors.Is(o.err, errEarly) {
		t.Errorf("a waiter that does not wait: %v, want %v", o.err, errEarly)
	}
	o = b.await(t.Context(), []string{"/bin/sh", "-c", "sleep 0.3; echo out of luck >&2; exit 3"}, delay, create)
	if o.err == nil || !strings.Contains(o.err.Error(), "out of luck") {
		t.Errorf("a waiter that fails: %v", o.err)
	}
}

func TestServicesAreNotThereUntilOpened(t *testing.T) {
	for name, serve := range map[string]func(*bench, int) (*service, error){
		"tcp": tcpService, "http": httpService, "grpc": grpcService, "unix": unixService, "file": fileService,
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestBench(t)
			s, err := serve(b, 63_003)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			there := func() bool {
				if path := s.vars["path"]; path != "" {
					_, err := os.Stat(path)
					return err == nil
				}
				c, err := net.Dial("tcp", s.vars["addr"])
				if err == nil {
					c.Close()
				}
				return err == nil
			}
			if there() {
				t.Error("there before it was opened")
			}
			if err := s.open(); err != nil {
				t.Fatal(err)
			}
			if !there() {
				t.Error("not there after it was opened")
			}
		})
	}
}

func TestAuthorityBehindCounter(t *testing.T) {
	b := newTestBench(t)
	a, err := newAuthority(loopback(serviceNet, 63_001), b.port, zone, 30)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	addr := net.JoinHostPort(a.host, strconv.Itoa(a.port))
	count := &counter{upstream: addr}
	stop, err := serveDNS(loopback(serviceNet, 63_002), b.port, count)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	q := new(dns.Msg).SetQuestion("mydb."+zone, dns.TypeA)
	for _, network := range []string{"udp", "tcp"} {
		client := dns.Client{Net: network}
		answer, _, err := client.Exchange(q, net.JoinHostPort(loopback(serviceNet, 63_002), strconv.Itoa(b.port)))
		if err != nil {
			t.Fatal(err)
		}
		soa, ok := answer.Ns[0].(*dns.SOA)
		if answer.Rcode != dns.RcodeNameError || !ok || soa.Minttl != 30 || soa.Hdr.Ttl != 30 {
			t.Errorf("%s: before: %v", network, answer)
		}
	}
	if at, published := a.lastDenied("mydb." + zone); published || time.Since(at) > time.Minute {
		t.Errorf("lastDenied = %v, %v", at, published)
	}
	a.publish("mydb." + zone)
	if rcode, err := ask(addr, "mydb."+zone, true); err != nil || rcode != dns.RcodeSuccess {
		t.Errorf("after: %d, %v", rcode, err)
	}
	if n := count.queries.Load(); n != 2 {
		t.Errorf("%d queries counted, want 2", n)
	}
}

func TestLayerSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, bytes.Repeat([]byte("program "), 1000), 0o755); err != nil {
		t.Fatal(err)
	}
	size, layer, err := layerSize(path)
	if err != nil || size != 8000 || layer < 100 || layer > 1000 {
		t.Errorf("layerSize = %d, %d, %v", size, layer, err)
	}
	var b bytes.Buffer
	if err := writeLayer(&b, path); err != nil || int64(b.Len()) != layer {
		t.Fatalf("layer of %d bytes, %v, want %d", b.Len(), err, layer)
	}
	zip, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	header, err := tar.NewReader(zip).Next()
	if err != nil || header.Name != "program" || header.Size != size {
		t.Errorf("in the layer: %+v, %v", header, err)
	}
}

func TestMissingInitboxIsSaid(t *testing.T) {
	var stderr strings.Builder
	status := run([]string{"-initbox", filepath.Join(t.TempDir(), "initbox"), "-only", "size"}, io.Discard, &stderr)
	if status != 1 || !strings.Contains(stderr.String(), "build it first") {
		t.Errorf("status %d: %s", status, stderr.String())
	}
}

func TestSectionsThatCannotRunAreInTheReport(t *testing.T) {
	b := newTestBench(t)
	skipped := func(context.Context, *bench) (*section, error) {
		return nil, errors.Join(errSkipped, errors.New("no unbound"))
	}
	broken := func(context.Context, *bench) (*section, error) { return nil, errors.New("broke") }
	sections, err := b.runAll(t.Context(), []benchmark{{"one", skipped}, {"two", broken}})
	if err == nil || strings.Contains(err.Error(), "unbound") || !strings.Contains(err.Error(), "broke") {
		t.Errorf("runAll: %v, want only the failure of the second", err)
	}
	report := b.render(sections, time.Now(), time.Second)
	for _, want := range []string{"no unbound", "broke"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not say %q:\n%s", want, report)
		}
	}
}

// The figures of the DNS benchmark rest on this: the entry can be watched to its end, and watching does not renew it.
func TestWatchEntrySeesTheEndOfANegativeEntry(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for two seconds")
	}
	b := newTestBench(t)
	b.tools = map[string]tool{"unbound": {path: servers.Need(t, "unbound")}}
	a, err := newAuthority(loopback(serviceNet, authorityHost), b.port, zone, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	cache, err := b.startUnbound(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.stop()

	name := "mydb." + zone
	if rcode, err := ask(b.cacheAddr(), name, true); err != nil || rcode != dns.RcodeNameError {
		t.Fatalf("before: %d, %v", rcode, err)
	}
	denied, _ := a.lastDenied(name)
	a.publish(name)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	last := <-watchEntry(ctx, a, b.cacheAddr(), name)
	if life := last.Sub(denied); life < 800*time.Millisecond || life > 3*time.Second {
		t.Errorf("an entry for 1 s (of whole seconds) was seen for %v", life)
	}
	if again, _ := a.lastDenied(name); again != denied {
		t.Error("watching made the cache ask again")
	}
	if rcode, err := ask(b.cacheAddr(), name, true); err != nil || rcode != dns.RcodeSuccess {
		t.Errorf("after: %d, %v", rcode, err)
	}
}

func TestBlackHoleOpens(t *testing.T) {
	b := newTestBench(t)
	b.tools = map[string]tool{"ip": {path: servers.Need(t, "ip")}}
	ns, err := newNamespace(t.Context(), b)
	if errors.Is(err, errSkipped) {
		t.Skip(err) // not root
	}
	if err != nil {
		t.Fatal(err)
	}
	defer ns.close()
	l, err := ns.listen(net.JoinHostPort("0.0.0.0", strconv.Itoa(b.port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go hold(l)
	dial := func(limit time.Duration) error {
		return ns.do(func() error {
			c, err := net.DialTimeout("tcp4", net.JoinHostPort(holeAddr(1), strconv.Itoa(b.port)), limit)
			if err == nil {
				c.Close()
			}
			return err
		})
	}
	var timeout net.Error
	if err := dial(200 * time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("before it opens: %v, want a timeout", err)
	}
	if err := ns.ip(t.Context(), "address", "add", holeAddr(1)+"/32", "dev", "lo"); err != nil {
		t.Fatal(err)
	}
	if err := dial(20 * time.Second); err != nil {
		t.Errorf("after it opened: %v", err)
	}
}

func TestEveryRendererNamesAKnownTool(t *testing.T) {
	b := everything()
	seen := map[string]bool{}
	for _, c := range renderings(b) {
		for _, r := range b.fit(c) {
			seen[r.name] = true
		}
	}
	for _, r := range renderers {
		if !seen[r.name] {
			t.Errorf("%s is never run: is %s a known tool?", r.name, r.tool)
		}
		delete(seen, r.name) // a second one of that name would be missing
		w, err := newWorkload(t.TempDir(), rendering{files: 2}, r)
		if err != nil {
			t.Fatal(err)
		}
		line := strings.Join(w.argv("/x"), " ")
		if !strings.Contains(line, "/x") || strings.Contains(line, "{") {
			t.Errorf("%s does not run its tool, or has a placeholder left: %s", r.name, line)
		}
	}
}

// substitute is a renderer that is everywhere.
var substitute = renderer{
	name: "sed", tool: "sh", language: language{variable: "@NAME@", suffix: ".in"},
	file: []string{"{tool}", "-c", "sed " + sedArgs + " {in} >{out}"},
	tree: []string{"{tool}", "-c", "cd {in} && for f in */*; do sed " + sedArgs + ` "$f" >{out}/"${f%.in}"; done`}, mkdir: true,
}

const sedArgs = `-e "s|@APP_NAME@|$APP_NAME|g; s|@APP_HOST@|$APP_HOST|g; s|@APP_PORT@|$APP_PORT|g` +
	`; s|@APP_LEVEL@|$APP_LEVEL|g; s|@APP_DATABASE@|$APP_DATABASE|g; s|@APP_CACHE@|$APP_CACHE|g"`

func TestRunRenderer(t *testing.T) {
	for name, c := range map[string]rendering{"file": {files: 1}, "tree": {files: filesPerDir + 1}} {
		t.Run(name, func(t *testing.T) {
			b := newTestBench(t)
			b.tools = map[string]tool{"sh": {path: "/bin/sh"}}
			w, err := newWorkload(filepath.Join(b.dir, "x"), c, substitute)
			if err != nil {
				t.Fatal(err)
			}
			var sum renderCost
			for range 2 {
				if err := b.runRenderer(t.Context(), w, &sum); err != nil {
					t.Fatal(err)
				}
			}
			if len(sum.wall) != 2 || sum.wall.median() <= 0 || len(sum.cpu) != 2 || sum.peak <= 0 {
				t.Errorf("%+v", sum)
			}
			if err := os.WriteFile(filepath.Join(w.out, "other"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := w.check(); err == nil {
				t.Error("a file too many was not found")
			}
			w.environ = []string{"PATH=/usr/bin:/bin"}
			if err := b.runRenderer(t.Context(), w, &sum); err == nil || len(sum.wall) != 2 {
				t.Errorf("results without the values of variables counted: %v", err)
			}
		})
	}
}

// What is installed here has to understand its row of the table: results are compared.
func TestRenderersThatAreInstalled(t *testing.T) {
	b := newTestBench(t)
	b.tools = map[string]tool{}
	for _, k := range known {
		path, err := k.find(t.Context())
		if k.path = path; err == nil && k.name != ours {
			b.tools[k.name] = k
		}
	}
	for _, c := range []rendering{{"a file", 1, 0, 1}, {"a tree", filesPerDir + 1, 0, 1}, {"a loop", 1, 3, 1}} {
		costs, err := b.runRendering(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range costs {
			if f.err != nil {
				t.Errorf("%s, %s: %v", c.name, name, f.err)
			}
		}
	}
}

func TestLanguage(t *testing.T) {
	for _, c := range []struct {
		l    language
		c    rendering
		want string
	}{
		{initboxGo, rendering{}, "server_name {{ .Env.APP_HOST }};\n"},
		{shellSubst, rendering{}, "server_name ${APP_HOST};\n"},
		{gomplateGo, rendering{lines: 10}, "{{ range math.Seq 0 9 }}listener {{ . }}: half"},
		{jinja2, rendering{lines: 10}, "{% for i in range(10) %}listener {{ i }}: half"},
	} {
		if got := c.l.template(c.c); !strings.Contains(got, c.want) {
			t.Errorf("%q is not in the template:\n%s", c.want, got)
		}
	}
	if got := numbered(rendering{}.result(), 7); strings.Contains(got, "APP_") || !strings.Contains(got, "# shop, file 7\n") || len(got) < 1000 || len(got) > 1200 {
		t.Errorf("the small file, of %d bytes:\n%s", len(got), got)
	}
	if got := (rendering{lines: 2}).result(); len(got) < 990 || len(got) > 1010 || !strings.Contains(got, "\nlistener 1: ") {
		t.Errorf("two lines of half a kilobyte, %d bytes:\n%s", len(got), got)
	}
}

func TestRenderTargets(t *testing.T) {
	of := func(wall time.Duration, peak int64) *renderCost {
		return &renderCost{cost: cost{wall: sample{wall}}, peak: peak}
	}
	cases := renderings(everything())
	all := map[rendering]map[string]*renderCost{
		cases[0]: {ours: of(1, 1<<10)},
		cases[1]: {ours: of(10, 3<<10), oursOneCore: of(15, 0), oursTwoCores: of(10, 0), theirs: of(49, 0)},
		cases[2]: {ours: of(1, 33<<10), oursJinja: of(1, 32<<10)},
		cases[3]: {ours: of(1, 4<<10)},
	}
	met := map[string]bool{}
	for _, g := range renderTargets(cases, all) {
		met[g.what] = g.met
	}
	for what, want := range map[string]bool{"10 000 files, elapsed": false, "resident, 10 000 files": false, "resident, one of 50 MB, initbox": false,
		"resident, one of 50 MB, initbox, Jinja": true, "resident, 50 MB in 100 files, initbox": true} {
		if got, there := met[what]; !there || got != want {
			t.Errorf("%s: %v, %v, want %v; there are %v", what, got, there, want, met)
		}
	}
	all[cases[1]][theirs] = of(50, 0)
	if g := renderTargets(cases, all)[0]; g.what != "10 000 files, elapsed" || !g.met {
		t.Errorf("%+v, want it met", g)
	}
	delete(all[cases[1]], theirs) // it is not installed
	if g := renderTargets(cases, all)[0]; g.what == "10 000 files, elapsed" {
		t.Errorf("a target without the other tool: %+v", g)
	}
}

func TestPeak(t *testing.T) {
	b := newTestBench(t)
	peak := func(script string) (int64, bool) {
		t.Helper()
		shrink()
		p, err := b.start(t.Context(), []string{"/bin/sh", "-c", script})
		if err != nil {
			t.Fatal(err)
		}
		if <-p.done; p.err != nil {
			t.Fatal(p.err)
		}
		return p.peak()
	}
	const much = 128 << 10 // KiB
	if kib, bound := peak(":"); kib >= much || kib <= 0 {
		t.Errorf("a shell that does nothing: %d KiB, %v", kib, bound)
	}
	if kib, bound := peak("x=$(head -c 134217728 /dev/zero | tr '\\0' x)"); kib < much || bound {
		t.Errorf("a shell with 128 MiB: %d KiB, %v", kib, bound)
	}
}
