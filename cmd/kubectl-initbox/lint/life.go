package lint

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/cmd/kubectl-initbox/program"
	"initbox/internal/lazy"
)

// sidecar reports init containers that never end.
func sidecar(r *run, report report) {
	if stays := r.last().Stays; stays != "" && r.Init && !r.Sidecar() {
		report(r.container, r.node(stays), "add restartPolicy: Always to the container", "with %s the init container never ends, and the Pod never starts", stays)
	}
}

// sidecarEnds reports sidecars that end, and so are restarted again and again.
func sidecarEnds(r *run, report report) {
	last := r.last()
	if len(r.steps) == 0 || r.err != nil || !r.Sidecar() || last.Stays != "" || r.foreign() != nil || last.Name == "sleep" {
		return
	}
	report(r.container, key(r.Node, "restartPolicy"), "remove restartPolicy: the next containers then start when it has succeeded",
		"%s ends, so Kubernetes restarts it again and again, and nothing waits for it", last.Name)
}

// answer returns the flag that says where probes are answered, its value, and the port in it; "" if it is a file or not
// known.
func (r *run) answer() (flag, value, port string) {
	last := r.last()
	if last.Stays == "" {
		return "", "", ""
	}
	flag = "http"
	if last.Flags[flag] == nil {
		flag = "startup-probe"
	}
	value, flag = strings.Join(last.Flags[flag], ""), "--"+flag
	if strings.HasPrefix(value, "/") || last.Unknown {
		return flag, value, ""
	}
	if _, p, err := net.SplitHostPort(value); err == nil {
		return flag, value, p
	}
	return flag, value, value
}

// startupProbe reports startup probes that ask where nothing answers.
func startupProbe(r *run, report report) {
	last := r.last()
	if last.Stays == "" || r.StartupProbe == nil || r.err != nil || last.Unknown {
		return
	}
	flag, value, port := r.answer()
	asked, at := r.probed()
	node := key(r.Node, append([]string{"startupProbe"}, at...)...)
	switch {
	case asked == "" || last.Flags["compat"] != nil:
	case value == "":
		report(r.container, node, "add --http :"+asked+" to the args", "the startup probe asks port %s, where nothing answers without --http, so the Pod never starts", asked)
	case strings.HasPrefix(value, "/"):
		report(r.container, node, "add --http :"+asked+" to the args", "the startup probe asks port %s, and --startup-probe creates the file %s", asked, value)
	case port != asked:
		report(r.container, node, "use port "+port+" in both", "the startup probe asks port %s, and %s answers at %s", asked, flag, value)
	}
}

// probed returns the port that the startup probe asks, and where it stands in the probe; "" if that is not known.
func (c *container) probed() (port string, at []string) {
	var p intstr.IntOrString
	switch probe := c.StartupProbe; {
	case probe.HTTPGet != nil:
		p, at = probe.HTTPGet.Port, []string{"httpGet", "port"}
	case probe.TCPSocket != nil:
		p, at = probe.TCPSocket.Port, []string{"tcpSocket", "port"}
	default:
		return "", nil
	}
	if p.Type == intstr.Int {
		return strconv.Itoa(int(p.IntVal)), at
	}
	i := slices.IndexFunc(c.Ports, func(named corev1.ContainerPort) bool { return named.Name == p.StrVal })
	if i < 0 {
		return "", nil
	}
	return strconv.Itoa(int(c.Ports[i].ContainerPort)), at
}

// noStartupProbe reports sidecars for which the next container does not wait.
func noStartupProbe(r *run, report report) {
	last := r.last()
	if last.Stays == "" || !r.Sidecar() || r.StartupProbe != nil || r.err != nil {
		return
	}
	for _, s := range r.steps[:len(r.steps)-1] {
		if strings.HasPrefix(s.Name, "wait-for-") {
			return // it waits for the application itself
		}
	}
	fix := "add startupProbe: {httpGet: {port: 9000}, periodSeconds: 1, failureThreshold: 300}, and --http :9000 to the args"
	if flag, value, port := r.answer(); port != "" {
		fix = "add startupProbe: {httpGet: {port: " + port + "}, periodSeconds: 1, failureThreshold: 300}, which " + flag + " " + value + " answers"
	} else if value != "" {
		fix = "add a startupProbe that waits for the file " + value
	}
	if _, value, _ := r.answer(); last.Name == "register" && value == "" || r.doneBefore(last) {
		return // the application may have to run first; the files are there
	}
	report(r.container, r.node(last.Stays), fix, "the application starts before %s has succeeded once: the sidecar has no startupProbe", last.Name)
}

// signal reports sidecars that do not see the process that they should signal.
func signal(r *run, report report) {
	last := r.last()
	if shared := r.pod.Spec.ShareProcessNamespace; last.Flags["signal"] == nil || shared != nil && *shared || r.pod.Spec.HostPID {
		return
	}
	report(r.container, r.node("--signal"), "set shareProcessNamespace: true in the Pod", "--signal %s reaches no other container: this one sees only its own processes", strings.Join(last.Flags["signal"], ""))
}

// doneBefore returns whether an init container in front has done once, in one of the same volumes, what a sidecar does.
func (r *run) doneBefore(s command.Inspected) bool {
	for _, c := range r.pod.containers {
		if c == r.container {
			return false
		}
		if c.main == nil || c.Sidecar() {
			continue
		}
		for _, before := range c.main.steps {
			if before.Name == s.Name && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return r.mounts(m.Name) }) {
				return true
			}
		}
	}
	return false
}

// probeTimeout reports probes that the kubelet kills before they end.
func probeTimeout(r *run, report report) {
	if r.seconds == 0 || r.err != nil {
		return
	}
	limit := time.Duration(r.seconds) * time.Second
	for _, s := range r.steps {
		if s.Timeout == 0 && s.Name != "sleep" || s.Timeout >= limit {
			report(r.container, key(r.Node, r.hook, "timeoutSeconds"), "set a --timeout below timeoutSeconds",
				"the kubelet ends the %s after %v, before the --timeout of %s (%s), and its message is lost", r.hook, limit, s.Name, bound(s.Timeout))
			return
		}
	}
}

func bound(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}

// gracePeriod reports preStop hooks that may take all the time that the application has to end.
func gracePeriod(r *run, report report) {
	grace := 30 * time.Second
	if s := r.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if r.err != nil || r.hook != "preStop" {
		return
	}
	for _, s := range r.steps {
		if s.Name == "sleep" {
			if d, err := time.ParseDuration(strings.Join(s.Args, "")); err == nil && d >= grace {
				report(r.container, r.node(s.Name), "sleep less", "the hook sleeps %v, and terminationGracePeriodSeconds is %v, so the application is killed", d, grace)
			}
		} else if s.Timeout == 0 || s.Timeout >= grace {
			report(r.container, r.node("--timeout", s.Name), "set a --timeout well below it",
				"the hook may take all of terminationGracePeriodSeconds, %v (--timeout is %s), and then the application is killed", grace, bound(s.Timeout))
		}
	}
}

// progressDeadline reports waits that end after Kubernetes has given up the rollout, which then has no reason in it.
func progressDeadline(r *run, report report) {
	if kind := r.pod.Object.Kind; kind != "Deployment" && kind != "Rollout" || !r.Init || r.Sidecar() || r.err != nil {
		return
	}
	deadline := 600 * time.Second
	if node := manifest.Get(r.pod.Object.Node, "spec", "progressDeadlineSeconds"); node != nil {
		seconds, err := strconv.Atoi(node.Value)
		if err != nil || seconds >= 1<<31-1 {
			return
		}
		deadline = time.Duration(seconds) * time.Second
	}
	for _, s := range r.steps {
		if s.Name == "sleep" || s.Unknown && s.Flags["timeout"] != nil || s.Timeout > 0 && s.Timeout <= deadline {
			continue
		}
		report(r.container, r.node("--timeout", s.Name), "set a --timeout below progressDeadlineSeconds: the container then ends first, with a message that says what is missing, and is restarted",
			"%s has a --timeout of %s, and Kubernetes reports the rollout as failed after %v, without the reason", s.Name, bound(s.Timeout), deadline)
	}
}

// mergeWaits reports init containers that wait one after the other for what one could wait for at once.
func mergeWaits(p *pod, report report) {
	var before *run
	for _, c := range p.containers {
		r := c.main
		if !c.Init || r == nil || r.err != nil || len(r.steps) != 1 || r.steps[0].Name != "wait-for-service" || c.Sidecar() || len(r.steps[0].Command) > 0 || !mergeable(r.steps[0]) {
			before = nil
			continue
		}
		if before != nil && c.Image == before.Image && maps.EqualFunc(lasting(before.steps[0].Flags), lasting(r.steps[0].Flags), slices.Equal) {
			report(c, c.Node, "move its targets to the container "+before.Name, "it starts only when %s has ended; one container waits for all targets at once, and the Pod starts earlier", before.Name)
		}
		before = r
	}
}

// mergeable returns whether a wait may have more targets: flags that count them must be few.
func mergeable(s command.Inspected) bool {
	for _, flag := range []string{"any", "min", "once", "stable-for", "from-k8s-wait-for", "from-kubernetes-entrypoint"} {
		if s.Flags[flag] != nil {
			return false
		}
	}
	return true
}

// lasting returns the flags without those that may differ.
func lasting(flags map[string][]string) map[string][]string {
	flags = maps.Clone(flags)
	for _, name := range []string{"log-level", "log-format"} {
		delete(flags, name)
	}
	return flags
}

// memoryLimit reports limits with which the kernel would kill the program.
func memoryLimit(r *run, report report) {
	limit, found := r.Resources.Limits[corev1.ResourceMemory]
	if !found || r.foreign() != nil {
		return
	}
	need, name := program.Memory(r.steps)
	if limit.Value() < need<<20 {
		report(r.container, key(r.Node, "resources", "limits", "memory"), "set at least "+strconv.FormatInt(max(2*need&^15, 32), 10)+"Mi", "with a memory limit of %s the kernel may kill %s, which needs about %d MiB", limit.String(), name, need)
	}
}

// numbered matches a name that ends in a number, with what stands before it.
var numbered = lazy.Regexp(`^(.*?)-(?:r|rev|revision-?)?([0-9]+)$`)

// jobRevision reports waits for a Job of the same chart that gets another name with each upgrade. A number that is not
// the revision of a release, such as that of one of several Jobs, is not reported.
func jobRevision(r *run, report report) {
	for _, s := range r.steps {
		for _, t := range s.Targets {
			kind, name, _ := strings.Cut(strings.TrimPrefix(t.Text, "k8s:"), "/")
			name, _, _ = strings.Cut(strings.SplitN(name, "#", 2)[0], "?")
			m := numbered().FindStringSubmatch(name)
			if m == nil || !slices.Contains([]string{"job", "jobs", "job.batch", "jobs.batch"}, strings.ToLower(kind)) || s.Unknown {
				continue
			}
			var helm, several bool
			for _, o := range r.pod.input.objects {
				if o.Kind != "Job" {
					continue
				}
				labels := manifest.Get(o.Node, "metadata", "labels")
				managed := manifest.Get(labels, "app.kubernetes.io/managed-by")
				if o.Name == name {
					helm = managed != nil && managed.Value == "Helm" || manifest.Get(labels, "helm.sh/chart") != nil
				} else if other := numbered().FindStringSubmatch(o.Name); other != nil && other[1] == m[1] {
					several = true
				}
			}
			if helm && !several {
				report(r.container, r.node(t.Text), "name the Job by what it does, or by a checksum of its content",
					"the name of the Job %s seems to contain the revision of the release: each upgrade then restarts these Pods, and those of the previous revision wait for a Job that is gone", name)
			}
		}
	}
}

// ordinal reports Pods whose names end in no number.
func ordinal(r *run, report report) {
	switch r.pod.Object.Kind {
	case "Deployment", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Rollout":
	default:
		return
	}
	for _, s := range r.steps {
		if s.Name == "sleep" && s.Flags["ordinal-step"] != nil && !strings.HasPrefix(s.Flags["ordinal-step"][0], "0") && !r.sets("POD_NAME") {
			report(r.container, r.node("--ordinal-step"), "use --jitter, or a StatefulSet", "the names of the Pods of a %s have no ordinal, so initbox fails", r.pod.Object.Kind)
		}
	}
}

// sets returns whether a variable has a value that is not the Pod's own.
func (c *container) sets(name string) bool {
	return len(c.EnvFrom) > 0 || slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
		return e.Name == name && (e.ValueFrom == nil || e.ValueFrom.FieldRef == nil)
	})
}
