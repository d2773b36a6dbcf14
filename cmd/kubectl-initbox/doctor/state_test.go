package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"initbox/internal/kube"
)

// waiting returns a Pod of the app NAME in shop whose init container has been running for a minute.
func waiting(name string, args string, more ...string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: shop, uid: %[1]s, labels: {app: %[1]s}, creationTimestamp: "%[2]s"}
spec:
  nodeName: a
  initContainers: [{name: wait, image: "initbox:1.0.0", args: [%[3]s]}]
  containers: [{name: main, image: app, ports: [{containerPort: 8080, name: web}]}]
  %[4]s
status:
  phase: Pending
  startTime: "%[2]s"
  podIP: 10.1.0.1
  initContainerStatuses: [{name: wait, state: {running: {startedAt: "%[2]s"}}}]
`, name, ago(time.Minute), args, strings.Join(more, "\n  "))
}

// script returns the Pod web whose init container runs a script.
func script(text string) string {
	return strings.Replace(waiting("web", ""), `image: "initbox:1.0.0", args: []`, fmt.Sprintf(`image: "busybox:1.36", command: [sh, -c, %q]`, text), 1)
}

// service returns a Service in shop that selects the app of its name, with endpoints that are ready or not.
func service(name, ports string, ready ...bool) string {
	slice := ""
	for _, r := range ready {
		slice += fmt.Sprintf("\n- {addresses: [10.1.0.1], conditions: {ready: %v}}", r)
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: shop}
spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], selector: {app: %[1]s}, ports: [%[2]s]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-x, namespace: shop, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{port: 8080, name: ""}]
endpoints: [%[3]s]
`, name, ports, strings.ReplaceAll(strings.TrimPrefix(strings.ReplaceAll(slice, "\n- ", ", "), ", "), "\n", ""))
}

func TestFindings(t *testing.T) {
	for _, test := range []struct {
		name, objects string
		want          []string
	}{
		{"the name of a Service of another namespace", waiting("web", `wait-for-service, "tcp://cache:6379"`) + "---\napiVersion: v1\nkind: Service\nmetadata: {name: cache, namespace: data}\nspec: {ports: [{port: 6379}]}\n",
			[]string{"no Service cache in shop; near: cache.data → cache.data instead of cache in spec.initContainers[0].args[1]"}},
		{"a name with the namespace of another Service", waiting("web", `wait-for-service, "tcp://cache.data.svc.cluster.local:6379"`), []string{"no Service cache in data\n"}},
		{"a wrong port", waiting("web", `wait-for-service, "tcp://api:8081"`) + "---" + service("api", "{port: 80, targetPort: 8081}", true),
			[]string{"Service api has no port 8081; it has 80: 8081 is the port of its Pods → api:80 instead of api:8081 in spec.initContainers[0].args[1]"}},
		{"a ready Service", waiting("web", `wait-for-service, "http://api"`) + "---" + service("api", "{port: 80}", true, true), []string{"http://api  Service api in shop has 2 ready endpoints: "}},
		{"a Service without Pods", waiting("web", `wait-for-service, "http://api"`) + "---" + service("api", "{port: 80}") + "---" + strings.Replace(waiting("other", "sleep, 1h"), "app: other", "app: apis", 1),
			[]string{"the selector app=api of Service api matches no Pod; nearest: Pod other has app=apis → kubectl edit service api -n shop"}},
		{"a Deployment without replicas", waiting("web", `wait-for-service, "http://api"`) + "---" + service("api", "{port: 80}") +
			"---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: backend, namespace: shop}\nspec: {replicas: 0, template: {metadata: {labels: {app: api}}}}\n",
			[]string{"Deployment backend has 0 replicas → kubectl scale deployment backend -n shop --replicas 1"}},
		{"a named port that no container has", waiting("web", `wait-for-service, "http://api"`) + "---" + service("api", "{port: 80, targetPort: http}", false) + "---" + waiting("api", "sleep, 1h"),
			[]string{`Service api targets the port named "http", which no container of its Pods has; they have web`, "\n    Pod shop/api: Init:0/1"}},
		{"an ExternalName", waiting("web", `wait-for-service, "http://api"`) + "---\napiVersion: v1\nkind: Service\nmetadata: {name: api, namespace: shop}\nspec: {type: ExternalName, externalName: example.com}\n",
			[]string{"Service api is an alias of example.com"}},
		{"localhost", waiting("web", `wait-for-service, "http://localhost:8080"`), []string{"localhost is this Pod itself, whose containers start only after its init containers → "}},
		{"an address", waiting("web", `wait-for-service, "tcp://10.9.9.9:80"`), []string{"no Service and no Pod of shop has this address"}},
		{"the address of a Service", waiting("web", `wait-for-service, "tcp://10.0.0.1:80"`) + "---" + service("api", "{port: 80}"), []string{"the address of Service api"}},
		{"a host elsewhere", waiting("web", `wait-for-service, "https://db.example.com"`), []string{"db.example.com is not a name of this cluster"}},
		{"the node's DNS", waiting("web", `wait-for-service, "http://api"`, "hostNetwork: true", "dnsPolicy: ClusterFirst") + "---" + service("api", "{port: 80}"),
			[]string{"dnsPolicy   hostNetwork without dnsPolicy: ClusterFirstWithHostNet"}},
		{"a policy", waiting("web", `wait-for-service, "http://api"`) + "---" + service("api", "{port: 80}", true) + "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: locked, namespace: shop}\nspec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}\n",
			[]string{"possibly: locked limits where this Pod may connect to"}},
		{"a missing object", waiting("web", `wait-for-service, "k8s:job/migrat"`) + "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, namespace: shop}\n",
			[]string{"k8s:job/migrat   no Job migrat in namespace shop; near: migrate → migrate instead of migrat in spec.initContainers[0].args[1]"}},
		{"an object that is not ready", waiting("web", `wait-for-service, "k8s:job/migrate"`) + "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, namespace: shop}\nspec: {completions: 1}\nstatus: {active: 1}\n",
			[]string{"k8s:job/migrate  "}},
		{"a wrong flag", waiting("web", `wait-for-service, --timeuot, 5m, "tcp://a:1"`), []string{"command line  no such flag: --timeuot → did you mean --timeout?"}},
		{"itself", waiting("web", `wait-for-service, "http://web"`) + "---" + service("web", "{port: 80}", false), []string{"Pod shop/web, which is above: it waits for itself"}},
		{"a loop of a shell", script("until nc -z pgg 5432; do sleep 2; done") + "---" + service("pg", "{port: 5432}", true),
			[]string{"held by \"wait\" (sh)", "tcp://pgg:5432  no Service pgg in shop; near: pg (1 ready endpoint) → pg instead of pgg in spec.initContainers[0].command[2]"}},
		{"a script that is not understood", script("frobnicate --host=$PG && while ! nc -z pgg 5432; do echo waiting; done; curl http://api/x") + "---" + service("pg", "{port: 5432}", true),
			[]string{"pgg:5432  no Service pgg in shop; near: pg (1 ready endpoint)", "api       no Service api in shop"}},
		{"a name that is part of another word", waiting("web", `wait-for-service, "tcp://a:1", "tcp://service:1"`) + "---" + service("services", "{port: 1}"),
			[]string{"near: services (0 ready endpoints) → services instead of service in spec.initContainers[0].args[2]"}},
		{"another tool", strings.Replace(script("x"), `[sh, -c, "x"]`, `[/wait-for-it.sh, "pgg:5432", -t, "60"]`, 1) + "---" + service("pg", "{port: 5432}", true), []string{"pgg:5432"}},
		{"objects by labels", waiting("web", `wait-for-service, "k8s:pods?selector=app=db"`), []string{"0 Pods of 1 in namespace shop match the labels"}},
		{"nodes by labels", waiting("web", `wait-for-service, "k8s:nodes?selector=disk=ssd"`) + "---\napiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {disk: ssd}}\n", []string{"1 Node of 1 match the labels"}},
		{"a download", waiting("web", `fetch, "http://filse/a.tgz", /data`) + "---" + service("files", "{port: 80}", true), []string{"filse:80   no Service filse in shop; near: files (1 ready endpoint)"}},
		{"a mistake that lint finds", waiting("web", `fetch, "http://files/a.tgz", /data`), []string{"no-volume  fetch writes /data, which lies in no volume"}},
		{"a value from a ConfigMap", strings.Replace(waiting("web", `wait-for-service, "tcp://$(DB):5432"`), "image: \"initbox:1.0.0\"", `image: "initbox:1.0.0", env: [{name: DB, valueFrom: {configMapKeyRef: {name: c, key: host}}}]`, 1) +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {host: pg}\n", []string{"no Service pg in shop"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := clusterOf(t, test.objects).diagnose(t, "web")
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("want %q in:\n%s", want, got)
				}
			}
		})
	}
}

// TestTree pins that Pods which wait for one another are one tree, in which the circle is named.
func TestTree(t *testing.T) {
	var objects []string
	for _, pair := range [][2]string{{"web", "api"}, {"api", "db"}, {"db", "web"}} {
		objects = append(objects, waiting(pair[0], fmt.Sprintf(`wait-for-service, "http://%s"`, pair[1])), service(pair[0], "{port: 80}", false))
	}
	got := clusterOf(t, strings.Join(objects, "---")).diagnose(t)
	want := `Pod shop/api: Init:0/1 for 1m0s, held by "wait" (wait-for-service), started once
  log: fake logs
  http://db  Service db in shop has no ready endpoint: 1 Pod not ready
    Pod shop/db: Init:0/1 for 1m0s, held by "wait" (wait-for-service), started once
      log: fake logs
      http://web  Service web in shop has no ready endpoint: 1 Pod not ready
        Pod shop/web: Init:0/1 for 1m0s, held by "wait" (wait-for-service), started once
          log: fake logs
          http://api  Service api in shop has no ready endpoint: 1 Pod not ready
            Pod shop/api, which is above: shop/api → shop/db → shop/web → shop/api wait for one another
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestRights pins what the report says about the rights of the service account, with and without the right to ask.
func TestRights(t *testing.T) {
	role := "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: shop}\nrules: [{apiGroups: [batch], resources: [jobs], verbs: [list, watch]}]\n" +
		"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: r, namespace: shop}\nroleRef: {kind: Role, name: r}\nsubjects: [{kind: ServiceAccount, name: default, namespace: shop}]\n"
	pod := waiting("web", `wait-for-service, "k8s:job/migrate"`)
	const denied = "shop/default may not list or watch jobs.batch in namespace shop → kubectl get pod web -n shop -o yaml | kubectl initbox rbac -f - | kubectl apply -f -"
	for _, test := range []struct {
		name, objects, want, not string
		prepare                  func(*state)
	}{
		{"the server says no", pod, denied, "", func(*state) {}},
		{"the server says yes", pod, "", "may not", func(c *state) {
			c.allowed = func(spec kube.Object) bool {
				return spec["user"] == "system:serviceaccount:shop:default" && spec.At("resourceAttributes", "name") == "migrate"
			}
		}},
		{"the Roles say no", pod, denied, "", func(c *state) { c.forbidden = []string{"POST subjectaccessreviews"} }},
		{"the Roles say yes", pod + role, "", "may not", func(c *state) { c.forbidden = []string{"POST subjectaccessreviews"} }},
		{"it is not known", pod, "it is not known whether shop/default may list jobs.batch: you may neither create subjectaccessreviews nor read the Roles", "", func(c *state) {
			c.forbidden = []string{"POST subjectaccessreviews", "GET clusterrolebindings"}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := clusterOf(t, test.objects)
			test.prepare(c)
			got := c.diagnose(t)
			if !strings.Contains(got, test.want) || test.not != "" && strings.Contains(got, test.not) {
				t.Errorf("want %q and not %q in:\n%s", test.want, test.not, got)
			}
		})
	}
}

// TestForbidden pins that what may not be read is named once, at the end, and the rest goes on.
func TestForbidden(t *testing.T) {
	c := clusterOf(t, waiting("web", `wait-for-service, "http://api", "http://db"`)+"---"+service("api", "{port: 80}"))
	c.forbidden = []string{"GET endpointslices", "GET events", "GET nodes"}
	got := c.diagnose(t)
	for _, want := range []string{"it is not known whether Service api has ready endpoints", "no Service db in shop",
		"\nnot read: endpointslices.discovery.k8s.io in shop (forbidden)\nnot read: events in shop (forbidden)\nnot read: nodes (forbidden)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
}

// TestStep pins that the step of a chain is named at which it stands, and that what the steps before it waited for is
// not examined.
func TestStep(t *testing.T) {
	chain := waiting("web", `wait-for-service, "tcp://a:1", --, wait-for-service, "tcp://b:1", --, wait-for-dns, c, --, /app/server`)
	ended := strings.Replace(chain, "state: {running: {", `state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 124, message: "step 2, wait-for-service: not ready\n1\n2\n3\n", `, 1)
	const second, third = `held by "wait" (wait-for-service, step 2 of 3), started`, `held by "wait" (wait-for-dns, step 3 of 3), started`
	for name, test := range map[string]struct {
		pod, log, want string
		targets        string // that are examined
	}{
		"nothing said":     {chain, "fake", `held by "wait" (wait-for-service), started`, "abc"},
		"log":              {chain, "2026-11-23T11:59:30.000Z step 2, wait-for-service: started\n2026-11-23T11:59:31.000Z WARN step 2, wait-for-service: tcp://b:1: no such name\n", second, "bc"},
		"JSON":             {chain, `{"time":"2026-11-23T11:59:30Z","level":"INFO","msg":"started","step":3,"subcommand":"wait-for-dns"}`, third, "c"},
		"message":          {ended, "2026-11-23T11:59:31.000Z step 3, wait-for-dns: c: ready", second, "bc"},
		"the program":      {chain, "2026-11-23T11:59:31.000Z step 3, wait-for-dns: running /app/server", `held by "wait" (server), started`, ""},
		"another program":  {chain, "step 2, wait-for-dns: a text that only looks like it", `held by "wait" (wait-for-service), started`, "abc"},
		"too many":         {chain, "step 4, wait-for-dns: started", `held by "wait" (wait-for-service), started`, "abc"},
		"a single command": {waiting("web", `wait-for-service, "tcp://a:1"`), "2026-11-23T11:59:31.000Z tcp://a:1: no such name", `held by "wait" (wait-for-service), started`, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(t, test.pod)
			c.log = test.log
			got := c.diagnose(t)
			targets := ""
			for _, service := range []string{"a", "b", "c"} {
				if strings.Contains(got, "no Service "+service+" in shop") {
					targets += service
				}
			}
			if !strings.Contains(got, test.want) || targets != test.targets {
				t.Errorf("want %q, and the targets %q, in:\n%s", test.want, test.targets, got)
			}
		})
	}
}

// TestKinds pins what is said about objects whose kind only the API server knows.
func TestKinds(t *testing.T) {
	const certificates = `[{"metadata": {"name": "cert-manager.io"}, "versions": [{"version": "v1", "resources": [
		{"resource": "certificates", "responseKind": {"kind": "Certificate"}, "scope": "Namespaced", "singularResource": "certificate", "verbs": ["get"]}]}]}]`
	for _, test := range []struct{ target, kinds, forbidden, want string }{
		{"k8s:certificate/tls", certificates, "", "k8s:certificate/tls  no Certificate tls in namespace shop\n"},
		{"k8s:certificate/tls", certificates, "GET apis", "k8s:certificate/tls  not read: forbidden\n"},
		{"k8s:certificat/tls", certificates, "", "k8s:certificat/tls  the cluster has no kind certificat → kubectl api-resources lists the kinds\n"},
	} {
		c := clusterOf(t, waiting("web", `wait-for-service, "`+test.target+`"`))
		c.kinds, c.forbidden = test.kinds, []string{test.forbidden}
		got := c.diagnose(t)
		if !strings.Contains(got, test.want) || test.forbidden != "" && !strings.Contains(got, "\nnot read: kinds (forbidden)\n") {
			t.Errorf("want %q in:\n%s", test.want, got)
		}
	}
}

// TestHostile pins that foreign text reaches no terminal, and that passwords in the Pod are not printed.
func TestHostile(t *testing.T) {
	pod := strings.Replace(waiting("web", `wait-for-service, "postgres://me:hunter2secret@pg/x"`), "initContainerStatuses: [{name: wait, state: {running",
		`initContainerStatuses: [{name: wait, restartCount: 1, state: {terminated: {exitCode: 1, message: "\e[31mred\e[0m\u202e hunter2secret `+strings.Repeat("x", 5000)+`\nPod shop/other: fine"}}, lastState: {running`, 1)
	got := clusterOf(t, pod+"---\napiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: shop}\ntype: Warning\nreason: Odd\nmessage: \"\\e[2J hunter2secret\"\ninvolvedObject: {kind: Pod, name: web, namespace: shop}\n").diagnose(t)
	if strings.ContainsAny(got, "\x1b\u202e") || strings.Contains(got, "hunter2") || strings.Contains(got, "\nPod shop/other") || len(got) > 3000 {
		t.Errorf("got:\n%q", got)
	}
	if !strings.Contains(got, "event Odd") {
		t.Errorf("the event is missing in:\n%s", got)
	}
}

// TestManyContainers pins that a Pod with hundreds of containers is one block, and a Deployment with hundreds of Pods.
func TestManyContainers(t *testing.T) {
	var objects []string
	for i := range 500 {
		pod := waiting(fmt.Sprintf("web-7d-%04d", i), `wait-for-service, "http://api"`)
		objects = append(objects, strings.Replace(pod, "namespace: shop,", `namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7d, uid: u, controller: true}],`, 1))
	}
	many := waiting("many", "sleep, 1h")
	many = strings.Replace(many, "initContainers: [", "initContainers: ["+strings.Repeat(`{name: i, image: x}, `, 500), 1)
	got := clusterOf(t, strings.Join(append(objects, many), "---")).diagnose(t)
	if !strings.Contains(got, "Pod shop/web-7d-0000 and 499 more of ReplicaSet/web-7d: Init:0/1") || len(got) > 3000 {
		t.Errorf("got %d bytes:\n%.3000s", len(got), got)
	}
}

// TestHealthy pins what is not stuck.
func TestHealthy(t *testing.T) {
	ready := strings.Replace(waiting("web", "sleep, 1h"), "phase: Pending", `phase: Running
  conditions: [{type: Ready, status: "True"}, {type: Initialized, status: "True"}]`, 1)
	ready = strings.Replace(ready, "state: {running: {startedAt", "state: {terminated: {exitCode: 0, finishedAt", 1)
	done := strings.Replace(waiting("done", "sleep, 1h"), "phase: Pending", "phase: Succeeded", 1)
	if got := clusterOf(t, ready+"---"+done).diagnose(t); got != "nothing is stuck: 2 Pods\n" {
		t.Errorf("got:\n%s", got)
	}
}

// TestFailedJobs pins that of the failed Pods of a Job the newest counts, unless another one has succeeded, and that
// those of a CronJob count if they are asked for.
func TestFailedJobs(t *testing.T) {
	pod := func(name, job, created, phase string) string {
		p := strings.Replace(waiting(name, `wait-for-service, "tcp://pgg:1"`), "phase: Pending", "phase: "+phase, 1)
		p = strings.Replace(p, `creationTimestamp: "`+ago(time.Minute), `ownerReferences: [{apiVersion: batch/v1, kind: Job, name: `+job+`, uid: `+job+`, controller: true}], creationTimestamp: "`+created, 1)
		return strings.Replace(p, `state: {running: {startedAt: "`+ago(time.Minute)+`"}}`, `state: {terminated: {exitCode: 124, reason: Error}}`, 1)
	}
	job := func(name, owner string) string {
		return "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", namespace: shop, uid: " + name + owner + "}\n"
	}
	failing := pod("a-1", "a", ago(time.Hour), "Failed") + "---" + pod("a-2", "a", ago(time.Minute), "Failed") + job("a", "")
	if got := clusterOf(t, failing).diagnose(t); strings.Contains(got, "a-1") || !strings.Contains(got, `Pod shop/a-2: Failed at Init:0/1 for 1m0s, held by "wait" (wait-for-service), started once, last status 124`) {
		t.Errorf("a Job that fails:\n%s", got)
	}
	if got := clusterOf(t, failing+"---"+pod("a-0", "a", ago(2*time.Hour), "Succeeded")).diagnose(t); got != "nothing is stuck: 3 Pods\n" {
		t.Errorf("a Job that has succeeded:\n%s", got)
	}
	cron := pod("b-1", "b", ago(time.Hour), "Failed") + job("b", ", ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: c, uid: c, controller: true}]")
	if got := clusterOf(t, cron).diagnose(t); got != "nothing is stuck: 1 Pod\n" {
		t.Errorf("a CronJob:\n%s", got)
	}
	if got := clusterOf(t, cron).diagnose(t, "job/b"); !strings.Contains(got, "Pod shop/b-1: Failed at Init:0/1") {
		t.Errorf("a CronJob that is asked for:\n%s", got)
	}
}

// TestJSON pins the names of the report's fields.
func TestJSON(t *testing.T) {
	r, err := Diagnose(context.Background(), clusterOf(t, waiting("web", `wait-for-service, "http://api"`)).Client, Options{Namespace: "shop", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	pod := got["pods"].([]any)[0].(map[string]any)
	if names := strings.Join(sorted(pod), " "); names != "askedFor container findings log name namespace program since started state" {
		t.Errorf("a Pod has %s", names)
	}
	if names := strings.Join(sorted(got), " "); names != "checked pods stuck time" {
		t.Errorf("the report has %s", names)
	}
}
