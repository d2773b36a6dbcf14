package doctor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
)

// TestWatch pins that Watch reports what changes, without times and logs, and ends when all Pods run.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, waiting("web", `wait-for-service, "http://api"`)+"---"+waiting("other", "sleep, 1h"))
		reports := make(chan *Report)
		ended := make(chan error)
		go func() {
			ended <- Watch(context.Background(), c.Client, Options{Namespace: "shop"}, func(r *Report) error { reports <- r; return nil })
		}()
		first := <-reports
		ready := func(name string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, o := range c.objects {
				if o.Name() == name {
					o["status"] = map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
				}
			}
		}
		ready("other")
		second := <-reports
		if got := changes(t, second, first); got != "Pod shop/other: no longer stuck\n" {
			t.Errorf("got:\n%s", got)
		}
		c.mu.Lock()
		c.objects = append(c.objects, clusterOf(t, service("api", "{port: 80}")).objects...)
		c.mu.Unlock()
		third := <-reports
		if got := changes(t, third, second); !strings.Contains(got, "the selector app=api of Service api matches no Pod") {
			t.Errorf("got:\n%s", got)
		}
		ready("web")
		if got := changes(t, <-reports, third); got != "Pod shop/web: no longer stuck\n\nnothing is stuck: 2 Pods\n" {
			t.Errorf("got:\n%s", got)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func changes(t *testing.T, r, earlier *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteChanges(&b, earlier); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
