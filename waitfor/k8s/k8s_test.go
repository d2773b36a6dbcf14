package k8s

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/waitfor/target"
)

// kinds has only the kind of the package.
var kinds = target.Kinds{&Kind}

// TestParse pins how targets are shown, and the errors for invalid ones.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"k8s:job/migrate":                                            "k8s:job/migrate",
		"K8S:Job.batch/migrate#exists":                               "k8s:Job.batch/migrate",
		"k8s:pods?selector=app=web,tier in (a,b)":                    "k8s:pods?selector=app=web,tier in (a,b)",
		"k8s:pods?selector=app%3Dweb&namespace=shop#count=2":         "k8s:pods?selector=app=web&namespace=shop",
		"k8s:pods?all":                                               "k8s:pods?all",
		"k8s:pods?field-selector=spec.nodeName=n1":                   "k8s:pods?field-selector=spec.nodeName=n1",
		"k8s:clusterrole/system:node#exists":                         "k8s:clusterrole/system:node",
		`k8s:po/a#jsonpath={.status.x[?(@.name=="app")].ready}=true`: "k8s:po/a",
		"k8s:pods?selector=a=\x7f":                                   "is not a URL",
		"k8s:":                                                       "k8s:…: want k8s:KIND/NAME",
		"k8s://job/migrate":                                          "k8s:…: want k8s:KIND/NAME, k8s:KIND?selector=LABELS or k8s:KIND?all, without //",
		"k8s:job":                                                    "which objects?",
		"k8s:job/":                                                   "is a variable not set?",
		"k8s:job/a/b":                                                "k8s:KIND/NAME?namespace=NAMESPACE",
		"k8s:job/a?selector=x":                                       "are mutually exclusive",
		"k8s:pods?all&selector=x":                                    "are mutually exclusive",
		"k8s:pods?selector=":                                         "is a variable not set?",
		"k8s:pods?selector=a=b&selector=c=d":                         "given twice",
		"k8s:pods?label=x":                                           "the parameter after ? is unknown",
		"k8s:pods?selectr=x":                                         "did you mean ?selector=",
		"k8s:pods?all=1":                                             "takes no value",
		"k8s:pods?all&namespace=a/b":                                 "not a valid namespace name",
		"k8s:job/a#endpoints=2":                                      "k8s:job/a: endpoints: is for Services",
		"k8s:widget.example.com/a#key=x":                             "key: is for Secrets and ConfigMaps",
		"k8s:svc/a#endpoints=0":                                      "endpoints: want a whole number from 1",
		"k8s:svc/a#endpoints=all":                                    "k8s:svc/a",
		"k8s:job/a#if-missing=maybe":                                 "if-missing: want one of wait, ok, fail",
		"k8s:job/a#exists&condition=Complete":                        "exists and condition are mutually exclusive",
		"k8s:job/a#gone&exists":                                      "gone and exists are mutually exclusive",
		"k8s:job/a#gone&if-missing=ok":                               "gone and if-missing are mutually exclusive",
		"k8s:pod/a#count=2":                                          "count: is for a selector",
		"k8s:pod/a#same-node=b":                                      "same-node: is for Pods by a selector",
		"k8s:pods?all#same-node=$(POD_NAME)":                         "contains $(POD_NAME), which Kubernetes did not replace",
		"k8s:pods?all#condition==":                                   "condition: want NAME or NAME=VALUE",
		"k8s:job/a#jsonpath={.a":                                     "jsonpath: want a JSONPath",
		"k8s:job/a#jsonpath={.a}{.b}":                                "jsonpath: want a JSONPath",
		"k8s:job/a#jsonpath={range .a[*]}{.b}{end}":                  "jsonpath: want a JSONPath",
		"k8s:job/a#jsonpath=.a>=x":                                   "jsonpath: >= needs a number",
		"k8s:job/a#jsonpath=.a=/(/":                                  "jsonpath: not a regular expression",
		"k8s:job/a#statu=1":                                          "setting 1 after # is unknown",
		"k8s:job/${file:/x}":                                         "must not be secret",
	} {
		said := ""
		check, err := kinds.Parse(text, target.Options{})
		if err != nil {
			said = err.Error()
		} else {
			said = check.String()
		}
		if !strings.Contains(said, want) || err == nil && said != want {
			t.Errorf("%s: %q, want %q", text, said, want)
		}
	}
}

// TestMissingForLong pins that after a while the message says why the wait may never end.
func TestMissingForLong(t *testing.T) {
	for text, want := range map[string]string{
		"k8s:job/migrate":           "did it finish already, and did its TTL remove it? then add #if-missing=ok",
		"k8s:pod/web":               "is it in another namespace (?namespace=)?",
		"k8s:pods?selector=app=web": "are the labels right",
	} {
		parsed, err := kinds.Parse(text, target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := parsed.(*check)
		f := failure.Of(c.notThere(origin{resource: c.resource, namespace: "default"}))
		if f.Note != "" || !strings.Contains(f.Hint, want) {
			t.Errorf("%s: at first %q, hint %q", text, f, f.Hint)
		}
		c.missing = time.Now().Add(-missingLong)
		f = failure.Of(c.notThere(origin{resource: c.resource, namespace: "default"}))
		if !strings.Contains(f.Note, "may never come") || !strings.Contains(f.Note, want) {
			t.Errorf("%s: later %q", text, f)
		}
	}
}

func grant(k *cluster) string {
	hint, role := k.grants(kube.Account{})
	return hint + "\n" + role
}

// TestGrantOfUnknownKind pins that a guessed Role is replaced once the API server has returned the kind.
func TestGrantOfUnknownKind(t *testing.T) {
	c := &check{Target: &target.Target{}, Objects: kube.Objects{KindName: "widget", Name: "w"}}
	k := &cluster{namespace: "default", checks: []*check{c}}
	if grant := grant(k); strings.Contains(grant, "apiGroups") || !strings.Contains(grant, "initbox rbac") {
		t.Errorf("before it is known, without a group: %s", grant)
	}
	c.KindName = "widget.example.org"
	if grant := grant(k); !strings.Contains(grant, "resources: [widgets], resourceNames: [w], verbs: [list, watch]} # a guess") {
		t.Errorf("before it is known: %s", grant)
	}
	c.source.resource = kube.Resource{Group: "example.org", Version: "v1", Name: "widgets", Kind: "Widget", Namespaced: true}
	if grant := grant(k); !strings.Contains(grant, "apiGroups: [example.org]") || strings.Contains(grant, "a guess") {
		t.Errorf("when it is known: %s", grant)
	}
}

// TestStillThere pins the failures of objects that should be gone.
func TestStillThere(t *testing.T) {
	for want, objects := range map[string][]string{
		"it has not been deleted":                                {`{"metadata": {"name": "a"}}`},
		"being deleted, waiting for its finalizer example.org/x": {`{"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.org/x"]}}`},
		"2 objects":                     {`{"metadata": {"name": "a"}}`, `{"metadata": {"name": "b"}}`},
		"2 objects; b is being deleted": {`{"metadata": {"name": "a"}}`, `{"metadata": {"name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z"}}`},
	} {
		var all []kube.Object
		for _, text := range objects {
			var o kube.Object
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			all = append(all, o)
		}
		if got := failure.Of(stillThere(all)).Text; got != want {
			t.Errorf("%s: %q, want %q", objects, got, want)
		}
	}
}

// TestForbiddenOdd pins the failures for which no Role helps, or only one for all clients.
func TestForbiddenOdd(t *testing.T) {
	pods, _ := kube.Lookup("pods")
	for _, tt := range []struct {
		status kube.StatusError
		text   string // of the failure
		hint   string // contains this
	}{
		{kube.StatusError{Code: 403, Verb: "list", Resource: pods, Namespace: "default", Message: `pods is forbidden: User "system:anonymous" cannot list resource "pods"`},
			"the API server refuses requests without credentials (403 Forbidden, system:anonymous)", "no credentials were sent"},
		{kube.StatusError{Code: 403, Path: "/apis/example.com", Message: `forbidden: User "bob" cannot get path "/apis/example.com"`},
			"the user bob may not get /apis/example.com, which lists the kinds", "system:discovery"},
		{kube.StatusError{Code: 403, Verb: "list", Resource: pods, Namespace: "default", Message: "not from here"},
			"this account may not list pods in namespace default (not from here)", "these objects grant all that this wait needs"},
	} {
		f := failure.Of((&cluster{namespace: "default"}).failure(&tt.status))
		text := f.Text
		if f.Note != "" {
			text += " (" + f.Note + ")"
		}
		if text != tt.text || !strings.Contains(f.Hint, tt.hint) {
			t.Errorf("%s: %q, hint %q; want %q, hint %q", tt.status.Message, text, f.Hint, tt.text, tt.hint)
		}
		if strings.Contains(f.Hint, "anonymous") {
			t.Errorf("%q would grant it to all clients", f.Hint)
		}
	}
}
