package doctor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/convert"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/cmd/kubectl-initbox/program"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/lazy"
	"initbox/internal/secret"
	"initbox/waitfor/k8s"
	"initbox/waitfor/target"
)

// identify finds out whether the container runs initbox, and which subcommand.
func (d *doctor) identify(ctx context.Context, p *Pod) {
	c := d.manifest(ctx, p)
	if p.ours = c != nil && program.Runs(c, nil); !p.ours {
		return
	}
	for _, word := range program.Words(c) {
		if name := path.Base(word); command.IsSubcommand(name) {
			p.Program = name
			break
		}
	}
}

// steps returns what the container runs, in terms of initbox: its own command line, or what a script or another tool is
// converted into. What cannot be converted has no steps.
func (d *doctor) steps(ctx context.Context, p *Pod) []command.Inspected {
	c := d.manifest(ctx, p)
	if c == nil {
		return nil
	}
	if p.ours {
		steps, err := command.Inspect(program.Words(c), program.Environment(c))
		if err != nil && !strings.Contains(p.Message, failure.Printable(err.Error())) {
			p.add(Finding{About: "command line", Text: secret.Word(err.Error()), Fix: failure.Hint(err)})
		}
		return steps
	}
	change := convert.Container(c, "initbox", d.scripts(ctx, p))
	p.guessed = change.Verdict == convert.Kept
	var all []command.Inspected
	for _, s := range change.Steps {
		words := []string{s.Subcommand}
		for _, f := range s.Flags {
			words = append(words, strings.TrimSuffix("--"+f.Name+"="+f.Value, "="))
		}
		c.Container.Command, c.Container.Args = nil, append(words, s.Args...)
		if steps, err := command.Inspect(program.Words(c), program.Environment(c)); err == nil {
			all = append(all, steps...)
		}
	}
	return all
}

// ofStep matches what names the step of a chain: in text, behind the time and the level of a log, and in JSON.
var ofStep = lazy.Regexp(`^(?:\S+ )?(?:[A-Z]+ )?step ([0-9]+), ([a-z0-9-]+): |"step":([0-9]+),"subcommand":"([a-z0-9-]+)"`)

// atStep finds out which step of a chain holds the Pod, and returns that one and those after it: what the others waited
// for is there. Of a chain that has come to its end, which the program behind it has replaced, it returns none.
func (p *Pod) atStep(steps []command.Inspected) []command.Inspected {
	m := ofStep().FindStringSubmatch(p.said)
	if !p.ours || m == nil {
		return steps
	}
	n, err := strconv.Atoi(m[1] + m[3])
	if err != nil || n < 1 || n > len(steps) || steps[n-1].Name != m[2]+m[4] {
		return steps
	}
	p.Program, p.Step, p.Steps = steps[n-1].Name, n, len(steps)
	if last := steps[n-1].Command; len(last) > 0 && (strings.Contains(p.said, ": running /") || strings.Contains(p.said, `"msg":"running /`)) {
		p.Program, p.Step, p.Steps = failure.Printable(path.Base(last[0])), 0, 0
		return nil
	}
	return steps[n-1:]
}

// servers returns the addresses that a step which is no wait asks, such as fetch and register: those of its URLs.
func servers(s command.Inspected) (all []address) {
	if len(s.Targets) > 0 {
		return nil
	}
	words := s.Args
	for _, name := range sorted(s.Flags) {
		words = slices.Concat(words, s.Flags[name])
	}
	for _, word := range words {
		u, err := url.Parse(word)
		if err != nil || u.Hostname() == "" || u.Hostname() == "unknown" {
			continue
		}
		if a := (address{u.Hostname(), cmp.Or(u.Port(), webPorts[u.Scheme])}); !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// webPorts are the ports of URLs without one.
var webPorts = map[string]string{"http": "80", "https": "443"}

// mention matches an address in a script: a URL or a name that is looked up, HOST PORT after nc, or HOST:PORT.
var mention = lazy.Regexp(`(?:\b(?:nslookup|dig|host|getent hosts)\s+|://)` + host + `(?::([0-9]{2,5}))?\b` +
	`|\b(?:nc|ncat|netcat|telnet)\s+(?:-\S+\s+(?:[0-9]+\s+)?)*` + host + `\s+([0-9]{2,5})\b|(?:^|[\s=])` + host + `:([0-9]{2,5})\b`)

const host = `([a-z][a-z0-9.-]*[a-z0-9])`

// userInfo matches what stands before a host, which may have a password.
var userInfo = lazy.Regexp(`://[^/\s]*@`)

// mentions returns the addresses in the command line of a container that is not understood wholly.
func (p *Pod) mentions() []address {
	c := p.container
	environment := map[string]string{}
	for _, e := range c.Env {
		environment[e.Name] = e.Value
	}
	text := os.Expand(strings.NewReplacer("$(", "${", ")", "}").Replace(strings.Join(slices.Concat(c.Command, c.Args), " ")), func(name string) string { return environment[name] })
	var found []address
	for _, m := range mention().FindAllStringSubmatch(userInfo().ReplaceAllString(text, "://"), 20) {
		a := address{m[1] + m[3] + m[5], m[2] + m[4] + m[6]}
		if !slices.Contains(found, a) && len(found) < maxMentions {
			found = append(found, a)
		}
	}
	return found
}

// maxMentions bounds the addresses of one script.
const maxMentions = 5

// manifest returns the container as part of a manifest, with the values of variables that the cluster knows. Those of
// Secrets are not read.
func (d *doctor) manifest(ctx context.Context, p *Pod) *manifest.Container {
	pod := p.pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Status = corev1.PodStatus{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for j := range list[i].Env {
				d.resolve(ctx, p.pod, &list[i].Env[j])
			}
		}
	}
	objects := asManifest(p.key(), pod)
	if len(objects) != 1 || objects[0].Pod == nil {
		return nil
	}
	p.object = objects[0]
	for _, c := range objects[0].Pod.Containers {
		if p.container != nil && c.Name == p.container.Name {
			return c
		}
	}
	return nil
}

// scripts returns the ConfigMaps that the container mounts, which may have its script.
func (d *doctor) scripts(ctx context.Context, p *Pod) (objects []*manifest.Object) {
	for _, v := range p.pod.Spec.Volumes {
		if v.ConfigMap == nil || !slices.ContainsFunc(p.container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			continue
		}
		if o, err := d.object(ctx, resourceOf("configmaps"), p.Namespace, v.ConfigMap.Name); err == nil {
			objects = append(objects, asManifest(v.ConfigMap.Name, o.Object)...)
		}
	}
	return objects
}

// asManifest returns objects of the cluster as if they had been read from a file, or nil if they cannot be.
func asManifest[T any](name string, all ...T) []*manifest.Object {
	var text bytes.Buffer
	for _, o := range all {
		if one, err := yaml.Marshal(o); err == nil {
			text.WriteString("---\n" + string(one))
		}
	}
	objects, err := manifest.Read(name, &text)
	if err != nil {
		return nil
	}
	return objects
}

// resolve sets the value of a variable that comes from a ConfigMap, or from the Pod itself.
func (d *doctor) resolve(ctx context.Context, pod *corev1.Pod, e *corev1.EnvVar) {
	switch from := e.ValueFrom; {
	case from == nil:
	case from.ConfigMapKeyRef != nil:
		o, err := d.object(ctx, resourceOf("configmaps"), pod.Namespace, from.ConfigMapKeyRef.Name)
		if err != nil {
			return
		}
		if value, ok := o.At("data", from.ConfigMapKeyRef.Key).(string); ok {
			e.Value, e.ValueFrom = value, nil
		}
	case from.FieldRef != nil:
		known := map[string]string{
			"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName,
			"spec.serviceAccountName": pod.Spec.ServiceAccountName, "status.podIP": pod.Status.PodIP, "status.hostIP": pod.Status.HostIP,
		}
		if value := known[from.FieldRef.FieldPath]; value != "" {
			e.Value, e.ValueFrom = value, nil
		}
	}
}

// targets examines what the container that holds the Pod waits for.
func (d *doctor) targets(ctx context.Context, p *Pod, depth int) {
	var needs []kube.Permission
	for _, s := range p.atStep(d.steps(ctx, p)) {
		needs = append(needs, s.Needs...)
		for _, t := range s.Targets {
			d.target(ctx, p, t, depth)
		}
		for _, a := range servers(s) {
			d.address(ctx, p, a.String(), a, depth)
		}
		if s.Stays == "" || !p.init {
			continue
		}
		if !sidecar(p.container) {
			p.add(Finding{About: s.Stays, Text: "an init container with it never ends, so the Pod never starts", Fix: p.at("restartPolicy: Always, below " + p.path)})
		}
	}
	d.rights(ctx, p, needs)
	if p.guessed && p.init {
		for _, a := range p.mentions() {
			d.address(ctx, p, a.String(), a, depth)
		}
	}
}

// at names the place of a change, and the command for it. Of Pods and of Jobs, hardly anything can be changed.
func (p *Pod) at(change string) string {
	kind, name, _ := strings.Cut(cmp.Or(p.Owner, "Pod/"+p.Name), "/")
	if kind == "Pod" && !strings.HasSuffix(change, ".image") || kind == "Job" {
		return fmt.Sprintf("%s (in its manifest: delete the %s and create it again)", change, kind)
	}
	return fmt.Sprintf("%s (kubectl edit %s %s -n %s)", change, strings.ToLower(kind), name, p.Namespace)
}

// target examines one target.
func (d *doctor) target(ctx context.Context, p *Pod, t command.Target, depth int) {
	if t.Check == nil || len(p.Findings) >= maxFindings {
		return
	}
	about := t.Check.String()
	if objects, ok := k8s.ObjectsOf(t.Check); ok {
		d.objects(ctx, p, about, t.Check, objects, depth)
		return
	}
	parsed := target.Of(t.Check)
	if parsed == nil || parsed.Kind.File || parsed.Socket != "" {
		return
	}
	for _, a := range addresses(parsed) {
		d.address(ctx, p, about, a, depth)
	}
}

// maxFindings bounds the findings about one Pod.
const maxFindings = 30

// address is where a target is. The port may be "".
type address struct{ host, port string }

func (a address) String() string { return strings.TrimSuffix(a.host+":"+a.port, ":") }

func addresses(t *target.Target) []address {
	var all []address
	hosts := t.Hosts
	switch {
	case len(hosts) > 0:
	case t.Kind.Name:
		hosts = []string{t.URL.Opaque}
	case t.URL.Host != "":
		hosts = []string{t.URL.Host}
	}
	for _, h := range hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			host, port = strings.Trim(h, "[]"), cmp.Or(t.Kind.Port, webPorts[t.Scheme])
		}
		if host = strings.ToLower(strings.TrimSuffix(host, ".")); host != "" && host != "unknown" {
			all = append(all, address{host, port})
		}
	}
	return all
}

// address says what is at an address.
func (d *doctor) address(ctx context.Context, p *Pod, about string, a address, depth int) {
	ip := net.ParseIP(a.host)
	switch {
	case a.host == "localhost" || ip != nil && ip.IsLoopback():
		if p.init {
			p.add(Finding{About: about, Text: a.host + " is this Pod itself, whose containers start only after its init containers", Possible: slices.ContainsFunc(p.pod.Spec.InitContainers, func(c corev1.Container) bool { return sidecar(&c) && c.Name != p.Container }),
				Fix: "wait in the container that needs it, or make the other one a sidecar: an init container with restartPolicy: Always"})
		}
		return
	case ip != nil:
		p.add(d.atIP(ctx, p, about, a))
		return
	}
	if policy := p.pod.Spec.DNSPolicy; policy == corev1.DNSDefault || p.pod.Spec.HostNetwork && policy == corev1.DNSClusterFirst {
		dns := Finding{About: "dnsPolicy", Text: "Default: the node's servers do not know Services", Fix: p.at("dnsPolicy: ClusterFirst")}
		if p.pod.Spec.HostNetwork {
			dns.Text, dns.Fix = "hostNetwork without dnsPolicy: ClusterFirstWithHostNet: the node's servers do not know Services", p.at("dnsPolicy: ClusterFirstWithHostNet")
		}
		p.add(dns)
	}
	name, namespace, host := d.serviceName(ctx, p.Namespace, a.host)
	if name == "" {
		p.add(Finding{About: about, Text: a.host + " is not a name of this cluster"})
		d.egress(ctx, p)
		return
	}
	d.service(ctx, p, about, a, name, namespace, host, depth)
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// atIP says what has an address.
func (d *doctor) atIP(ctx context.Context, p *Pod, about string, a address) Finding {
	services, _ := d.services(ctx, p.Namespace)
	for _, s := range services {
		if slices.Contains(s.Spec.ClusterIPs, a.host) {
			return Finding{About: about, Text: "the address of Service " + s.Name}
		}
	}
	pods, _ := d.pods(ctx, p.Namespace)
	for _, q := range pods {
		if q.Status.PodIP == a.host {
			return Finding{About: about, Text: "the address of Pod " + q.Name}
		}
	}
	return Finding{About: about, Text: "no Service and no Pod of " + p.Namespace + " has this address"}
}

// serviceName returns the Service that a host name means in a namespace, and the Pod of a StatefulSet in front of it.
// The name is "" for a host outside of the cluster.
//
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
func (d *doctor) serviceName(ctx context.Context, namespace, host string) (name, in, pod string) {
	parts := strings.Split(host, ".")
	if i := slices.Index(parts, "svc"); i >= 2 {
		if i >= 3 {
			pod = parts[i-3]
		}
		return parts[i-2], parts[i-1], pod
	}
	has := func(namespace, name string) bool {
		s, _ := d.serviceNamed(ctx, namespace, name)
		return s != nil
	}
	switch len(parts) {
	case 1:
		return parts[0], namespace, ""
	case 2:
		if has(namespace, parts[1]) {
			return parts[1], namespace, parts[0]
		}
		if _, err := d.object(ctx, resourceOf("namespaces"), "", parts[1]); err == nil || has(parts[1], parts[0]) {
			return parts[0], parts[1], ""
		}
	case 3:
		if has(parts[2], parts[1]) {
			return parts[1], parts[2], parts[0]
		}
	}
	return "", "", ""
}

// instead returns the change from one name to another in the command line of the container or its variables, or "" if
// neither has the name.
func (p *Pod) instead(old, now string) string {
	whole := regexp.MustCompile(`(^|[^a-z0-9.-])` + regexp.QuoteMeta(old) + `($|[^a-z0-9-])`)
	for _, list := range []struct {
		name  string
		words []string
	}{{"args", p.container.Args}, {"command", p.container.Command}} {
		if i := slices.IndexFunc(list.words, whole.MatchString); i >= 0 {
			return p.at(fmt.Sprintf("%s instead of %s in %s.%s[%d]", now, old, p.path, list.name, i))
		}
	}
	for _, e := range p.container.Env {
		if whole.MatchString(e.Value) {
			return p.at(fmt.Sprintf("%s instead of %s in the variable %s in %s.env", now, old, e.Name, p.path))
		}
	}
	return ""
}
