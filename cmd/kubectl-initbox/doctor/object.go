package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/words"
	"initbox/waitfor/k8s"
	"initbox/waitfor/target"
)

// objects examines the Kubernetes objects that a target means.
func (d *doctor) objects(ctx context.Context, p *Pod, about string, check target.Check, q kube.Objects, depth int) {
	r, err := d.resource(ctx, q.KindName)
	if err != nil {
		p.add(Finding{About: about, Text: "the cluster has no kind " + q.KindName, Fix: "kubectl api-resources lists the kinds"})
		return
	}
	namespace := cmp.Or(q.Namespace, p.Namespace)
	if q.Name == "" {
		d.selected(ctx, p, about, r, namespace, q)
		return
	}
	o, err := d.object(ctx, r, namespace, q.Name)
	switch {
	case apierrors.IsNotFound(err):
		f := Finding{About: about, Text: fmt.Sprintf("no %s %s%s", r.Kind, q.Name, kube.InNamespace(inside(r, namespace)))}
		all, _ := d.names(ctx, gvr(r), inside(r, namespace))
		if near := nearest(q.Name, words.Each(all, func(o metav1.PartialObjectMetadata) string { return o.Name })); len(near) > 0 {
			f.Text += "; near: " + strings.Join(near, ", ")
			if len(near) == 1 {
				f.Fix = p.instead(q.Name, near[0])
			}
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

func inside(r kube.Resource, namespace string) string {
	if !r.Namespaced {
		return ""
	}
	return namespace
}

// selected counts the objects of a selector.
func (d *doctor) selected(ctx context.Context, p *Pod, about string, r kube.Resource, namespace string, q kube.Objects) {
	selector, err := labels.Parse(q.Selector)
	all, known := d.names(ctx, gvr(r), inside(r, namespace))
	if err != nil || !known {
		return
	}
	n := 0
	for _, o := range all {
		if selector.Matches(labels.Set(o.Labels)) {
			n++
		}
	}
	p.add(Finding{About: about, Text: fmt.Sprintf("%s of %d in %s match the labels", words.Plural(n, r.Kind), len(all), namespace)})
}

// resource finds a kind, if need be at the API server.
func (d *doctor) resource(ctx context.Context, name string) (kube.Resource, error) {
	if r, ok := kube.Lookup(name); ok {
		return r, nil
	}
	all, err := one(ctx, d.cluster, "kinds", "", "", func(context.Context) (*[]*metav1.APIResourceList, error) {
		lists, err := d.Kube.Discovery().ServerPreferredResources()
		if len(lists) > 0 {
			err = nil // a group whose server is down does not hide the others
		}
		return &lists, err
	})
	if err != nil {
		return kube.Resource{}, err
	}
	name, wanted, _ := strings.Cut(strings.ToLower(name), ".")
	for _, l := range *all {
		group, version, grouped := strings.Cut(l.GroupVersion, "/")
		if !grouped {
			group, version = "", l.GroupVersion
		}
		for _, r := range l.APIResources {
			if (name == r.Name || name == r.SingularName || name == strings.ToLower(r.Kind) || slices.Contains(r.ShortNames, name)) && (wanted == "" || wanted == group || wanted == version+"."+group) {
				return kube.Resource{Group: group, Version: version, Name: r.Name, Kind: r.Kind, Namespaced: r.Namespaced}, nil
			}
		}
	}
	return kube.Resource{}, fmt.Errorf("no kind %s", name)
}

// podsOf returns the Pods that belong to an object.
func (d *doctor) podsOf(ctx context.Context, o *object, r kube.Resource, namespace string) []corev1.Pod {
	if !slices.Contains([]string{"Pod", "Job", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Service"}, r.Kind) {
		return nil
	}
	all, _ := d.pods(ctx, namespace)
	var found []corev1.Pod
	selector, _ := o.At("spec", "selector").(map[string]any)
	if matchLabels, ok := selector["matchLabels"].(map[string]any); ok {
		selector = matchLabels
	}
	for _, p := range all {
		owner := controller(&p)
		switch {
		case r.Kind == "Pod" && p.Name == o.Name(), owner != nil && string(owner.UID) == o.text("metadata", "uid") && owner.Name == o.Name():
			found = append(found, p)
		case (r.Kind == "Deployment" || r.Kind == "Service") && len(selector) > 0 && selects(selector, p.Labels):
			found = append(found, p)
		}
	}
	return found
}

func selects(selector map[string]any, have map[string]string) bool {
	for key, value := range selector {
		if have[key] != value {
			return false
		}
	}
	return true
}

// parts returns what State needs beside the object.
func (d *doctor) parts(ctx context.Context, o *object, r kube.Resource, namespace string, pods []corev1.Pod) []kube.Object {
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
		p.add(Finding{About: "service account", Text: "automountServiceAccountToken: false: the Pod cannot log in at the API server", Fix: p.at("automountServiceAccountToken: true")})
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
	user := "system:serviceaccount:" + namespace + ":" + account
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: n.Namespace, Verb: verb, Group: n.Group, Resource: n.Resource, Name: name}}}
	key := strings.Join([]string{user, verb, n.Group, n.Resource, n.Namespace, name}, " ")
	if _, refused := d.lists["no reviews"]; !refused {
		answer, ok := d.lists[key].(*authorizationv1.SubjectAccessReview)
		if ok {
			return answer.Status.Allowed, true
		}
		err := d.ask(ctx, func(ctx context.Context) (err error) {
			answer, err = d.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			return err
		})
		if err == nil {
			d.lists[key] = answer
			return answer.Status.Allowed, true
		}
		d.lists["no reviews"] = err
	}
	return d.granted(ctx, user, groups, n, verb, name)
}

// granted reads the Roles and their bindings. A binding whose Role cannot be read may grant anything.
func (d *doctor) granted(ctx context.Context, user string, groups []string, n kube.Permission, verb, name string) (granted, known bool) {
	api := d.Kube.RbacV1()
	clusterwide, known := list(ctx, d.cluster, "clusterrolebindings", "", "", api.ClusterRoleBindings().List, func(l *rbacv1.ClusterRoleBindingList) []rbacv1.ClusterRoleBinding { return l.Items })
	bindings := []rbacv1.RoleBinding{}
	for _, b := range clusterwide {
		bindings = append(bindings, rbacv1.RoleBinding{Subjects: b.Subjects, RoleRef: b.RoleRef})
	}
	if !n.Cluster {
		more, also := list(ctx, d.cluster, "rolebindings", n.Namespace, "", api.RoleBindings(n.Namespace).List, func(l *rbacv1.RoleBindingList) []rbacv1.RoleBinding { return l.Items })
		bindings, known = append(bindings, more...), known && also
	}
	for _, b := range bindings {
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.GroupKind && slices.Contains(groups, s.Name) || s.Kind == rbacv1.UserKind && s.Name == user ||
				s.Kind == rbacv1.ServiceAccountKind && "system:serviceaccount:"+s.Namespace+":"+s.Name == user
		}) {
			continue
		}
		rules, err := d.rules(ctx, b)
		if err != nil && !apierrors.IsNotFound(err) {
			known = false
		}
		if slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return grants(r, n, verb, name) }) {
			return true, true
		}
	}
	return false, known
}

func (d *doctor) rules(ctx context.Context, b rbacv1.RoleBinding) ([]rbacv1.PolicyRule, error) {
	if b.RoleRef.Kind == "ClusterRole" {
		role, err := one(ctx, d.cluster, "clusterroles", "", b.RoleRef.Name, func(ctx context.Context) (*rbacv1.ClusterRole, error) {
			return d.Kube.RbacV1().ClusterRoles().Get(ctx, b.RoleRef.Name, metav1.GetOptions{})
		})
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	role, err := one(ctx, d.cluster, "roles", b.Namespace, b.RoleRef.Name, func(ctx context.Context) (*rbacv1.Role, error) {
		return d.Kube.RbacV1().Roles(b.Namespace).Get(ctx, b.RoleRef.Name, metav1.GetOptions{})
	})
	if err != nil {
		return nil, err
	}
	return role.Rules, nil
}

func grants(r rbacv1.PolicyRule, n kube.Permission, verb, name string) bool {
	has := func(list []string, word string) bool {
		return slices.Contains(list, word) || slices.Contains(list, "*")
	}
	return has(r.Verbs, verb) && has(r.APIGroups, n.Group) && has(r.Resources, n.Resource) && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name))
}
