package translate

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"initbox/waitfor"
)

// environment has the variables, written NAME=value, and no files.
func environment(variables ...string) Environment {
	return Environment{
		Lookup: func(name string) (string, bool) {
			for _, v := range variables {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value, true
				}
			}
			return "", false
		},
		ReadFile: func(name string) ([]byte, error) { return nil, fs.ErrNotExist },
		Exists:   func(string) bool { return false },
	}
}

func TestK8sWaitFor(t *testing.T) {
	for _, tt := range []struct {
		args string // separated by |
		env  []string
		want string // separated by newlines; or an error, after !
	}{
		{"job|migrate", nil, "k8s:job/migrate"},
		{"job|migrate|-n|shop", nil, "k8s:job/migrate?namespace=shop"},
		{"job|migrate|seed|--namespace=shop", nil, "k8s:job/migrate?namespace=shop\nk8s:job/seed?namespace=shop"},
		{"job|-lapp=x", nil, "k8s:job?selector=app=x"},
		{"job|-l|app=x", nil, "k8s:job?selector=app=x"},
		{"job|--selector=app=x", nil, "k8s:job?selector=app=x"},
		{"pod|-lrelease in (develop), chart notin (x)", nil, "k8s:pod?selector=release in (develop), chart notin (x)"},
		{"pod|-l\"release in (develop)\"", nil, "k8s:pod?selector=release in (develop)"},
		{"pod|-l release in (develop)\n", nil, "k8s:pod?selector=release in (develop)"},
		{"pod|web-0", nil, "k8s:pod/web-0"},
		{"pod-we|-lapp=x", nil, "k8s:pod?selector=app=x#if-failed=ok"},
		{"pod-wr|-lapp=x", nil, "k8s:pod?selector=app=x#if-failed=some"},
		{"job-we|migrate", nil, "k8s:job/migrate#if-failed=ok"},
		{"job-wr|migrate|--context=c|--kubeconfig=/k", nil, "k8s:job/migrate#if-failed=some&context=c&kubeconfig=/k"},
		{"service|db", nil, "k8s:service/db#endpoints=all"},
		{"service|-lapp=x|-nshop", nil, "k8s:service?selector=app=x&namespace=shop#endpoints=all"},
		{"pod|-n|shop", nil, "k8s:pod?namespace=shop&all"},
		{"pod|web|--field-selector=a=b", nil, "!a name and a selector"},
		{"job|migrate", []string{"TREAT_ERRORS_AS_READY=1"}, "k8s:job/migrate#if-failed=ok"},
		{"pod|-lapp=x", []string{"TREAT_ERRORS_AS_READY=2", "WAIT_TIME=5"}, "k8s:pod?selector=app=x#if-failed=some"},
		{"deployment|web", nil, `!"deployment" is not a resource of k8s-wait-for`},
		{"job", nil, "!want pod|job|service NAME"},
		{"pod|-A|-lapp=x", nil, "!cannot translate the kubectl flag -A"},
		{"job|migrate|-n", nil, "!--namespace needs a value"},
		{"job|migrate|-lx=y", nil, "!a name and a selector are mutually exclusive"},
	} {
		line, err := K8sWaitFor(strings.Split(tt.args, "|"), environment(tt.env...))
		checkTranslation(t, tt.args+" "+strings.Join(tt.env, " "), line.Arguments, err, tt.want)
	}
}

func TestKubernetesEntrypoint(t *testing.T) {
	for _, tt := range []struct {
		env  []string
		want string
	}{
		{nil, ""},
		{[]string{"DEPENDENCY_SERVICE=mysql:mariadb,keystone-api", "NAMESPACE=openstack"}, "k8s:service/mariadb?namespace=mysql\nk8s:service/keystone-api?namespace=openstack"},
		{[]string{"DEPENDENCY_SERVICE=db"}, "k8s:service/db?namespace=default"},
		{[]string{"DEPENDENCY_JOBS=nova-init,infra:neutron-init"}, "k8s:job/nova-init?namespace=default#completions=1\nk8s:job/neutron-init?namespace=infra#completions=1"},
		{[]string{"DEPENDENCY_JOBS=nova-init", `DEPENDENCY_JOBS_JSON=[{"namespace": "foo", "name": "nova-init"}, {"labels": {"initializes": "neutron", "a": "b"}}]`},
			"k8s:job/nova-init?namespace=foo#completions=1\nk8s:job?selector=a=b,initializes=neutron&namespace=default#completions=1"},
		{[]string{"DEPENDENCY_DAEMONSET=openvswitch-agent", "POD_NAME=nova-0", "NAMESPACE=os"}, "k8s:daemonset/openvswitch-agent?namespace=os#same-node=os/nova-0"},
		{[]string{"DEPENDENCY_DAEMONSET=openvswitch-agent"}, "!DEPENDENCY_DAEMONSET: POD_NAME is not set"},
		{[]string{`DEPENDENCY_POD_JSON=[{"namespace": "foo", "labels": {"k1": "v1", "k2": "v2"}}, {"labels": {"k1": "v1"}, "requireSameNode": true}]`, "POD_NAME=p", "NAMESPACE=os"},
			"k8s:pod?selector=k1=v1,k2=v2&namespace=foo#count=1\nk8s:pod?selector=k1=v1&namespace=os#count=1&same-node=os/p"},
		{[]string{"DEPENDENCY_SOCKET=/run/ovs.sock,/run/a b"}, "file:///run/ovs.sock\nfile:///run/a%20b"},
		{[]string{"DEPENDENCY_CONTAINER=nova-libvirt", "POD_NAME=p", "NAMESPACE=os"}, `k8s:pod/p?namespace=os#jsonpath={.status.containerStatuses[?(@.name=="nova-libvirt")].ready}=true`},
		{[]string{`DEPENDENCY_CUSTOM_RESOURCE=[{"apiVersion":"stable.example.com/v1","kind":"Foo","namespace":"default","name":"my-foo","fields":[{"key":"spec.arbitrary-key","value":"ready"},{"key":"a","value":"x&y"}]}]`},
			"k8s:foo.v1.stable.example.com/my-foo?namespace=default#jsonpath={.spec.arbitrary-key}=ready&jsonpath={.a}=x%26y"},
		{[]string{`DEPENDENCY_CUSTOM_RESOURCE=[{"apiVersion":"v1","kind":"ConfigMap","name":"x"},{"apiVersion":"a.b/v1","kind":"Foo","name":"y","conditions":[{"type":"Ready"},{"type":"Degraded","status":"False"}]}]`},
			"k8s:configmap.v1/x?namespace=default#exists\nk8s:foo.v1.a.b/y?namespace=default#condition=Ready&condition=Degraded=False"},
		{[]string{"DEPENDENCY_CUSTOM_RESOURCE=[{]"}, "!DEPENDENCY_CUSTOM_RESOURCE: not the JSON"},
		{[]string{"DEPENDENCY_CONFIG=/etc/nova.conf"}, "!DEPENDENCY_CONFIG: it writes a file"},
		{[]string{"DEPENDENCY_SERVICE=a:b:c"}, "!DEPENDENCY_SERVICE: want NAME or NAMESPACE:NAME"},
		{[]string{`DEPENDENCY_JOBS_JSON=[{"name": "a", "labels": {"b": "c"}}]`}, "!want either a name or labels"},
	} {
		line, err := KubernetesEntrypoint(environment(tt.env...))
		checkTranslation(t, strings.Join(tt.env, " "), line.Arguments, err, tt.want)
	}
}

// checkTranslation also requires that what comes out are targets.
func checkTranslation(t *testing.T, from string, targets []string, err error, want string) {
	t.Helper()
	if wanted, wrong := strings.CutPrefix(want, "!"); wrong {
		if err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %q, %v, want %q", from, targets, err, wanted)
		}
		return
	}
	if err != nil || !slices.Equal(targets, strings.FieldsFunc(want, func(r rune) bool { return r == '\n' })) {
		t.Errorf("%s: %v\n%s\nwant\n%s", from, err, strings.Join(targets, "\n"), want)
	}
	for _, target := range targets {
		if _, err := waitfor.Parse(target, waitfor.Options{}); err != nil {
			t.Errorf("%s becomes %s: %v", from, target, err)
		}
	}
}
