package kubeget

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/internal/stage"
	"initbox/test/fakeapi"
	"initbox/test/soak"
)

// watching is a watcher that a test looks with.
type watching struct {
	*Watcher
	t       *testing.T
	s       *fakeapi.Server
	dst     string
	log     *bytes.Buffer
	noticed []string // errors, by until
}

// watch returns a watcher of the ConfigMaps with the label dash.
func watch(t *testing.T, set func(*WatchOptions), objects ...string) *watching {
	t.Helper()
	s, flags := api(t, objects...)
	target, err := Parse("k8s:configmaps?selector=dash=1", flags)
	if err != nil {
		t.Fatal(err)
	}
	target.Namespace = AllNamespaces
	w := &watching{t: t, s: s, dst: filepath.Join(t.TempDir(), "dst"), log: new(bytes.Buffer)}
	o := WatchOptions{Options: Options{Targets: []*Target{target}, Dst: w.dst, Getenv: func(string) string { return "" }, Log: slog.New(slog.NewTextHandler(w.log, nil))}, Every: time.Hour, FolderIn: "folder"}
	if set != nil {
		set(&o)
	}
	w.Watcher = NewWatcher(o)
	t.Cleanup(w.Close)
	return w
}

// until looks until the directory holds the files, by name and content.
func (w *watching) until(want map[string]string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	ctx = poll.Notice(ctx, func(err error) {
		if err != nil {
			w.noticed = append(w.noticed, err.Error())
		}
	})
	for {
		_, _, err := w.Look(ctx)
		got := files(w.t, w.dst)
		if maps.Equal(got, want) {
			return
		}
		select {
		case <-w.Wake():
		case <-time.After(time.Second): // what has failed
		}
		if ctx.Err() != nil {
			w.t.Fatalf("%v: %v, want %v\n%s", err, got, want, w.log)
		}
	}
}

// files returns the contents by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == stage.ListName {
			return err
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		all[rel] = string(text)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

// configMap is an object of a random test.
type configMap struct {
	namespace, name, created, folder string
	data                             map[string]string
}

func (c configMap) json() string {
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": c.data,
		"metadata": map[string]any{"name": c.name, "namespace": c.namespace, "creationTimestamp": c.created, "labels": map[string]string{"dash": "1"}, "annotations": map[string]string{"folder": c.folder}},
	})
	return string(text)
}

func (c configMap) age() string { return c.created + " ConfigMap " + c.namespace + "/" + c.name }

// expected returns the files that objects are, whichever order they came in: the oldest first, each what is not in the
// way of older ones.
func expected(all map[string]configMap) map[string]string {
	want, dirs := map[string]string{}, map[string]bool{}
	objects := slices.SortedFunc(maps.Values(all), func(a, b configMap) int { return strings.Compare(a.age(), b.age()) })
	for _, o := range objects {
		own := map[string]string{}
		for key, text := range o.data {
			name := path.Join(o.folder, key)
			free := !dirs[name]
			for at := name; at != "."; at = path.Dir(at) {
				if _, taken := want[at]; taken {
					free = false
				}
			}
			if free {
				own[name] = text
			}
		}
		for name, text := range own {
			want[name] = text
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				dirs[dir] = true
			}
		}
	}
	return want
}

// TestWatchRandom changes objects that fight for files, and folders with the names of files, at random. After each
// change, the directory holds what the objects say, which depends on nothing else, and the last watcher of several
// finds nothing to change.
func TestWatchRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for many changes")
	}
	t.Parallel()
	r := soak.Rand(t)
	w := watch(t, nil)
	all := map[string]configMap{}
	for range 25 {
		for range 1 + r.IntN(4) {
			c := configMap{namespace: []string{"default", "far"}[r.IntN(2)], name: string(rune('a' + r.IntN(4)))}
			id := c.namespace + "/" + c.name
			if old, there := all[id]; there && r.IntN(3) == 0 {
				if err := w.s.Delete("configmaps", old.namespace, old.name); err != nil {
					t.Fatal(err)
				}
				delete(all, id)
				continue
			}
			if c.created = fmt.Sprintf("2026-01-0%dT00:00:00Z", 1+r.IntN(3)); all[id].created != "" {
				c.created = all[id].created
			}
			c.folder = []string{"", "", "x", "x/y"}[r.IntN(4)]
			c.data = map[string]string{}
			for range r.IntN(3) {
				c.data[[]string{"x", "y", "z"}[r.IntN(3)]] = fmt.Sprint(id, r.IntN(100))
			}
			all[id] = c
			if err := w.s.Apply(c.json()); err != nil {
				t.Fatal(err)
			}
		}
		w.until(expected(all))
	}
	again := NewWatcher(w.o)
	defer again.Close()
	if _, changed, err := again.Look(t.Context()); changed || err != nil {
		t.Errorf("a restart has changed something: %v", err)
	}
}

// TestWatchRepairs pins that a complete list, after its time, repairs what other programs have done, and that files of
// others stay.
func TestWatchRepairs(t *testing.T) {
	c := configMap{name: "a", namespace: "default", data: map[string]string{"x": "1", "y": "2"}}
	w := watch(t, func(o *WatchOptions) { o.Every = time.Millisecond }, c.json())
	w.until(map[string]string{"x": "1", "y": "2"})
	if err := errors.Join(os.Remove(w.dst+"/x"), os.WriteFile(w.dst+"/y", []byte("other"), 0o600), os.WriteFile(w.dst+"/mine", []byte("m"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.until(map[string]string{"x": "1", "y": "2", "mine": "m"})
}

// TestWatchMany pins that there are no limits that many or large objects meet, with one list of several pages.
func TestWatchMany(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of objects")
	}
	var objects []string
	want := map[string]string{}
	for i := range 2000 {
		name := fmt.Sprintf("c%04d", i)
		objects = append(objects, configMap{name: name, namespace: "default", data: map[string]string{name: name}}.json())
		want[name] = name
	}
	large := strings.Repeat("0123456789abcde\n", 65000) // a MiB is the most that an object may have
	objects = append(objects, configMap{name: "large", namespace: "default", data: map[string]string{"large": large}}.json())
	want["large"] = large
	w := watch(t, nil, objects...)
	w.until(want)
	lists := slices.DeleteFunc(w.s.Requests(), func(line string) bool { return !strings.HasPrefix(line, "list ") })
	if pages := 2001/20 + 1; len(lists) != pages {
		t.Errorf("%d requests for the list, want %d pages", len(lists), pages)
	}
}

// TestWatchFetch pins that what cannot be fetched leaves the file as it was, and is tried again; that no credentials
// are sent; and which URLs and archives are refused.
func TestWatchFetch(t *testing.T) {
	status := http.StatusServiceUnavailable
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("credentials were sent")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "page")
	}))
	defer web.Close()
	c := configMap{name: "a", namespace: "default", data: map[string]string{"x.url": web.URL + "/?token=hunter2", "f.url": "file:///etc/passwd", "o.gz": "no gzip", ".url": "1", ".gz": "2"}}
	w := watch(t, func(o *WatchOptions) { o.Fetch, o.Unzip = &Fetcher{Timeout: 10 * time.Second}, true }, c.json())
	w.until(map[string]string{".url": "1", ".gz": "2"})
	for _, text := range []string{"fetch x from " + web.URL, "status 503", "fetch f from file:///etc/passwd: not a URL such as", "o is not written: it is not a gzip file"} {
		if !strings.Contains(w.log.String(), text) {
			t.Errorf("the log does not say %q:\n%s", text, w.log)
		}
	}
	if strings.Contains(w.log.String(), "hunter2") {
		t.Error("the log has a secret of the URL")
	}
	status = http.StatusOK
	w.until(map[string]string{".url": "1", ".gz": "2", "x": "page"})
	if want := "fetch x from " + web.URL + "/?…: status 503 Service Unavailable"; !slices.Contains(w.noticed, want) {
		t.Errorf("noticed %q, want %q", w.noticed, want)
	}
	status = http.StatusInternalServerError
	delete(c.data, ".url")
	w.s.Apply(c.json())
	w.until(map[string]string{".gz": "2", "x": "page"})
}

// TestWatchAllDeleted pins that a run removes the files of an earlier one if all their objects are gone meanwhile.
func TestWatchAllDeleted(t *testing.T) {
	w := watch(t, nil, configMap{name: "a", namespace: "default", data: map[string]string{"k": "1"}}.json())
	w.until(map[string]string{"k": "1"})
	w.Close()
	next := watch(t, func(o *WatchOptions) { o.Dst = w.dst })
	next.dst = w.dst
	next.until(map[string]string{})
}

// TestWatchHangingFetch pins that a server that does not answer holds up no change of another object, nor the end.
func TestWatchHangingFetch(t *testing.T) {
	asked := make(chan bool, 1)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- true
		<-r.Context().Done()
	}))
	t.Cleanup(web.Close)
	c := configMap{name: "a", namespace: "default", data: map[string]string{"k": "1"}}
	w := watch(t, func(o *WatchOptions) { o.Fetch = &Fetcher{Timeout: time.Hour} }, c.json())
	w.until(map[string]string{"k": "1"})
	c.data["k"], c.data["x.url"] = "2", web.URL
	w.s.Apply(c.json())
	w.until(map[string]string{"k": "2"})
	<-asked
	c.data["k"] = "3"
	w.s.Apply(c.json())
	w.until(map[string]string{"k": "3"})
}

// TestWatchBomb pins that a small value does not become a file of any size.
func TestWatchBomb(t *testing.T) {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	z.Write(make([]byte, maxUnzipped+1))
	z.Close()
	f := watched{File: File{Name: "x", Content: b.Bytes()}, unzip: true}
	if err := f.check(); err == nil || !strings.Contains(err.Error(), "larger than 256 MiB") {
		t.Errorf("%v", err)
	}
	f.Content = f.Content[:len(f.Content)/2]
	if err := f.check(); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("half of it: %v", err)
	}
}

// TestBelow pins which folders an annotation may name.
func TestBelow(t *testing.T) {
	for text, want := range map[string]string{
		"": ".", "team": "team", "team/a/": "team/a", "./team": "team", "a/../b": "b", "/tmp/dash": ".", "/tmp/dash/": ".", "/tmp/dash/x/": "x", "/tmp/dash//x": "x",
		"..": "!", "../x": "!", "a/../../x": "!", "/": "!", "/tmp": "!", "/tmp/dashboards": "!", "/tmp/dash/../x": "!", "/etc/passwd": "!",
	} {
		got, err := below("/tmp/dash/", text)
		if want == "!" && err == nil || want != "!" && (got != want || err != nil) {
			t.Errorf("%q: %q, %v, want %s", text, got, err, want)
		}
	}
	if got, err := below("/", "/tmp/x"); got != "tmp/x" || err != nil {
		t.Errorf("below /: %q, %v", got, err)
	}
}

// TestWatchHealth pins that the API server may be away for a while before Health fails.
func TestWatchHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &follow{target: parse(t, "k8s:cm?all"), cluster: &cluster{o: &Options{}}}
		w := &Watcher{follows: []*follow{f}, wake: make(chan struct{}, 1)}
		f.w = w
		f.report(errors.New("away"))
		time.Sleep(patience)
		if err := w.Health(); err != nil {
			t.Errorf("%v", err)
		}
		f.report(errors.New("still away"))
		time.Sleep(time.Second)
		if err := w.Health(); err == nil || !strings.Contains(err.Error(), "k8s:cm?all: for 31s: ") {
			t.Errorf("%v", err)
		}
		f.report(nil)
		if err := w.Health(); err != nil {
			t.Errorf("%v", err)
		}
	})
}

// TestWatchNoticed pins that each failed list is noticed once, though those that fail in the same way report it once.
func TestWatchNoticed(t *testing.T) {
	f := &follow{target: parse(t, "k8s:cm?all"), cluster: &cluster{o: &Options{}}, problem: errNotListed}
	w := &Watcher{o: WatchOptions{Options: Options{Log: slog.New(slog.DiscardHandler)}}, follows: []*follow{f}, wake: make(chan struct{}, 1), last: make([]string, 1)}
	f.w = w
	var noticed []string
	successes := 0
	ctx := poll.Notice(t.Context(), func(err error) {
		if err == nil {
			successes++
		} else {
			noticed = append(noticed, err.Error())
		}
	})
	for i, step := range []func(){f.Begin, func() { f.report(errors.New("away")) }, f.Begin, f.Begin, f.Begin, func() { f.report(nil) }, f.Begin} {
		step()
		w.problems(ctx)
		if want := []int{0, 1, 1, 2, 3, 3, 3}[i]; len(noticed) != want {
			t.Errorf("step %d: noticed %q, want %d", i, noticed, want)
		}
		if want := []int{0, 0, 0, 0, 0, 1, 2}[i]; successes != want {
			t.Errorf("step %d: %d successes, want %d", i, successes, want)
		}
	}
	if noticed[0] != "k8s:cm?all: API server: away" {
		t.Errorf("%q", noticed)
	}
}

// FuzzWatched requires of every object that its files are names below DST that a stage takes, and that no message is
// more than a line.
func FuzzWatched(f *testing.F) {
	f.Add("a", "folder", "x.gz", "AAEC")
	f.Add("..", "/etc", "..data", "x!")
	f.Add("a/b", "../..", ".initbox-files", "")
	f.Add("\x1b[2J", "a\nb", strings.Repeat("x", 300), "eA==")
	f.Fuzz(func(t *testing.T, name, folder, key1, value string) {
		tree := newTree(&WatchOptions{Options: Options{Dst: "/dst"}, FolderIn: "folder", Unique: len(name)%2 == 0, Unzip: true, Fetch: &Fetcher{}})
		target := parse(t, "k8s:cm?all")
		o := kube.Object{"metadata": map[string]any{"name": name, "annotations": map[string]any{"folder": folder}},
			"data": map[string]any{key1: value}, "binaryData": map[string]any{key1 + ".url": base64.StdEncoding.EncodeToString([]byte(value))}}
		now := &entry{}
		for _, f := range tree.filesOf(key{target, "ns", name}, o, now) {
			if err := stage.CheckName(f.Name); err != nil {
				t.Errorf("%q: %v", f.Name, err)
			}
		}
		for _, text := range now.wrong {
			if strings.ContainsAny(text, "\n\x1b\x00") {
				t.Errorf("message %q", text)
			}
		}
	})
}

// TestFetchFromMetadataService pins which addresses nothing is fetched from.
func TestFetchFromMetadataService(t *testing.T) {
	for address, want := range map[string]bool{
		"169.254.169.254:80": false, "[fe80::1]:80": false, "[::ffff:169.254.169.254]:80": false, "10.0.0.1:80": true, "127.0.0.1:80": true, "[fd00::1]:80": true,
	} {
		if err := allowed(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
