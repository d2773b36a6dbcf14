package doctor

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"initbox/internal/failure"
	"initbox/internal/lazy"
	"initbox/internal/secret"
)

// state returns what a Pod is stuck in, or nil if it is ready or has ended as it should.
func (d *doctor) state(ctx context.Context, pod *corev1.Pod) *Pod {
	p := &Pod{Namespace: pod.Namespace, Name: pod.Name, pod: pod, Since: pod.CreationTimestamp.Time}
	switch {
	case pod.DeletionTimestamp != nil:
		if d.now.Sub(pod.DeletionTimestamp.Time) < time.Minute { // it has been asked to end; nothing is wrong yet
			return nil
		}
		p.State, p.Since = "Terminating", pod.DeletionTimestamp.Time
		return p
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed && d.replaced(ctx, pod):
		return nil
	}
	init := d.heldByInit(p)
	if pod.Status.Phase == corev1.PodFailed {
		if !init {
			d.heldByContainer(p)
		}
		p.State = strings.TrimSuffix(cmp.Or(pod.Status.Reason, "Failed")+" at "+p.State, " at NotReady")
	}
	if init || pod.Status.Phase == corev1.PodFailed {
		return p
	}
	if pod.Spec.NodeName == "" {
		p.State = "Pending"
		return p
	}
	if condition(pod, corev1.PodReady).Status == corev1.ConditionTrue {
		return nil
	}
	if since := condition(pod, corev1.PodReady).LastTransitionTime.Time; !since.IsZero() {
		p.Since = since
	}
	d.heldByContainer(p)
	return p
}

// replaced reports whether the owner of a failed Pod has made another one, or needs none: only the newest Pod of a Job
// counts, and if none has succeeded. The Jobs of a CronJob count if they are asked for.
func (d *doctor) replaced(ctx context.Context, pod *corev1.Pod) bool {
	owner := controller(pod)
	if owner == nil {
		return false
	}
	if owner.Kind != "Job" || !d.byName && d.cronJob(ctx, pod.Namespace, owner.Name) != "" {
		return true
	}
	pods, _ := d.pods(ctx, pod.Namespace)
	return slices.ContainsFunc(pods, func(other corev1.Pod) bool {
		of := controller(&other)
		return of != nil && of.UID == owner.UID && of.Name == owner.Name && (other.Status.Phase == corev1.PodSucceeded || pod.CreationTimestamp.Before(&other.CreationTimestamp))
	})
}

// condition returns the condition of that type in the status of a Pod, or an empty one if the status lacks it.
func condition(pod *corev1.Pod, name corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == name {
			return c
		}
	}
	return corev1.PodCondition{}
}

// heldByInit finds the init container that has not ended, or not started as a sidecar.
func (d *doctor) heldByInit(p *Pod) bool {
	statuses := p.pod.Status.InitContainerStatuses
	if p.pod.Spec.NodeName == "" || len(statuses) == 0 {
		return false
	}
	if begun := p.pod.Status.StartTime; begun != nil {
		p.Since = begun.Time
	}
	containers := p.pod.Spec.InitContainers
	for i := range containers {
		s := statusOf(statuses, containers[i].Name)
		sidecar := sidecar(&containers[i])
		switch {
		case s == nil:
		case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 && !sidecar:
			p.Since = latest(p.Since, s.State.Terminated.FinishedAt.Time)
			continue
		case sidecar && s.Started != nil && *s.Started:
			if s.State.Running != nil {
				p.Since = latest(p.Since, s.State.Running.StartedAt.Time)
			}
			continue
		case sidecar && condition(p.pod, corev1.PodInitialized).Status == corev1.ConditionTrue:
			continue // it has started before, and starts again beside the containers
		}
		p.State = fmt.Sprintf("Init:%d/%d", i, len(containers))
		p.hold(&containers[i], s, true)
		return true
	}
	return false
}

// heldByContainer finds the container for which the Pod is not ready.
func (d *doctor) heldByContainer(p *Pod) {
	statuses := slices.Concat(p.pod.Status.ContainerStatuses, p.pod.Status.InitContainerStatuses)
	ready, total := 0, len(p.pod.Spec.Containers)
	all := slices.Concat(p.pod.Spec.Containers, p.pod.Spec.InitContainers)
	for i := range all {
		s := statusOf(statuses, all[i].Name)
		done := s != nil && (s.Ready || i >= total && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0)
		if done {
			ready++
			continue
		}
		// One that is not running says more than one that runs and is not ready.
		if p.container == nil || p.status != nil && p.status.State.Running != nil && s != nil && s.State.Running == nil {
			p.hold(&all[i], s, i >= total)
		}
	}
	p.State = fmt.Sprintf("Ready:%d/%d", min(ready, total), total)
	if p.container == nil {
		p.State = "NotReady" // readiness gates
	}
}

func (p *Pod) hold(c *corev1.Container, s *corev1.ContainerStatus, init bool) {
	p.container, p.status, p.init = c, s, init
	p.Container, p.Program = failure.Printable(c.Name), failure.Printable(programOf(c))
	if s == nil {
		return
	}
	if s.State.Waiting != nil {
		p.Reason = failure.Printable(s.State.Waiting.Reason)
	}
	if s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
		p.Started = int(s.RestartCount) + 1
	}
}

// programOf returns the name of what a container runs, or of its image.
func programOf(c *corev1.Container) string {
	if words := slices.Concat(c.Command, c.Args); len(c.Command) > 0 {
		return path.Base(words[0])
	}
	image, _, _ := strings.Cut(path.Base(c.Image), "@")
	name, _, _ := strings.Cut(image, ":")
	return name
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// history adds how the container ended, what it said, and when it starts next.
func (d *doctor) history(ctx context.Context, p *Pod) {
	s := p.status
	if s == nil {
		return
	}
	ended := s.State.Terminated
	if ended == nil {
		ended = s.LastTerminationState.Terminated
	}
	if ended != nil {
		p.LastStatus, p.LastReason = &ended.ExitCode, explainStatus(ended, p.ours)
		if ended.StartedAt.Unix() > 0 { // of what did not start, it is the beginning of 1970
			p.LastRan = ended.FinishedAt.Sub(ended.StartedAt.Time).Seconds()
		}
		p.Message = message(ended.Message)
		if s.State.Running == nil && p.pod.Spec.RestartPolicy != corev1.RestartPolicyNever && !ended.FinishedAt.IsZero() {
			next := ended.FinishedAt.Add(backOff(s))
			p.NextStart = &next
		}
	}
	if p.Started > 0 && (p.Message == "" || s.State.Running != nil) {
		p.Log = d.log(ctx, p)
	}
	if ended != nil && s.State.Running == nil && ended.Message != "" {
		p.said = ended.Message
	} else if len(p.Log) > 0 {
		p.said = p.Log[len(p.Log)-1]
	}
	redact := redactor(p.pod)
	p.Message = redact.Redact(p.Message)
	for i := range p.Log {
		p.Log[i] = redact.Redact(p.Log[i])
	}
}

// statuses says what exit statuses mean, of any program.
var statuses = map[int32]string{
	126: "the program is not executable",
	127: "no such program",
	134: "it aborted",
	137: "killed",
	139: "it crashed: segmentation fault",
	141: "broken pipe",
	143: "stopped",
}

func explainStatus(ended *corev1.ContainerStateTerminated, ours bool) string {
	switch {
	case ended.Reason == "OOMKilled":
		return "it needed more memory than its limit"
	case ended.Reason == "StartError" || ended.Reason == "ContainerCannotRun":
		return "it could not be started"
	case ended.ExitCode == 124:
		return "its deadline passed"
	case ended.ExitCode == 2 && ours:
		return "its command line is wrong"
	}
	return statuses[ended.ExitCode]
}

// delayed matches what the kubelet says while it delays a restart.
var delayed = lazy.Regexp(`^back-off ([0-9hms.]+) restarting`)

// backOff returns the kubelet's delay after the last end: what it says, or 10 seconds, doubled with each restart up to
// 5 minutes.
//
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy
func backOff(s *corev1.ContainerStatus) time.Duration {
	if s.State.Waiting != nil {
		if m := delayed().FindStringSubmatch(s.State.Waiting.Message); m != nil {
			if pause, err := time.ParseDuration(m[1]); err == nil {
				return pause
			}
		}
	}
	pause := 10 * time.Second
	for range min(s.RestartCount, 5) {
		pause *= 2
	}
	return min(pause, 5*time.Minute)
}

const (
	logLines     = 3
	logTail      = 20 // lines that are read: those between two entries are left out
	logBytes     = 16 << 10
	messageLimit = 400 // bytes
)

// message returns a termination message as one line.
func message(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) > logLines {
		lines = lines[len(lines)-logLines:]
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return clip(failure.Printable(strings.Join(lines, "; ")))
}

func clip(s string) string {
	if len(s) > messageLimit {
		return strings.ToValidUTF8(s[:messageLimit], "") + "…"
	}
	return s
}

// dated matches the beginning of an entry of a log.
var dated = lazy.Regexp(`^[0-9]{4}-[0-9]{2}-[0-9]{2}`)

// log returns the last lines that the container wrote.
func (d *doctor) log(ctx context.Context, p *Pod) []string {
	var text []byte
	err := d.ask(ctx, func(ctx context.Context) error {
		r, err := on(d.rest.Get(), resourceOf("pods"), p.Namespace).Name(p.Name).SubResource("log").Param("container", p.container.Name).
			Param("tailLines", strconv.Itoa(logTail)).Param("limitBytes", strconv.Itoa(logBytes)).Stream(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		text, err = io.ReadAll(io.LimitReader(bufio.NewReader(r), logBytes))
		return err
	})
	if err != nil {
		d.note(err, "logs", p.Namespace)
		return nil
	}
	var said, entries []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		said = append(said, clip(failure.Printable(line)))
		if !dated().MatchString(line) {
			continue
		}
		_, entry, _ := strings.Cut(said[len(said)-1], " ")
		entries = slices.DeleteFunc(entries, func(e string) bool { return strings.HasSuffix(e, " "+entry) }) // a repeated one
		entries = append(entries, said[len(said)-1])
	}
	if len(entries) > 0 {
		said = entries // without what continues them: hints, stacks
	}
	return said[max(0, len(said)-logLines):]
}

// secretName matches names of variables whose values are not printed, even if they stand in the Pod as they are.
var secretName = lazy.Regexp(`(?i)pass|secret|token|key|credential|auth|dsn|_url$|_uri$`)

var login = lazy.Regexp(`://[^/@\s]*:([^/\s]+)@`)

// redactor removes the passwords that stand in the Pod itself: in variables that are named so, and in URLs.
func redactor(pod *corev1.Pod) *secret.Redactor {
	var secrets []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, e := range c.Env {
			if secretName().MatchString(e.Name) {
				secrets = append(secrets, e.Value)
			}
			secrets = append(secrets, passwords(e.Value)...)
		}
		for _, word := range slices.Concat(c.Command, c.Args) {
			secrets = append(secrets, passwords(word)...)
		}
	}
	return secret.NewRedactor(secrets...)
}

func passwords(text string) []string {
	var found []string
	for _, m := range login().FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}
