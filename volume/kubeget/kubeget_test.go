package kubeget

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/internal/setting"
	"initbox/test/fakeapi"
)

// object returns the object of a JSON document, with the numbers that [kube.Client] decodes.
func object(t testing.TB, document string) kube.Object {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(document), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func parse(t testing.TB, text string) *Target {
	t.Helper()
	target, err := Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestFiles pins what an object becomes: as a volume of it has, and as kubectl prints it.
func TestFiles(t *testing.T) {
	const secret = `{"kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "data": {"a": "eA==", "b": "", "c.d": "AP8="}}`
	const pod = `{"kind": "Pod", "metadata": {"name": "p", "labels": {"a.b/c": "<x>&"}}, "spec": {"on": true, "f": 0.25, "none": null, "empty": [], "l": [{"n": "1"}, {"n": "2"}]}}`
	for _, test := range []struct{ target, object, want string }{
		{"k8s:secret/s", secret, `a="x" b="" c.d="\x00\xff"`},
		{"k8s:secret/s#key=c.d&key=a", secret, `a="x" c.d="\x00\xff"`},
		{"k8s:secret/s#key=a&to=x/y", secret, `x/y="x"`},
		{"k8s:secret/s#key=b", secret, "missing: key b is empty"},
		{"k8s:secret/s#key=b&optional", secret, `b=""`},
		{"k8s:secret/s#key=e", secret, "missing: no key e (found a, b, c.d)"},
		{"k8s:secret/s#key=e&optional", secret, ""},
		{"k8s:secret/s#key=e&default=1&to=E", secret, `E="1"`},
		{"k8s:secret/s#jsonpath=.data.a", secret, `="eA=="`}, // as kubectl
		{"k8s:secret/s", `{"kind": "Secret", "metadata": {"name": "s"}}`, ""},
		{"k8s:secret/s", `{"metadata": {"name": "s"}, "data": {"a": "x!hunter2"}}`, "permanent: the value of key a is not valid"},
		{"k8s:secret/s", `{"metadata": {"name": "s"}, "data": {"a": 1}}`, "permanent: the value of key a is not valid"},
		{"k8s:cm/c", `{"metadata": {"name": "c"}, "data": {"a": "eA=="}, "binaryData": {"b": "eA=="}}`, `a="eA==" b="x"`},
		{"k8s:cm/c", `{"metadata": {"name": "c"}, "data": {"..data": "x"}}`, "permanent: key ..data cannot be the name of a file"},
		{"k8s:cm/c", `{"metadata": {"name": "c"}, "data": {"a/b": "x"}}`, "permanent: key a/b cannot be the name of a file"},
		{"k8s:cm/c", `{"metadata": {"name": "c"}, "data": {"a\u001b[2J": "x"}}`, `permanent: key a\x1b[2J cannot be the name of a file`},
		{"k8s:cm/c", `{"metadata": {"name": "c"}, "data": {"": "x"}}`, "permanent: key  cannot be the name of a file"},
		{"k8s:cm/c#key=..", `{"metadata": {"name": "c"}, "data": {"..": "x"}}`, "permanent: key .. cannot be the name of a file"},
		{"k8s:pod/p#jsonpath=.metadata.labels.a\\.b/c", pod, `="<x>&"`},
		{"k8s:pod/p#jsonpath={.metadata.labels}", pod, `="{\"a.b/c\":\"<x>&\"}"`},
		{"k8s:pod/p#jsonpath=spec.on", pod, `="true"`},
		{"k8s:pod/p#jsonpath=.spec.f", pod, `="0.25"`},
		{"k8s:pod/p#jsonpath=.spec.l[*].n", pod, `="1 2"`},
		{"k8s:pod/p#jsonpath=.spec.l[?(@.n==\"2\")].n", pod, `="2"`},
		{"k8s:pod/p#jsonpath=.spec.none&else=.spec.empty&else=.spec.on", pod, `="true"`},
		{"k8s:pod/p#jsonpath=.spec.none&else=.spec.empty", pod, "missing: has no .spec.none, .spec.empty"},
		{"k8s:pod/p#jsonpath=.spec.l[7].n", pod, "missing: has no .spec.l[7].n"},
		{"k8s:pod/p#format=yaml", `{"metadata": {"name": "p"}}`, `p.yaml="apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n"`},
		{"k8s:deploy/p#format=json&to=d", `{"metadata": {"name": "p"}}`, `d="{\n    \"apiVersion\": \"apps/v1\",\n    \"kind\": \"Deployment\",\n    \"metadata\": {\n        \"name\": \"p\"\n    }\n}\n"`},
		{"k8s:widgets.example.com/p#format=yaml", `{"kind": "Widget", "metadata": {"name": "p"}}`, `p.yaml="kind: Widget\nmetadata:\n  name: p\n"`},
	} {
		target := parse(t, test.target)
		files, err := target.Files([]kube.Object{object(t, test.object)})
		var parts []string
		for _, f := range files {
			parts = append(parts, fmt.Sprintf("%s=%q", f.Name, f.Content))
			if f.Secret != strings.HasPrefix(test.target, "k8s:secret") {
				t.Errorf("%s: secret is %v", test.target, f.Secret)
			}
		}
		slices.Sort(parts)
		got := strings.Join(parts, " ")
		switch f, ok := errors.AsType[*failure.Failure](err); {
		case poll.IsPermanent(err):
			got = "permanent: " + err.Error()
		case ok:
			got = string(f.Class) + ": " + err.Error()
		}
		if got != test.want {
			t.Errorf("%s of %s:\n%s, want\n%s", test.target, test.object, got, test.want)
		}
	}
}

// TestCollision pins that two objects with one file name are the same error in every order.
func TestCollision(t *testing.T) {
	var objects []kube.Object
	for _, name := range []string{"a", "b", "c", "d"} {
		objects = append(objects, object(t, fmt.Sprintf(`{"metadata": {"name": %q}, "data": {"x": "1", "y": "2", %q: "3"}}`, name, name)))
	}
	const want = "x would be both ConfigMap a, key x and ConfigMap b, key x"
	for range 50 {
		rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		if _, err := parse(t, "k8s:cm?all").Files(objects); err == nil || err.Error() != want || !poll.IsPermanent(err) {
			t.Fatalf("%v, want the permanent error: %s", err, want)
		}
	}
}

// api returns a server with the objects, and the settings with which it is reached.
func api(t *testing.T, objects ...string) (*fakeapi.Server, setting.Settings) {
	t.Helper()
	s := fakeapi.New()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(fakeapi.Kubeconfig(server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := s.Apply(o); err != nil {
			t.Fatal(err)
		}
	}
	return s, setting.Settings{"kubeconfig": {config}}
}

// run reads and writes, as kube-get does.
func run(ctx context.Context, o Options) (Summary, error) {
	files, err := Read(ctx, o)
	if err != nil {
		return Summary{}, err
	}
	return Write(o, files)
}

// TestTogether pins that targets of one object are read with one request, so that a certificate and its key match.
func TestTogether(t *testing.T) {
	s, flags := api(t, `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"}, "data": {"tls.crt": "YQ==", "tls.key": "Yg=="}}`)
	var o Options
	for _, text := range []string{"k8s:secret/tls#key=tls.crt&to=c", "k8s:Secrets/tls#key=tls.key&to=k&mode=0440"} {
		target, err := Parse(text, flags)
		if err != nil {
			t.Fatal(err)
		}
		o.Targets = append(o.Targets, target)
	}
	o.Dst, o.Getenv = t.TempDir(), func(string) string { return "" }
	done, err := run(t.Context(), o)
	if err != nil || done.Created != 2 {
		t.Fatalf("%v, %v", done, err)
	}
	if asked := s.Requests(); len(asked) != 1 {
		t.Errorf("%d requests: %q", len(asked), asked)
	}
	for name, mode := range map[string]fs.FileMode{"c": 0o600, "k": 0o440} {
		if i, err := os.Stat(filepath.Join(o.Dst, name)); err != nil || i.Mode() != mode {
			t.Errorf("%s: %v, %v, want mode %v", name, i, err, mode)
		}
	}
	before, _ := os.Stat(filepath.Join(o.Dst, "c"))
	if done, err = run(t.Context(), o); err != nil || done.Same != 2 || done.Created+done.Changed != 0 {
		t.Errorf("the second run: %v, %v", done, err)
	}
	if after, _ := os.Stat(filepath.Join(o.Dst, "c")); !after.ModTime().Equal(before.ModTime()) {
		t.Error("the second run has written")
	}
}

// TestManyObjects reads more objects than a page of a list has.
func TestManyObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of objects")
	}
	var objects []string
	for i := range 2000 {
		objects = append(objects, fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c%d", "labels": {"app": "x"}}, "data": {"k%d": "v"}}`, i, i))
	}
	_, flags := api(t, objects...)
	target, err := Parse("k8s:cm?selector=app=x", flags)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Targets: []*Target{target}, Dst: t.TempDir(), Prune: true, Getenv: func(string) string { return "" }}
	if done, err := run(t.Context(), o); err != nil || done.Created != 2000 {
		t.Errorf("%v, %v", done, err)
	}
}

// TestLinkOutside pins that a link in the volume does not lead the files elsewhere.
func TestLinkOutside(t *testing.T) {
	_, flags := api(t, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}}`)
	outside, dst := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dst, "sub")); err != nil {
		t.Fatal(err)
	}
	target, err := Parse("k8s:cm/c#key=k&to=sub/k", flags)
	if err != nil {
		t.Fatal(err)
	}
	_, err = run(t.Context(), Options{Targets: []*Target{target}, Dst: dst, Getenv: func(string) string { return "" }})
	if left, _ := os.ReadDir(outside); err == nil || len(left) > 0 {
		t.Errorf("%v; %d files outside", err, len(left))
	}
}

// FuzzFiles requires of every target and object that each file is below DST, has a name that is unique, and that no
// message repeats a value of a Secret.
func FuzzFiles(f *testing.F) {
	f.Add("k8s:secret/s", "a", "b", "YQ==")
	f.Add("k8s:secret/s#key=../a", "../a", "b", "x!")
	f.Add("k8s:secrets?all#jsonpath={.data.*}&else=.x&to=a/b", "..", "", "YQ==")
	f.Add("k8s:secret/s#format=yaml&default", ".", "b", "\xff")
	f.Fuzz(func(t *testing.T, text, key1, key2, value string) {
		target, err := Parse(text, nil)
		if err != nil {
			return
		}
		if s := target.String(); strings.ContainsAny(s, "\n\x1b\x00") {
			t.Errorf("target %q", s)
		}
		o := kube.Object{"kind": "Secret", "metadata": map[string]any{"name": key2}, "data": map[string]any{key1: value, key2: base64.StdEncoding.EncodeToString([]byte("hunter2"))}}
		files, err := target.Files([]kube.Object{o, {"metadata": map[string]any{"name": "other"}}})
		if err != nil {
			if strings.Contains(err.Error(), "hunter2") || strings.ContainsAny(err.Error(), "\n\x1b\x00") {
				t.Errorf("error %q", err)
			}
			return
		}
		names := map[string]bool{}
		for _, f := range files {
			if names[f.Name] || f.Name != "" && (!fs.ValidPath(f.Name) || f.Name == ".") {
				t.Errorf("name %q", f.Name)
			}
			names[f.Name] = true
		}
	})
}
