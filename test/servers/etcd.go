package servers

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// EtcdUser is the user with all permissions in an etcd with authentication.
const EtcdUser = "root"

// Etcd is one etcd, whose data lives as long as the test. Its v3 API is also available as JSON over HTTP
// (https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/).
type Etcd struct {
	URL      string
	Password string  // of EtcdUser; "" if every client has all permissions
	Client   KeyPair // a certificate that it accepts over TLS; empty without TLS

	owner   testing.TB // the server ends with this test, even if another test restarts it
	program string
	args    []string
	data    string
	client  *http.Client
	process *process
}

// EtcdOptions configures [StartEtcd].
type EtcdOptions struct {
	CA   *CA  // for TLS, with certificates of it for the server and its clients; nil for plaintext
	Auth bool // clients must log in
}

// StartEtcd starts Debian's etcd.
func StartEtcd(t testing.TB, o EtcdOptions) *Etcd {
	t.Helper()
	Slow(t)
	scheme, peers := "http://", "http://"+FreeAddr(t)
	e := &Etcd{owner: t, program: Need(t, "etcd"), data: filepath.Join(t.TempDir(), "data")}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	e.client = &http.Client{Transport: transport, Timeout: requestWithin}
	if o.CA != nil {
		scheme = "https://"
		// etcd's JSON API is a client of its own gRPC API, and presents the same certificate there.
		pair := o.CA.issue(t, x509.ExtKeyUsageAny, time.Now().Add(time.Hour), []string{"127.0.0.1", "localhost"})
		e.Client = o.CA.Client(t, "initbox")
		transport.TLSClientConfig = clientTLS(t, o.CA, e.Client)
		e.args = []string{"--cert-file=" + pair.CertFile, "--key-file=" + pair.KeyFile,
			"--client-cert-auth", "--trusted-ca-file=" + o.CA.File}
	}
	e.URL = scheme + FreeAddr(t)
	e.args = append(e.args, "--name=test", "--data-dir="+e.data, "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+e.URL, "--advertise-client-urls="+e.URL,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=test="+peers)
	if o.Auth {
		e.Password = rand.Text()
		e.args = append(e.args, "--bcrypt-cost=4") // the lowest cost: every login hashes the password
	}
	e.Start(t)
	return e
}

// Start starts etcd again after [Etcd.Kill], with its data.
func (e *Etcd) Start(t testing.TB) {
	t.Helper()
	_, err := os.Stat(e.data)
	e.process = run(e.owner, e.program, e.args...)
	e.untilHealthy(t)
	if e.Password != "" && os.IsNotExist(err) {
		e.enableAuth(t)
	}
}

func (e *Etcd) untilHealthy(t testing.TB) {
	t.Helper()
	e.process.until(t, "healthy", func() bool {
		resp, err := e.client.Get(e.URL + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// StartEtcdPair starts two members of one cluster. Neither is a majority without the other.
func StartEtcdPair(t testing.TB) (pair [2]*Etcd) {
	t.Helper()
	peers := [2]string{"http://" + FreeAddr(t), "http://" + FreeAddr(t)}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	for i := range pair {
		e := &Etcd{
			URL: "http://" + FreeAddr(t), owner: t, program: Need(t, "etcd"),
			data: filepath.Join(t.TempDir(), "data"), client: &http.Client{Transport: transport, Timeout: requestWithin},
		}
		e.args = []string{fmt.Sprint("--name=test", i), "--data-dir=" + e.data, "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + e.URL, "--advertise-client-urls=" + e.URL,
			"--listen-peer-urls=" + peers[i], "--initial-advertise-peer-urls=" + peers[i],
			"--initial-cluster=test0=" + peers[0] + ",test1=" + peers[1]}
		e.process = run(t, e.program, e.args...)
		pair[i] = e
	}
	for _, e := range pair {
		e.untilHealthy(t)
	}
	return pair
}

// Kill stops etcd as a crash would, by SIGKILL. The data is kept, and so are the users' tokens.
func (e *Etcd) Kill(t testing.TB) { t.Helper(); e.process.kill() }

// Reset replaces etcd by a new one without data.
func (e *Etcd) Reset(t testing.TB) {
	t.Helper()
	e.process.kill()
	if err := os.RemoveAll(e.data); err != nil {
		t.Fatal(err)
	}
	e.Start(t)
}

// Call sends a request of the v3 API, as in Call(t, "kv/range", `{"key": "AA=="}`), as a user with all permissions, and
// returns the answer's status and body.
func (e *Etcd) Call(t testing.TB, path, body string) (status int, answer string) {
	t.Helper()
	token := ""
	if e.Password != "" {
		status, answer = e.post(t, "", "auth/authenticate", fmt.Sprintf(`{"name": %q, "password": %q}`, EtcdUser, e.Password))
		if _, rest, ok := strings.Cut(answer, `"token":"`); ok {
			token, _, _ = strings.Cut(rest, `"`)
		}
		if token == "" {
			t.Fatalf("etcd: no token: status %d", status)
		}
	}
	return e.post(t, token, path, body)
}

func (e *Etcd) post(t testing.TB, token, path, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequest("POST", e.URL+"/v3/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	status, answer, err = do(e.client, req)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

// do sends a request and returns the answer's status and body.
func do(client *http.Client, req *http.Request) (status int, answer string, err error) {
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// enableAuth creates EtcdUser, the only user.
func (e *Etcd) enableAuth(t testing.TB) {
	t.Helper()
	for _, c := range [][2]string{
		{"auth/user/add", fmt.Sprintf(`{"name": %q, "password": %q}`, EtcdUser, e.Password)},
		{"auth/role/add", `{"name": "root"}`},
		{"auth/user/grant", fmt.Sprintf(`{"user": %q, "role": "root"}`, EtcdUser)},
		{"auth/enable", `{}`},
	} {
		if status, answer := e.post(t, "", c[0], c[1]); status != http.StatusOK {
			t.Fatalf("etcd: %s: status %d: %s", c[0], status, answer)
		}
	}
}

// clientTLS trusts the CA, and presents the certificate.
func clientTLS(t testing.TB, ca *CA, pair KeyPair) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}
}
