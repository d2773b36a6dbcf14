package k8s

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/waitfor/target"
)

// parseObject reads an object as package kube does.
func parseObject(t testing.TB, text string) kube.Object {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return wholeNumbers(v).(map[string]any)
}

func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = wholeNumbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// rolled is a workload at generation 2.
const rolled = `"metadata": {"name": "web", "namespace": "shop", "generation": 2}, `

// TestRules pins when an object is ready, and the failure if it is not. An object without metadata gets the name web. A
// want of "" means ready; one that begins with "ended: ", a permanent failure.
func TestRules(t *testing.T) {
	tests := []struct{ target, object, want string }{
		// Pods
		{"k8s:pod/web", `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`, ""},
		{"k8s:pod/web", `{"status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]}}`, ""},
		{"k8s:pod/web", `{"status": {"phase": "Pending"}}`, "Pending"},
		{"k8s:pod/web", `{}`, "Pending"},
		{"k8s:pod/web", `{"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}]}}`,
			"Unschedulable (0/3 nodes are available: 3 Insufficient cpu.)"},
		{"k8s:pod/web", `{"status": {"phase": "Pending", "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}`, "containers are being created"},
		{"k8s:pod/web", `{"status": {"phase": "Pending", "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"nope:1\""}}}]}}`,
			`ImagePullBackOff (Back-off pulling image "nope:1")`},
		{"k8s:pod/web", `{"status": {"phase": "Running", "containerStatuses": [
			{"name": "proxy", "ready": false, "state": {"running": {}}},
			{"name": "app", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=app pod=web_default(6b1c)"}},
			 "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}}`,
			"CrashLoopBackOff (back-off 5m0s restarting failed container app; container app exited with status 1)"},
		{"k8s:pod/web", `{"status": {"phase": "Running", "containerStatuses": [{"name": "app", "ready": false, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}}`,
			"container app exited with status 137 (OOMKilled)"},
		{"k8s:pod/web", `{"status": {"phase": "Running", "containerStatuses": [{"name": "app", "ready": false, "state": {"running": {}}}]}}`,
			"not ready (container app is running, but its readiness probe has not succeeded)"},
		{"k8s:pod/web", `{"metadata": {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running", "containerStatuses": [{"name": "app", "ready": false, "state": {"running": {}}}]}}`, "terminating"},
		{"k8s:pod/web", `{"metadata": {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`, "terminating"},
		{"k8s:pod/web", `{"metadata": {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Succeeded"}}`, ""},
		{"k8s:pod/web", `{"status": {"phase": "Pending", "initContainerStatuses": [
			{"name": "wait", "ready": true, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}, {"name": "migrate", "state": {"running": {}}}]}}`,
			"Init:1/2 (init container migrate has not finished)"},
		{"k8s:pod/web", `{"status": {"phase": "Pending", "initContainerStatuses": [{"name": "migrate", "state": {"terminated": {"exitCode": 3, "reason": "Error", "message": "no table"}}}]}}`,
			"Init:Error (container migrate exited with status 3: no table)"},
		{"k8s:deploy/web", `{"spec": {"replicas": 2, "paused": true}, "status": {"updatedReplicas": 0}}`, "0 of 2 replicas updated; it is paused"},
		{"k8s:pod/web", `{"status": {"phase": "Pending", "initContainerStatuses": [
			{"name": "sidecar", "started": true, "ready": true, "state": {"running": {}}}, {"name": "wait", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}`, "Init:CrashLoopBackOff"},
		{"k8s:pod/web", `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": "the status of pod readiness gate \"lb\" is not \"True\""}],
			"containerStatuses": [{"name": "app", "ready": true, "state": {"running": {}}}]}}`, "readiness gates have not passed"},
		{"k8s:pod/web", `{"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}}`, "ended: failed: Evicted (The node was low on resource: memory.)"},
		{"k8s:pod/web", `{"status": {"phase": "Failed", "containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 2, "reason": "Error", "message": "bad flag\n"}}}]}}`,
			"ended: failed: container app exited with status 2: bad flag"},
		{"k8s:pod/web", `{"metadata": {"name": "web", "ownerReferences": [{"kind": "StatefulSet", "controller": true}]}, "status": {"phase": "Failed", "reason": "Evicted"}}`, "Evicted"},
		{"k8s:pod/web", `{"status": {"phase": "Pending", "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "Err\u001b[2J\nx"}}}]}}`, `Err\x1b[2J x`},

		// Jobs
		{"k8s:job/web", `{"status": {"succeeded": 1, "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}}`, ""},
		{"k8s:job/web", `{"spec": {"completions": 3}, "status": {"active": 1, "succeeded": 1}}`, "1 of 3 completions"},
		{"k8s:job/web", `{"spec": {"completions": 3}, "status": {"active": 1, "failed": 2}}`, "0 of 3 completions (1 Pod active, 2 failed so far)"},
		{"k8s:job/web", `{}`, "0 of 1 completion (none of its Pods is running)"},
		{"k8s:job/web", `{"spec": {"suspend": true}, "status": {"conditions": [{"type": "Suspended", "status": "True"}]}}`, "suspended"},
		{"k8s:job/web", `{"status": {"conditions": [{"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}]}}`, "is about to fail: DeadlineExceeded"},
		{"k8s:job/web", `{"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "Job was active longer than specified deadline"}]}}`,
			"ended: Job web failed: DeadlineExceeded: Job was active longer than specified deadline"},
		{"k8s:job/web", `{"status": {"conditions": [{"type": "Failed", "status": "False"}, {"type": "Complete", "status": "False"}]}}`, "0 of 1 completion"},
		{"k8s:job/web#completions=2", `{"spec": {"completions": 5}, "status": {"succeeded": 1, "active": 1}}`, "1 of 2 completions"},
		{"k8s:job/web#completions=2", `{"spec": {"completions": 5}, "status": {"succeeded": 2, "conditions": [{"type": "Failed", "status": "True"}]}}`, ""},

		// Deployments
		{"k8s:deploy/web", `{` + rolled + `"spec": {"replicas": 3}, "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}}`, ""},
		{"k8s:deploy/web", `{` + rolled + `"spec": {"replicas": 0}, "status": {"observedGeneration": 2}}`, ""},
		{"k8s:deploy/web", `{` + rolled + `"spec": {"replicas": 3}, "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}}`, "its controller has not seen the latest change yet"},
		{"k8s:deploy/web", `{` + rolled + `"spec": {"replicas": 3}, "status": {"observedGeneration": 2, "replicas": 4, "updatedReplicas": 2, "availableReplicas": 3}}`, "2 of 3 replicas updated"},
		{"k8s:deploy/web", `{` + rolled + `"spec": {"replicas": 3}, "status": {"observedGeneration": 2, "replicas": 4, "updatedReplicas": 3, "availableReplicas": 4}}`, "1 old replica still to be terminated"},
		{"k8s:deploy/web", `{` + rolled + `"spec": {"replicas": 3}, "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 2}}`, "2 of 3 replicas available"},
		{"k8s:deploy/web", `{` + rolled + `"spec": {"replicas": 1}, "status": {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}}`,
			"0 of 1 replica available; ProgressDeadlineExceeded"},
		{"k8s:deploy/web", `{` + rolled + `"spec": {"replicas": 1}, "status": {"observedGeneration": 2, "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]}}`, "0 of 1 replica updated (exceeded quota)"},

		// StatefulSets
		{"k8s:sts/web", `{` + rolled + `"spec": {"replicas": 2}, "status": {"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 2, "currentRevision": "a", "updateRevision": "a"}}`, ""},
		{"k8s:sts/web", `{"spec": {"replicas": 2}}`, "its controller has not seen it yet"},
		{"k8s:sts/web", `{` + rolled + `"spec": {"replicas": 2}, "status": {"observedGeneration": 1, "readyReplicas": 2}}`, "its controller has not seen the latest change yet"},
		{"k8s:sts/web", `{` + rolled + `"spec": {"replicas": 3}, "status": {"observedGeneration": 2, "readyReplicas": 1}}`, "1 of 3 replicas ready"},
		{"k8s:sts/web", `{` + rolled + `"spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}, "status": {"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 1}}`, "1 of 3 replicas updated"},
		{"k8s:sts/web", `{` + rolled + `"spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}, "status": {"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}}`, ""},
		{"k8s:sts/web", `{` + rolled + `"spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}, "status": {"observedGeneration": 2, "readyReplicas": 3}}`, "0 of 1 replica updated"},
		{"k8s:sts/web", `{` + rolled + `"spec": {"replicas": 3}, "status": {"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 3, "currentRevision": "a", "updateRevision": "b"}}`, "3 replicas updated, but the update is not complete"},
		{"k8s:sts/web", `{` + rolled + `"spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}, "status": {"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 3, "currentRevision": "a", "updateRevision": "b"}}`, ""},
		{"k8s:sts/web", `{` + rolled + `"spec": {"replicas": 3, "updateStrategy": {"type": "OnDelete"}}, "status": {"observedGeneration": 2, "readyReplicas": 3, "currentRevision": "a", "updateRevision": "b"}}`, ""},

		// DaemonSets
		{"k8s:ds/web", `{` + rolled + `"status": {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}}`, ""},
		{"k8s:ds/web", `{` + rolled + `"status": {"observedGeneration": 1, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}}`, "its controller has not seen the latest change yet"},
		{"k8s:ds/web", `{` + rolled + `"status": {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 1, "numberAvailable": 3}}`, "1 of 3 Pods updated"},
		{"k8s:ds/web", `{` + rolled + `"status": {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 2}}`, "2 of 3 Pods available"},
		{"k8s:ds/web", `{` + rolled + `"spec": {"updateStrategy": {"type": "OnDelete"}}, "status": {"observedGeneration": 2, "desiredNumberScheduled": 3, "numberAvailable": 3}}`, ""},

		{"k8s:rs/web", `{` + rolled + `"spec": {"replicas": 2}, "status": {"observedGeneration": 2, "availableReplicas": 2}}`, ""},
		{"k8s:rc/web", `{` + rolled + `"spec": {"replicas": 2}, "status": {"observedGeneration": 2, "availableReplicas": 1}}`, "1 of 2 replicas available"},

		// Services without their EndpointSlices, which TestEndpoints has
		{"k8s:svc/web", `{"spec": {"type": "ExternalName", "externalName": "db.example.com"}}`, "an ExternalName Service, another name for db.example.com, has no endpoints"},
		{"k8s:svc/web", `{"spec": {"selector": {"app": "web"}}}`, "no ready endpoint (none at all: no Pod with app=web has an address)"},
		{"k8s:svc/web", `{"spec": {}}`, "no ready endpoint"},
		{"k8s:svc/web#address", `{"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {}}}`, "no address yet"},
		{"k8s:svc/web#address", `{"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}}`, ""},
		{"k8s:svc/web#address", `{"spec": {"type": "ClusterIP"}}`, "no address, which only a Service of type LoadBalancer gets (its type is ClusterIP)"},
		{"k8s:ing/web", `{"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}}`, ""},
		{"k8s:ing/web", `{}`, "no address yet"},

		// The rest
		{"k8s:pvc/web", `{"status": {"phase": "Bound"}}`, ""},
		{"k8s:pvc/web", `{"status": {"phase": "Pending"}}`, "Pending, not Bound"},
		{"k8s:pv/web", `{"status": {"phase": "Available"}}`, ""},
		{"k8s:pv/web", `{"status": {"phase": "Released"}}`, "Released, not Bound or Available"},
		{"k8s:ns/web", `{"status": {"phase": "Active"}}`, ""},
		{"k8s:ns/web", `{"status": {"phase": "Terminating"}}`, "Terminating, not Active"},
		{"k8s:node/web", `{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`, ""},
		{"k8s:node/web", `{"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}]}}`,
			"condition Ready is Unknown (NodeStatusUnknown: Kubelet stopped posting node status.)"},
		{"k8s:crd/web", `{"status": {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]}}`, ""},
		{"k8s:crd/web", `{"status": {"conditions": [{"type": "NamesAccepted", "status": "False", "reason": "PluralConflict"}, {"type": "Established", "status": "False"}]}}`, "condition NamesAccepted is False (PluralConflict)"},
		{"k8s:apiservice/web", `{"status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]}}`, "condition Available is False (MissingEndpoints)"},
		{"k8s:hpa/web", `{"status": {"conditions": [{"type": "AbleToScale", "status": "True"}, {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric"}]}}`, "condition ScalingActive is False (FailedGetResourceMetric)"},
		{"k8s:pdb/web", `{"status": {"currentHealthy": 1, "desiredHealthy": 2}}`, "1 of 2 Pods healthy"},
		{"k8s:csr/web", `{"status": {"conditions": [{"type": "Approved", "status": "True"}]}}`, "approved, but without a certificate yet"},
		{"k8s:cronjob/web", `{}`, ""},
		{"k8s:sa/web", `{}`, ""},
		{"k8s:secret/web", `{}`, ""},
		{"k8s:secret/web#key=password", `{"data": {"password": "aHVudGVyMg=="}}`, ""},
		{"k8s:secret/web#key=password", `{"data": {"passwd": "aHVudGVyMg=="}}`, "has no key password"},
		{"k8s:secret/web#key=password&key=user", `{"data": {"password": "aHVudGVyMg==", "user": ""}}`, "key user is empty"},
		{"k8s:cm/web#key=logo.png", `{"binaryData": {"logo.png": "AAAA"}}`, ""},
		{"k8s:secret/web#jsonpath=.data.password=x", `{"data": {"password": "aHVudGVyMg=="}}`, ".data.password does not have the expected value"},

		// Anything else
		{"k8s:widgets.example.com/web", `{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`, ""},
		{"k8s:widgets.example.com/web", `{"status": {"conditions": [{"type": "Available", "status": "False", "reason": "Broken"}]}}`, "condition Available is False (Broken)"},
		{"k8s:widgets.example.com/web", `{"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Reconciling", "status": "True", "reason": "Upgrading"}]}}`, "reconciling (Upgrading)"},
		{"k8s:widgets.example.com/web", `{"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Stalled", "status": "True", "reason": "BadSpec"}]}}`, "stalled (BadSpec)"},
		{"k8s:widgets.example.com/web", `{` + rolled + `"status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}}`, "its controller has not seen the latest change yet"},
		{"k8s:widgets.example.com/web", `{"status": {"conditions": [{"type": "Synced", "status": "True"}]}}`, "has no condition Ready or Available (found Synced)"},
		{"k8s:widgets.example.com/web", `{"status": "odd", "metadata": {"name": "web"}}`, "has no condition Ready or Available"},
		{"k8s:widgets.example.com/web#exists", `{}`, ""},
	}
	for _, tt := range tests {
		if !strings.Contains(tt.object, `"metadata"`) {
			tt.object = strings.Replace(`{"metadata": {"name": "web"}, `+tt.object[1:], ", }", "}", 1)
		}
		err := judgeAlone(t, tt.target, tt.object)
		said := ""
		var ended *endedError
		switch {
		case errors.As(err, &ended):
			said = "ended: " + failure.Of(ended.Failure).Error()
		case err != nil:
			said = failure.Of(err).Error()
		}
		exact := strings.Contains(tt.want, "(") == strings.Contains(said, "(") // a note need not be in the table
		if said != tt.want && (exact || !strings.HasPrefix(said, tt.want+" (")) || tt.want == "" && err != nil {
			t.Errorf("%s of %s: %q, want %q", tt.target, tt.object, said, tt.want)
		}
	}
}

// judgeAlone judges one object, and the slices of a Service.
func judgeAlone(t testing.TB, text, object string, slices ...string) error {
	t.Helper()
	parsed, err := kinds.Parse(text, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := parsed.(*check)
	if !c.lookedUp {
		c.resource = kube.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Namespaced: true}
	}
	v := view{Object: parseObject(t, object), resource: c.resource, expect: c.expect, alone: c.Name != ""}
	for _, s := range slices {
		v.slices = append(v.slices, parseObject(t, s))
	}
	return c.judgeOne(v)
}

func TestEndpoints(t *testing.T) {
	const service = `{"metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}}`
	slice := func(family, endpoints string) string {
		return `{"addressType": "` + family + `", "endpoints": [` + endpoints + `]}`
	}
	const (
		up      = `{"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false}}`
		up2     = `{"addresses": ["10.0.0.2"], "conditions": {"ready": true}}`
		unknown = `{"addresses": ["10.0.0.3"]}`
		down    = `{"addresses": ["10.0.0.4"], "conditions": {"ready": false, "serving": false}}`
		ending  = `{"addresses": ["10.0.0.5"], "conditions": {"ready": false, "serving": true, "terminating": true}}`
		up6     = `{"addresses": ["fd00::1"], "conditions": {"ready": true}}`
	)
	for _, tt := range []struct {
		settings string
		slices   []string
		want     string
	}{
		{"", []string{slice("IPv4", up)}, ""},
		{"", []string{slice("IPv4", unknown)}, ""},
		{"", []string{slice("IPv4", down), slice("IPv4", up2)}, ""},
		{"", []string{slice("IPv4", down+","+ending)}, "no ready endpoint (2 not ready)"},
		{"", []string{slice("IPv4", "")}, "no ready endpoint (none at all: no Pod with app=web has an address)"},
		{"#endpoints=2", []string{slice("IPv4", up), slice("IPv6", up6)}, "1 of 2 endpoints ready"},
		{"#endpoints=2", []string{slice("IPv4", up+","+down), slice("IPv6", up6)}, "1 of 2 endpoints ready (1 not ready)"},
		{"#endpoints=3", []string{slice("IPv4", up), slice("IPv4", up2+","+unknown)}, ""},
		{"#endpoints=2", []string{slice("IPv4", up), slice("IPv4", up)}, "1 of 2 endpoints ready"}, // the same, on its way to another slice
		{"#endpoints=all", []string{slice("IPv4", up+","+up2)}, ""},
		{"#endpoints=all", []string{slice("IPv4", up+","+down)}, "1 of 2 endpoints ready (1 not ready)"},
		{"#endpoints=all", nil, "no ready endpoint (none at all: no Pod with app=web has an address)"},
	} {
		said := ""
		if err := judgeAlone(t, "k8s:service/web"+tt.settings, service, tt.slices...); err != nil {
			said = failure.Of(err).Error()
		}
		if said != tt.want {
			t.Errorf("%q of %q: %q, want %q", tt.settings, tt.slices, said, tt.want)
		}
	}
}

// TestConditionsAndPaths pins the rules of kubectl wait for both.
func TestConditionsAndPaths(t *testing.T) {
	const object = `{"metadata": {"name": "web", "generation": 3, "labels": {"app.kubernetes.io/name": "shop"}},
		"status": {"phase": "Running", "ready": true, "count": 3, "ratio": 0.5, "empty": "", "none": null, "list": [], "observedGeneration": 3,
		"conditions": [{"type": "Synced", "status": "True"}, {"type": "Old", "status": "True", "observedGeneration": 2}, {"type": "New", "status": "True", "observedGeneration": 3},
			{"type": "Degraded", "status": "False", "reason": "AsExpected"}],
		"containers": [{"name": "app", "ready": true}, {"name": "proxy", "ready": false}]}}`
	for settings, want := range map[string]string{
		"condition=Synced":                                                "",
		"condition=synced=true":                                           "",
		"condition=Synced=False":                                          "condition Synced is True",
		"condition=Degraded=False":                                        "",
		"condition=Degraded":                                              "condition Degraded is False (AsExpected)",
		"condition=Old":                                                   "condition Old predates the latest change",
		"condition=New":                                                   "",
		"condition=Nope":                                                  "no condition Nope yet (found Synced, Old, New, Degraded)",
		"condition=New&condition=Degraded":                                "condition Degraded is False (AsExpected)",
		"condition=New&jsonpath=.spec":                                    "has no .spec",
		"jsonpath={.status.phase}=Running":                                "",
		"jsonpath=.status.phase=Running":                                  "",
		"jsonpath=status.phase=Running":                                   "",
		"jsonpath=$.status.phase==Running":                                "",
		"jsonpath={$.status.phase}=Running":                               "",
		`jsonpath={.status.phase}="Running"`:                              "",
		"jsonpath={.status.phase}='Pending'":                              `.status.phase is "Running"`,
		"jsonpath={.status.phase}=Pending":                                `.status.phase is "Running"`,
		"jsonpath={.status.phase}!=Failed":                                "",
		"jsonpath={.status.phase}!=Running":                               `.status.phase is "Running"`,
		"jsonpath={.status.phase}=/^Run/":                                 "",
		"jsonpath={.status.phase}=/^Pend/":                                `.status.phase is "Running"`,
		"jsonpath={.status.phase}":                                        "",
		"jsonpath={.status.ready}=true":                                   "",
		"jsonpath={.status.count}>=3":                                     "",
		"jsonpath={.status.count}>=3.5":                                   `.status.count is "3"`,
		"jsonpath={.status.ratio}>=0.5":                                   "",
		"jsonpath={.status.phase}>=1":                                     `.status.phase is "Running"`,
		"jsonpath={.status.count}=3":                                      "",
		"jsonpath={.status.absent}":                                       "has no .status.absent",
		"jsonpath={.status.absent.deeper}":                                "has no .status.absent.deeper",
		"jsonpath={.status.absent}!=x":                                    "has no .status.absent",
		"jsonpath={.status.empty}":                                        `.status.empty is ""`,
		"jsonpath={.status.none}":                                         `.status.none is "null"`,
		"jsonpath={.status.list}":                                         `.status.list is "[]"`,
		`jsonpath={.status.conditions[?(@.type=="Synced")].status}=True`:  "",
		`jsonpath=.status.conditions[?(@.type=='Synced')].status=True`:    "",
		`jsonpath={.status.containers[?(@.name=="app")].ready}=true`:      "",
		`jsonpath={.status.containers[*].ready}=true`:                     `.status.containers[*].ready is "false"`,
		`jsonpath={.status.containers[?(@.name=="absent")].ready}=true`:   `has no .status.containers[?(@.name=="absent")].ready`,
		`jsonpath={.metadata.labels['app\.kubernetes\.io/name']}=shop`:    "",
		`jsonpath={.metadata.labels.app\.kubernetes\.io/name}=shop`:       "",
		`jsonpath={.status.phase}=a%26b`:                                  `.status.phase is "Running"`,
		`jsonpath={.status.conditions[0].type}=Synced&jsonpath=.metadata`: "",
	} {
		said := ""
		if err := judgeAlone(t, "k8s:widgets.example.com/web#"+settings, object); err != nil {
			said = failure.Of(err).Error()
		}
		if said != want {
			t.Errorf("%s: %q, want %q", settings, said, want)
		}
	}
}

// FuzzRules judges objects that no API server would send: the rules must not panic, and messages must not contain
// control characters.
func FuzzRules(f *testing.F) {
	targets := []string{"k8s:pod/a", "k8s:job/a", "k8s:deploy/a", "k8s:sts/a", "k8s:ds/a", "k8s:svc/a", "k8s:ing/a", "k8s:widgets.example.com/a", "k8s:crd/a", "k8s:secret/a#key=b",
		"k8s:widgets.example.com/a#condition=Ready", "k8s:widgets.example.com/a#jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=True", "k8s:pvc/a", "k8s:hpa/a", "k8s:csr/a"}
	f.Add(uint8(0), `{"metadata": {"name": "a\u001b"}, "status": {"phase": "\u001b[2J", "conditions": [{"type": "Ready", "status": 1}, 2], "containerStatuses": [{"state": {"waiting": {"reason": "\n"}}}]}}`)
	f.Add(uint8(1), `{"metadata": [], "status": {"conditions": [{"type": "Failed", "status": "True"}], "succeeded": -1.5}}`)
	f.Fuzz(func(t *testing.T, which uint8, object string) {
		if !json.Valid([]byte(object)) || !strings.HasPrefix(object, "{") {
			t.Skip()
		}
		err := judgeAlone(t, targets[int(which)%len(targets)], object, object)
		if err == nil {
			return
		}
		said := failure.Of(err)
		if strings.ContainsFunc(said.Error()+said.Hint, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q, hint %q", said.Error(), said.Hint)
		}
	})
}

// FuzzPath searches an object for arbitrary paths.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"{.a.b}=c", ".a[?(@.b==\"c\")].d>=1", "a[0:2:1]", "{..a}", ".a[*]", ".a['b\\.c']", "$[-1]", "{.a[?(@.x)]}"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePath(text)
		if err != nil {
			return
		}
		v := view{Object: kube.Object{"a": []any{map[string]any{"b": "c", "d": int64(1)}, nil, 1.5}, "": "", "x": map[string]any{"y": true}}}
		p.check(v)
	})
}
