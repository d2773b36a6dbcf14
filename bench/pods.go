package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// podCount is how many Pods one trial applies.
const podCount = 5

// podForms are the ways in which the Pods wait for the same name and the same port, both of which are there.
var podForms = []struct{ name, containers, values string }{
	{"busybox loops", "2", "loops=true"},
	{"initbox, a container each", "2", "merge=false"},
	{"initbox, as the library chart merges them", "1", "merge=true"},
}

// podsChart is a chart that uses the library chart. Its Pods differ in nothing but their init containers. Debian's
// busybox is linked statically, so its nc cannot look up names in an image without libraries of its own.
var podsChart = map[string]string{
	"Chart.yaml": `{apiVersion: v2, name: pods, version: 1.0.0, dependencies: [{name: initbox, version: ">=0.0.0-0", repository: ""}]}`,
	"values.yaml": `{loops: false, merge: true, initbox: {image: {repository: initbox, tag: bench}}}
`,
	"templates/pods.yaml": `
{{- define "pods.init" }}
- wait: {for: ["dns:myservice"], merge: {{ .Values.merge }}}
- wait: {for: ["tcp://mydb:8080"], merge: {{ .Values.merge }}}
{{- end }}
{{- range $i := until ` + strconv.Itoa(podCount) + ` }}
---
apiVersion: v1
kind: Pod
metadata: {name: web-{{ $i }}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext:
    {{- include "initbox.podSecurityContext" (dict "root" $) | nindent 4 }}
  initContainers:
  {{- if $.Values.loops }}
  - name: init-myservice
    image: busybox:bench
    command: [/busybox, sh, -c, "until /busybox nslookup myservice.{{ $.Release.Namespace }}.svc.cluster.local; do echo waiting for myservice; sleep 2; done"]
  - name: init-mydb
    image: busybox:bench
    command: [/busybox, sh, -c, "until /busybox nc -w 1 $MYDB_SERVICE_HOST 8080 </dev/null; do echo waiting for mydb; sleep 2; done"]
  {{- else }}
    {{- include "initbox.initContainers" (list $ "pods.init") | nindent 4 }}
  {{- end }}
  containers:
  - {name: web, image: "busybox:bench", command: [/busybox, sleep, 1h]}
{{- end }}
`,
}

// podsServer is what the Pods wait for.
const podsServer = `
{apiVersion: v1, kind: Pod, metadata: {name: server, labels: {app: server}}, spec: {terminationGracePeriodSeconds: 1, containers: [
  {name: server, image: "busybox:bench", command: [/busybox, httpd, -f, -p, "8080"], readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: myservice}, spec: {selector: {app: server}, ports: [{port: 8080}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: mydb}, spec: {selector: {app: server}, ports: [{port: 8080}]}}
`

// podsTitle is also the title of the section that says why there are no figures, so that pods.sh replaces it.
const podsTitle = "Pods from apply to Running"

// pods measures how long it takes from kubectl apply until all Pods run, with the init containers of each form. It
// needs a cluster that has the images, which bench/pods.sh provides.
func pods(ctx context.Context, b *bench) (*section, error) {
	if b.helm == "" {
		return &section{title: podsTitle}, fmt.Errorf("%w: bench/pods.sh -write docs/benchmarks.md adds it, on a cluster", errSkipped)
	}
	n := &podsNamespace{kubectl: b.tools["kubectl"].path, name: fmt.Sprintf("bench-pods-%d", time.Now().Unix())}
	if n.kubectl == "" {
		return nil, errors.New("no kubectl")
	}
	manifests, err := podManifests(ctx, b, n.name)
	if err != nil {
		return nil, err
	}
	if err := n.create(ctx); err != nil {
		return nil, err
	}
	defer n.run(context.WithoutCancel(ctx), nil, "delete", "namespace", n.name, "--wait=false")
	meanwhile := load()
	times, err := podTrials(ctx, n, manifests, max(b.trials/11, 2))
	if err != nil {
		return nil, err
	}
	return podsReport(times, meanwhile()), nil
}

func podsReport(times []sample, meanwhile string) *section {
	t := table{{"init containers", "each Pod has", "median", "fastest", "slowest", "beside the loops"}}
	for i, form := range podForms {
		s := times[i]
		t = append(t, []string{form.name, form.containers, human(s.median()), human(s.percentile(0)), human(s.max()),
			ratio(float64(s.median()), float64(times[0].median()))})
	}
	return &section{
		title: podsTitle,
		about: fmt.Sprintf("The time from the start of kubectl apply until the last of %d Pods is Running, on a cluster of one node that has the images. "+
			"Each Pod waits for a name and for a port that are both there: what is measured is what the init containers cost. "+
			"%d trials of each, in turn and in random order, after one that is not counted.", podCount, len(times[0])),
		tables: []table{t},
		notes:  []string{meanwhile},
	}
}

// podTrials returns the times of each form.
func podTrials(ctx context.Context, n *podsNamespace, manifests []string, trials int) ([]sample, error) {
	times := make([]sample, len(manifests))
	for round := range trials + 1 {
		for _, i := range rand.Perm(len(manifests)) {
			took, err := n.trial(ctx, manifests[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", podForms[i].name, err)
			}
			if round > 0 { // the first one finds caches that are empty
				times[i] = append(times[i], took)
			}
		}
	}
	return times, nil
}

// podManifests renders the Pods of each form, and returns the names of the files.
func podManifests(ctx context.Context, b *bench, namespace string) ([]string, error) {
	chart := filepath.Join(b.dir, "pods")
	for name, text := range podsChart {
		path := filepath.Join(chart, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return nil, err
		}
	}
	if err := os.CopyFS(filepath.Join(chart, "charts/initbox"), os.DirFS("charts/initbox")); err != nil {
		return nil, err
	}
	var files []string
	for i, form := range podForms {
		cmd := exec.CommandContext(ctx, b.helm, "template", "pods", chart, "--namespace", namespace, "--set", form.values)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("helm template: %w: %s", err, stderr.String())
		}
		file := filepath.Join(chart, fmt.Sprintf("form-%d.yaml", i))
		if err := os.WriteFile(file, out, 0o644); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// podsNamespace is the namespace of the measurement.
type podsNamespace struct{ kubectl, name string }

// run runs kubectl, with input if it is not nil.
func (n *podsNamespace) run(ctx context.Context, input []byte, args ...string) error {
	cmd := exec.CommandContext(ctx, n.kubectl, append(args, "--namespace", n.name)...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// create makes the namespace, and in it what the Pods wait for.
func (n *podsNamespace) create(ctx context.Context) error {
	for _, args := range [][]string{
		{"create", "namespace", n.name},
		{"wait", "--for=create", "serviceaccount/default", "--timeout=2m"}, // until then, Pods are rejected
	} {
		if err := n.run(ctx, nil, args...); err != nil {
			return err
		}
	}
	if err := n.run(ctx, []byte(podsServer), "apply", "--filename=-"); err != nil {
		return err
	}
	return n.run(ctx, nil, "wait", "--for=condition=Ready", "pod/server", "--timeout=2m")
}

// trial applies Pods, returns how long it took until all of them were running, and deletes them.
func (n *podsNamespace) trial(ctx context.Context, manifest string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	watch := exec.CommandContext(ctx, n.kubectl, "get", "pods", "--namespace", n.name, "--watch",
		"--output", `jsonpath={.metadata.name} {.status.phase}{"\n"}`)
	changes, err := watch.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := watch.Start(); err != nil {
		return 0, err
	}
	defer watch.Wait()
	defer cancel()
	lines := bufio.NewScanner(changes)
	if !lines.Scan() { // the server's Pod: the watch has begun
		return 0, fmt.Errorf("kubectl get --watch: ended: %w", lines.Err())
	}

	began := time.Now()
	if err := n.run(ctx, nil, "apply", "--filename", manifest); err != nil {
		return 0, err
	}
	running := map[string]bool{}
	for len(running) < podCount && lines.Scan() {
		if name, ok := strings.CutSuffix(lines.Text(), " Running"); ok && name != "server" {
			running[name] = true
		}
	}
	took := time.Since(began)
	if len(running) < podCount {
		return 0, fmt.Errorf("%d of %d Pods run after %s", len(running), podCount, took)
	}
	return took, n.run(ctx, nil, "delete", "--filename", manifest, "--wait")
}
