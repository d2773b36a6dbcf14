package kube

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeFiles(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInCluster(t *testing.T) {
	dir := writeFiles(t, map[string]string{"token": "t1\n", "ca.crt": "ca1", "namespace": "mine"})
	env := map[string]string{}
	getenv := func(name string) string { return env[name] }
	if _, err := inCluster(getenv, dir); err == nil || !strings.HasPrefix(err.Error(), "not in a Pod: ") {
		t.Error(err)
	}
	env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"] = "fd00::1", "443"
	c, err := inCluster(getenv, dir)
	if err != nil || c.Server.String() != "https://[fd00::1]:443" || c.Namespace != "mine" {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, n := range []string{"1", "2"} {
		os.WriteFile(filepath.Join(dir, "token"), []byte("t"+n), 0o600)
		os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("ca"+n), 0o600)
		h := http.Header{}
		if err := c.Authorize(h); err != nil || h.Get("Authorization") != "Bearer t"+n {
			t.Errorf("%v, %v", h, err)
		}
		if o, err := c.TLS(); err != nil || o.CA != "ca"+n {
			t.Errorf("%v, %v", o, err)
		}
	}
	os.WriteFile(filepath.Join(dir, "token"), []byte("s3cr3t\ns3cr3t"), 0o600)
	if err := c.Authorize(http.Header{}); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Error(err)
	}
	os.Remove(filepath.Join(dir, "token"))
	if err := c.Authorize(http.Header{}); err == nil {
		t.Error("no error without a token")
	}
	if _, err := inCluster(getenv, dir); !errors.Is(err, ErrNoToken) {
		t.Error(err)
	}
}

const twoContexts = `
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: c1
  cluster: {server: "https://one.test:6443/prefix", certificate-authority: ca.pem, tls-server-name: api, proxy-url: "http://p:s3cr3t@proxy.test:3128"}
- {name: c2, cluster: {server: "two.test", insecure-skip-tls-verify: true, certificate-authority-data: Y2E=}}
users:
- {name: u1, user: {token: 12345, client-certificate: cert.pem, client-key-data: a2V5}}
- {name: u2, user: {tokenFile: token, token: other, as: ann, as-uid: "7", as-groups: [g1, g2], as-user-extra: {"a/b": [x]}}}
contexts:
- {name: one, context: {cluster: c1, user: u1, namespace: mine}}
- {name: two, context: {cluster: c2, user: u2}}
- {name: none, context: {cluster: c2}}
`

func TestKubeconfig(t *testing.T) {
	dir := writeFiles(t, map[string]string{"config": twoContexts, "ca.pem": "the CA", "cert.pem": "the certificate", "token": "from-a-file\n"})
	file := filepath.Join(dir, "config")

	c, err := Kubeconfig(file, "")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	o, err := c.TLS()
	if err = errors.Join(err, c.Authorize(h)); err != nil {
		t.Fatal(err)
	}
	if c.Server.String() != "https://one.test:6443/prefix" || c.Namespace != "mine" || c.Proxy.Host != "proxy.test:3128" ||
		o.CA != "the CA" || o.ServerName != "api" || o.Cert != "the certificate" || o.Key != "key" || o.Insecure ||
		h.Get("Authorization") != "Bearer 12345" {
		t.Errorf("%+v, %+v, %v", c, o, h)
	}

	c, err = Kubeconfig(file, "two")
	if err != nil {
		t.Fatal(err)
	}
	h = http.Header{}
	o, err = c.TLS()
	if err = errors.Join(err, c.Authorize(h)); err != nil {
		t.Fatal(err)
	}
	if c.Server.String() != "https://two.test" || c.Namespace != "default" || c.Proxy != nil || o.CA != "" || !o.Insecure ||
		h.Get("Authorization") != "Bearer from-a-file" || h.Get("Impersonate-User") != "ann" || h.Get("Impersonate-Uid") != "7" ||
		strings.Join(h.Values("Impersonate-Group"), " ") != "g1 g2" || h.Get("Impersonate-Extra-A%2fb") != "x" {
		t.Errorf("%+v, %+v, %v", c, o, h)
	}

	c, err = Kubeconfig(file, "none")
	h = http.Header{}
	if err = errors.Join(err, c.Authorize(h)); err != nil || len(h) != 0 {
		t.Errorf("%v, %v", h, err)
	}
}

// The first file wins, as with KUBECONFIG; each file's paths are its own's.
func TestKubeconfigMerge(t *testing.T) {
	first := writeFiles(t, map[string]string{"config": `{"users":[{"name":"u","user":{"tokenFile":"token"}}],"clusters":[{"name":"a","cluster":{"server":"https://a.test"}}]}`, "token": "first"})
	second := writeFiles(t, map[string]string{"config": `{"current-context":"x","users":[{"name":"u","user":{"token":"second"}}],"clusters":[{"name":"a","cluster":{"server":"https://b.test"}}],
		"contexts":[{"name":"x","context":{"cluster":"a","user":"u"}}]}`})
	list := strings.Join([]string{filepath.Join(first, "config"), filepath.Join(first, "missing"), "", filepath.Join(second, "config")}, string(os.PathListSeparator))
	c, err := Kubeconfig(list, "")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	if err := c.Authorize(h); err != nil || h.Get("Authorization") != "Bearer first" || c.Server.Host != "a.test" {
		t.Errorf("%v, %v, %v", c.Server, h, err)
	}
	if _, err := Kubeconfig(filepath.Join(first, "missing"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Kubeconfig("", ""); err == nil {
		t.Error("no file is no error")
	}
}

func TestKubeconfigErrors(t *testing.T) {
	with := func(cluster, user string) string {
		return `{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":` + cluster + `}],"users":[{"name":"u","user":` + user + `}]}`
	}
	const server = `{"server":"https://a.test"}`
	for text, want := range map[string]string{
		"":                       "no current context",
		"{}":                     "no current context",
		"a: [s3cr3t":             "not the YAML of a kubeconfig",
		"users: {token: s3cr3t}": "not the YAML of a kubeconfig",
		"s3cr3t":                 "not the YAML of a kubeconfig",
		`{"current-context":"kined","contexts":[{"name":"kind"}]}`:                    `no context "kined", did you mean "kind"?`,
		`{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}]}`: `no cluster "c"`,
		strings.Replace(with(server, "{}"), `"user":"u"`, `"user":"v"`, 1):            `no user "v"`,
		with("{}", "{}"):                                                                    "no server",
		with(`{"server":"ftp://a.test"}`, "{}"):                                             "not an https URL",
		with(`{"server":"https://u:s3cr3t@a.test"}`, "{}"):                                  "has a user in it",
		with(`{"server":"https://a.test","proxy-url":"s3cr3t"}`, "{}"):                      "proxy-url",
		with(`{"server":"https://a.test","certificate-authority-data":"s3cr3t!"}`, "{}"):    "not the YAML of a kubeconfig",
		with(server, `{"exec":{"command":"/bin/aws","args":["s3cr3t"]}}`):                   "which is not run here",
		with(server, `{"auth-provider":{"name":"gcp","config":{"access-token":"s3cr3t"}}}`): "which Kubernetes 1.26 has removed",
		with(server, `{"username":"u","password":"s3cr3t"}`):                                "it has a password",
	} {
		dir := writeFiles(t, map[string]string{"config": text})
		_, err := Kubeconfig(filepath.Join(dir, "config"), "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(twoContexts))
	f.Add([]byte(`{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"https://[::1]:6443"}}],"users":[{"name":"u","user":{"exec":{}}}]}`))
	f.Add([]byte("a: &a [*a, *a]\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := parseKubeconfig(data, dir)
		if err != nil {
			return
		}
		c, err := k.config("")
		if err != nil {
			return
		}
		if c.Server.Host == "" || c.Server.User != nil || c.Namespace == "" {
			t.Errorf("%+v", c)
		}
		c.Authorize(http.Header{})
	})
}
