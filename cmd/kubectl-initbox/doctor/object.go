package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"initbox/cmd/kubectl-initbox/grants"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/words"
	"initbox/waitfor/k8s"
	"initbox/waitfor/target"
)

// objects examines the Kubernetes objects that a target means.
func (d *doctor) objects(ctx context.Context, p *Pod, about string, check target.Check, q kube.Objects, depth int) {
	r, err := d.resource(ctx, q.KindName)
	if errors.As(err, new(*kube.UnknownResource)) {
		p.add(Finding{About: about, Text: "the cluster has no kind " + q.KindName, Fix: "kubectl api-resources lists the kinds"})
		return
	} else if err != nil {
		p.add(Finding{About: about, Text: "not read: " + reason(err)})
		return
	}
	namespace := cmp.Or(q.Namespace, p.Namespace)
	if !r.Namespaced {
		namespace = ""
	}
	if q.Name == "" {
		d.selected(ctx, p, about, r, namespace, q)
		return
	}
	o, err := d.object(ctx, r, namespace, q.Name)
	switch {
	case apierrors.IsNotFound(err):
		f, near := absent(about, r.Kind, q.Name, kube.InNamespace(namespace), d.known(ctx, r, namespace))
		if len(near) == 1 {
			f.Fix = p.instead(q.Name, near[0])
		}
		p.add(f)
		return
	case err != nil:
		p.add(Finding{About: about, Text: "not read: " + reason(err)})
		return
	}
	pods := d.podsOf(ctx, o, r, namespace)
	if err := k8s.State(check, r, o.Object, d.parts(ctx, o, r, namespace, pods)); err != nil {
		p.add(Finding{About: about, Text: failure.Of(err).Text, Fix: failure.Hint(err), Pods: d.descend(ctx, pods, depth)})
	} else {
		p.add(Finding{About: about, Text: "it is ready now"})
	}
}

// selected counts the objects of a selector.
func (d *doctor) selected(ctx context.Context, p *Pod, about string, r kube.Resource, namespace string, q kube.Objects) {
	selector, err := labels.Parse(q.Selector)
	all, unread := d.names(ctx, r, namespace)
	if err != nil || unread != nil {
		return
	}
	n := 0
	for _, o := range all {
		if selector.Matches(labels.Set(o.Labels)) {
			n++
		}
	}
	p.add(Finding{About: about, Text: fmt.Sprintf("%s of %d%s match the labels", words.Plural(n, r.Kind), len(all), kube.InNamespace(namespace))})
}

// resource finds a kind, if need be at the API server.
func (d *doctor) resource(ctx context.Context, name string) (kube.Resource, error) {
	if r, ok := kube.Lookup(name); ok {
		return r, nil
	}
	return once(d.cluster, "kind "+name, func() (kube.Resource, error) {
		var last error
		r, err := kube.Documents(func(ctx context.Context, path []string, accept string, v any) error {
			last = d.read(ctx, d.rest.Get().AbsPath(path...).SetHeader("Accept", cmp.Or(accept, "application/json")), v)
			if status := apierrors.APIStatus(nil); errors.As(last, &status) {
				return &kube.StatusError{Code: int(status.Status().Code)}
			}
			return last
		}).Resource(ctx, name)
		if errors.As(err, new(*kube.StatusError)) {
			err = last
		}
		d.note(err, "kinds", "")
		return r, err
	})
}

// podsOf returns the Pods that belong to an object.
func (d *doctor) podsOf(ctx context.Context, o object, r kube.Resource, namespace string) []corev1.Pod {
	if !slices.Contains([]string{"Pod", "Job", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Service"}, r.Kind) {
		return nil
	}
	all, _ := d.pods(ctx, namespace)
	var found []corev1.Pod
	path := []string{"spec", "selector"}
	if r.Kind == "Deployment" {
		path = append(path, "matchLabels")
	}
	selector, _, _ := unstructured.NestedStringMap(o.Object, path...)
	for _, p := range all {
		owner := controller(&p)
		switch {
		case r.Kind == "Pod" && p.Name == o.Name(), owner != nil && string(owner.UID) == o.text("metadata", "uid") && owner.Name == o.Name():
			found = append(found, p)
		case (r.Kind == "Deployment" || r.Kind == "Service") && len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(p.Labels)):
			found = append(found, p)
		}
	}
	return found
}

// parts returns what State needs beside the object.
func (d *doctor) parts(ctx context.Context, o object, r kube.Resource, namespace string, pods []corev1.Pod) []kube.Object {
	var typed []any
	switch r.Kind {
	case "Job":
		for i := range pods {
			typed = append(typed, &pods[i])
		}
	case "Service":
		all, _ := d.slices(ctx, namespace)
		for i := range all {
			if all[i].Labels["kubernetes.io/service-name"] == o.Name() {
				typed = append(typed, &all[i])
			}
		}
	}
	var parts []kube.Object
	for _, t := range typed {
		if part, err := toObject(t); err == nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// rights says what the Pod's service account may not do.
func (d *doctor) rights(ctx context.Context, p *Pod, needs []kube.Permission) {
	account := cmp.Or(p.pod.Spec.ServiceAccountName, "default")
	if token := p.pod.Spec.AutomountServiceAccountToken; len(needs) > 0 && token != nil && !*token {
		p.add(Finding{About: "service account", Text: "automountServiceAccountToken: false: the Pod cannot authenticate to the API server", Fix: p.at("automountServiceAccountToken: true")})
	}
	var unknown []string
	denied := map[string][]kube.Permission{} // by what is wrong
	for _, n := range needs {
		if strings.Contains(n.Comment, "may be left out") {
			continue
		}
		if !n.Cluster {
			n.Namespace = cmp.Or(n.Namespace, p.Namespace)
		}
		var verbs []string
		for _, verb := range n.Verbs {
			allowed, known := d.allowed(ctx, p.Namespace, account, n, verb)
			if !known {
				unknown = append(unknown, resourceName(n))
				break
			}
			if !allowed {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			key := strings.Join(verbs, " or ") + " %s" + kube.InNamespace(n.Namespace)
			denied[key] = append(denied[key], n)
		}
	}
	for _, key := range sorted(denied) {
		p.add(Finding{About: "service account", Text: fmt.Sprintf("%s/%s may not "+key, p.Namespace, account, words.List(words.Each(denied[key], resourceName))), Fix: p.grant(account, denied[key])})
	}
	if len(unknown) > 0 {
		p.add(Finding{About: "service account", Text: fmt.Sprintf("it is not known whether %s/%s may list %s: you may neither create subjectaccessreviews nor read the Roles", p.Namespace, account, words.List(unknown))})
	}
}

// resourceName names the resource of a permission as kubectl and RBAC do.
func resourceName(n kube.Permission) string {
	return kube.Resource{Group: n.Group, Name: n.Resource}.String()
}

// grant returns the command that gives the account permissions in one namespace.
func (p *Pod) grant(account string, needs []kube.Permission) string {
	if p.ours {
		return fmt.Sprintf("kubectl get pod %s -n %s -o yaml | kubectl initbox rbac -f - | kubectl apply -f -", p.Name, p.Namespace)
	}
	name, kind, in := "initbox-"+account, "role", " -n "+needs[0].Namespace
	if needs[0].Cluster {
		kind, in = "clusterrole", ""
	}
	return fmt.Sprintf("kubectl create %s %s%s --verb get,list,watch --resource %s; kubectl create %sbinding %s%s --%s %s --serviceaccount %s:%s",
		kind, name, in, strings.Join(words.Each(needs, resourceName), ","), kind, name, in, kind, name, p.Namespace, account)
}

// allowed asks the API server whether a service account may do something; where that is forbidden, it reads the Roles.
func (d *doctor) allowed(ctx context.Context, namespace, account string, n kube.Permission, verb string) (allowed, known bool) {
	name := ""
	if len(n.Names) == 1 {
		name = n.Names[0]
	}
	if !d.noReviews {
		spec := map[string]any{
			"user":               "system:serviceaccount:" + namespace + ":" + account,
			"groups":             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			"resourceAttributes": map[string]string{"namespace": n.Namespace, "verb": verb, "group": n.Group, "resource": n.Resource, "name": name},
		}
		allowed, err := once(d.cluster, fmt.Sprintf("review %v", spec), func() (bool, error) { return d.review(ctx, spec) })
		if err == nil {
			return allowed, true
		}
		d.noReviews = true // the Roles say it, too
	}
	roles, known := d.roles(ctx, n.Namespace)
	if !known {
		return false, false
	}
	n.Verbs = []string{verb}
	missing, _ := roles.Missing([]kube.Permission{n}, kube.Account{Namespace: namespace, Name: account})
	return len(missing) == 0, true
}

// review has the API server say whether an account may do something.
func (c *cluster) review(ctx context.Context, spec map[string]any) (bool, error) {
	body, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
	if err != nil {
		return false, err
	}
	var answer struct{ Status struct{ Allowed bool } }
	err = c.read(ctx, c.rest.Post().AbsPath("apis/authorization.k8s.io/v1/subjectaccessreviews").SetHeader("Content-Type", "application/json").Body(body), &answer)
	return answer.Status.Allowed, err
}

// roles reads all Roles and bindings that count in a namespace.
func (d *doctor) roles(ctx context.Context, namespace string) (*grants.Grants, bool) {
	var all []map[string]any
	for _, kind := range []string{"clusterrolebindings", "rolebindings", "clusterroles", "roles"} {
		r := resourceOf(kind)
		some, err := list[object](ctx, d.cluster, r, namespace)
		if err != nil {
			return nil, false
		}
		for _, o := range some {
			o.Object["apiVersion"], o.Object["kind"] = r.Group+"/"+r.Version, r.Kind // which items of a list lack
			all = append(all, o.Object)
		}
	}
	objects := asManifest("the cluster's Roles", all...)
	return grants.Of(objects), len(objects) > 0 || len(all) == 0
}
