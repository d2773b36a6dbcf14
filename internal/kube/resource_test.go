package kube

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestLookup(t *testing.T) {
	for names, want := range map[string]string{
		"po pod pods Pod PODS pods.v1 pods.v1. pod.v1":                                  "/v1 pods Pod true",
		"deploy deployment deployments Deployment.apps deployments.v1.apps deploy.apps": "apps/v1 deployments Deployment true",
		"job jobs jobs.batch Job.v1.batch":                                              "batch/v1 jobs Job true",
		"ns namespace":                                                                  "/v1 namespaces Namespace false",
		"svc service":                                                                   "/v1 services Service true",
		"ev events Event":                                                               "/v1 events Event true",
		"events.events.k8s.io ev.events.k8s.io":                                         "events.k8s.io/v1 events Event true",
		"crd crds customresourcedefinition.apiextensions.k8s.io":                        "apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition false",
		"endpointslices.discovery.k8s.io EndpointSlice":                                 "discovery.k8s.io/v1 endpointslices EndpointSlice true",
		" . pods. .pods pods.apps deployments.v1beta1.apps xpod podx jobs.v2.batch jobs.batch.v1 v1": "",
	} {
		for name := range strings.SplitSeq(names, " ") {
			r, ok := Lookup(name)
			got := ""
			if ok {
				got = fmt.Sprintf("%s/%s %s %s %v", r.Group, r.Version, r.Name, r.Kind, r.Namespaced)
			}
			if got != want {
				t.Errorf("%q is %q, want %q", name, got, want)
			}
		}
	}
}

func TestBuiltinNames(t *testing.T) {
	for _, k := range builtin() {
		for _, name := range []string{k.Resource.String(), k.singular + "." + k.Version + "." + k.Group, k.Kind + "." + k.Version + "." + k.Group} {
			if r, ok := Lookup(name); !ok || r != k.Resource {
				t.Errorf("%s is %v", name, r)
			}
		}
	}
}

// A server before 1.26 has no aggregated discovery; one whose APIService is down still tells what it has itself.
func TestOldDiscovery(t *testing.T) {
	documents := map[string]string{
		"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1": `{"resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get"]},{"name":"things/status","kind":"Thing","verbs":["get"]},{"name":"reviews","kind":"Review","verbs":["create"]}]}`,
		"/apis": `{"kind":"APIGroupList","groups":[{"name":"down.test","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}},
			{"name":"foo.test","versions":[{"version":"v2"},{"version":"v1"}],"preferredVersion":{"version":"v2"}}]}`,
		"/apis/foo.test":    `{"name":"foo.test","versions":[{"version":"v2"},{"version":"v1"}],"preferredVersion":{"version":"v2"}}`,
		"/apis/foo.test/v2": `{"resources":[{"name":"foos","singularName":"foo","kind":"Foo","verbs":["get","list"],"shortNames":["f","thing"]}]}`,
		"/apis/foo.test/v1": `{"resources":[{"name":"oldfoos","singularName":"oldfoo","kind":"OldFoo","namespaced":true,"verbs":["get","list"]}]}`,
	}
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		seen := map[string]int{}
		f.do(func() {
			f.answer = func(w http.ResponseWriter, r *http.Request) {
				f.do(func() { seen[r.URL.Path]++ })
				if doc, ok := documents[r.URL.Path]; ok {
					fmt.Fprint(w, doc)
				} else if strings.HasPrefix(r.URL.Path, "/apis/down.test") {
					refuse(w, 503, "ServiceUnavailable", "no endpoints", "")
				} else {
					http.NotFound(w, r)
				}
			}
		})
		for name, want := range map[string]string{
			"thing": "v1 things true", "f": "v2 foos false", "foo": "v2 foos false", "foos.foo.test": "v2 foos false",
			"foo.v2.foo.test": "v2 foos false", "oldfoo.v1.foo.test": "v1 oldfoos true",
			"oldfoo": "v1 oldfoos true", "oldfoos.foo.test": "v1 oldfoos true", "review": "", "foo.v3.foo.test": "", "foo.bar.test": "",
		} {
			for range 2 {
				r, err := c.Resource(t.Context(), name)
				got := strings.TrimSpace(fmt.Sprintf("%s %s %v", r.Version, r.Name, r.Namespaced))
				if _, unknown := err.(*UnknownResource); want == "" != unknown || want != "" && got != want {
					t.Errorf("%s is %s (%v), want %s", name, got, err, want)
				}
			}
		}
		if _, err := c.Resource(t.Context(), "thigns"); err == nil || err.Error() != `the API server has no kind "thigns", did you mean things?` {
			t.Error(err)
		}
		if _, err := c.Resource(t.Context(), "x.down.test"); !hasCode(err, 503) {
			t.Error(err)
		}
		if seen["/apis"] != 1 {
			t.Errorf("everything was asked for %d times at once", seen["/apis"])
		}
		time.Sleep(askAllAfter)
		c.Resource(t.Context(), "bar")
		if seen["/apis"] != 2 {
			t.Errorf("everything was asked for %d times, and not again", seen["/apis"])
		}
	})
}

// What would be another path is no name.
func TestNames(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		for _, name := range []string{"..", ".", "a/b", "%2e%2e"} {
			if _, err := c.Get(t.Context(), pods, "default", name); err == nil || !strings.Contains(err.Error(), "is not a valid name") {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := c.Get(t.Context(), pods, name, "a"); err == nil || !strings.Contains(err.Error(), "is not a valid name") {
				t.Errorf("namespace %s: %v", name, err)
			}
		}
		wantCounts(t, f, "0 lists, 0 watches, 0 gets")
		v := Query{Names: []string{`a,b=c\d`}, FieldSelector: "x=y"}.values()
		if got := v.Get("fieldSelector"); got != `metadata.name=a\,b\=c\\d,x=y` {
			t.Error(got)
		}
	})
}
