package command

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"initbox/test/registries"
	"initbox/test/soak"
)

// registerKills is how often each registration is killed, under go test.
const registerKills = 20

// TestRegisterKilled kills the program while it registers and deregisters, also between the registry's decision and its
// answer. Run again, it leaves exactly one entry, and none once it has deregistered.
func TestRegisterKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	for name, k := range map[string]*killedRegistration{
		"eureka":     {registry: &registries.Eureka{}, entry: "WEB/web-0.shop", args: []string{"--preset", "eureka", "--service", "web", "--port", "8080"}},
		"nacos":      {registry: &registries.Nacos{Version: 2}, entry: "172.16.0.7#8080#DEFAULT#DEFAULT_GROUP@@web", args: []string{"--preset", "nacos", "--service", "web", "--port", "8080"}},
		"management": {registry: &registries.Management{}, entry: "web-0", path: "/register", args: []string{"--idempotency-key", "--check-url", "/instances/{/id}", "--deregister-url", "/instances/{/id}"}},
		// Without a key, a request that is still on its way when the next run asks makes a second entry.
		"asked": {registry: &registries.Management{}, entry: "web-0", path: "/register", held: true, args: []string{"--check-url", "/register?instance=web-0", "--deregister-url", "/register?instance=web-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k.T, k.state = t, filepath.Join(t.TempDir(), "state")
			k.serve()
			start := time.Now()
			k.run("register")
			whole := time.Since(start)
			k.run("deregister")
			i := 0
			for moment := range soak.Moments(t, registerKills) {
				after := time.Duration(moment * float64(whole))
				if i%5 == 0 || k.held {
					k.killBeforeTheAnswer()
				} else {
					killAfter(t, k.command("register"), after)
				}
				k.run("register")
				k.requireEntries(k.entry)
				if i%3 == 0 {
					killAfter(t, k.command("deregister"), after)
					k.run("deregister")
					k.requireEntries()
				}
				i++
			}
		})
	}
}

// killedRegistration is the registration of a Pod at a registry.
type killedRegistration struct {
	*testing.T
	registry registries.Registry
	entry    string
	path     string
	args     []string
	held     bool // kill it only between the server's decision and its answer

	url, state string
	handled    atomic.Pointer[chan struct{}] // if set, answers are withheld, and it receives when a request was handled
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

// run runs a subcommand to its end.
func (k *killedRegistration) run(name string) {
	k.Helper()
	cmd := k.command(name)
	if err := cmd.Run(); err != nil {
		k.Fatalf("%s: %v\n%s", name, err, cmd.Stderr)
	}
}

// killBeforeTheAnswer kills the program when the registry has handled its first request and not answered.
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
