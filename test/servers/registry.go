package servers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Registry is distribution's registry, whose content lives as long as the test.
type Registry struct {
	Addr           string // host:port, as in the name of an image
	URL            string
	User, Password string // who may pull and push; empty if everyone may

	// Of a registry with tokens.
	Realm  *httptest.Server // which issues them
	Tokens atomic.Int32     // how many were issued

	client *http.Client
	key    *ecdsa.PrivateKey // signs the tokens
	cert   *x509.Certificate
}

// RegistryOptions configures [StartRegistry].
type RegistryOptions struct {
	CA    *CA  // for TLS; nil for plaintext
	Login bool // a user and a password are needed, for basic authentication
	Token bool // a token of the realm is needed: everyone gets one to pull, and the user one to push
}

// RegistryAt returns the registry that runs at an address, without TLS and without logins.
func RegistryAt(addr string) *Registry {
	return &Registry{Addr: addr, URL: "http://" + addr, client: &http.Client{Timeout: requestWithin}}
}

// StartRegistry starts the registry of test/registry, which it builds if necessary.
func StartRegistry(t testing.TB, o RegistryOptions) *Registry {
	t.Helper()
	program, dir := buildServer(t, "registry"), t.TempDir()
	r := &Registry{Addr: FreeAddr(t), client: &http.Client{Timeout: requestWithin, Transport: &http.Transport{DisableKeepAlives: true}}}
	r.URL = "http://" + r.Addr
	data := map[string]any{"Addr": r.Addr, "Dir": dir, "Cert": nil, "Login": o.Login, "Realm": "", "Root": ""}
	if o.CA != nil {
		r.URL = "https://" + r.Addr
		roots := x509.NewCertPool()
		roots.AddCert(o.CA.cert)
		r.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
		data["Cert"] = o.CA.Server(t, "127.0.0.1")
	}
	if o.Login || o.Token {
		r.User, r.Password = "puller", rand.Text()
	}
	if o.Login {
		hash, err := bcrypt.GenerateFromPassword([]byte(r.Password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, "htpasswd"), r.User+":"+string(hash)+"\n")
	}
	if o.Token {
		ca := NewCA(t)
		r.key, r.cert = ca.key, ca.cert
		r.Realm = httptest.NewServer(http.HandlerFunc(r.issue))
		t.Cleanup(r.Realm.Close)
		data["Realm"], data["Root"] = r.Realm.URL+"/token", ca.File
	}
	conf := filepath.Join(dir, "config.yml")
	writeConfig(t, conf, registryConfig, data)
	run(t, program, "serve", conf).untilListening(t, r.Addr)
	return r
}

const registryConfig = `
version: 0.1
log: {level: info, accesslog: {disabled: false}}
storage:
  filesystem: {rootdirectory: "{{.Dir}}/data"}
http:
  addr: {{.Addr}}
{{- with .Cert}}
  tls: {certificate: "{{.CertFile}}", key: "{{.KeyFile}}"}
{{- end}}
{{- if .Login}}
auth:
  htpasswd: {realm: test, path: "{{.Dir}}/htpasswd"}
{{- else if .Realm}}
auth:
  token: {realm: "{{.Realm}}", service: test, issuer: test, rootcertbundle: "{{.Root}}"}
{{- end}}
`

// Push stores an image with its blobs, and returns the digest of its manifest. The tag may be empty.
func (r *Registry) Push(t testing.TB, repository, tag string, i Image) (digest string) {
	t.Helper()
	for _, part := range i.Parts {
		r.Push(t, repository, "", part)
	}
	for _, content := range i.Blobs {
		r.pushBlob(t, repository, content)
	}
	if tag == "" {
		tag = DigestOf(i.Manifest)
	}
	r.send(t, repository, http.MethodPut, "/v2/"+repository+"/manifests/"+tag, i.MediaType, i.Manifest, http.StatusCreated)
	return DigestOf(i.Manifest)
}

func (r *Registry) pushBlob(t testing.TB, repository string, content []byte) {
	t.Helper()
	started := r.send(t, repository, http.MethodPost, "/v2/"+repository+"/blobs/uploads/", "", nil, http.StatusAccepted)
	upload := strings.TrimPrefix(started.Get("Location"), r.URL)
	r.send(t, repository, http.MethodPut, upload+"&digest="+DigestOf(content), "application/octet-stream", content, http.StatusCreated)
}

func (r *Registry) send(t testing.TB, repository, method, path, mediaType string, body []byte, want int) http.Header {
	t.Helper()
	req, err := http.NewRequest(method, r.URL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	switch {
	case r.Realm != nil:
		req.Header.Set("Authorization", "Bearer "+r.token(repository, "pull", "push"))
	case r.User != "":
		req.SetBasicAuth(r.User, r.Password)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("registry: %s %s: status %d: %s", method, path, resp.StatusCode, text)
	}
	return resp.Header
}

// issue answers a request for a token (https://distribution.github.io/distribution/spec/auth/token/). It is only for
// one repository, and only to pull.
func (r *Registry) issue(w http.ResponseWriter, req *http.Request) {
	user, password, given := req.BasicAuth()
	if given && (user != r.User || password != r.Password) {
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"incorrect username or password"}]}`, http.StatusUnauthorized)
		return
	}
	kind, rest, _ := strings.Cut(req.URL.Query().Get("scope"), ":")
	repository, _, _ := strings.Cut(rest, ":")
	if kind != "repository" || !given && strings.HasPrefix(repository, "private/") {
		repository = ""
	}
	r.Tokens.Add(1)
	json.NewEncoder(w).Encode(map[string]any{"token": r.token(repository, "pull"), "expires_in": 60})
}

// token returns a JSON Web Token (RFC 7519) that permits actions in a repository.
func (r *Registry) token(repository string, actions ...string) string {
	now := time.Now()
	access := []any{}
	if repository != "" {
		access = append(access, map[string]any{"type": "repository", "name": repository, "actions": actions})
	}
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]any{"typ": "JWT", "alg": "ES256", "x5c": []string{base64.StdEncoding.EncodeToString(r.cert.Raw)}}) + "." +
		part(map[string]any{"iss": "test", "aud": "test", "sub": "", "jti": rand.Text(), "access": access,
			"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Minute).Unix()})
	sum := sha256.Sum256([]byte(signed))
	a, b, err := ecdsa.Sign(rand.Reader, r.key, sum[:])
	if err != nil {
		panic(err)
	}
	signature := append(a.FillBytes(make([]byte, 32)), b.FillBytes(make([]byte, 32))...)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// DockerConfig writes a file with a login for the registry, as in a Secret of type kubernetes.io/dockerconfigjson, and
// returns its directory.
func (r *Registry) DockerConfig(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	auth := base64.StdEncoding.EncodeToString([]byte(r.User + ":" + r.Password))
	text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Addr, auth)
	if err := os.WriteFile(filepath.Join(dir, ".dockerconfigjson"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
