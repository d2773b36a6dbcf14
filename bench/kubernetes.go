package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// kubernetes measures waits for objects of a Kubernetes cluster: initbox beside kubectl, alone and in a loop, and
// beside k8s-wait-for, which is a loop around kubectl.
func kubernetes(ctx context.Context, b *bench) (*section, error) {
	s, err := b.startAPIServer(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	report, err := b.objects(ctx, s)
	if err != nil {
		return report, err
	}
	crowd, err := b.objectCrowd(ctx, s)
	report.tables = append(report.tables, crowd)
	return report, err
}

// An objectKind is a kind of object, and what makes one of it not ready, then
// ready. Its fields have the names of the Kubernetes API.
type objectKind struct {
	path    string // of the collection
	spec    any
	begun   any        // the status before; may be nil
	ready   func() any // the status
	waiters []waiter
}

// objectKinds lists what is waited for. A waiter's discovery cache is its own: a container starts with none.
var objectKinds = map[string]objectKind{
	"pod": {
		path:  "/api/v1/namespaces/default/pods",
		spec:  object{"containers": []object{{"name": "app", "image": "none"}}},
		ready: func() any { return object{"phase": "Running", "conditions": conditions("Ready")} },
		waiters: []waiter{
			initboxObject("k8s:pod/{name}"),
			kubectl("wait", "--for=condition=Ready", "pod/{name}", "--timeout", patience),
			kubectlLoop(`get pod {name} -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'`, "True"),
			k8sWaitFor("pod"),
		},
	},
	"job": {
		path: "/apis/batch/v1/namespaces/default/jobs",
		spec: object{"template": podTemplate("Never")},
		// Without a Pod, as in the first moments of any Job, k8s-wait-for would take it for done.
		begun: object{"active": 1},
		ready: func() any {
			now := time.Now().UTC().Format(time.RFC3339)
			return object{"startTime": now, "completionTime": now, "active": 0, "succeeded": 1, "conditions": conditions("SuccessCriteriaMet", "Complete")}
		},
		waiters: []waiter{
			initboxObject("k8s:job/{name}"),
			kubectl("wait", "--for=condition=Complete", "job/{name}", "--timeout", patience),
			kubectlLoop("get job {name} -o 'jsonpath={.status.succeeded}'", "1"),
			k8sWaitFor("job"),
		},
	},
	"deployment": {
		path: "/apis/apps/v1/namespaces/default/deployments",
		spec: object{"selector": object{"matchLabels": object{"app": "bench"}}, "template": podTemplate("Always")},
		ready: func() any {
			return object{"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
				"conditions": conditions("Available")}
		},
		waiters: []waiter{
			initboxObject("k8s:deployment/{name}"),
			kubectl("rollout", "status", "deployment/{name}", "--timeout", patience),
			kubectlLoop("get deployment {name} -o 'jsonpath={.status.readyReplicas}'", "1"),
		},
	},
}

// object is a JSON object.
type object = map[string]any

func podTemplate(restartPolicy string) object {
	return object{
		"metadata": object{"labels": object{"app": "bench"}},
		"spec":     object{"restartPolicy": restartPolicy, "containers": []object{{"name": "app", "image": "none"}}},
	}
}

// conditions returns those named, all true.
func conditions(types ...string) (all []object) {
	now := time.Now().UTC().Format(time.RFC3339)
	for _, t := range types {
		all = append(all, object{"type": t, "status": "True", "lastTransitionTime": now})
	}
	return all
}

func initboxObject(target string) waiter {
	return initbox(ours, "wait-for-service", target, "--kubeconfig", "{kubeconfig}")
}

const kubectlFlags = "--kubeconfig {kubeconfig} --cache-dir {cache}"

func kubectl(args ...string) waiter {
	name := "kubectl " + args[0]
	if args[0] == "rollout" {
		name += " " + args[1]
	}
	return waiter{name: name, tool: "kubectl", args: command(args, strings.Fields(kubectlFlags)...)}
}

func kubectlLoop(get, want string) waiter {
	return loop("kubectl", "kubectl get", fmt.Sprintf(`test "$({tool} %s %s 2>/dev/null)" = %s`, get, kubectlFlags, want), 1)
}

// k8sWaitFor is a script in BusyBox's shell, as in its image, and kubectl on PATH.
func k8sWaitFor(kind string) waiter {
	return waiter{name: "k8s-wait-for", tool: "wait_for.sh",
		args: append([]string{"/usr/bin/env", "PATH={path}", "busybox", "sh", "{tool}", kind, "{name}"}, strings.Fields(kubectlFlags)...)}
}

// objectOrder is the order of the kinds in the report.
var objectOrder = []string{"pod", "job", "deployment"}

// objectReaction is what an API server's event may take to end a wait.
const objectReaction = 300 * time.Millisecond

func (b *bench) objects(ctx context.Context, s *apiServer) (*section, error) {
	var all []kind
	for _, name := range objectOrder {
		k := objectKinds[name]
		all = append(all, kind{name: name, waiters: k.waiters, serve: func(b *bench, n int) (*service, error) { return b.newObject(s, k, n) }})
	}
	report := &section{
		title: "Objects of a Kubernetes cluster",
		about: "A real API server, without the rest of a cluster: the harness sets the status of objects, 0.2 to 5 s after the waiter was started, and measures " +
			"until the waiter has exited. cpu is user and system time of the whole wait with all its children; resident is the peak of its process, for a loop that of one kubectl. " +
			"kubectl starts without its discovery cache, as in a container.",
	}
	busy := load()
	few := *b
	few.trials, few.atOnce = max(b.trials/5, 2), 4 // kubectl needs a processor
	outcomes := few.runTrials(ctx, few.plan(all))
	for _, k := range all {
		median := reactions(outcomes[series{k.name, ours}]).median()
		report.targets = append(report.targets, target{"reaction, k8s:" + k.name + ", median", human(objectReaction), human(median), median > 0 && median <= objectReaction})
	}
	report.tables = append(report.tables, costTable(b, all, outcomes, 0.9, 0.99))
	report.notes = append(report.notes, busy())
	return report, firstFailure(outcomes)
}

// newObject makes an object that is not ready until it is opened.
func (b *bench) newObject(s *apiServer, k objectKind, n int) (*service, error) {
	name := "bench-" + strconv.Itoa(n)
	if err := s.do(http.MethodPost, k.path, object{"metadata": object{"name": name, "labels": object{"app": "bench"}}, "spec": k.spec}); err != nil {
		return nil, err
	}
	if k.begun != nil {
		if err := s.do(http.MethodPatch, k.path+"/"+name+"/status", object{"status": k.begun}); err != nil {
			return nil, err
		}
	}
	path := filepath.Dir(b.tools["kubectl"].path) + ":" + filepath.Dir(b.tools["busybox"].path) + ":/usr/bin:/bin"
	return &service{
		vars: map[string]string{"name": name, "kubeconfig": s.kubeconfig, "cache": filepath.Join(b.dir, "cache-"+name), "path": path},
		open: func() error {
			return s.do(http.MethodPatch, k.path+"/"+name+"/status", object{"status": k.ready()})
		},
		close: func() error {
			return s.do(http.MethodDelete, k.path+"/"+name+"?gracePeriodSeconds=0&propagationPolicy=Background", nil)
		},
	}, nil
}

// A crowd of Pods in one wait.
const crowdOfPods = 200

// objectCrowd waits for many Pods at once and counts what the API server was
// asked. The reaction is that to the last one.
func (b *bench) objectCrowd(ctx context.Context, s *apiServer) (table, error) {
	t := table{{fmt.Sprintf("%d Pods at once", crowdOfPods), "reaction", "cpu", "resident", "requests for Pods"}}
	pod := objectKinds["pod"]
	for _, w := range b.present([]waiter{
		initboxObject("{targets}"),
		kubectl("wait", "--for=condition=Ready", "pod", "--selector", "app=bench", "--timeout", patience),
		k8sWaitFor("pod"),
	}) {
		pods, targets := make([]*service, crowdOfPods), make([]string, crowdOfPods)
		for i := range pods {
			var err error
			if pods[i], err = b.newObject(s, pod, i); err != nil {
				return t, err
			}
			targets[i] = "k8s:pod/" + pods[i].vars["name"]
		}
		before, err := s.requests("pods")
		if err != nil {
			return t, err
		}
		argv := crowdArgv(w.argv(b.tools[w.tool].path, pods[0].vars), pods[0].vars["name"], targets)
		var opening time.Duration // what the Pods before the last one took
		o := b.await(ctx, argv, 2*time.Second, func() error {
			began := time.Now()
			for _, p := range pods {
				opening = time.Since(began)
				if err := p.open(); err != nil {
					return err
				}
			}
			return nil
		})
		if o.err != nil {
			return t, fmt.Errorf("%s: %w", w.name, o.err)
		}
		after, err := s.requests("pods")
		if err != nil {
			return t, err
		}
		var asked []string
		for _, verb := range []string{"GET", "LIST", "WATCH"} {
			if n := after[verb] - before[verb]; n > 0 {
				asked = append(asked, fmt.Sprintf("%d %s", n, verb))
			}
		}
		t = append(t, []string{w.name, human(o.reaction - opening), human(o.cpu), w.resident(o.resident), strings.Join(asked, ", ")})
		for _, p := range pods {
			if err := p.close(); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// crowdArgv replaces the one target in initbox's command line by all of them,
// and the one name in k8s-wait-for's by the Pods' label.
func crowdArgv(argv []string, name string, targets []string) []string {
	var all []string
	for _, a := range argv {
		switch a {
		case "{targets}":
			all = append(all, targets...)
		case name:
			all = append(all, "-lapp=bench")
		default:
			all = append(all, a)
		}
	}
	return all
}

// resident writes the memory of a waiter. That of a shell means nothing.
func (w waiter) resident(kib int64) string {
	if w.tool == "wait_for.sh" || strings.Contains(w.name, " loop") {
		return "–"
	}
	return mebibytes(kib)
}

// cpus returns the processor time of the trials that did not fail.
func cpus(some []outcome) (s sample) {
	for _, o := range some {
		if o.err == nil {
			s = append(s, o.cpu)
		}
	}
	return s
}

// resident returns the largest peak of the trials, in KiB.
func resident(some []outcome) (most int64) {
	for _, o := range some {
		most = max(most, o.resident)
	}
	return most
}
