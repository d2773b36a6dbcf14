package doctor

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"initbox/internal/poll"
)

// quiet is how long Watch waits for further changes, which come together: it then asks for everything again.
const quiet = 2 * time.Second

// Watch diagnoses again when a Pod of the namespace has changed, and passes each report on, until nothing is stuck.
func Watch(ctx context.Context, clients *Clients, o Options, report func(*Report) error) error {
	for {
		// It begins with all Pods as they are: what changes between two watches is not missed.
		w, err := clients.Kube.CoreV1().Pods(o.Namespace).Watch(ctx, metav1.ListOptions{AllowWatchBookmarks: false})
		if err != nil {
			return explainRequest(err, "watch", "pods", o.Namespace)
		}
		done, err := follow(ctx, clients, o, w, report)
		w.Stop()
		if done || err != nil {
			return err
		}
	}
}

// follow diagnoses until the watch ends, as the API server ends each after some minutes.
func follow(ctx context.Context, clients *Clients, o Options, w watch.Interface, report func(*Report) error) (done bool, err error) {
	for {
		r, err := Diagnose(ctx, clients, o)
		if err != nil {
			return false, err
		}
		if err := report(r); err != nil || !r.Found() {
			return true, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return false, poll.Sleep(ctx, quiet)
			}
		}
		if err := poll.Sleep(ctx, quiet); err != nil {
			return false, err
		}
		for more := true; more; {
			select {
			case _, more = <-w.ResultChan():
			default:
				more = false
			}
		}
	}
}
