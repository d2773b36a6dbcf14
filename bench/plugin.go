package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// desk is the name of the plugin's program.
const desk = "kubectl-initbox"

// linted is a manifest in which all rules have something to read, and find nothing. N is its number.
const linted = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web-N, namespace: shop}
spec:
  selector: {matchLabels: {app: web-N}}
  template:
    metadata: {labels: {app: web-N}}
    spec:
      serviceAccountName: web-N
      securityContext: {runAsUser: 10001, runAsNonRoot: true, fsGroup: 10001}
      initContainers:
      - name: wait
        image: registry.example/initbox:1.2.3
        args: [wait-for-service, "postgres://app@db-N/app", "k8s:job/migrate-N", "http://api-N:8080/health#json=.status==UP", --timeout, 5m]
        env:
        - {name: PGPASSWORD, valueFrom: {secretKeyRef: {name: db-N, key: password}}}
      - name: files
        image: registry.example/initbox:1.2.3
        args: [render, "/templates:/config", --values, /values/values.yaml]
        volumeMounts:
        - {name: templates, mountPath: /templates}
        - {name: values, mountPath: /values}
        - {name: config, mountPath: /config}
      containers:
      - name: web
        image: registry.example/web:1.2.3
        ports: [{containerPort: 8080}]
        volumeMounts:
        - {name: config, mountPath: /config, readOnly: true}
      volumes:
      - {name: templates, configMap: {name: web-templates-N}}
      - {name: values, configMap: {name: web-values-N}}
      - {name: config, emptyDir: {}}
---
apiVersion: v1
kind: Service
metadata: {name: web-N, namespace: shop}
spec: {selector: {app: web-N}, ports: [{port: 80, targetPort: 8080}]}
---
`

// plugin measures the kubectl plugin: what one downloads, and how long lint keeps one waiting.
func plugin(ctx context.Context, b *bench) (*section, error) {
	tool, found := b.tools[desk]
	if !found {
		return nil, fmt.Errorf("%w: no kubectl-initbox beside initbox: make build", errSkipped)
	}
	size, compressed, err := layerSize(tool.path)
	if err != nil {
		return nil, err
	}
	count, rounds := 1000, min(b.trials, 10)
	if b.quick {
		count, rounds = 100, 2
	}
	s := &section{
		title: "The kubectl plugin",
		about: fmt.Sprintf("The program is %s, and %s as tar with gzip at level 9. `kubectl initbox lint` reads %s manifests, each a Deployment with two containers of initbox, a Service and a Role, in which it finds nothing. "+
			"%d runs, one at a time; cpu is user and system time, resident the highest peak.", megabytes(size), megabytes(compressed), thousands(count), rounds),
		targets: []target{{"size of the kubectl plugin", "36 MB", megabytes(size), size <= 36e6}},
	}
	inputs, err := lintInputs(ctx, tool.path, filepath.Join(b.dir, "plugin"), count)
	if err != nil {
		return s, err
	}
	busy := load()
	t := table{{"input", "median", "p90", "cpu", "resident"}}
	for i, name := range []string{desk + ", one file", desk + ", a file for each"} {
		var c cost
		var peak int64
		for range rounds {
			p, err := b.start(ctx, []string{tool.path, "lint", "-f", inputs[i]})
			if err != nil {
				return s, err
			}
			<-p.done
			if p.err != nil {
				return s, p.err
			}
			kib, _ := p.peak()
			c.wall, c.cpu, peak = append(c.wall, p.exited.Sub(p.started)), append(c.cpu, p.cpu()), max(peak, kib)
		}
		t = append(t, []string{name, human(c.wall.median()), human(c.wall.percentile(0.9)), human(c.cpu.median()), mebibytes(peak)})
		s.targets = append(s.targets, target{"cpu of lint, " + thousands(count) + " manifests, " + strings.TrimPrefix(name, desk+", "), "2 s", human(c.cpu.median()), c.cpu.median().Seconds() <= 2})
	}
	s.tables, s.notes = []table{t}, []string{busy()}
	return s, nil
}

// lintInputs writes the manifests into one file, and into a directory with a file for each. The Roles are those that
// the plugin itself prints.
func lintInputs(ctx context.Context, program, dir string, count int) ([2]string, error) {
	inputs := [2]string{filepath.Join(dir, "all.yaml"), filepath.Join(dir, "each")}
	errs := []error{os.MkdirAll(inputs[1], 0o755)}
	var all strings.Builder
	for i := range count {
		text := strings.ReplaceAll(linted, "-N", "-"+strconv.Itoa(i))
		all.WriteString(text)
		errs = append(errs, os.WriteFile(filepath.Join(inputs[1], strconv.Itoa(i)+".yaml"), []byte(text), 0o644))
	}
	if err := errors.Join(errs...); err != nil {
		return inputs, err
	}
	roles, err := exec.CommandContext(ctx, program, "rbac", "-f", inputs[1]).Output()
	if err != nil {
		return inputs, fmt.Errorf("%s rbac: %w", program, err)
	}
	return inputs, errors.Join(os.WriteFile(filepath.Join(inputs[1], "roles.yaml"), roles, 0o644),
		os.WriteFile(inputs[0], append([]byte(all.String()), roles...), 0o644))
}
