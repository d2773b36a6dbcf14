package servers

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ConsulNode is the name of the agent's node.
const ConsulNode = "agent"

// Consul is a Consul agent in development mode: server and client in one, with all data in memory.
type Consul struct {
	URL   string
	Token string // has all permissions; "" if every client has them

	owner   testing.TB // the server ends with this test, even if another test restarts it
	program string
	args    []string
	client  *http.Client
	process *process
}

// ConsulOptions configures [StartConsul].
type ConsulOptions struct {
	ACL bool // clients without a token have no permissions
}

// StartConsul starts the Consul that make consul has built. Without it, the test is skipped, even if CI=true: the build
// takes longer than all other tests together, and tests that must run everywhere use registries.FakeConsul.
func StartConsul(t testing.TB, o ConsulOptions) *Consul {
	t.Helper()
	Slow(t)
	c := &Consul{owner: t, program: consulProgram(t)}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c.client = &http.Client{Transport: transport, Timeout: requestWithin}
	addr := FreeAddr(t)
	c.URL = "http://" + addr
	config := map[string]any{
		"disable_update_check": true, // it would contact HashiCorp
		"leave_on_terminate":   false,
	}
	if o.ACL {
		c.Token = uuid(t)
		config["acl"] = map[string]any{
			"enabled": true, "default_policy": "deny", "tokens": map[string]any{"initial_management": c.Token},
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	c.args = []string{"-dev", "-node=" + ConsulNode, "-bind=127.0.0.1", "-log-level=warn", "-hcl=" + string(text),
		"-http-port=" + port(addr), "-server-port=" + port(FreeAddr(t)), "-serf-lan-port=" + port(FreeAddr(t)),
		"-serf-wan-port=-1", "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1"}
	c.Start(t)
	return c
}

// Start starts the agent again after [Consul.Kill], without any data.
func (c *Consul) Start(t testing.TB) {
	t.Helper()
	c.process = run(c.owner, c.program, c.args...)
	// A leader exists before its own node is in the catalog; until then it accepts no other node.
	c.process.until(t, "a server", func() bool {
		status, answer, err := c.send("GET", "/v1/catalog/nodes", "")
		return err == nil && status == http.StatusOK && strings.Contains(answer, `"`+ConsulNode+`"`)
	})
}

// Kill stops the agent as a crash would, by SIGKILL.
func (c *Consul) Kill(t testing.TB) { t.Helper(); c.process.kill() }

// Reset replaces the agent by a new one without data.
func (c *Consul) Reset(t testing.TB) {
	t.Helper()
	c.process.kill()
	c.Start(t)
}

// Call sends a request with the token, and returns the answer's status and body.
func (c *Consul) Call(t testing.TB, method, path, body string) (status int, answer string) {
	t.Helper()
	status, answer, err := c.send(method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

func (c *Consul) send(method, path, body string) (status int, answer string, err error) {
	req, err := http.NewRequest(method, c.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return do(c.client, req)
}

// consulProgram returns the path of the program, which is named after its sources.
func consulProgram(t testing.TB) string {
	t.Helper()
	dir, err := moduleDir("consul")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(cache, "initbox-consul", fmt.Sprintf("consul-%x", sum.Sum(nil)[:8]))
	if _, err := os.Stat(program); err != nil {
		t.Skip("Consul is not built: make consul builds it, in four minutes or more")
	}
	return program
}

// uuid returns a UUID: Consul requires that form for tokens.
func uuid(t testing.TB) string {
	t.Helper()
	var b [16]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
