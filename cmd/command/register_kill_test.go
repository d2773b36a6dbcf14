package command

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"initbox/test/registries"
)

// TestRegisterKilled kills the program at random moments while it registers, the
// moment between the registry's decision and its answer among them. Run again, it
// leaves exactly one entry, and none once it has deregistered.
// $INITBOX_TEST_KILLS is how often.
func TestRegisterKilled(t *testing.T) {
	kills := 25
	if n, err := strconv.Atoi(os.Getenv("INITBOX_TEST_KILLS")); err == nil {
		kills = n
	}
	for name, k := range map[string]*killedRegistration{
		"eureka":     {registry: &registries.Eureka{}, entry: "WEB/web-0.shop", args: []string{"--preset", "eureka", "--service", "web", "--port", "8080"}},
		"nacos":      {registry: &registries.Nacos{Version: 2}, entry: "172.16.0.7#8080#DEFAULT#DEFAULT_GROUP@@web", args: []string{"--preset", "nacos", "--service", "web", "--port", "8080"}},
		"management": {registry: &registries.Management{}, entry: "web-0", path: "/register", args: []string{"--idempotency-key", "--check-url", "/instances/{/id}", "--deregister-url", "/instances/{/id}"}},
		// Without a key, what is still on its way when the next run asks is a second entry.
		"asked": {registry: &registries.Management{}, entry: "web-0", path: "/register", held: true, args: []string{"--check-url", "/register?instance=web-0", "--deregister-url", "/register?instance=web-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			k.T, k.state = t, filepath.Join(t.TempDir(), "state")
			k.serve()
			start := time.Now()
			k.run("register", 0)
			whole := time.Since(start)
			k.run("deregister", 0)
			for i := range kills {
				if i%5 == 0 || k.held {
					k.killBeforeTheAnswer()
				} else {
					k.run("register", rand.N(whole)+1)
				}
				k.run("register", 0)
				k.requireEntries(k.entry)
				if i%3 == 0 {
					k.run("deregister", rand.N(whole)+1)
					k.run("deregister", 0)
					k.requireEntries()
				}
			}
		})
	}
}

// killedRegistration is one Pod's, at one registry.
type killedRegistration struct {
	*testing.T
	registry registries.Registry
	entry    string
	path     string
	args     []string
	held     bool // kill it only between the server's decision and its answer

	url, state string
	handled    atomic.Pointer[chan struct{}] // if set, answers are withheld: it tells that a request was handled
}

func (k *killedRegistration) serve() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handled := k.handled.Load()
		if handled == nil {
			k.registry.ServeHTTP(w, r)
			return
		}
		k.registry.ServeHTTP(httptest.NewRecorder(), r)
		*handled <- struct{}{}
		<-r.Context().Done()
	}))
	k.Cleanup(server.Close)
	k.url = server.URL + k.registry.Base() + k.path
}

func (k *killedRegistration) command(name string) *exec.Cmd {
	args := []string{name, "--state", k.state, "--termination-log", ""}
	if name == "register" {
		args = append(append(args, "--url", k.url), k.args...)
	}
	cmd := exec.Command("initbox", args...)
	cmd.Stderr = new(bytes.Buffer)
	cmd.Env = append(os.Environ(), "POD_NAME=web-0", "POD_NAMESPACE=shop", "POD_UID=5f1b", "POD_IP=172.16.0.7", "GORACE=atexit_sleep_ms=10")
	return cmd
}

// run runs a subcommand, to its end or until it is killed.
func (k *killedRegistration) run(name string, killAfter time.Duration) {
	k.Helper()
	cmd := k.command(name)
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	if killAfter > 0 {
		time.Sleep(killAfter)
		cmd.Process.Kill()
		cmd.Wait()
		return
	}
	if err := cmd.Wait(); err != nil {
		k.Fatalf("%s: %v\n%s", name, err, cmd.Stderr)
	}
}

// killBeforeTheAnswer kills the program when the registry has handled its first
// request and not answered.
func (k *killedRegistration) killBeforeTheAnswer() {
	handled := make(chan struct{})
	k.handled.Store(&handled)
	cmd := k.command("register")
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	<-handled
	k.handled.Store(nil)
	cmd.Process.Kill()
	cmd.Wait()
}

func (k *killedRegistration) requireEntries(want ...string) {
	k.Helper()
	if got := k.registry.Entries(); !slices.Equal(got, want) {
		k.Fatalf("the registry has %q, want %s", got, strings.Join(want, " "))
	}
}
