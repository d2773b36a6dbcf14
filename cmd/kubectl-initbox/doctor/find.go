package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// find returns the Pods that were asked for.
func (d *doctor) find(ctx context.Context, o Options) ([]corev1.Pod, error) {
	selector := o.Selector
	if selector == nil {
		selector = labels.Everything()
	}
	all, err := d.pods(ctx, o.Namespace)
	if err != nil {
		return nil, explainRequest(err, "list", "pods", o.Namespace)
	}
	if len(o.Names) == 0 {
		return matching(all, selector), nil
	}
	var found []corev1.Pod
	for _, name := range o.Names {
		pods, err := d.named(ctx, o.Namespace, name, all)
		if err != nil {
			return nil, err
		}
		for _, p := range matching(pods, selector) {
			if !slices.ContainsFunc(found, func(q corev1.Pod) bool { return q.UID == p.UID && q.Name == p.Name && q.Namespace == p.Namespace }) {
				found = append(found, p)
			}
		}
	}
	return found, nil
}

func matching(pods []corev1.Pod, selector labels.Selector) []corev1.Pod {
	var found []corev1.Pod
	for _, p := range pods {
		if selector.Matches(labels.Set(p.Labels)) {
			found = append(found, p)
		}
	}
	return found
}

// named returns the Pods of one argument.
func (d *doctor) named(ctx context.Context, namespace, argument string, all []corev1.Pod) ([]corev1.Pod, error) {
	kind, name, slash := strings.Cut(argument, "/")
	if !slash {
		kind, name = "pods", argument
	}
	resource, ok := kube.Lookup(kind)
	if !ok {
		return nil, failure.WithHint(fmt.Errorf("%s: no such kind: %s", failure.Printable(argument), failure.Printable(kind)),
			"name a Pod, or what runs it, as in deployment/web; of other kinds, select the Pods with --selector")
	}
	if resource.Kind == "Pod" {
		return podNamed(all, namespace, name)
	}
	o, err := d.object(ctx, resource, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, noSuch(resource, namespace, name, d.known(ctx, resource, namespace))
	} else if err != nil {
		return nil, failure.WithHint(fmt.Errorf("get %s: %s", failure.Printable(argument), reason(err)), "name its Pods, or select them with --selector")
	}
	var found []corev1.Pod
	owners := map[string]bool{o.text("metadata", "uid"): true}
	if resource.Kind == "CronJob" || resource.Kind == "Deployment" {
		child := "replicasets"
		if resource.Kind == "CronJob" {
			child = "jobs"
		}
		children, _ := d.names(ctx, resourceOf(child), namespace)
		for _, c := range children {
			if owner := metav1.GetControllerOf(&c); owner != nil && owners[string(owner.UID)] {
				owners[string(c.UID)] = true
			}
		}
	}
	for _, p := range all {
		if owner := controller(&p); owner != nil && owners[string(owner.UID)] {
			found = append(found, p)
		}
	}
	return found, nil
}

func podNamed(all []corev1.Pod, namespace, name string) ([]corev1.Pod, error) {
	if i := slices.IndexFunc(all, func(p corev1.Pod) bool { return p.Name == name }); i >= 0 {
		return all[i : i+1], nil
	}
	return nil, noSuch(resourceOf("pods"), namespace, name, words.Each(all, func(p corev1.Pod) string { return p.Name }))
}

// noSuch returns the error for a name that was asked for, with those that may have been meant.
func noSuch(r kube.Resource, namespace, name string, known []string) error {
	hint := strings.TrimSpace(suggest.Question(name, known, strings.ToLower(r.Kind)+"/"))
	if hint == "" {
		hint = fmt.Sprintf("kubectl get %s -n %s lists them", r, namespace)
	}
	return failure.WithHint(fmt.Errorf("no %s %s in %s", r.Kind, failure.Printable(name), namespace), hint)
}

// controller returns the owner that runs the Pod, or nil.
func controller(p *corev1.Pod) *metav1.OwnerReference { return metav1.GetControllerOfNoCopy(p) }

// owner finds what a user edits to change the Pod: the Deployment of a ReplicaSet, the CronJob of a Job.
func (d *doctor) owner(ctx context.Context, p *Pod) {
	path := "spec"
	if owner := controller(p.pod); owner != nil {
		kind, name := owner.Kind, owner.Name
		path = "spec.template.spec"
		hash := p.pod.Labels["pod-template-hash"]
		switch trimmed, of := strings.CutSuffix(name, "-"+hash); {
		case kind == "ReplicaSet" && hash != "" && of:
			kind, name = "Deployment", trimmed
		case kind == "Node": // a static Pod
			path = ""
		case kind == "Job":
			if cron := d.cronJob(ctx, p.Namespace, name); cron != "" {
				kind, name, path = "CronJob", cron, "spec.jobTemplate.spec.template.spec"
			}
		}
		p.Owner = failure.Printable(kind + "/" + name)
	}
	if p.container == nil || path == "" {
		return
	}
	containers, list := p.pod.Spec.Containers, ".containers"
	if p.init {
		containers, list = p.pod.Spec.InitContainers, ".initContainers"
	}
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == p.container.Name })
	p.path = fmt.Sprintf("%s%s[%d]", path, list, i)
}

func (d *doctor) cronJob(ctx context.Context, namespace, job string) string {
	o, err := one[metav1.PartialObjectMetadata](ctx, d.cluster, resourceOf("jobs"), namespace, job)
	if err != nil {
		return ""
	}
	if owner := metav1.GetControllerOf(&o); owner != nil && owner.Kind == "CronJob" {
		return owner.Name
	}
	return ""
}

// missing finds what should have created Pods and could not: a quota, an admission webhook, a missing service account.
func (d *doctor) missing(ctx context.Context, o Options) {
	newest := map[string]corev1.Event{}
	for _, e := range d.events(ctx, o.Namespace) {
		if e.Reason != "FailedCreate" && e.Reason != "ReplicaSetCreateError" {
			continue
		}
		key := e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name
		if old, ok := newest[key]; !ok || last(&old).Before(last(&e)) {
			newest[key] = e
		}
	}
	for _, key := range sorted(newest) {
		e := newest[key]
		resource, ok := kube.Lookup(e.InvolvedObject.Kind)
		if !ok || !d.askedOwner(o, &e) {
			continue
		}
		owner, err := d.object(ctx, resource, e.InvolvedObject.Namespace, e.InvolvedObject.Name)
		if err != nil && !apierrors.IsForbidden(err) {
			continue // it is gone
		}
		if err == nil && !owner.short() {
			continue
		}
		d.report.Missing = append(d.report.Missing, Finding{About: failure.Printable(key), Text: failure.Printable("cannot create its Pods: " + strings.TrimPrefix(e.Message, "(combined from similar events): ")), Fix: fixCreate(e.Message, e.InvolvedObject.Namespace)})
	}
}

// askedOwner reports whether the object of an event is one that was asked for, or belongs to one.
func (d *doctor) askedOwner(o Options, e *corev1.Event) bool {
	if len(o.Names) == 0 {
		return o.Selector == nil || o.Selector.Empty()
	}
	return slices.ContainsFunc(o.Names, func(argument string) bool {
		kind, name, _ := strings.Cut(argument, "/")
		resource, _ := kube.Lookup(kind)
		involved := e.InvolvedObject
		return resource.Kind == involved.Kind && name == involved.Name ||
			(resource.Kind == "Deployment" || resource.Kind == "CronJob") && strings.HasPrefix(involved.Name, name+"-")
	})
}

// short reports whether what creates Pods has fewer than it wants.
func (o object) short() bool {
	number := func(path ...string) int64 { n, _ := o.At(path...).(int64); return n }
	switch o.text("kind") {
	case "Job":
		return o.At("status", "completionTime") == nil && number("status", "active") == 0 && o.At("spec", "suspend") != true
	case "DaemonSet":
		return number("status", "currentNumberScheduled") < number("status", "desiredNumberScheduled")
	}
	return number("status", "replicas") < number("spec", "replicas")
}

func fixCreate(message, namespace string) string {
	switch {
	case strings.Contains(message, "exceeded quota"):
		return "kubectl describe quota -n " + namespace
	case strings.Contains(message, "serviceaccount"):
		return "kubectl get serviceaccounts -n " + namespace
	case strings.Contains(message, "failed calling webhook"):
		return "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
	case strings.Contains(message, "violates PodSecurity"):
		return "kubectl get namespace " + namespace + " --show-labels"
	}
	return ""
}
