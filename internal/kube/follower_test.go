package kube

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a test with a fake server in a time of its own.
func bubble(t *testing.T, test func(t *testing.T, f *fake, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		test(t, f, f.client(t))
	})
}

// wantPhase waits until everything is done that can be done now.
func wantPhase(t *testing.T, f *Follower, name, want string) {
	t.Helper()
	synctest.Wait()
	if got := phase(f, name); !strings.Contains(got, want) {
		t.Fatalf("%s is %q, want %q", name, got, want)
	}
}

func wantCounts(t *testing.T, f *fake, want string) {
	t.Helper()
	got := fmt.Sprintf("%d lists, %d watches, %d gets", f.count("list"), f.count("watch"), f.count("get"))
	if got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

func fired(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestFollow(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		follower := c.Follow(Query{Resource: pods, Namespace: "default", Names: []string{"a"}})
		wantPhase(t, follower, "a", "error: the API server has not answered yet")
		follower = follow(t, c, "a")
		if err := follower.Synced(t.Context()); err != nil {
			t.Fatal(err)
		}
		mine, any := follower.Changes(t.Context(), "a"), follower.Changes(t.Context(), "")
		wantPhase(t, follower, "a", "none")
		f.put("a", "Pending")
		wantPhase(t, follower, "a", "Pending")
		if !fired(mine) || !fired(any) || fired(mine) {
			t.Error("a change fires once")
		}
		f.put("other", "Pending")
		if fired(mine) || fired(any) {
			t.Error("another Pod's change fires")
		}
		f.put("a", "Running")
		wantPhase(t, follower, "a", "Running")
		o, _ := follower.Object("a")
		if o.At("metadata", "managedFields") != nil {
			t.Error("managedFields are kept")
		}
		f.remove("a")
		wantPhase(t, follower, "a", "none")
		wantCounts(t, f, "1 lists, 1 watches, 0 gets")
	})
}

// The promise: 200 objects at once cost one list and one watch, and no memory for the rest of the namespace.
func TestFollow200(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		var names []string
		for i := range 200 {
			names = append(names, fmt.Sprintf("mine-%d", i))
			f.put(fmt.Sprintf("other-%d", i), "Running")
		}
		follower := follow(t, c, names...)
		synctest.Wait()
		for _, name := range names {
			f.put(name, "Running")
			f.put("other-"+name, "Running")
		}
		wantPhase(t, follower, "mine-199", "Running")
		all, err := follower.Objects()
		if len(all) != 200 || err != nil || all[0].Name() != "mine-0" || all[1].Name() != "mine-1" || all[2].Name() != "mine-10" {
			t.Fatalf("%d objects, %v", len(all), err)
		}
		if len(follower.whole.objects) != 200 {
			t.Errorf("%d objects are held", len(follower.whole.objects))
		}
		wantCounts(t, f, "1 lists, 1 watches, 0 gets")
		if n := f.count("dial"); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// A watch that ends is gone on with from the last version seen, be it a bookmark's.
func TestResume(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		follower := follow(t, c, "a")
		for range 20 {
			time.Sleep(29 * time.Second)
			f.bookmark()
			synctest.Wait()
			f.compact() // what is before the bookmark
		}
		f.put("a", "Running")
		wantPhase(t, follower, "a", "Running")
		if lists, watches := f.count("list"), f.count("watch"); lists != 1 || watches < 580/25 || watches > 580/20+2 {
			t.Errorf("%d lists, %d watches in 580 s", lists, watches)
		}
	})
}

func TestGone(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.put("a", "Running")
		follower := follow(t, c, "a", "b")
		wantPhase(t, follower, "a", "Running")
		f.crash()
		f.remove("a")
		f.put("b", "Running")
		f.compact()
		time.Sleep(5 * time.Second)
		wantPhase(t, follower, "a", "error: "+errRefused.Error())
		f.do(func() { f.deny = nil })
		time.Sleep(2 * time.Second)
		wantPhase(t, follower, "a", "none")
		wantPhase(t, follower, "b", "Running")
		if f.count("list") != 2 {
			t.Errorf("%d lists, want one more after 410", f.count("list"))
		}
	})
}

func TestErrorEvents(t *testing.T) {
	for _, code := range []int{410, 500} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, c *Client) {
				follower := follow(t, c, "a")
				wantPhase(t, follower, "a", "none")
				f.do(func() {
					f.log = append(f.log, fakeEvent{f.version + 1, "ERROR", "a", fmt.Sprintf(`{"kind":"Status","code":%d,"message":"etcd has a headache"}`, code)})
					f.version++
					close(f.changed)
					f.changed = make(chan struct{})
				})
				synctest.Wait()
				f.put("a", "Running")
				f.do(func() { f.log = nil }) // only a list shows it
				time.Sleep(2 * time.Second)
				wantPhase(t, follower, "a", "Running")
				wantCounts(t, f, "2 lists, 2 watches, 0 gets")
			})
		})
	}
}

// The promise: a watch that silently stops is noticed within 30 s, whatever the
// reason, and what it has not told is known then.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.do(func() { f.silent = true })
		follower := follow(t, c, "a")
		wantPhase(t, follower, "a", "none")
		f.put("a", "Running")
		f.do(func() { f.silent = false }) // for the next one
		dials := f.count("dial")
		time.Sleep(29 * time.Second)
		wantPhase(t, follower, "a", "Running")
		if f.count("dial") == dials {
			t.Error("the dead connection is used again")
		}
		wantCounts(t, f, "2 lists, 2 watches, 0 gets") // what is swallowed once may be again
	})
}

// A server that is stopped, not ended, accepts connections and answers nothing.
func TestFrozen(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.put("a", "Running")
		f.do(func() { f.silent = true })
		follower := follow(t, c, "a")
		wantPhase(t, follower, "a", "Running")
		changes := follower.Changes(t.Context(), "a")
		f.do(func() {
			f.answer = func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			}
		})
		began := time.Now()
		<-changes
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("noticed after %v", took)
		}
		wantPhase(t, follower, "a", "error: watching pods: no answer within")
		time.Sleep(15 * time.Second)
		wantPhase(t, follower, "a", "error: connected, waiting for the answer: no answer within 10s")
		f.do(func() { f.answer, f.silent = nil, false })
		<-changes // the error's
		<-changes
		wantPhase(t, follower, "a", "Running")
	})
}

// A watch that is accepted and ends at once, over and over, does not spin, and lists tell what it does not.
func TestShortWatches(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.do(func() { f.watching = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200) } })
		f.put("a", "Running")
		follower := follow(t, c, "a")
		time.Sleep(10 * time.Minute)
		if n := f.count("watch"); n > 900 || n < 400 {
			t.Errorf("%d watches in 600 s", n)
		}
		wantPhase(t, follower, "a", "Running")
		if n := f.count("list"); n > 600/5+1 || n < 600/15 {
			t.Errorf("%d lists in 600 s", n)
		}
		f.put("a", "Succeeded")
		time.Sleep(10 * time.Second)
		wantPhase(t, follower, "a", "Succeeded")
	})
}

func TestRetryAfter(t *testing.T) {
	for _, code := range []int{429, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, c *Client) {
				f.do(func() {
					f.answer = func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Retry-After", "3600")
						refuse(w, code, "", "slow down", "")
					}
				})
				follower := follow(t, c, "a")
				wantPhase(t, follower, "a", "slow down")
				time.Sleep(9 * time.Second)
				wantCounts(t, f, "1 lists, 0 watches, 0 gets")
				f.do(func() { f.answer = nil })
				time.Sleep(2 * time.Second)
				wantPhase(t, follower, "a", "none")
				f.do(func() { f.watching = nil })
			})
		})
	}
}

// A Role with resourceNames lets a name be listed and watched, not the whole.
func TestResourceNames(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.do(func() { f.forbid = func(verb, name string) bool { return name != "a" && name != "b" } })
		f.put("a", "Running")
		follower := follow(t, c, "a", "b")
		if err := follower.Synced(t.Context()); err != nil {
			t.Fatal(err)
		}
		changes := follower.Changes(t.Context(), "b")
		wantPhase(t, follower, "a", "Running")
		wantPhase(t, follower, "b", "none")
		wantCounts(t, f, "3 lists, 2 watches, 0 gets")
		f.put("b", "Pending")
		wantPhase(t, follower, "b", "Pending")
		if !fired(changes) {
			t.Error("no change")
		}
		all, err := follower.Objects()
		if len(all) != 2 || err != nil {
			t.Errorf("%v, %v", all, err)
		}
		time.Sleep(time.Minute)
		if n := f.count("list"); n < 11 || n > 15 {
			t.Errorf("%d lists: the whole is tried every 5 s", n)
		}

		f.do(func() { f.forbid = nil })
		time.Sleep(6 * time.Second)
		lists, watches := f.count("list"), f.count("watch")
		time.Sleep(time.Minute)
		if l, w := f.count("list")-lists, f.count("watch")-watches; l != 0 || w > 3 {
			t.Errorf("%d lists and %d watches go on, though all are followed at once", l, w)
		}
		f.put("a", "Succeeded")
		wantPhase(t, follower, "a", "Succeeded")
	})
}

// Where only get is granted, the objects are looked at once a second; with a list but no watch too.
func TestNoWatch(t *testing.T) {
	for _, granted := range []string{"get", "list"} {
		t.Run(granted, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, c *Client) {
				f.do(func() { f.forbid = func(verb, _ string) bool { return verb != granted } })
				follower := follow(t, c, "a")
				wantPhase(t, follower, "a", "none")
				time.Sleep(10 * time.Second)
				f.put("a", "Running")
				time.Sleep(1200 * time.Millisecond)
				wantPhase(t, follower, "a", "Running")
				f.remove("a")
				time.Sleep(1200 * time.Millisecond)
				wantPhase(t, follower, "a", "none")
				before := f.count(granted)
				time.Sleep(100 * time.Second)
				if n := f.count(granted) - before; n < 85 || n > 115 {
					t.Errorf("%d looks in 100 s", n)
				}
				f.do(func() { f.forbid = nil })
				time.Sleep(6 * time.Second)
				before = f.count(granted)
				f.put("a", "Running")
				wantPhase(t, follower, "a", "Running")
				time.Sleep(time.Minute)
				if n := f.count(granted) - before; n != 0 {
					t.Errorf("%d more looks, though there is a watch", n)
				}
			})
		})
	}
}

// Without any right, the error names the best one to grant; and when it is granted, that is noticed soon. (30 names:
// with 200, the race detector itself has crashed once.)
func TestForbidden(t *testing.T) {
	for _, n := range []int{1, 2, 30} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, c *Client) {
				var names []string
				for i := range n {
					names = append(names, fmt.Sprintf("p%d", i))
				}
				f.do(func() { f.forbid = func(verb, name string) bool { return true } })
				follower := follow(t, c, names...)
				if err := follower.Synced(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantPhase(t, follower, "p0", "error: list pods p0 in namespace default: status 403 Forbidden: pods is forbidden")
				time.Sleep(time.Minute)
				before := f.count("list") + f.count("get")
				time.Sleep(time.Minute)
				if n := f.count("list") + f.count("get") - before; n > 60*25 {
					t.Errorf("%d requests in a minute", n)
				}
				f.do(func() { f.forbid = func(verb, name string) bool { return name == "" } })
				time.Sleep(3 * time.Second)
				for _, name := range names {
					wantPhase(t, follower, name, "none")
				}
				f.do(func() { f.forbid = nil })
				time.Sleep(6 * time.Second)
				for _, name := range names {
					wantPhase(t, follower, name, "none")
				}
			})
		})
	}
}

// That the kind itself is not there is not that the object is not.
func TestNoSuchKind(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.do(func() {
			f.forbid = func(verb, _ string) bool { return verb != "get" }
			f.answer = func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
		})
		follower := follow(t, c, "a")
		wantPhase(t, follower, "a", "error: list pods a in namespace default: status 404 Not Found")
	})
}

func TestSelector(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.put("a", "Running")
		follower := followQuery(t, c, Query{Resource: pods, Namespace: "default"})
		wantPhase(t, follower, "a", "Running")
		f.put("b", "Running")
		synctest.Wait()
		if all, err := follower.Objects(); len(all) != 2 || err != nil {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// An answer that no API server gives is an error that does not quote it, however
// long it is; and is not asked for all the time.
func TestHostile(t *testing.T) {
	const secret = "s3cr3t"
	endless := func(w io.Writer, s string) {
		for {
			if _, err := io.WriteString(w, s); err != nil {
				return
			}
		}
	}
	item := `{"metadata":{"name":"n"},"data":"` + strings.Repeat("x", 1<<14) + `"},`
	for _, test := range []struct {
		name        string
		list, watch http.HandlerFunc // nil: good
		want        string
	}{
		{"HTML", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>"+secret) }, nil, "the answer is not that of a Kubernetes API server"},
		{"other JSON", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"s3cr3t":1}`) }, nil, "not a list"},
		{"another type", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"metadata":{"resourceVersion":["s3cr3t"]}}`)
		}, nil, "the answer is not that of a Kubernetes API server"},
		{"no version", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"items":[]}`) }, nil, "without a resourceVersion"},
		{"long object", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"items":[{"x":"`)
			endless(w, strings.Repeat(secret, 1000))
		}, nil, "an object is longer than 4 MiB"},
		{"many objects", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"items":[`); endless(w, item) }, nil, "exceed 64 MiB"},
		{"nameless", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{}}]}`)
		}, nil, "without a name"},
		{"number", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[7]}`)
		}, nil, "the answer is not that of a Kubernetes API server"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://else.test/s3cr3t", http.StatusFound)
		}, nil, "redirects are not followed"},
		{"watch of HTML", nil, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>"+secret) }, "the answer is not that of a Kubernetes API server"},
		{"watch of something", nil, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"type":"s3cr3t","object":{}}`) }, "not an event"},
		{"long event", nil, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"type":"ADDED","object":{"x":"`)
			endless(w, strings.Repeat(secret, 1000))
		}, "an object is longer than 4 MiB"},
		{"many events", nil, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 1000 {
				_, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"n%d","namespace":"default"},"data":"%s"}}`, i, strings.Repeat("x", 1<<14))
				if err != nil {
					return
				}
			}
		}, "exceed 64 MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, c *Client) {
				c.room = 1 << 20
				f.do(func() {
					f.answer, f.watching = test.list, test.watch
					if test.watch != nil {
						f.watching = func(w http.ResponseWriter, r *http.Request) {
							w.Header().Set("Content-Type", "application/json")
							test.watch(w, r)
						}
					}
				})
				follower := followQuery(t, c, Query{Resource: pods, Namespace: "default"})
				follower.Synced(t.Context())
				changes := follower.Changes(t.Context(), "")
				_, err := follower.Objects()
				for err == nil { // a watch's comes later
					<-changes
					_, err = follower.Objects()
				}
				if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), secret) {
					t.Errorf("%v, want %s", err, test.want)
				}
				if len(follower.whole.objects) > 100 {
					t.Errorf("%d objects are held", len(follower.whole.objects))
				}
			})
		})
	}
}

func TestAllNamespaces(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.do(func() {
			f.answer = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/pods" {
					http.NotFound(w, r)
				} else if r.URL.Query().Get("watch") == "" {
					io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","namespace":"y"}},{"metadata":{"name":"a","namespace":"x"}}]}`)
				} else {
					w.WriteHeader(200)
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
			}
		})
		follower := followQuery(t, c, Query{Resource: pods})
		follower.Synced(t.Context())
		all, err := follower.Objects()
		if err != nil || len(all) != 2 || all[0].Namespace() != "x" {
			t.Errorf("%v, %v", all, err)
		}
		if o, _ := follower.Object("y/a"); o.Namespace() != "y" {
			t.Errorf("%v", o)
		}
	})
}
