package servers

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// APIServer is a Kubernetes API server with its own etcd, and without any controller, scheduler or node: a test writes
// the status of objects itself. Authorization is RBAC.
type APIServer struct {
	Addr       string // host:port, HTTPS
	CA         *CA    // of the server's certificate and of clients'
	AdminToken string // has all permissions
	UserToken  string // of APIUser, with only the permissions that the test grants

	owner   testing.TB // the server ends with this test, even if another test restarts it
	program string
	args    []string
	client  *http.Client
	process *process
}

// APIUser is the name of the user with UserToken.
const APIUser = "tester"

// StartAPIServer starts the kube-apiserver that test/cluster builds.
func StartAPIServer(t testing.TB) *APIServer {
	t.Helper()
	Slow(t)
	program, dir, etcd := Kubernetes(t, "kube-apiserver"), t.TempDir(), StartEtcd(t, EtcdOptions{}).URL
	s := &APIServer{owner: t, Addr: FreeAddr(t), CA: NewCA(t), AdminToken: rand.Text(), UserToken: rand.Text(), program: program}
	tokens := filepath.Join(dir, "tokens.csv")
	writeFile(t, tokens, fmt.Sprintf("%s,admin,admin,system:masters\n%s,%s,%s,\n", s.AdminToken, s.UserToken, APIUser, APIUser))
	pair := s.CA.Server(t, "127.0.0.1", "localhost")
	host, port, _ := net.SplitHostPort(s.Addr)
	s.args = []string{
		"--etcd-servers=" + etcd,
		"--bind-address=" + host, "--secure-port=" + port,
		"--advertise-address=" + host, "--endpoint-reconciler-type=none", // an address that no client can reach
		"--tls-cert-file=" + pair.CertFile, "--tls-private-key-file=" + pair.KeyFile, "--client-ca-file=" + s.CA.File,
		"--cert-dir=" + dir,
		"--token-auth-file=" + tokens, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pair.CertFile, "--service-account-signing-key-file=" + pair.KeyFile,
		"--service-cluster-ip-range=10.0.0.0/24",     // appears in Services, and is never reached
		"--disable-admission-plugins=ServiceAccount", // it needs objects that a controller creates
		"--shutdown-delay-duration=0s", "--profiling=false",
	}
	pem, err := os.ReadFile(s.CA.File)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	s.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	s.Start(t)
	return s
}

// Start starts the server again after [APIServer.Kill], with all data in etcd.
func (s *APIServer) Start(t testing.TB) {
	t.Helper()
	s.process = run(s.owner, s.program, s.args...)
	s.process.until(t, "ready", func() bool {
		status, _, err := s.send("GET", "/readyz", nil)
		return err == nil && status == http.StatusOK
	})
}

// Kill stops the server as a crash would, by SIGKILL.
func (s *APIServer) Kill(t testing.TB) {
	t.Helper()
	s.process.kill()
}

// Freeze suspends the server: its connections remain open, and it sends nothing.
func (s *APIServer) Freeze(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGSTOP) }

// Thaw ends [APIServer.Freeze].
func (s *APIServer) Thaw(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGCONT) }

func (s *APIServer) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.process.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Do sends a request as the admin and requires success. The body, if not nil, is JSON text, or a value to encode as
// JSON; the answer is decoded. A PATCH is a merge patch.
func (s *APIServer) Do(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	status, answer, err := s.send(method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if status >= 300 {
		t.Fatalf("%s %s: status %d: %s", method, path, status, answer)
	}
	var decoded map[string]any
	if err := json.Unmarshal(answer, &decoded); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return decoded
}

func (s *APIServer) send(method, path string, body any) (status int, answer []byte, err error) {
	data, _ := body.(string)
	if data == "" && body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		data = string(encoded)
	}
	req, err := http.NewRequest(method, "https://"+s.Addr+path, strings.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.AdminToken)
	req.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, bytes.TrimSpace(answer), err
}

// Kubeconfig writes a kubeconfig with a bearer token, and returns its path.
func (s *APIServer) Kubeconfig(t testing.TB, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, file, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: test, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, s.Addr, s.CA.File, token))
	return file
}

// Kubernetes returns the path of a program of Kubernetes: in the directory INITBOX_CLUSTER_BIN, or where
// test/cluster/build.sh installs it.
func Kubernetes(t testing.TB, program string) string {
	t.Helper()
	var candidates []string
	if dir := os.Getenv("INITBOX_CLUSTER_BIN"); dir != "" {
		candidates = []string{filepath.Join(dir, program)}
	} else if cache, err := os.UserCacheDir(); err == nil {
		candidates, _ = filepath.Glob(filepath.Join(cache, "initbox-cluster", "*", "bin", program))
	}
	var newest string
	var built time.Time
	for _, c := range candidates {
		stat, err := os.Stat(c)
		if err == nil && !strings.Contains(c, ".tmp/") && stat.ModTime().After(built) {
			newest, built = c, stat.ModTime()
		}
	}
	if newest == "" {
		Absent(t, "%s is not built: run test/cluster/build.sh, or set INITBOX_CLUSTER_BIN to the directory that has it", program)
	}
	return newest
}
