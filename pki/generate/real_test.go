package generate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"initbox/internal/kube"
	"initbox/test/servers"
)

// TestRealAPIServer runs against a kube-apiserver, as a user who gets exactly the permissions that rbac prints.
func TestRealAPIServer(t *testing.T) {
	s := servers.StartAPIServer(t)
	config := must(kube.Kubeconfig(s.Kubeconfig(t, s.UserToken), ""))
	config.Namespace = "shop"
	s.Do(t, "POST", "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "shop"}})
	s.Do(t, "POST", "/api/v1/namespaces/shop/services", `{"metadata": {"name": "web"}, "spec": {"clusterIP": "None"}}`)
	m := certificate(t, ca(t))
	secret := func() *Secret {
		secret := must(ParseSecret("k8s:secret/tls", m))
		secret.Renew, secret.Owner = true, must(ParseOwner("service/web"))
		secret.Connect = func() (*kube.Client, error) { return kube.New(config, kube.Options{}), nil }
		return secret
	}
	t.Run("forbidden", func(t *testing.T) { testForbidden(t, s, m, secret()) })
	t.Run("race", func(t *testing.T) {
		first := race(t, m, secret)
		m := certificate(t, func(o *CertificateOptions) { *o = m.CertificateOptions; o.DNS = []string{"renewed"} })
		second := race(t, m, secret)
		if first[0] == second[0] || first[1] != second[1] {
			t.Error("want another certificate with the same key")
		}
	})
	t.Run("object", func(t *testing.T) {
		o := kube.Object(s.Do(t, "GET", "/api/v1/namespaces/shop/secrets/tls", nil))
		owners, _ := o.At("metadata", "ownerReferences").([]any)
		if o.At("type") != "kubernetes.io/tls" || len(owners) != 1 || owners[0].(map[string]any)["kind"] != "Service" {
			t.Errorf("type %v, owners %v", o.At("type"), owners)
		}
	})
	t.Run("immutable", func(t *testing.T) {
		s.Do(t, "PATCH", "/api/v1/namespaces/shop/secrets/tls", `{"immutable": true}`)
		log, err := generate(t, m, "", func(o *Options) { o.Secret = secret() })
		if err == nil || !strings.Contains(err.Error(), "422") || strings.Contains(err.Error()+log, "LS0t") {
			t.Errorf("%v, want status 422 without content\n%s", err, log)
		}
	})
	t.Run("killed", func(t *testing.T) { // last: it disturbs
		s.Do(t, "DELETE", "/api/v1/namespaces/shop/secrets/tls", nil)
		s.Kill(t)
		out, ended := t.TempDir(), make(chan error, 1)
		go func() {
			_, err := generate(t, m, out, func(o *Options) { o.Secret = secret() })
			ended <- err
		}()
		s.Start(t)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		verify(t, m, out)
	})
}

// testForbidden runs without rights until the log has the Role, which is then granted.
func testForbidden(t *testing.T, s *servers.APIServer, m Maker, secret *Secret) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Run(ctx, Options{Make: m, Secret: secret, Log: slog.New(slog.NewTextHandler(writerFunc(func(text []byte) {
		if strings.Contains(string(text), "verbs: [create]} # any Secret") {
			cancel()
		}
	}), nil))})
	var hint interface{ Hint() string }
	if !errors.Is(err, context.Canceled) || !errors.As(err, &hint) || !strings.Contains(hint.Hint(), "verbs: [create]} # any Secret") {
		t.Errorf("%v, want the Role as the hint, too", err)
	}
	var rules []any
	for _, p := range secret.Permissions() {
		rules = append(rules, map[string]any{"apiGroups": []string{p.Group}, "resources": []string{p.Resource}, "resourceNames": p.Names, "verbs": p.Verbs})
	}
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/"
	s.Do(t, "POST", rbac+"roles", map[string]any{"metadata": map[string]any{"name": "generate"}, "rules": rules})
	s.Do(t, "POST", rbac+"rolebindings", map[string]any{"metadata": map[string]any{"name": "generate"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "generate"},
		"subjects": []any{map[string]any{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": servers.APIUser}}})
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// race runs several at once, and returns the certificate and the key that all of them have afterwards.
func race(t *testing.T, m *Certificate, secret func() *Secret) (result [2]string) {
	t.Helper()
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			if log, err := generate(t, m, filepath.Join(dir, fmt.Sprint(i)), func(o *Options) { o.Secret = secret() }); err != nil {
				t.Errorf("%v\n%s", err, log)
			}
		})
	}
	all.Wait()
	for i := range 6 {
		pair := [2]string{read(t, dir, fmt.Sprint(i), certFile), read(t, dir, fmt.Sprint(i), keyFile)}
		if i > 0 && pair != result {
			t.Errorf("run %d has another pair than run 0", i)
		}
		result = pair
	}
	return result
}
