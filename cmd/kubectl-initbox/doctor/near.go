package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"initbox/cmd/kubectl-initbox/lint"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/kube"
	"initbox/internal/words"
)

// examine adds what is wrong around a Pod.
func (d *doctor) examine(ctx context.Context, p *Pod, depth int) {
	switch {
	case p.State == "Terminating":
		if len(p.pod.Finalizers) > 0 {
			p.add(Finding{About: "finalizers", Text: "waits for " + words.List(p.pod.Finalizers)})
		}
	case p.pod.Spec.NodeName == "":
		d.unscheduled(ctx, p)
	case p.container != nil && p.Started == 0:
		d.notStarted(ctx, p)
	case p.container != nil:
		d.targets(ctx, p, depth)
		d.running(p)
	}
	d.node(ctx, p)
	d.warnings(ctx, p)
	if p.container != nil {
		d.mistakes(ctx, p)
	}
}

// unscheduled says why no node runs the Pod.
func (d *doctor) unscheduled(ctx context.Context, p *Pod) {
	scheduled := condition(p.pod, corev1.PodScheduled)
	switch {
	case scheduled.Reason == corev1.PodReasonSchedulingGated:
		gates := words.Each(p.pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) string { return g.Name })
		p.add(Finding{About: "scheduling", Text: "held by the scheduling gates " + words.List(gates)})
	case scheduled.Message != "":
		p.add(Finding{About: "scheduling", Text: scheduled.Message})
	default:
		p.add(Finding{About: "scheduling", Text: "the scheduler " + p.pod.Spec.SchedulerName + " has not considered it yet"})
	}
	d.volumes(ctx, p)
}

// nodeTroubles returns why a node takes no Pods.
func nodeTroubles(n *corev1.Node) []string {
	var troubles []string
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue:
			troubles = append(troubles, "not ready: "+c.Message)
		case c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue:
			troubles = append(troubles, string(c.Type))
		}
	}
	if n.Spec.Unschedulable {
		troubles = append(troubles, "cordoned")
	}
	return troubles
}

// node says what is wrong with the node of the Pod, or with all nodes if none has taken it.
func (d *doctor) node(ctx context.Context, p *Pod) {
	if p.pod.Spec.NodeName == "" && p.State == "Terminating" {
		return
	}
	nodes, _ := list[corev1.Node](ctx, d.cluster, resourceOf("nodes"), "")
	for _, n := range nodes {
		candidate := p.pod.Spec.NodeName == "" && len(p.Findings) < maxFindings
		if troubles := nodeTroubles(&n); (n.Name == p.pod.Spec.NodeName || candidate) && len(troubles) > 0 {
			p.add(Finding{About: "node " + n.Name, Text: strings.Join(troubles, ", ")})
		}
	}
}

// notStarted says why the container has never run: its image, its volumes, its variables.
func (d *doctor) notStarted(ctx context.Context, p *Pod) {
	if p.status != nil && p.status.State.Waiting != nil {
		w := p.status.State.Waiting
		switch {
		case strings.Contains(w.Reason, "Image") || w.Reason == "RegistryUnavailable":
			text := w.Message
			for _, e := range d.eventsOf(ctx, p.Namespace, "Pod", p.Name) { // the status only says that the kubelet waits
				if e.Reason == "Failed" && strings.Contains(e.Message, "pull") {
					text = e.Message
				}
			}
			p.add(Finding{About: "image", Text: clip(text), Fix: p.at(p.path + ".image")})
			for _, s := range p.pod.Spec.ImagePullSecrets {
				d.referenced(ctx, p, "imagePullSecrets", "secrets", s.Name, nil)
			}
		case w.Message != "":
			p.add(Finding{About: w.Reason, Text: clip(w.Message)})
		}
	}
	for _, e := range p.container.Env {
		from := cmp.Or(e.ValueFrom, &corev1.EnvVarSource{})
		if s := from.SecretKeyRef; s != nil {
			d.referenced(ctx, p, "variable "+e.Name, "secrets", s.Name, s.Optional, s.Key)
		} else if c := from.ConfigMapKeyRef; c != nil {
			d.referenced(ctx, p, "variable "+e.Name, "configmaps", c.Name, c.Optional, c.Key)
		}
	}
	for _, e := range p.container.EnvFrom {
		if s := e.SecretRef; s != nil {
			d.referenced(ctx, p, "envFrom", "secrets", s.Name, s.Optional)
		} else if c := e.ConfigMapRef; c != nil {
			d.referenced(ctx, p, "envFrom", "configmaps", c.Name, c.Optional)
		}
	}
	d.volumes(ctx, p)
}

// running says what a container that runs is not ready for.
func (d *doctor) running(p *Pod) {
	if p.status == nil || p.status.State.Running == nil || p.init && p.container.RestartPolicy == nil {
		return
	}
	probe, name := p.container.ReadinessProbe, "readinessProbe"
	if p.container.StartupProbe != nil && (p.status.Started == nil || !*p.status.Started) {
		probe, name = p.container.StartupProbe, "startupProbe"
	}
	if probe != nil {
		p.add(Finding{About: name, Text: "it has not succeeded yet"})
	}
}

// volumes says which volumes the Pod lacks.
func (d *doctor) volumes(ctx context.Context, p *Pod) {
	for _, v := range p.pod.Spec.Volumes {
		about := "volume " + v.Name
		switch {
		case v.PersistentVolumeClaim != nil:
			d.claim(ctx, p, about, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			d.claim(ctx, p, about, p.Name+"-"+v.Name)
		case v.Secret != nil:
			d.referenced(ctx, p, about, "secrets", v.Secret.SecretName, v.Secret.Optional, keysOf(v.Secret.Items)...)
		case v.ConfigMap != nil:
			d.referenced(ctx, p, about, "configmaps", v.ConfigMap.Name, v.ConfigMap.Optional, keysOf(v.ConfigMap.Items)...)
		case v.Projected != nil:
			for _, source := range v.Projected.Sources {
				if s := source.Secret; s != nil {
					d.referenced(ctx, p, about, "secrets", s.Name, s.Optional, keysOf(s.Items)...)
				} else if c := source.ConfigMap; c != nil {
					d.referenced(ctx, p, about, "configmaps", c.Name, c.Optional, keysOf(c.Items)...)
				}
			}
		}
	}
}

func keysOf(items []corev1.KeyToPath) []string {
	return words.Each(items, func(i corev1.KeyToPath) string { return i.Key })
}

// referenced says if a Secret or a ConfigMap that is not optional, or one of the keys of it, is missing.
func (d *doctor) referenced(ctx context.Context, p *Pod, about, kind, name string, optional *bool, keys ...string) {
	if optional != nil && *optional {
		return
	}
	r := resourceOf(kind)
	o, err := one[content](ctx, d.cluster, r, p.Namespace, name)
	if apierrors.IsNotFound(err) {
		f, _ := absent(about, r.Kind, name, " in "+p.Namespace, d.known(ctx, r, p.Namespace))
		p.add(f)
	}
	if err != nil {
		return
	}
	have := append(sorted(o.Data), sorted(o.BinaryData)...)
	others := ", and no other"
	if len(have) > 0 {
		others = "; it has " + words.List(have)
	}
	for _, key := range keys {
		if !slices.Contains(have, key) {
			p.add(Finding{About: about, Text: fmt.Sprintf("%s %s has no key %s%s", r.Kind, name, key, others)})
		}
	}
}

// absent says that an object does not exist, and which names are near.
func absent(about, kind, name, where string, known []string) (f Finding, near []string) {
	f = Finding{About: about, Text: fmt.Sprintf("no %s %s%s", kind, name, where)}
	if near = nearest(name, known); len(near) > 0 {
		f.Text += "; near: " + strings.Join(near, ", ")
	}
	return f, near
}

// content is that of a Secret or ConfigMap, of which the keys are read.
type content struct{ Data, BinaryData map[string]unread }

// unread is a value that is not kept, since it may be secret.
type unread struct{}

func (unread) UnmarshalJSON([]byte) error { return nil }

// claim says why a PersistentVolumeClaim has no volume.
func (d *doctor) claim(ctx context.Context, p *Pod, about, name string) {
	claims, err := list[corev1.PersistentVolumeClaim](ctx, d.cluster, resourceOf("persistentvolumeclaims"), p.Namespace)
	i := slices.IndexFunc(claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
	switch {
	case err != nil:
	case i < 0:
		f, _ := absent(about, "PersistentVolumeClaim", name, " in "+p.Namespace, words.Each(claims, func(c corev1.PersistentVolumeClaim) string { return c.Name }))
		p.add(f)
	case claims[i].Status.Phase != corev1.ClaimBound:
		f := Finding{About: about, Text: fmt.Sprintf("PersistentVolumeClaim %s is %s", name, strings.ToLower(string(claims[i].Status.Phase)))}
		if events := d.eventsOf(ctx, p.Namespace, "PersistentVolumeClaim", name); len(events) > 0 {
			f.Text += ": " + clip(events[len(events)-1].Message)
		}
		if class := claims[i].Spec.StorageClassName; class == nil {
			f.Text += "; it names no storage class, and the cluster has no default, or had none when the claim was created"
		} else if *class != "" {
			_, err := d.object(ctx, resourceOf("storageclasses"), "", *class)
			if apierrors.IsNotFound(err) {
				f.Text += "; there is no storage class " + *class
				f.Fix = "kubectl get storageclasses"
			}
		}
		p.add(f)
	}
}

// eventsOf returns the warnings about an object, the newest last.
func (d *doctor) eventsOf(ctx context.Context, namespace, kind, name string) []corev1.Event {
	var found []corev1.Event
	for _, e := range d.events(ctx, namespace) {
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && e.InvolvedObject.Namespace == namespace {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b corev1.Event) int { return last(&a).Compare(last(&b)) })
	return found
}

// told are reasons of events that say nothing beyond the state of the container.
var told = map[string]bool{"BackOff": true, "FailedScheduling": true}

// repeats reports whether an event says what a finding has said.
func repeats(e *corev1.Event, f Finding) bool {
	return e.Reason == "Failed" && f.About == "image" || strings.HasSuffix(e.Message, f.Text) ||
		e.Reason == "FailedMount" && strings.HasPrefix(f.About, "volume ") && strings.Contains(e.Message, " not found")
}

// warnings adds the newest warnings about the Pod, one of each reason.
func (d *doctor) warnings(ctx context.Context, p *Pod) {
	seen := map[string]bool{}
	events := d.eventsOf(ctx, p.Namespace, "Pod", p.Name)
	slices.Reverse(events)
	for _, e := range events {
		if len(seen) == 3 || told[e.Reason] || seen[e.Reason] || p.Message != "" && strings.Contains(e.Message, p.Message) || slices.ContainsFunc(p.Findings, func(f Finding) bool { return repeats(&e, f) }) {
			continue
		}
		seen[e.Reason] = true
		f := Finding{About: "event " + e.Reason, Text: clip(redactor(p.pod).Redact(e.Message))}
		if age := d.now.Sub(last(&e)); age > 10*time.Minute {
			f.Text += " (" + words.Seconds(age.Round(time.Minute)) + " ago)"
		}
		p.add(f)
	}
}

// mistakes adds what lint finds in the container that holds the Pod, where that cannot work.
func (d *doctor) mistakes(ctx context.Context, p *Pod) {
	if !p.ours {
		return
	}
	for _, f := range lint.Check([]*manifest.Object{p.object}, lint.Options{}) {
		told := func(g Finding) bool {
			return g.About == "command line" || strings.Contains(g.Text, f.Message)
		}
		if f.Severity == lint.Error && f.Container == p.container.Name && !strings.Contains(p.Message, f.Message) && !slices.ContainsFunc(p.Findings, told) {
			p.add(Finding{About: f.Rule, Text: f.Message, Fix: f.Fix})
		}
	}
}

// toObject returns a typed object as the API server would send it.
func toObject(typed any) (kube.Object, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
}

// last returns when an event was seen last.
func last(e *corev1.Event) time.Time {
	t := latest(e.LastTimestamp.Time, e.EventTime.Time)
	if e.Series != nil {
		t = latest(t, e.Series.LastObservedTime.Time)
	}
	return latest(e.CreationTimestamp.Time, t)
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
