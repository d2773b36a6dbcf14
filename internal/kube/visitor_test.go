package kube

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// collector is a visitor that knows which Pods there are, and counts its calls.
type collector struct {
	known, seen map[string]string
	calls       map[string]int
}

func (c *collector) Begin() { c.calls["begin"]++; c.seen = map[string]string{} }
func (c *collector) Put(o Object) {
	c.calls["put"]++
	phase := fmt.Sprint(o.At("status", "phase"))
	if c.seen != nil {
		c.seen[o.Name()] = phase
	}
	c.known[o.Name()] = phase
}
func (c *collector) Delete(o Object) { c.calls["delete"]++; delete(c.known, o.Name()) }
func (c *collector) End()            { c.calls["end"]++; c.known, c.seen = c.seen, nil }

// TestVisitor pins what a visitor receives: one list, then changes, and after 410 Gone another list without what was
// removed meanwhile; and that the follower keeps nothing, and tells of errors.
func TestVisitor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		v := &collector{known: map[string]string{}, calls: map[string]int{}}
		want := func(known, calls string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, name := range slices.Sorted(maps.Keys(v.known)) {
				got = append(got, name+"="+v.known[name])
			}
			if got := strings.Join(got, " "); got != known {
				t.Errorf("known %q, want %q", got, known)
			}
			if got := fmt.Sprint(v.calls); got != calls {
				t.Errorf("calls %s, want %s", got, calls)
			}
		}
		f.put("a", "Pending")
		f.put("b", "Pending")
		follower := followQuery(t, c, Query{Resource: pods, Namespace: "default", Visitor: v})
		want("a=Pending b=Pending", "map[begin:1 end:1 put:2]")
		f.put("a", "Running")
		f.remove("b")
		f.put("c", "Pending")
		want("a=Running c=Pending", "map[begin:1 delete:1 end:1 put:4]")
		if all, err := follower.Objects(); err != nil || len(all) != 0 {
			t.Errorf("the follower keeps %v, %v", all, err)
		}
		f.crash()
		f.remove("c")
		f.compact()
		f.put("d", "Pending")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, err := follower.Objects(); err == nil {
			t.Error("the server is away, and there is no error")
		}
		f.do(func() { f.deny = nil })
		time.Sleep(2 * time.Second)
		want("a=Running d=Pending", "map[begin:2 delete:1 end:2 put:6]")
		if _, err := follower.Objects(); err != nil {
			t.Errorf("the server is back: %v", err)
		}
	})
}

// TestVisitorSilence pins that a watch that tells nothing is noticed within 30 seconds, and that nothing is lost.
func TestVisitorSilence(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		v := &collector{known: map[string]string{}, calls: map[string]int{}}
		followQuery(t, c, Query{Resource: pods, Namespace: "default", Visitor: v})
		synctest.Wait()
		f.do(func() { f.silent = true })
		f.put("a", "Pending")
		time.Sleep(10 * time.Second)
		f.do(func() { f.silent = false })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if v.known["a"] != "Pending" {
			t.Errorf("after 30 s, known are %v", v.known)
		}
	})
}

// TestVisitorOfOneName pins the way of a Role that grants one object by get alone.
func TestVisitorOfOneName(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.forbid = func(verb, _ string) bool { return verb != "get" }
		v := &collector{known: map[string]string{}, calls: map[string]int{}}
		f.put("a", "Pending")
		followQuery(t, c, Query{Resource: pods, Namespace: "default", Names: []string{"a"}, Visitor: v})
		synctest.Wait()
		if v.known["a"] != "Pending" {
			t.Errorf("known are %v", v.known)
		}
		f.remove("a")
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if len(v.known) > 0 {
			t.Errorf("after it was removed, known are %v", v.known)
		}
		if n := f.count("get"); n > 3 {
			t.Errorf("asked %d times, without a pause that suits large objects", n)
		}
	})
}

// TestVisitorOfLargeLists pins that objects of any size together are passed on, page by page.
func TestVisitorOfLargeLists(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		c.room = 1000
		limits := map[string]bool{}
		f.answer = func(w http.ResponseWriter, r *http.Request) {
			limits[r.URL.Query().Get("limit")] = true
			if r.URL.Query().Get("watch") != "" {
				<-r.Context().Done()
				return
			}
			n, next := r.URL.Query().Get("continue"), ""
			if len(n) < 5 {
				next = n + "x"
			}
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1","continue":%q},"items":[{"metadata":{"name":"p%s"},"status":{"phase":%q}}]}`, next, n, strings.Repeat("x", 500))
		}
		v := &collector{known: map[string]string{}, calls: map[string]int{}}
		followQuery(t, c, Query{Resource: pods, Namespace: "default", Visitor: v})
		synctest.Wait()
		if len(v.known) != 6 || !limits["20"] || limits["500"] {
			t.Errorf("%d Pods, limits %v", len(v.known), limits)
		}
	})
}
