package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// stuckCase is a manifest in testdata/doctor with a Pod that is stuck, and what kubectl initbox doctor says of it.
type stuckCase struct {
	name  string
	lines []string // patterns of the whole explanation; NS is the namespace
	seen  []string // what a user sees who may only read Pods; nil if that is not tried
}

var stuckCases = []stuckCase{
	{"wrong-name", []string{
		`^Pod NS/web: Init:0/1 for .*, held by "wait" \(wait-for-service\), started once`, `^  tcp://mybd:5432 .*no Service mybd in NS; near: mydb \(1 ready endpoint\)`,
		`→ mydb instead of mybd in spec\.initContainers\[0\]\.args\[1\] `,
	}, []string{`held by "wait" \(wait-for-service\)`, `^not read: services in NS `}},
	{"chain", []string{`held by "wait" \(wait-for-service, step 2 of 2\), started once`, `^  tcp://mybd:5432 .*no Service mybd in NS; near: mydb`}, []string{`step 2 of 2\)`, `^  log: .*step 2, wait-for-service: `}},
	{"no-endpoints", []string{`^  tcp://mydb:5432 .*the selector app=my-db of Service mydb matches no Pod; nearest: Pod mydb-0 has app=mydb → kubectl edit service mydb -n NS`}, nil},
	{"not-ready", []string{`^  tcp://mydb:5432 .*Service mydb in NS has no ready endpoint: 1 Pod not ready`, `^    Pod NS/mydb-0: Ready:0/1 for `, `^      readinessProbe `}, nil},
	{"wrong-port", []string{`^  tcp://mydb:5433 .*Service mydb has no port 5433; it has 5432`, `mydb:5432 instead of mydb:5433 in spec\.initContainers`}, nil},
	{"network-policy", []string{`^  tcp://mydb:5432 .*Service mydb in NS has 1 ready endpoint`, `^  NetworkPolicy .*possibly: no-egress limits where this Pod may connect to`, `^  tcp://mydb:5432 .*possibly: NetworkPolicy .*only-migrations.* limits who may connect`}, nil},
	{"tree", []string{`^Pod NS/front: Init:0/1 for .*, held by "wait"`, `^  http://api:8080/? `, `^    Pod NS/api: Init:0/1 for .*, held by "wait"`, `^      tcp://mydb:5432 `,
		`^        Pod NS/mydb: Pending for `, `^          volume data .*PersistentVolumeClaim data is pending.*there is no storage class fast`},
		[]string{`^Pod NS/front: `, `^Pod NS/api: `, `^Pod NS/mydb: Pending`}},
	{"cycle", []string{`^Pod NS/cart: Init:0/1 `, `^    Pod NS/orders: Init:0/1 `, `Pod NS/cart, which is above: .*NS/cart.*NS/orders.*NS/cart`}, nil},
	{"denied", []string{`^  service account .*NS/default may not (get or )?list or watch jobs\.batch in namespace NS → kubectl get pod web -n NS -o yaml \| kubectl initbox rbac -f - \| kubectl apply -f -`},
		[]string{`held by "wait"`, `it is not known whether NS/default may list jobs\.batch`}},
	{"no-secret", []string{`held by "wait".*, not started \(CreateContainerConfigError\)`, `^  variable DATABASE_URL .*no Secret mydb-credential in NS; near: mydb-credentials`},
		[]string{`not started \(CreateContainerConfigError\)`, `secret "mydb-credential" not found`}},
	{"no-secret-key", []string{`^  variable DATABASE_URL .*Secret mydb-credentials has no key uri; it has url`}, nil},
	{"no-image", []string{`not started \((ErrImagePull|ImagePullBackOff)\)`, `^  image .*registry\.invalid`, `→ spec\.initContainers\[0\]\.image `}, nil},
	{"no-volume", []string{`^Pod NS/web: Pending for `, `^  volume uploads .*PersistentVolumeClaim uploads is pending.*there is no storage class shared`}, nil},
	{"quota", []string{`^NS/ReplicaSet/web-\w+: cannot create its Pods: .*exceeded quota: small.* → kubectl describe quota -n NS`}, nil},
	{"unschedulable", []string{`^Pod NS/web: Pending for `, `^  scheduling .*node affinity/selector`}, []string{`^  scheduling .*node affinity/selector`}},
	{"wrong-flag", []string{`held by "wait".*, last status 2 \(its command line is wrong\)`, `no such flag: --timout.* did you mean --timeout\?`, `^ *next start `},
		[]string{`last status 2 \(its command line is wrong\)`, `did you mean --timeout\?`}},
	{"loop", []string{`held by "wait-db" \(sh\), started once`, `mybd in NS; near: mydb \(1 ready endpoint\)`}, []string{`held by "wait-db"`, `^  log: .*waiting for mybd`}},
}

// TestDoctor has kubectl initbox doctor explain Pods that are stuck: to an administrator, as text and as JSON, and to a
// user who may only read Pods.
func TestDoctor(t *testing.T) {
	t.Parallel()
	for _, c := range stuckCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t)
			n.apply(filepath.Join("doctor", c.name+".yaml"))
			text := n.explained(c.lines)
			t.Logf("kubectl initbox doctor:\n%s", text)
			for _, secret := range []string{"correct-horse", "not read:"} {
				if strings.Contains(text, secret) {
					n.Errorf("the report has %q:\n%s", secret, text)
				}
			}
			for deadline := time.Now().Add(patience); ; text = n.explained(c.lines) { // the Pod changes between two reports
				differs := n.checkJSON(text)
				if differs == "" {
					break
				}
				if time.Now().After(deadline) {
					n.Fatal(differs)
				}
			}
			if c.seen != nil {
				n.explained(c.seen, "--kubeconfig", n.readerOfPods())
			}
			out, status := n.plugin("lint", "-f", filepath.Join("testdata", "doctor", c.name+".yaml"))
			if wrong := c.name == "wrong-flag"; status != map[bool]int{true: 1}[wrong] || wrong && !strings.Contains(out, "no such flag: --timout [unknown-flag]") {
				n.Errorf("kubectl initbox lint: status %d:\n%s", status, out)
			}
		})
	}
}

// explained runs kubectl initbox doctor until its report matches all patterns: the Pod gets there step by step.
func (n namespace) explained(patterns []string, flags ...string) (text string) {
	n.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		out, status := n.plugin(append([]string{"doctor", "-n", n.name}, flags...)...)
		missing := ""
		for _, p := range patterns {
			if !regexp.MustCompile("(?m)" + strings.ReplaceAll(p, "NS", regexp.QuoteMeta(n.name))).MatchString(out) {
				missing = p
			}
		}
		if missing == "" && status == 1 {
			return out
		}
		if time.Now().After(deadline) {
			n.Fatalf("kubectl initbox doctor: status %d, no match of %s:\n%s", status, missing, out)
		}
	}
}

// plugin runs kubectl initbox, and returns its output and exit status.
func (n namespace) plugin(args ...string) (out string, status int) {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"initbox"}, args...)...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		n.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// checkJSON returns what the JSON has and the text does not, among the findings and the Pods that hold others, or "".
func (n namespace) checkJSON(text string) (differs string) {
	n.Helper()
	out, status := n.plugin("doctor", "-n", n.name, "-o", "json")
	type finding struct {
		About, Text string
		Pods        []string
	}
	var report struct {
		Stuck int
		Pods  []struct {
			Namespace, Name, State, Container string
			Findings                          []finding
		}
		Missing []finding
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || status != 1 {
		n.Fatalf("kubectl initbox doctor -o json: status %d, %v:\n%s", status, err, out)
	}
	if report.Stuck+len(report.Missing) == 0 {
		n.Errorf("nothing is stuck:\n%s", out)
	}
	known := map[string]bool{}
	findings := report.Missing
	for _, p := range report.Pods {
		known[p.Namespace+"/"+p.Name] = true
		findings = append(findings, p.Findings...)
		if !strings.Contains(text, p.Namespace+"/"+p.Name) {
			differs = fmt.Sprintf("the text has no Pod %s:\n%s", p.Name, text)
		}
	}
	for _, f := range findings {
		if !strings.HasPrefix(f.About, "event") && !strings.Contains(text, f.About) {
			differs = fmt.Sprintf("the text has nothing about %s:\n%s", f.About, text)
		}
		for _, pod := range f.Pods {
			if !known[pod] {
				n.Errorf("%s leads to %s, which is not in the report:\n%s", f.About, pod, out)
			}
		}
	}
	return differs
}

// readerOfPods returns a kubeconfig of a user who may read Pods of the namespace, and nothing else.
func (n namespace) readerOfPods() (file string) {
	n.Helper()
	n.kubectl("create", "serviceaccount", "reader")
	n.kubectl("create", "role", "reader", "--verb", "get,list,watch", "--resource", "pods,pods/log")
	n.kubectl("create", "rolebinding", "reader", "--role", "reader", "--serviceaccount", n.name+":reader")
	token := strings.TrimSpace(n.kubectl("create", "token", "reader"))
	file = filepath.Join(n.TempDir(), "kubeconfig")
	config := n.kubectl("config", "view", "--minify", "--flatten")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		n.Fatal(err)
	}
	n.kubectl("--kubeconfig", file, "config", "set-credentials", "reader", "--token", token)
	n.kubectl("--kubeconfig", file, "config", "set-context", "--current", "--user", "reader")
	return file
}

// TestDoctorGrants runs the command that the report gives for rights that are missing, as it is.
func TestDoctorGrants(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply(filepath.Join("doctor", "denied.yaml"))
	n.untilStarted("web", "wait")
	text := n.explained([]string{`^  service account .* may not .* → kubectl `})
	command := regexp.MustCompile(`(?m)^  service account .* may not .* → (kubectl .*)$`).FindStringSubmatch(text)[1]
	if out, err := exec.CommandContext(n.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
		n.Fatalf("%s: %v\n%s", command, err, out)
	}
	n.followLog("web", "wait").until(`k8s:job/migrate: .*(not found|no such|does not exist|missing)`)
	if text := n.explained([]string{`k8s:job/migrate .*no Job migrate`}); regexp.MustCompile(`(?m)^  service account `).MatchString(text) {
		n.Errorf("the rights are still missing:\n%s", text)
	}
}

// TestDoctorWatch follows a Pod until the Service that it waits for is there, and it runs.
func TestDoctorWatch(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply(filepath.Join("doctor", "wrong-name.yaml"))
	n.explained(stuckCases[0].lines)
	watch := exec.CommandContext(n.Context(), "kubectl", "initbox", "doctor", "-n", n.name, "--watch", "pod/web")
	out, err := watch.StdoutPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		n.Fatal(err)
	}
	first := make([]byte, 1<<16)
	size, _ := out.Read(first) // it has seen the Pod
	n.kubectl("create", "service", "externalname", "mybd", "--external-name", "mydb."+n.name+".svc.cluster.local")
	rest, _ := io.ReadAll(out)
	text := string(first[:size]) + string(rest)
	if err := watch.Wait(); err != nil {
		n.Errorf("kubectl initbox doctor --watch: %v", err)
	}
	contains(t, "kubectl initbox doctor --watch", text, `^Pod `+n.name+`/web: Init:0/1 `, `^Pod `+n.name+`/web: no longer stuck$`, `^nothing is stuck: 1 Pod$`)
	t.Logf("kubectl initbox doctor --watch:\n%s", text)
}

// TestDoctorInPod runs initbox doctor in an init container that waits, as a user would.
func TestDoctorInPod(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.apply(filepath.Join("doctor", "in-pod.yaml"))
	n.untilStarted("web", "wait")
	run := []string{"exec", "web", "-c", "wait", "--", "/bin/initbox", "doctor"}
	n.eventually(run...) // the container runs a little later than its status says
	text := n.kubectl(run...)
	contains(t, "initbox doctor", text,
		`^  user +65532$`, `^  groups +65532; supplementary: 2000`, `^  capabilities +none$`, `^  no_new_privs +yes$`, `^  seccomp +filter$`,
		`^  memory +.* of 67\.1 MB in use$`, `^  CPU +0\.5 cores`,
		`^  / +overlay, read-only, `, `^  /cache +tmpfs, read-write, owner 0:2000 .*1\.0 MB free.*, writable$`,
		`^  /data +emptyDir data \(\w+\), read-write, owner 0:2000 mode 2777, .*, writable$`, `^  /etc/app +configMap config \(\w+\), read-only, `,
		`^! /node .*read-write, owner 0:0 .*, not writable$`, `^problem: /node: user 65532 may not write there: owner 0:0, mode 0755$`,
		`^  search +`+n.name+`\.svc\.[a-z.]+, svc\.`, `^  [0-9a-f.:\[\]]+:53 +answers in `, `^  kubernetes\.default\.svc\.\S+ +\d address records? in `,
		`^  this Pod +[0-9a-f.:]+: web$`,
		`^  answer +TCP in .*, TLS in .*, v1\.\d+\.\S+ in `, `^  clock +as ours$`, `^  token +of system:serviceaccount:`+n.name+`:default, expires in `,
		`^  account +system:serviceaccount:`+n.name+`:default$`, `^  rights in `+n.name+` +none`,
		`^  Namespace +`+n.name+`$`, `^  IPs +[0-9a-f.:]+$`, `^  not set +POD_UID `,
		`^  HTTPS_PROXY +proxy\.example:3128$`, `^  variables .*DB_PASSWORD`,
	)
	contains(t, "initbox doctor --format json", n.kubectl(append(run, "--format", "json")...), `"name": "volumes"`, `"item": "/node"`)
	if regexp.MustCompile(`correct-horse|battery|bob`).MatchString(text) {
		n.Errorf("a secret is in the report:\n%s", text)
	}
	if status := n.pod("web").Status.InitContainerStatuses[0]; status.State.Running == nil || status.RestartCount > 0 {
		n.Errorf("the wait has ended: %+v", status)
	}
	t.Logf("initbox doctor:\n%s", text)
}
