package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
	"initbox/test/servers"
)

// TestReal runs against a kube-apiserver, which is started once: what a fake does is what we believe, and no more.
func TestReal(t *testing.T) {
	s := servers.StartAPIServer(t)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s *servers.APIServer, ns string)
	}{
		{"follow", testRealFollow},
		{"pages", testRealPages},
		{"builtin", testRealBuiltin},
		{"custom-resource", testRealCustomResource},
		{"resource-names", testRealResourceNames},
		{"get-only", testRealGetOnly},
		{"token-rotation", testRealTokenRotation},
		{"client-certificate", testRealClientCertificate},
		{"requests", testRealRequests},
		{"killed", testRealKilled},
		{"frozen", testRealFrozen}, // the last ones: they disturb
	} {
		t.Run(test.name, func(t *testing.T) {
			ns := "test-" + test.name
			s.Do(t, "POST", "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": ns}})
			test.run(t, s, ns)
		})
	}
}

// realClient is a client with the token.
func realClient(t *testing.T, s *servers.APIServer, token string) *Client {
	t.Helper()
	config, err := Kubeconfig(s.Kubeconfig(t, token), "")
	if err != nil {
		t.Fatal(err)
	}
	c := New(config, Options{})
	c.times.answer = time.Minute // the machine may be slow
	t.Cleanup(func() { hangUp(c) })
	return c
}

func path(ns string) string { return "/api/v1/namespaces/" + ns + "/configmaps" }

func putConfigMap(t *testing.T, s *servers.APIServer, ns, name, value string) {
	t.Helper()
	s.Do(t, "POST", path(ns), map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"app": "x"}}, "data": map[string]any{"k": value}})
}

func setConfigMap(t *testing.T, s *servers.APIServer, ns, name, value string) {
	t.Helper()
	s.Do(t, "PATCH", path(ns)+"/"+name, map[string]any{"data": map[string]any{"k": value}})
}

var configMaps, _ = Lookup("cm")

// untilValue waits until the follower knows the ConfigMap's value to be want, or,
// if want begins with "error", the error to have it.
func untilValue(t *testing.T, f *Follower, name, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := poll.Until(ctx, poll.Policy{Watch: func(ctx context.Context) <-chan struct{} { return f.Changes(ctx, name) }}, func(context.Context) error {
		o, err := f.Object(name)
		got, _ := o.At("data", "k").(string)
		switch {
		case err != nil:
			got = "error: " + err.Error()
		case o == nil:
			got = "none"
		}
		if got == want || strings.HasPrefix(want, "error") && strings.HasPrefix(got, "error") && strings.Contains(got, want[len("error"):]) {
			return nil
		}
		return fmt.Errorf("%s is %q, want %q", name, got, want)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func testRealFollow(t *testing.T, s *servers.APIServer, ns string) {
	c := realClient(t, s, s.AdminToken)
	c.times.watch, c.times.spread = time.Second, 0 // so that watches end meanwhile
	f := followQuery(t, c, Query{Resource: configMaps, Namespace: ns, Names: []string{"a"}})
	selected := followQuery(t, c, Query{Resource: configMaps, Namespace: ns, LabelSelector: "app=x", FieldSelector: "metadata.name!=b"})
	untilValue(t, f, "a", "none")
	putConfigMap(t, s, ns, "b", "1")
	putConfigMap(t, s, ns, "a", "1")
	for i := range 30 {
		value := fmt.Sprint(i)
		setConfigMap(t, s, ns, "a", value)
		untilValue(t, f, "a", value)
		untilValue(t, selected, "a", value)
		time.Sleep(50 * time.Millisecond)
	}
	if o, err := selected.Object("b"); o != nil || err != nil {
		t.Errorf("%v, %v", o, err)
	}
	s.Do(t, "DELETE", path(ns)+"/a", nil)
	untilValue(t, f, "a", "none")
	untilValue(t, selected, "a", "none")
}

func testRealPages(t *testing.T, s *servers.APIServer, ns string) {
	for i := range pageSize + 10 {
		putConfigMap(t, s, ns, fmt.Sprintf("n%03d", i), "1")
	}
	c := realClient(t, s, s.AdminToken)
	all, err := c.List(t.Context(), Query{Resource: configMaps, Namespace: ns})
	if err != nil || len(all) != pageSize+10 || all[pageSize].Name() != "n500" {
		t.Errorf("%d objects, %v", len(all), err)
	}
	some, err := c.List(t.Context(), Query{Resource: configMaps, Namespace: ns, Names: []string{"n001", "n505", "no"}})
	if err != nil || len(some) != 2 {
		t.Errorf("%d objects, %v", len(some), err)
	}
	o, err := c.Get(t.Context(), configMaps, ns, "n001")
	if err != nil || o.Name() != "n001" || o.Namespace() != ns || o.At("metadata", "labels", "app") != "x" {
		t.Errorf("%v, %v", o, err)
	}
}

// The table of what is built in is what the server says it has, in every field.
func testRealBuiltin(t *testing.T, s *servers.APIServer, _ string) {
	c := realClient(t, s, s.AdminToken)
	all, err := c.everything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	documents, err := oldDiscovery(t, c)
	if err != nil {
		t.Fatal(err)
	}
	byName := func(list []known) map[string]known {
		m := map[string]known{}
		for _, k := range list {
			m[k.Resource.String()] = k
		}
		return m
	}
	served, old := byName(all), byName(documents)
	for _, k := range builtin() {
		if got := served[k.Resource.String()]; fmt.Sprint(got) != fmt.Sprint(k) {
			t.Errorf("%v, the server says %v", k, got)
		}
		if got := old[k.Resource.String()]; fmt.Sprint(got) != fmt.Sprint(k) {
			t.Errorf("%v, the server's old documents say %v", k, got)
		}
		delete(served, k.Resource.String())
	}
	for name := range served {
		t.Logf("not built in: %s", name)
	}
}

// oldDiscovery asks as a server before 1.26 wants it.
func oldDiscovery(t *testing.T, c *Client) (all []known, err error) {
	for _, root := range []string{"api", "apis"} {
		var doc rootDocument
		if err := c.document(t.Context(), []string{root}, "", &doc); err != nil {
			return nil, err
		}
		list, err := Documents(c.document).groups(t.Context(), doc)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

func testRealCustomResource(t *testing.T, s *servers.APIServer, ns string) {
	c := realClient(t, s, s.AdminToken)
	for _, name := range []string{"widget", "widgets.example.test", "wd"} {
		if r, err := c.Resource(t.Context(), name); err == nil {
			t.Errorf("%s is %v", name, r)
		} else if e, ok := err.(*UnknownResource); !ok || e.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Do(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"widgets.example.test"},"spec":{"group":"example.test","scope":"Namespaced",
		"names":{"plural":"widgets","singular":"widget","kind":"Widget","shortNames":["wd"]},
		"versions":[{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for name, version := range map[string]string{"widgets.example.test": "v1", "Widget": "v1", "wd": "v1", "widgets": "v1", "WD.example.test": "v1", "widget.v1beta1.example.test": "v1beta1"} {
		want := Resource{"example.test", version, "widgets", "Widget", true}
		err := poll.Until(ctx, poll.Policy{}, func(ctx context.Context) error {
			c := realClient(t, s, s.AdminToken) // which remembers nothing: while the kind is being made, an answer may be of a part of it
			got, err := c.Resource(ctx, name)
			if err == nil && got != want {
				err = fmt.Errorf("%+v, want %+v", got, want)
			}
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	c = realClient(t, s, s.AdminToken)
	r, err := c.Resource(t.Context(), "wd")
	if err != nil {
		t.Fatal(err)
	}
	f := followQuery(t, c, Query{Resource: r, Namespace: ns, Names: []string{"w"}})
	untilValue(t, f, "w", "none")
	s.Do(t, "POST", "/apis/example.test/v1/namespaces/"+ns+"/widgets", `{"apiVersion":"example.test/v1","kind":"Widget","metadata":{"name":"w"},"data":{"k":"v","n":3,"f":1.5}}`)
	untilValue(t, f, "w", "v")
	o, _ := f.Object("w")
	if o.At("data", "n") != int64(3) || o.At("data", "f") != 1.5 {
		t.Errorf("%#v", o.At("data"))
	}
	if _, err := c.Resource(t.Context(), "wigdets"); err == nil || !strings.Contains(err.Error(), "did you mean widgets?") {
		t.Errorf("%v", err)
	}
}

// grant lets the user do something in the namespace.
func grant(t *testing.T, s *servers.APIServer, ns string, verbs, names []string) {
	t.Helper()
	path := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + ns
	rule := map[string]any{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": verbs}
	if names != nil {
		rule["resourceNames"] = names
	}
	s.Do(t, "POST", path+"/roles", map[string]any{"metadata": map[string]any{"name": "r"}, "rules": []any{rule}})
	s.Do(t, "POST", path+"/rolebindings", map[string]any{"metadata": map[string]any{"name": "r"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": servers.APIUser}}})
}

func testRealResourceNames(t *testing.T, s *servers.APIServer, ns string) {
	c := realClient(t, s, s.UserToken)
	one := followQuery(t, c, Query{Resource: configMaps, Namespace: ns, Names: []string{"a"}})
	two := followQuery(t, c, Query{Resource: configMaps, Namespace: ns, Names: []string{"a", "b"}})
	untilValue(t, one, "a", "error: list configmaps a in namespace "+ns+": status 403 Forbidden")
	untilValue(t, two, "a", "error: list configmaps a in namespace "+ns+": status 403 Forbidden")
	_, err := one.Object("a")
	if status, ok := err.(*StatusError); !ok || status.User() != servers.APIUser {
		t.Errorf("%v", err)
	}
	grant(t, s, ns, []string{"get", "list", "watch"}, []string{"a", "b"})
	untilValue(t, one, "a", "none")
	untilValue(t, two, "b", "none")
	putConfigMap(t, s, ns, "a", "1")
	putConfigMap(t, s, ns, "b", "2")
	for _, f := range []*Follower{one, two} {
		untilValue(t, f, "a", "1")
	}
	untilValue(t, two, "b", "2")
	if all, err := two.Objects(); len(all) != 2 || err != nil {
		t.Errorf("%v, %v", all, err)
	}
}

func testRealGetOnly(t *testing.T, s *servers.APIServer, ns string) {
	grant(t, s, ns, []string{"get"}, []string{"a"})
	f := followQuery(t, realClient(t, s, s.UserToken), Query{Resource: configMaps, Namespace: ns, Names: []string{"a"}})
	untilValue(t, f, "a", "none")
	putConfigMap(t, s, ns, "a", "1")
	untilValue(t, f, "a", "1")
	s.Do(t, "DELETE", path(ns)+"/a", nil)
	untilValue(t, f, "a", "none")
}

// A Pod's token is another one every hour.
func testRealTokenRotation(t *testing.T, s *servers.APIServer, ns string) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := os.ReadFile(s.CA.File)
	if err != nil {
		t.Fatal(err)
	}
	write("token", "an-old-token")
	write("ca.crt", string(ca))
	write("namespace", ns)
	env := map[string]string{"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": s.Addr[strings.LastIndexByte(s.Addr, ':')+1:]}
	config, err := inCluster(func(name string) string { return env[name] }, dir)
	if err != nil {
		t.Fatal(err)
	}
	c := New(config, Options{})
	t.Cleanup(func() { hangUp(c) })
	f := followQuery(t, c, Query{Resource: configMaps, Namespace: c.Namespace(), Names: []string{"a"}})
	untilValue(t, f, "a", "error: list configmaps a in namespace "+ns+": status 401")
	write("token", s.AdminToken+"\n")
	untilValue(t, f, "a", "none")
}

func testRealClientCertificate(t *testing.T, s *servers.APIServer, ns string) {
	pair := s.CA.Client(t, servers.APIUser)
	grant(t, s, ns, []string{"get"}, nil)
	server := &url.URL{Scheme: "https", Host: s.Addr}
	k := cluster{CAFile: s.CA.File}
	u := user{CertFile: pair.CertFile, KeyFile: pair.KeyFile}
	config := &Config{Server: server, Authorize: u.authorize}
	config.TLS = func() (o tlsconfig.Options, err error) { return tlsOptions(k, u) }
	c := New(config, Options{})
	t.Cleanup(func() { hangUp(c) })
	_, err := c.Get(t.Context(), configMaps, ns, "a")
	if !hasCode(err, http.StatusNotFound) {
		t.Errorf("%v", err)
	}
	u.CertFile, u.KeyFile = "", "" // read for each request
	if _, err = c.Get(t.Context(), configMaps, ns, "a"); !hasCode(err, http.StatusForbidden) && !hasCode(err, http.StatusUnauthorized) {
		t.Errorf("%v", err)
	}
}

// The promise, as the server counts it.
func testRealRequests(t *testing.T, s *servers.APIServer, ns string) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	front := startFront(t, s)
	c := front.client(t, s.AdminToken)
	f := followQuery(t, c, Query{Resource: configMaps, Namespace: ns, Names: names})
	untilValue(t, f, "n0", "none")
	for _, name := range names {
		putConfigMap(t, s, ns, name, "1")
	}
	for _, name := range names {
		untilValue(t, f, name, "1")
	}
	counts := front.counts()
	if !slices.Equal(counts, []string{"list", "watch"}) {
		t.Errorf("requests: %v", counts)
	}
}

func testRealKilled(t *testing.T, s *servers.APIServer, ns string) {
	c := realClient(t, s, s.AdminToken)
	putConfigMap(t, s, ns, "a", "1")
	f := followQuery(t, c, Query{Resource: configMaps, Namespace: ns, Names: []string{"a"}})
	untilValue(t, f, "a", "1")
	s.Kill(t)
	untilValue(t, f, "a", "error: dial tcp")
	s.Start(t)
	untilValue(t, f, "a", "1")
	setConfigMap(t, s, ns, "a", "2")
	untilValue(t, f, "a", "2")
}

// The periods are shorter than the product's; those are in TestFrozen.
func testRealFrozen(t *testing.T, s *servers.APIServer, ns string) {
	c := realClient(t, s, s.AdminToken)
	c.times.watch, c.times.spread, c.times.overrun, c.times.answer = time.Second, 0, time.Second, 3*time.Second
	putConfigMap(t, s, ns, "a", "1")
	f := followQuery(t, c, Query{Resource: configMaps, Namespace: ns, Names: []string{"a"}})
	untilValue(t, f, "a", "1")
	s.Freeze(t)
	untilValue(t, f, "a", "error: ")
	untilValue(t, f, "a", "error: TLS handshake: no answer within 3s")
	s.Thaw(t)
	untilValue(t, f, "a", "1")
}
