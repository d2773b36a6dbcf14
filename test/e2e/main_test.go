// Package e2e_test runs initbox on any real Kubernetes cluster: make e2e. Each case applies a manifest in testdata that
// a user could copy, in its own namespace, and checks what kubectl shows.
package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience limits each wait of a case, generously for a busy machine: it only ends waits that would never end.
const patience = 5 * time.Minute

// Set by run.sh.
var (
	program = os.Getenv("E2E_INITBOX") // the binary, for waits from outside the cluster
	ours    = os.Getenv("E2E_CLUSTER") // the directory of test/cluster's scripts, if they made the cluster
)

var proxy string // the URL of kubectl proxy: the API without credentials and without starting kubectl

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if program == "" { // a KUBECONFIG alone is not permission to create objects in its cluster
		return m.Run()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", "version").CombinedOutput()
	fmt.Printf("%s", out)
	if err != nil {
		fmt.Println("kubectl version:", err)
		return 1
	}
	cmd := exec.CommandContext(ctx, "kubectl", "proxy", "--port=0")
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = fmt.Fscanf(stdout, "Starting to serve on %s", &proxy)
	}
	if err != nil {
		fmt.Println("kubectl proxy:", err)
		return 1
	}
	defer cmd.Wait()
	defer cancel()
	interrupted := make(chan os.Signal, 1) // the proxy would stay
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		cmd.Process.Kill()
		os.Exit(130)
	}()
	proxy = "http://" + proxy
	return m.Run()
}

// namespace is a namespace that belongs to one case.
type namespace struct {
	*testing.T
	name     string
	failures *failures
}

// failures collects what has failed in a case, to repeat it after the state of the namespace, which can be long: the
// end of the output is what is read first, and may be all that is kept.
type failures struct {
	mu   sync.Mutex
	list []string
}

func (f *failures) add(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, text)
}

func (n namespace) Errorf(format string, args ...any) {
	n.Helper()
	n.failures.add(fmt.Sprintf(format, args...))
	n.T.Errorf(format, args...)
}

func (n namespace) Fatalf(format string, args ...any) {
	n.Helper()
	n.failures.add(fmt.Sprintf(format, args...))
	n.T.Fatalf(format, args...)
}

func (n namespace) Fatal(args ...any) {
	n.Helper()
	n.failures.add(fmt.Sprint(args...))
	n.T.Fatal(args...)
}

// newNamespace creates a namespace that is deleted at the end of the test; if that has failed, its objects are printed
// first. Labels have the form KEY=VALUE.
func newNamespace(t *testing.T, labels ...string) namespace {
	t.Helper()
	needCluster(t)
	name := strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name(), "-"))
	n := namespace{t, fmt.Sprintf("e2e-%.40s-%x", strings.TrimPrefix(name, "test"), time.Now().UnixNano()&0xfffff), &failures{}}
	n.kubectl("create", "namespace", n.name)
	t.Cleanup(func() {
		if t.Failed() {
			n.dump()
		}
		n.try("delete", "namespace", n.name, "--wait=false")
	})
	for _, label := range labels {
		n.kubectl("label", "namespace", n.name, label)
	}
	n.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout="+patience.String()) // until then, Pods are rejected
	return n
}

func needCluster(t *testing.T) {
	t.Helper()
	if program == "" {
		t.Skip("needs a cluster: make e2e")
	}
}

// dump prints the state of the namespace after a failure.
func (n namespace) dump() {
	for _, args := range [][]string{
		{"get", "all,events", "-o", "wide"},
		{"describe", "pods"},
	} {
		out, _ := n.try(args...)
		n.Logf("kubectl %s:\n%s", strings.Join(args, " "), out)
	}
	pods, _ := n.try("get", "pods", "-o", "name")
	for _, pod := range strings.Fields(pods) {
		out, _ := n.try("logs", pod, "--all-containers", "--prefix", "--tail=30")
		n.Logf("kubectl logs %s:\n%s", pod, out)
	}
	n.failures.mu.Lock()
	defer n.failures.mu.Unlock()
	n.Logf("what failed, again:\n%s", strings.Join(n.failures.list, "\n"))
}

// command returns a kubectl command in the namespace.
func (n namespace) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "kubectl", append([]string{"--namespace", n.name}, args...)...)
}

// try runs kubectl and returns its output.
func (n namespace) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience+10*time.Second)
	defer cancel()
	out, err := n.command(ctx, args...).CombinedOutput()
	return string(out), err
}

// kubectl runs kubectl, which must succeed.
func (n namespace) kubectl(args ...string) string {
	n.Helper()
	out, err := n.try(args...)
	if err != nil {
		n.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// apply applies manifests of testdata, with pairs of old and new text replaced in them.
func (n namespace) apply(name string, replacements ...string) {
	n.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		n.Fatal(err)
	}
	n.applyText(strings.NewReplacer(replacements...).Replace(string(text)))
}

// eventually runs kubectl until it succeeds.
func (n namespace) eventually(args ...string) {
	n.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		out, err := n.try(args...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			n.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func (n namespace) applyText(manifest string) {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := n.command(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.Fatalf("kubectl apply: %v\n%s\n%s", err, out, manifest)
	}
}

// wait waits with kubectl until something has a condition, as in wait("condition=Ready", "pod/web").
func (n namespace) wait(condition, what string) {
	n.Helper()
	n.kubectl("wait", "--for="+condition, what, "--timeout="+patience.String())
}

// pod returns the current state of a Pod.
func (n namespace) pod(name string) (p pod) {
	n.Helper()
	if err := json.Unmarshal([]byte(n.kubectl("get", "pod", name, "-o", "json")), &p); err != nil {
		n.Fatal(err)
	}
	return p
}

// pod is the part of a Pod that the cases read.
type pod struct {
	Metadata struct {
		DeletionTimestamp time.Time
	}
	Status struct {
		Phase, Reason         string
		InitContainerStatuses []container
		ContainerStatuses     []container
	}
}

type container struct {
	Name         string
	ContainerID  string
	RestartCount int
	State        struct {
		Running    *struct{ StartedAt time.Time }
		Terminated *struct {
			ExitCode              int
			Message, Reason       string
			StartedAt, FinishedAt time.Time
		}
	}
}

// containerNamed returns a container or an init container of the Pod.
func (p pod) containerNamed(t *testing.T, name string) container {
	t.Helper()
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no container %s", name)
	return container{}
}

// stream is the output of a running command, such as kubectl get --watch.
type stream struct {
	n    namespace
	what string

	mu    sync.Mutex
	lines []line
	more  chan struct{} // closed at the next line
	ended bool

	exited chan struct{} // closed when the command has ended, with this time and status, and all output is read
	at     time.Time
	status int
}

// line is one line of a stream, and the time of its arrival.
type line struct {
	text string
	at   time.Time
}

// follow starts a kubectl that ends with the test.
func (n namespace) follow(args ...string) *stream {
	n.Helper()
	cmd := n.command(n.Context(), args...)
	return n.followCommand(cmd, "kubectl "+strings.Join(args, " "))
}

func (n namespace) followCommand(cmd *exec.Cmd, what string) *stream {
	n.Helper()
	output, input := io.Pipe()
	cmd.Stdout, cmd.Stderr = input, input
	if err := cmd.Start(); err != nil {
		n.Fatalf("%s: %v", what, err)
	}
	s := &stream{n: n, what: what, more: make(chan struct{}), exited: make(chan struct{})}
	go func() {
		cmd.Wait()
		s.at, s.status = time.Now(), cmd.ProcessState.ExitCode()
		input.Close()
	}()
	go func() {
		defer close(s.exited) // after all its output was read
		scanner := bufio.NewScanner(output)
		scanner.Buffer(nil, 4<<20)
		for scanner.Scan() {
			s.add(line{scanner.Text(), time.Now()}, false)
		}
		s.add(line{}, true)
		io.Copy(io.Discard, output)
	}()
	n.Cleanup(func() { <-s.exited }) // the test's context has already ended
	return s
}

func (s *stream) add(l line, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end {
		s.ended = true
	} else {
		s.lines = append(s.lines, l)
	}
	close(s.more)
	s.more = make(chan struct{})
}

// read returns the lines so far, and a channel that is closed at the next line.
func (s *stream) read() (lines []line, more <-chan struct{}, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines, s.more, s.ended
}

// until waits for a line that matches, and returns the first.
func (s *stream) until(pattern string) line {
	s.n.Helper()
	re := regexp.MustCompile(pattern)
	return s.untilLine(pattern, func(l line) bool { return re.MatchString(l.text) })
}

func (s *stream) untilLine(what string, wanted func(line) bool) line {
	s.n.Helper()
	deadline := time.After(patience)
	for seen := 0; ; {
		lines, more, ended := s.read()
		for ; seen < len(lines); seen++ {
			if wanted(lines[seen]) {
				return lines[seen]
			}
		}
		if !ended {
			select {
			case <-more:
				continue
			case <-deadline:
			}
		}
		s.n.Fatalf("%s: no line that matches %s:\n%s", s.what, what, s)
	}
}

// exit waits until the command has ended.
func (s *stream) exit() (status int, at time.Time) {
	s.n.Helper()
	select {
	case <-s.exited:
		return s.status, s.at
	case <-time.After(patience):
		s.n.Fatalf("%s does not end:\n%s", s.what, s)
		return 0, time.Time{}
	}
}

func (s *stream) String() string {
	lines, _, _ := s.read()
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s %.400s\n", l.at.Format("15:04:05.000"), l.text)
	}
	return b.String()
}

// followPod follows a Pod in kubectl get, which also has flags for the output. The Pod is selected, not named: kubectl
// reads a named object, then watches it, and does not print the first event of the watch, which it takes for the object
// that it has read. A change between the two, if it is the last one, is never shown.
func (n namespace) followPod(name string, flags ...string) *stream {
	n.Helper()
	return n.follow(append([]string{"get", "pods", "--field-selector", "metadata.name=" + name, "--watch"}, flags...)...)
}

// watchPod follows a Pod's line in kubectl get.
func (n namespace) watchPod(name string) *stream {
	n.Helper()
	return n.followPod(name, "--no-headers")
}

// watchPodEvents follows a Pod as JSON, and returns when the watch has started.
func (n namespace) watchPodEvents(name string) *stream {
	n.Helper()
	s := n.followPod(name, "--output-watch-events", "-o", "json")
	s.until(`"ADDED"`)
	return s
}

// request sends a request to the API server, which must succeed, and returns the time of the answer.
func request(t *testing.T, method, path, contentType, body string) (answer []byte, at time.Time) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, proxy+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(r)
	at = time.Now()
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s, %v: %s", method, path, response.Status, err, answer)
	}
	return answer, at
}

// contains requires that lines of a text match.
func contains(t *testing.T, what, text string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(text) {
			t.Errorf("%s has no match of %s:\n%s", what, pattern, text)
		}
	}
}

// logs returns the log of a container.
func (n namespace) logs(pod, container string) string {
	n.Helper()
	return n.kubectl("logs", pod, "--container", container)
}

// trimmed returns a text as one line, for messages.
func trimmed(text string) string { return strings.Join(strings.Fields(text), " ") }

// timeOf reads the time before a line of kubectl logs --timestamps.
func timeOf(t *testing.T, l line) time.Time {
	t.Helper()
	text, _, _ := strings.Cut(l.text, " ")
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// decodeLines decodes the sequence of JSON objects from kubectl get --watch -o json.
func decodeLines[T any](t *testing.T, s *stream) (all []T) {
	t.Helper()
	lines, _, _ := s.read()
	var text bytes.Buffer
	for _, l := range lines {
		text.WriteString(l.text + "\n")
	}
	for d := json.NewDecoder(&text); ; {
		var v T
		if err := d.Decode(&v); err != nil {
			return all // at the end, or in an incomplete object
		}
		all = append(all, v)
	}
}
