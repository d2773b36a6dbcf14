package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"initbox/internal/suggest"
	"initbox/internal/words"
)

// service says why a Service does not answer.
func (d *doctor) service(ctx context.Context, p *Pod, about string, a address, name, namespace, pod string, depth int) {
	s, known := d.serviceNamed(ctx, namespace, name)
	switch {
	case !known:
		p.add(Finding{About: about, Text: fmt.Sprintf("it is not known whether there is a Service %s in %s", name, namespace)})
		return
	case s == nil:
		p.add(d.noService(ctx, p, about, a, name, namespace))
		return
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		p.add(Finding{About: about, Text: fmt.Sprintf("Service %s is an alias of %s", name, s.Spec.ExternalName)})
		return
	}
	port, wrong := portOf(s, a)
	if wrong != nil {
		wrong.About = about
		if fits := strings.Fields(wrong.Fix); len(fits) == 1 {
			wrong.Fix = p.instead(a.host+":"+a.port, a.host+":"+wrong.Fix)
		}
		p.add(*wrong)
	}
	ready, notReady, known := d.endpoints(ctx, s, port)
	pods, podsKnown := d.behind(ctx, s)
	switch {
	case !known:
		p.add(Finding{About: about, Text: "it is not known whether Service " + name + " has ready endpoints"})
	case ready > 0:
		text := fmt.Sprintf("Service %s in %s has %s", name, namespace, words.Plural(ready, "ready endpoint"))
		if pod != "" {
			d.behindName(ctx, p, about, pod, pods, depth)
		}
		if wrong == nil {
			p.add(Finding{About: about, Text: text + ": what it answers is in the log"})
		}
	case len(s.Spec.Selector) == 0:
		p.add(Finding{About: about, Text: "Service " + name + " has no selector, and no EndpointSlices were created for it"})
	case podsKnown && len(pods) == 0:
		p.add(d.noPods(ctx, about, s))
	case mismatched(port, pods):
		p.add(Finding{About: about, Text: fmt.Sprintf("Service %s targets the port named %q, which no container of its Pods has; they have %s", name, port.TargetPort.StrVal, cmp.Or(strings.Join(containerPorts(pods), ", "), "none")),
			Fix: fmt.Sprintf("kubectl edit service %s -n %s", name, namespace), Pods: d.descend(ctx, pods, depth)})
	default:
		f := Finding{About: about, Text: fmt.Sprintf("Service %s in %s has no ready endpoint", name, namespace)}
		if notReady > 0 {
			f.Text += ": " + words.Plural(notReady, "Pod") + " not ready"
		}
		f.Pods = d.descend(ctx, pods, depth)
		p.add(f)
	}
	d.egress(ctx, p)
	if len(pods) > 0 {
		d.limited(ctx, p, about, &pods[0], networkingv1.PolicyTypeIngress, "NetworkPolicy %s limits who may connect to it")
	}
}

// behindName examines the Pod of a StatefulSet that a name means.
func (d *doctor) behindName(ctx context.Context, p *Pod, about, name string, pods []corev1.Pod, depth int) {
	i := slices.IndexFunc(pods, func(q corev1.Pod) bool { return q.Name == name || q.Spec.Hostname == name })
	if i < 0 {
		p.add(Finding{About: about, Text: "there is no Pod " + name})
	} else if found := d.descend(ctx, pods[i:i+1], depth); len(found) > 0 {
		p.add(Finding{About: about, Text: "Pod " + name + " is not ready", Pods: found})
	}
}

// descend explains those of the Pods that are stuck, and returns their names.
func (d *doctor) descend(ctx context.Context, pods []corev1.Pod, depth int) []string {
	var stuck []*Pod
	for i := range pods {
		if q := d.state(ctx, &pods[i]); q != nil {
			stuck = append(stuck, q)
		}
	}
	var names []string
	for _, q := range group(stuck) {
		if len(names) == maxBehind || depth >= maxDepth {
			break
		}
		q.AskedFor = d.asked[q.key()]
		if name := d.explain(ctx, q, depth+1); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// noService says which Services a name that does not exist may have meant.
func (d *doctor) noService(ctx context.Context, p *Pod, about string, a address, name, namespace string) Finding {
	f := Finding{About: about, Text: fmt.Sprintf("no Service %s in %s", name, namespace)}
	services, _ := d.services(ctx, namespace)
	near := nearest(name, words.Each(services, func(s corev1.Service) string { return s.Name }))
	var said []string
	for _, n := range near {
		s, _ := d.serviceNamed(ctx, namespace, n)
		ready, _, _ := d.endpoints(ctx, s, nil)
		said = append(said, fmt.Sprintf("%s (%s)", n, words.Plural(ready, "ready endpoint")))
	}
	all, _ := d.names(ctx, resourceOf("services"), "")
	for _, s := range all {
		if s.Name == name && s.Namespace != namespace && len(near) < 3 {
			said = append(said, s.Name+"."+s.Namespace)
			near = append(near, s.Name+"."+s.Namespace)
		}
	}
	if len(said) > 0 {
		f.Text += "; near: " + strings.Join(said, ", ")
	}
	if len(near) == 1 {
		now := strings.Replace(a.host, name, near[0], 1)
		if strings.Contains(near[0], ".") {
			now = near[0]
		}
		f.Fix = p.instead(a.host, now)
	}
	return f
}

// nearest returns up to three names that a name may have meant: the closest, and those of which it is a part, or the
// other way round, such as postgres and shop-postgres.
func nearest(name string, known []string) []string {
	var near []string
	if best := suggest.Closest(name, known); best != "" {
		near = append(near, best)
	}
	for _, k := range known {
		if len(near) < 3 && len(k) >= 3 && len(name) >= 3 && (strings.Contains(k, name) || strings.Contains(name, k)) && !slices.Contains(near, k) {
			near = append(near, k)
		}
	}
	return near
}

// portOf returns the port of the Service that is meant, or what is wrong with it; the Fix is the right one, if there is
// only one.
func portOf(s *corev1.Service, a address) (*corev1.ServicePort, *Finding) {
	if a.port == "" {
		return nil, nil
	}
	var have []string
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		number := strconv.Itoa(int(port.Port))
		headless := s.Spec.ClusterIP == corev1.ClusterIPNone && port.TargetPort.String() == a.port // DNS leads to the Pods themselves
		if number == a.port || headless {
			return port, nil
		}
		if have = append(have, number); port.Name != "" {
			have[i] += " (" + port.Name + ")"
		}
	}
	f := &Finding{Text: fmt.Sprintf("Service %s has no port %s; it has %s", s.Name, a.port, words.List(have)), Possible: s.Spec.ClusterIP == corev1.ClusterIPNone}
	for i := range s.Spec.Ports {
		if port := &s.Spec.Ports[i]; port.TargetPort.String() == a.port {
			f.Text += fmt.Sprintf(": %s is the port of its Pods", a.port)
			f.Fix = strconv.Itoa(int(port.Port))
		}
	}
	if len(have) == 1 {
		f.Fix = strconv.Itoa(int(s.Spec.Ports[0].Port))
	}
	return nil, f
}

// endpoints counts the endpoints of a Service, of one port or of any.
func (d *doctor) endpoints(ctx context.Context, s *corev1.Service, port *corev1.ServicePort) (ready, notReady int, known bool) {
	all, err := d.slices(ctx, s.Namespace)
	for _, e := range all {
		if e.Labels[discoveryv1.LabelServiceName] != s.Name || port != nil && !slices.ContainsFunc(e.Ports, func(p discoveryv1.EndpointPort) bool { return p.Name == nil || *p.Name == port.Name }) {
			continue
		}
		for _, endpoint := range e.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				ready++
			} else {
				notReady++
			}
		}
	}
	return ready, notReady, err == nil
}

// behind returns the Pods that a Service selects.
func (d *doctor) behind(ctx context.Context, s *corev1.Service) ([]corev1.Pod, bool) {
	if len(s.Spec.Selector) == 0 {
		return nil, true
	}
	pods, err := d.pods(ctx, s.Namespace)
	found := matching(pods, labels.SelectorFromSet(s.Spec.Selector))
	return slices.DeleteFunc(found, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}), err == nil
}

func mismatched(port *corev1.ServicePort, pods []corev1.Pod) bool {
	return port != nil && port.TargetPort.Type == intstr.String && !slices.Contains(containerPorts(pods), port.TargetPort.StrVal)
}

// containerPorts returns the names, or else the numbers, of the ports of Pods.
func containerPorts(pods []corev1.Pod) (names []string) {
	for _, p := range pods {
		for _, c := range p.Spec.Containers {
			for _, port := range c.Ports {
				if name := cmp.Or(port.Name, strconv.Itoa(int(port.ContainerPort))); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// noPods says why a selector matches no Pod: what should run them is scaled down, or has other labels.
func (d *doctor) noPods(ctx context.Context, about string, s *corev1.Service) Finding {
	f := Finding{About: about, Text: fmt.Sprintf("the selector %s of Service %s matches no Pod", labels.FormatLabels(s.Spec.Selector), s.Name),
		Fix: fmt.Sprintf("kubectl edit service %s -n %s", s.Name, s.Namespace)}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	deployments, _ := list[appsv1.Deployment](ctx, d.cluster, resourceOf("deployments"), s.Namespace)
	for _, o := range deployments {
		if selector.Matches(labels.Set(o.Spec.Template.Labels)) {
			f.Text, f.Fix = fmt.Sprintf("Service %s has no Pods: Deployment %s has none", s.Name, o.Name), ""
			if o.Spec.Replicas != nil && *o.Spec.Replicas == 0 {
				f.Text, f.Fix = fmt.Sprintf("Service %s has no Pods: Deployment %s has 0 replicas", s.Name, o.Name), fmt.Sprintf("kubectl scale deployment %s -n %s --replicas 1", o.Name, s.Namespace)
			}
			return f
		}
	}
	pods, _ := d.pods(ctx, s.Namespace)
	best, most := -1, 0
	for i, p := range pods {
		n := 0
		for key, value := range s.Spec.Selector {
			switch have := p.Labels[key]; {
			case have == value:
				n += 4
			case have != "" && len(nearest(value, []string{have})) > 0:
				n++
			}
		}
		if n > most {
			best, most = i, n
		}
	}
	if best < 0 {
		return f
	}
	var have []string
	for _, key := range sorted(s.Spec.Selector) {
		value, there := pods[best].Labels[key]
		switch {
		case !there:
			have = append(have, "no label "+key)
		case value != s.Spec.Selector[key]:
			have = append(have, key+"="+value)
		}
	}
	f.Text += "; nearest: Pod " + pods[best].Name + " has " + strings.Join(have, ", ")
	return f
}

// egress names the NetworkPolicies that may keep the Pod from its targets.
func (d *doctor) egress(ctx context.Context, p *Pod) {
	d.limited(ctx, p, "NetworkPolicy", p.pod, networkingv1.PolicyTypeEgress, "%s limits where this Pod may connect to; DNS needs port 53")
}

// limited names the policies of a type that select a Pod: the one that waits, or one that it waits for.
func (d *doctor) limited(ctx context.Context, p *Pod, about string, pod *corev1.Pod, kind networkingv1.PolicyType, text string) {
	all, _ := list[networkingv1.NetworkPolicy](ctx, d.cluster, resourceOf("networkpolicies"), pod.Namespace)
	var names []string
	for _, n := range all {
		types := n.Spec.PolicyTypes
		if len(types) == 0 { // as the API server sets it by default
			types = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if len(n.Spec.Egress) > 0 {
				types = append(types, networkingv1.PolicyTypeEgress)
			}
		}
		selector, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector)
		if err == nil && slices.Contains(types, kind) && selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, n.Name)
		}
	}
	if len(names) > 0 {
		p.add(Finding{About: about, Possible: true, Text: fmt.Sprintf(text, words.List(names)),
			Fix: fmt.Sprintf("kubectl describe networkpolicy %s -n %s", strings.Join(names[:min(3, len(names))], " "), pod.Namespace)})
	}
}
