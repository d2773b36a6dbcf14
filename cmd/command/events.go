package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/podinfo"
)

// eventsNeed is the permission that --events takes.
var eventsNeed = kube.Permission{Resource: "events", Verbs: []string{"create"}, Comment: "for --events, " + kube.Optional}

// How long writing an Event may take, and how much of that may pass at the end of a wait. After a signal there is less.
const (
	eventTimeout = 5 * time.Second
	eventGrace   = time.Second
	stoppedGrace = 30 * time.Millisecond
)

// maxMessage is how long the message of an Event may be; the API server refuses a longer one.
const maxMessage = 1024

// events writes Events of the Pod, one after the other, beside the wait that they are about. What fails is logged once:
// no wait depends on them.
type events struct {
	e      *env
	queue  chan kube.Object
	done   chan struct{}
	pod    podinfo.Pod
	failed bool
}

func (e *env) newEvents() *events {
	ev := &events{e: e, queue: make(chan kube.Object, 100), done: make(chan struct{})}
	ev.pod, _ = podinfo.Source{}.Read()
	go ev.write()
	return ev
}

// notice is for wait.Options.
func (ev *events) notice(text string, over, ready bool) {
	kind, reason := "Warning", "Waiting"
	switch {
	case ready:
		kind, reason = "Normal", "Ready"
	case over:
		reason = "NotReady"
	}
	text = ev.e.name + ": " + failure.Lines(text)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage-len("…")], "") + "…"
	}
	now := time.Now()
	at := now.UTC().Format(time.RFC3339)
	select {
	case ev.queue <- kube.Object{
		"apiVersion": "v1", "kind": "Event", "type": kind, "reason": reason, "message": text,
		"metadata":       map[string]any{"name": fmt.Sprintf("%s.%x", ev.pod.Name, now.UnixNano()), "namespace": ev.pod.Namespace},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": ev.pod.Name, "namespace": ev.pod.Namespace, "uid": ev.pod.UID},
		"source":         map[string]any{"component": "initbox", "host": ev.pod.Node},
		"firstTimestamp": at, "lastTimestamp": at, "count": 1,
	}:
	default: // the API server has been away for long
	}
}

// write writes what notice has queued.
func (ev *events) write() {
	defer close(ev.done)
	var client *kube.Client
	for o := range ev.queue {
		err := ev.missing()
		if err == nil && client == nil {
			var config *kube.Config
			if config, err = (kube.Place{Getenv: os.Getenv}).Config(); err == nil {
				client = kube.New(config, kube.Options{Dial: dial.New(nil).DialContext, Seed: podinfo.Seed()})
			}
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
			_, err = client.Create(ctx, kube.Resource{Version: "v1", Name: "events", Kind: "Event", Namespaced: true}, ev.pod.Namespace, o)
			cancel()
		}
		if err != nil && client != nil {
			err = kube.Explain(err, func(who kube.Account) (hint, role string) {
				return kube.Grant("it", []kube.Permission{eventsNeed}, who, ev.pod.Namespace)
			})
		}
		if err != nil && !ev.failed {
			ev.failed = true
			text := "no Event is written: " + failure.Lines(err.Error())
			hint, role := failure.Advice(err)
			if hint != "" {
				text += "; hint: " + hint
			}
			ev.e.log.Warn(text, failure.Fields("", 0, err), failure.Advised(hint, role))
		}
	}
}

// missing returns what is not known of the Pod: kubectl describe shows only Events with its UID.
func (ev *events) missing() error {
	for _, f := range [][2]string{{ev.pod.Name, "Name"}, {ev.pod.Namespace, "Namespace"}, {ev.pod.UID, "UID"}} {
		if f[0] == "" {
			return failure.WithHint(errors.New("the Pod's "+f[1]+" is not known"), "set it from the downward API; in the container:\n"+podinfo.Source{}.Stanza(f[1]))
		}
	}
	return nil
}

// close waits a moment for the last Event.
func (ev *events) close() {
	close(ev.queue)
	grace := eventGrace
	if ev.e.untilStopped.Err() != nil {
		grace = stoppedGrace
	}
	limit, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	select {
	case <-ev.done:
	case <-limit.Done():
	}
}
