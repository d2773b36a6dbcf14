package doctor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWatch pins that Watch reports what changes, without times and logs, and ends when all Pods run.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, waiting("web", `wait-for-service, "http://api"`)+"---"+waiting("other", "sleep, 1h"))
		reports := make(chan *Report)
		ended := make(chan error)
		go func() {
			ended <- Watch(context.Background(), c.Clients, Options{Namespace: "shop"}, func(r *Report) error { reports <- r; return nil })
		}()
		first := <-reports
		pods := c.kube.CoreV1().Pods("shop")
		ready := func(name string) {
			p, err := pods.Get(context.Background(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
			if _, err := pods.UpdateStatus(context.Background(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		ready("other")
		second := <-reports
		if got := changes(t, second, first); got != "Pod shop/other: no longer stuck\n" {
			t.Errorf("got:\n%s", got)
		}
		synctest.Wait()
		ready("web")
		if got := changes(t, <-reports, second); got != "Pod shop/web: no longer stuck\n\nnothing is stuck: 2 Pods\n" {
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
