package k8s

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// judge returns nil if the objects, at least one, are ready, otherwise why not.
func (c *check) judge(ctx context.Context, source origin, objects []kube.Object) error {
	var (
		ready, succeeded, failed int64
		first                    *unready // the first object that is not ready
		lost                     *unready // the first that failed, if others may make up for it
		hopeless                 bool
	)
	for _, o := range objects {
		v, err := c.view(ctx, source, o)
		if err != nil {
			return err
		}
		if whenFailed := c.whenFailed(v); v.resource.Kind == "Job" && (whenFailed == "ok" || whenFailed == "wait" && first != nil || lost != nil || hopeless) {
			v.pods = nil // only one reason is reported, and requesting more takes time
		}
		err = c.judgeOne(v)
		var ended *endedError
		if errors.As(err, &ended) {
			switch c.whenFailed(v) {
			case "ok":
				err = nil
			case "some":
				failed++
				if ended.partly {
					succeeded++
				}
				if lost == nil {
					lost = &unready{ended.Failure, o.Name()}
				}
				continue
			case "fail":
				if !hopeless {
					first = nil // this one decides
				}
				hopeless = true
			}
		}
		if err == nil {
			ready, succeeded = ready+1, succeeded+1
		} else if first == nil {
			first = &unready{failure.Of(err), o.Name()}
		}
	}
	switch {
	case failed > 0 && succeeded > 0: // then the failed ones do not matter
		ready += failed
	case failed > 0 && first == nil:
		first, hopeless = lost, c.Name != ""
	}
	return c.verdict(source, int64(len(objects)), ready, first, hopeless)
}

// unready is an object that is not ready, and why not.
type unready struct {
	*failure.Failure
	name string // "" for an object that does not exist
}

// verdict returns the result for n objects.
func (c *check) verdict(source origin, n, ready int64, first *unready, hopeless bool) error {
	want := n
	if c.expect.count > 0 {
		want = c.expect.count
	}
	if ready >= want {
		return nil
	}
	if first == nil {
		first = &unready{Failure: failure.New(failure.Unexpected, "%s", "only "+words.Plural(int(n), "object")+" found")}
	}
	f := *first.Failure
	if c.Name == "" {
		f.Text = fmt.Sprintf("%d of %d ready", ready, want)
		if first.name != "" {
			f.Text += fmt.Sprintf("; %s %s: %s", source.resource.Kind, failure.Printable(first.name), first.Text)
		} else {
			f.Text += "; " + first.Text
		}
	}
	if hopeless && c.expect.count == 0 {
		return poll.Permanent(&f)
	}
	return &f
}

// whenFailed returns what a failed object means, as in if-failed. The failure of a Job, or of a Pod that the target
// names, is the end; a selector may match other Pods soon.
func (c *check) whenFailed(v view) string {
	switch {
	case c.expect.ifFailed != "":
		return c.expect.ifFailed
	case v.resource.Kind == "Pod" && !v.alone:
		return "wait"
	}
	return "fail"
}

// judgeOne returns nil if the object is ready, otherwise why not.
func (c *check) judgeOne(v view) error {
	e := v.expect
	switch {
	case e.exists:
		return nil
	case len(e.keys) > 0:
		return keysReady(v)
	case len(e.conditions)+len(e.paths) > 0:
		for _, condition := range e.conditions {
			if err := condition.check(v); err != nil {
				return err
			}
		}
		for _, path := range e.paths {
			if err := path.check(v); err != nil {
				return err
			}
		}
		return nil
	}
	if rule := rules[v.resource.String()]; rule != nil {
		return rule(v)
	}
	if slices.Contains(readyOnceThere, v.resource.String()) {
		return nil
	}
	return genericReady(v)
}

// keysReady is the rule of a Secret or ConfigMap with expected keys. It shows no value.
func keysReady(v view) error {
	for _, key := range v.expect.keys {
		value, there := "", false
		for _, data := range []string{"data", "binaryData"} {
			if s, ok := v.At(data, key).(string); ok {
				value, there = s, true
			}
		}
		switch {
		case !there:
			return v.is("", "has no key %s", failure.Printable(key))
		case value == "":
			return v.is("", "key %s is empty", failure.Printable(key))
		}
	}
	return nil
}

// view returns what the rule of an object needs.
func (c *check) view(ctx context.Context, source origin, o kube.Object) (view, error) {
	v := view{Object: o, resource: source.resource, expect: c.expect, alone: c.Name != ""}
	switch source.resource.String() {
	case "services":
		if source.slices == nil {
			break
		}
		if source.slices.Synced(ctx); ctx.Err() != nil {
			return v, ctx.Err()
		}
		all, err := source.slices.Objects()
		if err != nil {
			return v, c.cluster.failure(err)
		}
		v.slices = slices.DeleteFunc(slices.Clone(all), func(s kube.Object) bool {
			return text(s, "metadata", "labels", "kubernetes.io/service-name") != o.Name()
		})
	case "jobs.batch":
		v.pods = func() []kube.Object { return c.podsOfJob(ctx, o) }
	case "daemonsets.apps":
		if c.expect.node[1] == "" {
			break
		}
		pods, err := c.daemons(ctx, o)
		if err != nil {
			return v, err
		}
		v.pods = func() []kube.Object { return pods }
	}
	return v, nil
}

// reasonLimit bounds the request for the reason of a failure.
const reasonLimit = 2 * time.Second

// podsOfJob returns the Pods of a Job where possible: they, and not the Job, have the reason of a failure.
func (c *check) podsOfJob(ctx context.Context, job kube.Object) []kube.Object {
	ctx, cancel := context.WithTimeout(ctx, reasonLimit)
	defer cancel()
	poll.Doing(ctx, "looking for the reason at the API server")
	pods, err := c.cluster.client.List(ctx, kube.Query{Resource: podResource(), Sparse: true, Namespace: job.Namespace(), LabelSelector: "batch.kubernetes.io/job-name=" + job.Name()})
	if err != nil {
		return nil
	}
	return pods
}

// daemons returns the Pods of a DaemonSet on the node that the target names.
func (c *check) daemons(ctx context.Context, set kube.Object) ([]kube.Object, error) {
	f := c.follow(kube.Query{Resource: podResource(), Namespace: set.Namespace(), LabelSelector: labelSelector(set), Sparse: true}, "")
	if f.Synced(ctx); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	pods, err := f.Objects()
	if err != nil {
		return nil, c.cluster.failure(err)
	}
	return c.onNode(ctx, pods)
}
