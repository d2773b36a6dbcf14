package k8s

import (
	"fmt"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/lazy"
	"initbox/internal/words"
)

// view is the input of a rule. Rules depend on nothing else.
type view struct {
	kube.Object
	resource kube.Resource
	expect   expectations
	alone    bool // the target names the object, instead of selecting it

	slices []kube.Object        // of a Service: its EndpointSlices
	pods   func() []kube.Object // of a failed Job: its Pods, where possible; nil: not to be requested
}

// rules return nil if an object is ready, otherwise why not: a [*failure.Failure] or a [*endedError]. Kinds that are
// neither in the table nor in [readyOnceThere] have [genericReady].
var rules = map[string]func(view) error{
	"pods":                               podReady,
	"jobs.batch":                         jobReady,
	"deployments.apps":                   deploymentReady,
	"statefulsets.apps":                  statefulSetReady,
	"daemonsets.apps":                    daemonSetReady,
	"replicasets.apps":                   replicasReady,
	"replicationcontrollers":             replicasReady,
	"services":                           serviceReady,
	"ingresses.networking.k8s.io":        addressReady,
	"gateways.gateway.networking.k8s.io": gatewayReady,
	"persistentvolumeclaims":             claimReady,
	"persistentvolumes":                  phaseReady("Bound", "Available"),
	"namespaces":                         phaseReady("Active"),
	"nodes":                              conditionsReady("Ready"),
	"customresourcedefinitions.apiextensions.k8s.io": conditionsReady("NamesAccepted", "Established"),
	"apiservices.apiregistration.k8s.io":             conditionsReady("Available"),
	"horizontalpodautoscalers.autoscaling":           conditionsReady("AbleToScale", "ScalingActive"),
	"certificatesigningrequests.certificates.k8s.io": certificateReady,
	"poddisruptionbudgets.policy":                    budgetReady,
	"volumeattachments.storage.k8s.io":               attachmentReady,
}

// readyOnceThere are the kinds whose objects are ready once they exist; of a CronJob, only its Jobs complete.
var readyOnceThere = []string{
	"configmaps", "endpoints", "events", "limitranges", "podtemplates", "resourcequotas", "secrets",
	"serviceaccounts", "controllerrevisions.apps", "cronjobs.batch",
	"csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io",
	"storageclasses.storage.k8s.io",
	"clusterrolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
	"rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io", "endpointslices.discovery.k8s.io",
	"events.events.k8s.io", "ingressclasses.networking.k8s.io", "networkpolicies.networking.k8s.io",
	"leases.coordination.k8s.io", "mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io",
	"validatingadmissionpolicybindings.admissionregistration.k8s.io",
	"validatingwebhookconfigurations.admissionregistration.k8s.io", "priorityclasses.scheduling.k8s.io",
	"runtimeclasses.node.k8s.io",
}

// endedError is the failure of a Job or Pod that has ended, and so cannot become ready. What that means depends on the
// target.
type endedError struct {
	*failure.Failure
	partly bool // some of it succeeded
}

func (e *endedError) Unwrap() error { return e.Failure }

// text returns the string at the path, or "".
func text(o kube.Object, path ...string) string {
	s, _ := o.At(path...).(string)
	return s
}

// number returns the whole number at the path, or 0.
func number(o kube.Object, path ...string) int64 {
	n, _ := o.At(path...).(int64)
	return n
}

// numberOr returns the whole number at the path, or the default of the API server.
func numberOr(otherwise int64, o kube.Object, path ...string) int64 {
	if n, ok := o.At(path...).(int64); ok {
		return n
	}
	return otherwise
}

// objectsAt returns the objects in the list at the path.
func objectsAt(o kube.Object, path ...string) []kube.Object {
	var all []kube.Object
	list, _ := o.At(path...).([]any)
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// is returns a failure of the object, with a kubectl command as the hint.
func (v view) is(kubectl, format string, args ...any) *failure.Failure {
	f := failure.New(failure.Unexpected, format, args...)
	if kubectl != "" {
		f.Hint = v.kubectl(kubectl)
	}
	return f
}

// kubectl returns a kubectl command line for the object's namespace.
func (v view) kubectl(command string) string {
	if ns := v.Namespace(); ns != "" {
		command += " -n " + ns
	}
	return failure.Printable("kubectl " + command)
}

func (v view) describe() string {
	return "describe " + strings.ToLower(v.resource.Kind) + " " + v.Name()
}

// stale returns the failure for an object whose controller has not seen the latest change: its status describes an
// older specification.
func (v view) stale() error {
	if number(v.Object, "metadata", "generation") > number(v.Object, "status", "observedGeneration") {
		return v.is(v.describe(), "its controller has not seen the latest change yet")
	}
	return nil
}

// podReady is the rule of Pods: Ready or Succeeded. A Pod that is being deleted stays Ready until its containers end,
// but is no longer an endpoint of a Service.
func podReady(v view) error {
	phase := text(v.Object, "status", "phase")
	stays := v.At("metadata", "deletionTimestamp") == nil
	if phase == "Succeeded" || stays && conditionOf(v.Object, "Ready").status == "True" {
		return nil
	}
	problem, note := podProblem(v.Object)
	f := v.is("describe pod "+v.Name(), "%s", problem)
	f.Note = note
	if strings.Contains(problem, "CrashLoopBackOff") || strings.Contains(problem, "exited") {
		f.Hint = v.kubectl("logs " + v.Name() + " --all-containers")
	}
	switch {
	case phase != "Failed":
		return f
	case v.alone && hasController(v.Object): // the controller may create it again, under the same name
		return f
	}
	f.Text = "failed: " + f.Text
	return &endedError{Failure: f}
}

func hasController(o kube.Object) bool {
	return slices.ContainsFunc(objectsAt(o, "metadata", "ownerReferences"), func(owner kube.Object) bool { return owner.At("controller") == true })
}

// podProblem returns why a Pod is not ready, as in kubectl get, and a note with details that change from time to time.
func podProblem(o kube.Object) (problem, note string) {
	if c := conditionOf(o, "PodScheduled"); c.status == "False" {
		return wordOr(c.reason, "not scheduled"), kube.Short(c.message)
	}
	init := objectsAt(o, "status", "initContainerStatuses")
	done := 0
	for _, s := range init {
		state, message := containerProblem(s)
		if text(s, "state", "terminated", "reason") == "Completed" || s.At("ready") == true || s.At("started") == true {
			done++
			continue
		}
		if s.At("state", "terminated") != nil {
			return "Init:Error", state
		}
		if state == containerRuns || state == containerWaits {
			return fmt.Sprintf("Init:%d/%d", done, len(init)), "init container " + failure.Printable(text(s, "name")) + " has not finished"
		}
		return "Init:" + state, message
	}
	worst := ""
	for _, s := range objectsAt(o, "status", "containerStatuses") {
		if state, message := containerProblem(s); severity(state) > severity(worst) {
			worst, note = state, message
		}
	}
	switch {
	case severity(worst) == 3:
		return worst, note
	case text(o, "status", "reason") != "": // Evicted, NodeLost, …
		return kube.Short(text(o, "status", "reason")), kube.Short(text(o, "status", "message"))
	case o.At("metadata", "deletionTimestamp") != nil:
		return "terminating", ""
	case worst != "":
		return worst, note
	}
	if c := conditionOf(o, "Ready"); c.reason == "ReadinessGatesNotReady" {
		return "readiness gates have not passed", kube.Short(c.message)
	}
	return wordOr(text(o, "status", "phase"), "Pending"), ""
}

// States of a container without a problem.
const (
	containerRuns  = "not ready"
	containerWaits = "containers are being created"
)

// severity orders the states of containers: the message names the highest.
func severity(state string) int {
	switch state {
	case "":
		return 0
	case containerRuns:
		return 1
	case containerWaits:
		return 2
	}
	return 3
}

var containerInMessage = lazy.Regexp(`container=(\S+) pod=\S+`)

// containerProblem returns what is wrong with a container, or "".
func containerProblem(s kube.Object) (problem, note string) {
	name := failure.Printable(text(s, "name"))
	waiting, terminated := text(s, "state", "waiting", "reason"), s.At("state", "terminated")
	switch {
	case waiting == "ContainerCreating", waiting == "PodInitializing":
		return containerWaits, ""
	case waiting != "":
		note = kube.Short(containerInMessage().ReplaceAllString(text(s, "state", "waiting", "message"), "container $1"))
		if exit := exitText(s, "lastState"); exit != "" {
			note = strings.TrimPrefix(note+"; "+exit, "; ")
		}
		return kube.Short(waiting), note
	case terminated != nil:
		if number(s, "state", "terminated", "exitCode") == 0 {
			return "", ""
		}
		return exitText(s, "state"), ""
	case s.At("state", "running") != nil && s.At("ready") != true:
		return containerRuns, "container " + name + " is running, but its readiness probe has not succeeded"
	}
	return "", ""
}

// exitText returns how a container ended, from its state or its lastState.
func exitText(s kube.Object, state string) string {
	if s.At(state, "terminated") == nil {
		return ""
	}
	at := func(key string) string { return text(s, state, "terminated", key) }
	t := fmt.Sprintf("container %s exited with status %d", failure.Printable(text(s, "name")), number(s, state, "terminated", "exitCode"))
	if reason := at("reason"); reason != "" && reason != "Error" && reason != "Completed" {
		t += " (" + kube.Short(reason) + ")" // OOMKilled, …
	}
	if message := at("message"); message != "" {
		t += ": " + kube.Short(message)
	}
	return t
}

func wordOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return kube.Short(s)
}

// jobReady is the rule of Jobs: Complete. A failed Job has ended.
func jobReady(v view) error {
	succeeded := number(v.Object, "status", "succeeded")
	failed := conditionOf(v.Object, "Failed")
	if conditionOf(v.Object, "Complete").status == "True" || v.expect.completions > 0 && succeeded >= v.expect.completions {
		return nil
	}
	if failed.status == "True" {
		f := v.is("logs job/"+v.Name()+" --all-containers", "failed: %s", wordOr(failed.reason, "no reason given"))
		if v.alone {
			f.Text = "Job " + v.Name() + " " + f.Text
		}
		if why := lastPod(v); why != "" {
			f.Text += "; its last Pod " + why
		} else if failed.message != "" {
			f.Text += ": " + kube.Short(failed.message)
		}
		return &endedError{f, succeeded > 0}
	}
	want := numberOr(1, v.Object, "spec", "completions")
	if v.expect.completions > 0 {
		want = v.expect.completions
	}
	f := v.is(v.describe(), "%d of %s", succeeded, words.Plural(int(want), "completion"))
	active, fails := number(v.Object, "status", "active"), number(v.Object, "status", "failed")
	switch {
	case v.At("spec", "suspend") == true:
		f.Text = "suspended"
	case conditionOf(v.Object, "FailureTarget").status == "True":
		f.Text = "is about to fail: " + wordOr(conditionOf(v.Object, "FailureTarget").reason, "no reason given")
	case fails > 0:
		f.Note = fmt.Sprintf("%s active, %d failed so far", words.Plural(int(active), "Pod"), fails)
		f.Hint = v.kubectl("logs job/" + v.Name() + " --all-containers")
	case active == 0:
		f.Note = "none of its Pods is running"
	}
	return f
}

// lastPod returns which Pod of a failed Job failed last, and how.
func lastPod(v view) string {
	if v.pods == nil {
		return ""
	}
	var last kube.Object
	for _, pod := range v.pods() {
		if owners := objectsAt(pod, "metadata", "ownerReferences"); len(owners) > 0 && text(owners[0], "uid") != text(v.Object, "metadata", "uid") {
			continue // of an earlier Job of the same name
		}
		if text(pod, "status", "phase") != "Succeeded" && (last == nil || text(pod, "metadata", "creationTimestamp") >= text(last, "metadata", "creationTimestamp")) {
			last = pod
		}
	}
	if last == nil {
		return ""
	}
	problem, note := podProblem(last)
	if note != "" {
		problem += " (" + note + ")"
	}
	return failure.Printable(last.Name()) + ": " + problem
}

// deploymentReady is the rule of kubectl rollout status.
func deploymentReady(v view) error {
	if err := v.stale(); err != nil {
		return err
	}
	want := numberOr(1, v.Object, "spec", "replicas")
	all, updated, available := number(v.Object, "status", "replicas"), number(v.Object, "status", "updatedReplicas"), number(v.Object, "status", "availableReplicas")
	var f *failure.Failure
	switch {
	case updated < want:
		f = v.is(v.describe(), "%d of %s updated", updated, words.Plural(int(want), "replica"))
	case all > updated:
		f = v.is(v.describe(), "%s still to be terminated", words.Plural(int(all-updated), "old replica"))
	case available < updated:
		f = v.is("", "%d of %s available", available, words.Plural(int(updated), "replica"))
		f.Hint = v.podsOf()
	default:
		return nil
	}
	if v.At("spec", "paused") == true {
		f.Text += "; it is paused"
		f.Hint = v.kubectl("rollout resume deployment/" + v.Name())
	}
	if c := conditionOf(v.Object, "Progressing"); c.reason == "ProgressDeadlineExceeded" {
		f.Text += "; ProgressDeadlineExceeded"
		f.Hint = v.podsOf()
	}
	if c := conditionOf(v.Object, "ReplicaFailure"); c.status == "True" { // a quota, an admission webhook
		f.Note = kube.Short(c.message)
	}
	return f
}

// podsOf returns the command that lists the Pods that the object selects.
func (v view) podsOf() string {
	return v.kubectl("get pods -l '" + labelSelector(v.Object) + "'")
}

// labelSelector returns the selector of a Service, or a LabelSelector, in kubectl's syntax.
func labelSelector(o kube.Object) string {
	match, _ := o.At("spec", "selector", "matchLabels").(map[string]any)
	expressions := objectsAt(o, "spec", "selector", "matchExpressions")
	if match == nil && expressions == nil {
		match, _ = o.At("spec", "selector").(map[string]any)
	}
	var parts []string
	for label, value := range match {
		parts = append(parts, fmt.Sprintf("%s=%v", label, value))
	}
	for _, e := range expressions {
		list, _ := e.At("values").([]any)
		key, among := text(e, "key"), " ("+strings.Join(words.Each(list, func(v any) string { return fmt.Sprint(v) }), ",")+")"
		switch text(e, "operator") {
		case "In":
			parts = append(parts, key+" in"+among)
		case "NotIn":
			parts = append(parts, key+" notin"+among)
		case "Exists":
			parts = append(parts, key)
		case "DoesNotExist":
			parts = append(parts, "!"+key)
		}
	}
	slices.Sort(parts)
	return failure.Printable(strings.Join(parts, ","))
}

// statefulSetReady is the rule of kubectl rollout status, which supports only RollingUpdate; with OnDelete, the
// replicas must be ready, at any revision.
func statefulSetReady(v view) error {
	if number(v.Object, "status", "observedGeneration") == 0 {
		return v.is(v.describe(), "its controller has not seen it yet")
	}
	if err := v.stale(); err != nil {
		return err
	}
	want, ready := numberOr(1, v.Object, "spec", "replicas"), number(v.Object, "status", "readyReplicas")
	partition, updated := number(v.Object, "spec", "updateStrategy", "rollingUpdate", "partition"), number(v.Object, "status", "updatedReplicas")
	var f *failure.Failure
	switch current := text(v.Object, "status", "currentRevision"); {
	case ready < want:
		f = v.is("", "%d of %s ready", ready, words.Plural(int(want), "replica"))
	case text(v.Object, "spec", "updateStrategy", "type") == "OnDelete":
		return nil
	case updated < want-partition:
		f = v.is("", "%d of %s updated", updated, words.Plural(int(want-partition), "replica"))
	case v.At("spec", "updateStrategy", "rollingUpdate") == nil && current != "" && text(v.Object, "status", "updateRevision") != current:
		f = v.is("", "%s updated, but the update is not complete", words.Plural(int(updated), "replica"))
	default:
		return nil
	}
	f.Hint = v.podsOf()
	return f
}

// daemonSetReady is the rule of kubectl rollout status; with OnDelete, the Pods must be available, at any revision.
// With same-node, only the Pod on that node counts.
func daemonSetReady(v view) error {
	if err := v.stale(); err != nil {
		return err
	}
	want, updated, available := number(v.Object, "status", "desiredNumberScheduled"), number(v.Object, "status", "updatedNumberScheduled"), number(v.Object, "status", "numberAvailable")
	var f *failure.Failure
	switch {
	case v.expect.node[1] != "":
		return daemonReady(v)
	case updated < want && text(v.Object, "spec", "updateStrategy", "type") != "OnDelete":
		f = v.is("", "%d of %s updated", updated, words.Plural(int(want), "Pod"))
	case available < want:
		f = v.is("", "%d of %s available", available, words.Plural(int(want), "Pod"))
	default:
		return nil
	}
	f.Hint = v.podsOf()
	return f
}

// daemonReady is the rule of a DaemonSet's Pod on one node; v.pods are the Pods there. During an update, or after an
// eviction, an old Pod may exist beside the new one.
func daemonReady(v view) error {
	var first *failure.Failure
	for _, pod := range v.pods() {
		err := podReady(view{Object: pod, resource: podResource()})
		if err == nil {
			return nil
		}
		if first == nil {
			first = failure.Of(err)
			first.Text = "its Pod " + failure.Printable(pod.Name()) + " on this node: " + first.Text
		}
	}
	if first != nil {
		return first
	}
	if scheduled, want := number(v.Object, "status", "currentNumberScheduled"), number(v.Object, "status", "desiredNumberScheduled"); scheduled < want {
		return v.is(v.describe(), "none of its Pods is on this node yet")
	}
	return nil // every node that should have a Pod has one: this node should not
}

func replicasReady(v view) error {
	if err := v.stale(); err != nil {
		return err
	}
	want, available := numberOr(1, v.Object, "spec", "replicas"), number(v.Object, "status", "availableReplicas")
	if available < want {
		return v.is("", "%d of %s available", available, words.Plural(int(want), "replica")).WithHint(v.podsOf())
	}
	return nil
}

// serviceReady is the rule of Services: they have ready endpoints.
func serviceReady(v view) error {
	if v.expect.address {
		return addressReady(v)
	}
	if text(v.Object, "spec", "type") == "ExternalName" {
		name := failure.Printable(text(v.Object, "spec", "externalName"))
		return v.is("", "an ExternalName Service, another name for %s, has no endpoints", name).
			WithHint("wait for the name or its port instead (dns:" + name + "), or add #exists")
	}
	ready, others := countEndpoints(v.slices)
	want := v.expect.endpoints
	if v.expect.everyone {
		want = max(1, ready+others)
	}
	if ready >= want {
		return nil
	}
	f := v.is("", "no ready endpoint")
	if want > 1 {
		f.Text = fmt.Sprintf("%d of %d endpoints ready", ready, want)
	}
	selector := labelSelector(v.Object)
	switch {
	case others > 0:
		f.Note = fmt.Sprintf("%d not ready", others)
		f.Hint = "are the Pods ready? " + v.podsOf()
	case selector == "":
		f.Hint = "the Service has no selector: what creates its EndpointSlices?"
	case ready == 0:
		f.Note = "none at all: no Pod with " + selector + " has an address"
		f.Hint = "do such Pods exist in this namespace? " + v.podsOf()
	default:
		f.Hint = v.podsOf()
	}
	return f
}

// countEndpoints counts the endpoints of a Service. In a dual-stack cluster, each endpoint is in a slice of either
// address family.
func countEndpoints(endpointSlices []kube.Object) (ready, others int64) {
	type family struct{ ready, others map[string]bool }
	families := map[string]family{}
	for _, s := range endpointSlices {
		kind := text(s, "addressType")
		f, ok := families[kind]
		if !ok {
			f = family{map[string]bool{}, map[string]bool{}}
			families[kind] = f
		}
		for _, e := range objectsAt(s, "endpoints") {
			addresses, _ := e.At("addresses").([]any)
			if len(addresses) == 0 {
				continue
			}
			id := fmt.Sprint(addresses[0])
			// Unknown counts as ready (EndpointConditions, discovery.k8s.io/v1).
			if e.At("conditions", "ready") == nil || e.At("conditions", "ready") == true {
				f.ready[id] = true
			} else {
				f.others[id] = true
			}
		}
	}
	for _, f := range families {
		for id := range f.ready {
			delete(f.others, id) // it is in both while it moves from one slice to another
		}
		if int64(len(f.ready)) > ready || int64(len(f.ready)) == ready && int64(len(f.others)) > others {
			ready, others = int64(len(f.ready)), int64(len(f.others))
		}
	}
	return ready, others
}

// addressReady is the rule for an address from a load balancer or ingress controller.
func addressReady(v view) error {
	for _, i := range objectsAt(v.Object, "status", "loadBalancer", "ingress") {
		if text(i, "ip") != "" || text(i, "hostname") != "" {
			return nil
		}
	}
	f := v.is(v.describe(), "no address yet")
	if kind := text(v.Object, "spec", "type"); v.resource.Kind == "Service" && kind != "LoadBalancer" {
		f.Text = "no address, which only a Service of type LoadBalancer gets"
		f.Note = "its type is " + wordOr(kind, "ClusterIP")
	}
	return f
}

func gatewayReady(v view) error {
	if !v.expect.address {
		if err := conditionsReady("Programmed")(v); err != nil {
			return err
		}
	}
	if len(objectsAt(v.Object, "status", "addresses")) == 0 {
		return v.is(v.describe(), "no address yet")
	}
	return nil
}

// phaseReady is the rule of kinds that have a phase.
func phaseReady(phases ...string) func(view) error {
	return func(v view) error {
		phase := text(v.Object, "status", "phase")
		if slices.Contains(phases, phase) {
			return nil
		}
		f := v.is(v.describe(), "%s, not %s", wordOr(phase, "without a phase"), strings.Join(phases, " or "))
		f.Note = kube.Short(text(v.Object, "status", "message"))
		return f
	}
}

func claimReady(v view) error {
	err := phaseReady("Bound")(v)
	if f, ok := err.(*failure.Failure); ok && text(v.Object, "status", "phase") == "Pending" {
		f.Hint = "with a StorageClass of volumeBindingMode WaitForFirstConsumer it is bound only once a Pod that uses it is scheduled; " + f.Hint
	}
	return err
}

// conditionsReady is the rule of kinds that have these conditions.
func conditionsReady(names ...string) func(view) error {
	return func(v view) error {
		for _, name := range names {
			if err := (condition{name, "True"}).check(v); err != nil {
				return err
			}
		}
		return nil
	}
}

func certificateReady(v view) error {
	for _, name := range []string{"Denied", "Failed"} {
		if c := conditionOf(v.Object, name); c.status == "True" {
			f := v.is(v.describe(), "%s", strings.ToLower(name))
			f.Note = kube.Short(c.message)
			return f
		}
	}
	switch {
	case conditionOf(v.Object, "Approved").status != "True":
		return v.is(v.describe(), "not approved yet")
	case text(v.Object, "status", "certificate") == "":
		return v.is(v.describe(), "approved, but without a certificate yet")
	}
	return nil
}

func budgetReady(v view) error {
	if err := v.stale(); err != nil {
		return err
	}
	if healthy, want := number(v.Object, "status", "currentHealthy"), number(v.Object, "status", "desiredHealthy"); healthy < want {
		return v.is(v.describe(), "%d of %s healthy", healthy, words.Plural(int(want), "Pod"))
	}
	return nil
}

func attachmentReady(v view) error {
	if v.At("status", "attached") == true {
		return nil
	}
	f := v.is(v.describe(), "not attached yet")
	f.Note = kube.Short(text(v.Object, "status", "attachError", "message"))
	return f
}

// genericReady is the rule of all other kinds, mainly custom resources, by the conditions that most of them have.
// Reconciling and Stalled, from kstatus, mean not ready, regardless of other conditions.
//
// https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
func genericReady(v view) error {
	if observed, ok := v.At("status", "observedGeneration").(int64); ok && observed < number(v.Object, "metadata", "generation") {
		return v.is(v.describe(), "its controller has not seen the latest change yet")
	}
	if v.At("metadata", "deletionTimestamp") != nil {
		return v.is(v.describe(), "is being deleted")
	}
	for _, name := range []string{"Stalled", "Reconciling"} {
		if c := conditionOf(v.Object, name); c.status == "True" {
			f := v.is(v.describe(), "%s", strings.ToLower(name))
			f.Note = c.why()
			return f
		}
	}
	for _, name := range []string{"Ready", "Available"} {
		if conditionOf(v.Object, name).name != "" {
			return condition{name, "True"}.check(v)
		}
	}
	f := v.is("", "has no condition Ready or Available")
	f.Hint = "say what ready means: #condition=NAME, #jsonpath={.status.…}=VALUE, or #exists"
	f.Note = foundConditions(v.Object)
	return f
}
