package chart_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"initbox/internal/kube"
)

// roleCases are steps, and the command line for which initbox rbac prints the same Role.
var roleCases = []struct{ name, steps, args string }{
	{"name", `- wait: {for: k8s:job/migrate}`, "wait-for-service k8s:job/migrate"},
	{"other targets", `- wait: {for: ["tcp://db:5432", "k8s:deploy/web"]}`, "wait-for-service tcp://db:5432 k8s:deploy/web"},
	{"namespace", `- wait: {for: "k8s:svc/db?namespace=infra"}`, "wait-for-service k8s:svc/db?namespace=infra"},
	{"namespace of the flag", `- wait: {for: ["k8s:svc/db", "k8s:svc/mq?namespace=infra"], namespace: data}`, "wait-for-service k8s:svc/db?namespace=data k8s:svc/mq?namespace=infra"},
	{"namespace of a setting", `- wait: {for: "k8s:svc/db#namespace=data"}`, "wait-for-service k8s:svc/db#namespace=data"},
	{"selector", `- wait: {for: "k8s:pods?selector=app=web&namespace=infra"}`, "wait-for-service k8s:pods?selector=app=web&namespace=infra"},
	{"all", `- wait: {for: ["k8s:pods?all", "k8s:pod/db"]}`, "wait-for-service k8s:pods?all k8s:pod/db"},
	{"no namespace", `- wait: {for: ["k8s:node/n1", "k8s:crd/x.y.z", "k8s:pv?all"]}`, "wait-for-service k8s:node/n1 k8s:crd/x.y.z k8s:pv?all"},
	{"settings of a Service", `- wait: {for: ["k8s:svc/a#exists", "k8s:svc/b#address", "k8s:svc/c#jsonpath={.spec.type}=ClusterIP", "k8s:svc/d#gone"]}`,
		"wait-for-service k8s:svc/a#exists k8s:svc/b#address k8s:svc/c#jsonpath={.spec.type}=ClusterIP k8s:svc/d#gone"},
	{"flags of a Service", `- wait: {for: k8s:svc/a, address: true}`, "wait-for-service k8s:svc/a --address"},
	{"endpoints", `- wait: {for: "k8s:svc/a#endpoints=2"}`, "wait-for-service k8s:svc/a#endpoints=2"},
	{"settings of a Job", `- wait: {for: ["k8s:job/a#if-failed=ok", "k8s:job/b#condition=Failed"]}`, "wait-for-service k8s:job/a#if-failed=ok k8s:job/b#condition=Failed"},
	{"flags of a Job", `- wait: {for: ["k8s:job/a", "k8s:job/b#if-failed=wait"], ifFailed: ok}`, "wait-for-service k8s:job/a k8s:job/b#if-failed=wait --if-failed ok"},
	{"flag that is off", `- wait: {for: k8s:job/a, gone: false, condition: []}`, "wait-for-service k8s:job/a"},
	{"gone", `- wait: {for: k8s:job/a, gone: true}`, "wait-for-service k8s:job/a --gone"},
	{"condition", `- wait: {for: k8s:job/a, condition: [Complete]}`, "wait-for-service k8s:job/a --condition Complete"},
	{"node of Pods", `- wait: {for: "k8s:pods?selector=app=cni&namespace=kube-system", sameNode: web-0}`, "wait-for-service k8s:pods?selector=app=cni&namespace=kube-system --same-node web-0"},
	{"node of a DaemonSet", `- wait: {for: "k8s:ds/cni?namespace=kube-system#same-node=infra/web-0"}`, "wait-for-service k8s:ds/cni?namespace=kube-system#same-node=infra/web-0"},
	{"custom kinds", `- wait: {for: ["k8s:certificate.cert-manager.io/web", "k8s:policy.v1beta1.example.org/x", "k8s:gateways.v1.gateway.networking.k8s.io/g"]}`,
		"wait-for-service k8s:certificate.cert-manager.io/web k8s:policy.v1beta1.example.org/x k8s:gateways.v1.gateway.networking.k8s.io/g"},
	{"escapes", `- wait: {for: ["k8s:role/a%3Ab", "k8s:cm/c?namespace=in%66ra"]}`, "wait-for-service k8s:role/a%3Ab k8s:cm/c?namespace=in%66ra"},
	{"names that YAML would read otherwise", `- wait: {for: ["k8s:cm/1", "k8s:cm/yes", "k8s:role/A:b", "k8s:cm/no?namespace=1"]}`, "wait-for-service k8s:cm/1 k8s:cm/yes k8s:role/A:b k8s:cm/no?namespace=1"},
	{"kubeGet", `- kubeGet: {for: ["k8s:secret/db#key=password", "k8s:cm?selector=a=b#to=x&optional"], to: /out}`, "kube-get k8s:secret/db#key=password k8s:cm?selector=a=b#optional /out"},
	{"kubeGet node", `- kubeGet: {for: "k8s:node/n1#jsonpath={.metadata.name}", to: /out/zone}`, "kube-get k8s:node/n1#jsonpath={.metadata.name} /out/zone"},
	{"kubeGet namespace", `- kubeGet: {for: "k8s:cm/a", to: /out, namespace: infra}`, "kube-get k8s:cm/a?namespace=infra /out"},
	{"kubeGet watch", `- kubeGet: {for: "k8s:cm?selector=dashboard=1", to: /out, watch: 30s, uniqueNames: true}`, "kube-get k8s:cm?selector=dashboard=1 /out --watch 30s --unique-names"},
	{"kubeGet everywhere", `- kubeGet: {for: "k8s:cm?selector=dashboard=1", to: /out, watch: 30s, namespace: "*"}`, "kube-get k8s:cm?selector=dashboard=1 /out --watch 30s --namespace *"},
	{"trustBundle", `- trustBundle: {from: [roots, "k8s:configmap/ca", "k8s:secret/ca?namespace=infra", "k8s:cm?selector=a=b", "k8s:clustertrustbundle/x", "k8s:clustertrustbundles?selector=a"], pem: /ca/ca.pem}`,
		"trust-bundle roots k8s:configmap/ca k8s:secret/ca?namespace=infra k8s:cm?selector=a=b k8s:clustertrustbundle/x k8s:clustertrustbundles?selector=a --pem /ca/ca.pem"},
	{"generate", `- generate: {what: password, to: /out/p, secret: "k8s:secret/db#key=password"}`, "generate password /out/p --secret k8s:secret/db#key=password"},
	{"generate certificate", `- generate: {what: certificate, to: /tls, dns: web, secret: "k8s:secret/tls?namespace=infra", renew: true, ownerReference: sts/web}`,
		"generate certificate /tls --dns web --secret k8s:secret/tls?namespace=infra --renew --owner-reference sts/web"},
	{"generate owner without namespace", `- generate: {what: token, to: /out/t, secret: "k8s:secret/t#key=t", ownerReference: node/n1}`, "generate token /out/t --secret k8s:secret/t#key=t --owner-reference node/n1"},
	{"merged", `[{wait: {for: ["k8s:secret/db", "k8s:job/b", "k8s:job/a", "k8s:svc/x"]}}, {kubeGet: {for: "k8s:secret/db#key=p", to: /out}}, {kubeGet: {for: "k8s:secret/db#key=q", to: /out}}, {wait: {for: "k8s:job/c", merge: false}}]`,
		"wait-for-service k8s:secret/db k8s:job/b k8s:job/a k8s:svc/x -- kube-get k8s:secret/db#key=p /out -- kube-get k8s:secret/db#key=q /out -- wait-for-service k8s:job/c"},
	{"all wins", `[{kubeGet: {for: "k8s:cm/a", to: /out}}, {kubeGet: {for: "k8s:secret?selector=a", to: /o}}, {wait: {for: ["k8s:secret/x", "k8s:cm?all"]}}, {wait: {for: "k8s:secret?all", merge: false}}]`,
		"kube-get k8s:cm/a /out -- kube-get k8s:secret?selector=a /o -- wait-for-service k8s:secret/x k8s:cm?all -- wait-for-service k8s:secret?all"},
	{"known variables", `- wait: {for: ['k8s:svc/$(DB)?namespace=$(POD_NAMESPACE)'], env: {DB: mydb}}`, "wait-for-service k8s:svc/mydb?namespace=shop"},
	{"variable as in a container", `- wait: {for: 'k8s:svc/$(DB)', env: {DB: {value: mydb}}}`, "wait-for-service k8s:svc/mydb"},
	{"variables of the values", `- wait: {for: ['k8s:svc/$(DB)-$(COUNT)?namespace=$(NS)'], env: {COUNT: 2, NS: field/metadata.namespace}}`, "wait-for-service k8s:svc/shared-2"},
}

// unknownNames are steps with names that only the kubelet knows, and targets that need the same rights.
var unknownNames = []struct{ name, steps, args string }{
	{"Pod's name", `- wait: {for: 'k8s:pod/$(POD_NAME)#exists'}`, "wait-for-service k8s:pod?all#exists"},
	{"part of a name", `- kubeGet: {for: 'k8s:node/$(NODE_NAME)#jsonpath={.metadata.name}', to: /out/zone, env: {NODE_NAME: field/spec.nodeName}}`, ""},
	{"node of a Pod", `- wait: {for: "k8s:pods?selector=app=cni", sameNode: $(POD_NAME)}`, "wait-for-service k8s:pods?selector=app=cni"},
}

// TestRoles pins that initbox.rbac yields what initbox rbac prints, for every kind and every form of a target.
func TestRoles(t *testing.T) {
	t.Parallel()
	helms(t)
	steps := map[string]string{}
	for _, c := range roleCases {
		steps[c.name] = c.steps
	}
	for _, c := range unknownNames {
		steps[c.name] = c.steps
	}
	kinds := kindCases()
	for name, targets := range kinds {
		steps[name] = fmt.Sprintf("- wait: {for: %q}", targets)
		steps[name] = strings.ReplaceAll(steps[name], `" "`, `", "`)
	}
	got := roles(t, steps)

	for _, c := range roleCases {
		if want := printed(t, c.args); got[c.name] != want {
			t.Errorf("%s: %s\n%swant, for initbox rbac %s:\n%s", c.name, c.steps, got[c.name], c.args, want)
		}
	}
	for name, targets := range kinds {
		if want := printed(t, strings.Join(targets, " ")); got[name] != want {
			t.Errorf("%s: got\n%swant\n%s", name, got[name], want)
		}
	}
	for _, c := range unknownNames {
		if c.args != "" && withoutComments(got[c.name]) != withoutComments(printed(t, c.args)) {
			t.Errorf("%s: %s\n%swant, for initbox rbac %s:\n%s", c.name, c.steps, got[c.name], c.args, printed(t, c.args))
		}
	}
	if role := got["part of a name"]; !strings.Contains(role, "resources: [nodes], verbs: [get]} # all, since $(NODE_NAME) is known only in the Pod") {
		t.Error(role)
	}
}

// kindCases returns targets of every kind that every cluster has, by each name of the kind.
func kindCases() map[string][]string {
	cases := map[string][]string{}
	for _, r := range kube.Builtins() {
		var targets []string
		for _, name := range append(r.Names, r.Short...) {
			forms := []string{strings.ToUpper(name[:1]) + name[1:]}
			if r.Group == "" {
				forms = append(forms, name+"."+r.Version, name+"."+r.Version+".")
			} else {
				forms = append(forms, name+"."+r.Group, name+"."+r.Version+"."+r.Group)
			}
			for _, form := range forms {
				n := len(targets)
				targets = append(targets, fmt.Sprintf("k8s:%s/x%d", form, n), fmt.Sprintf("k8s:%s/y?namespace=in%d", form, n), fmt.Sprintf("k8s:%s?all&namespace=all%d", form, n))
			}
		}
		if !r.Namespaced { // a target for all would hide the others
			cases["all "+r.String()] = targets[2:3]
			for i := range targets {
				targets[i] = strings.Replace(targets[i], "?all&", "/z?", 1)
			}
		}
		cases["kind "+r.String()] = targets
	}
	return cases
}

// roles returns what initbox.rbac yields for each list of steps, from one run of each helm.
func roles(t *testing.T, steps map[string]string) map[string]string {
	t.Helper()
	var values strings.Builder
	values.WriteString("initbox: {extraEnv: {DB: shared, COUNT: 1}}\ncases:\n")
	for name, text := range steps {
		fmt.Fprintf(&values, "  %q: %q\n", name, text)
	}
	dir := parent(t, map[string]string{"roles.yaml": `{{- range $name, $steps := .Values.cases }}
{{ quote $name }}: {{ include "initbox.rbac" (list $ (fromYamlArray $steps) "web") | toJson }}
{{- end }}`})
	var got map[string]string
	if err := yaml.Unmarshal([]byte(both(t, dir, values.String())), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// printed returns what initbox rbac prints for a command line, whose words have no spaces.
func printed(t *testing.T, args string) string {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"rbac", "--service-account", "shop/web"}, strings.Fields(args)...)...).Output()
	if err != nil {
		if failed, is := err.(*exec.ExitError); is {
			t.Errorf("initbox rbac %s: %s", args, failed.Stderr)
		}
		t.Error(err)
	}
	return string(out)
}

// withoutComments removes what explains a rule.
func withoutComments(role string) string {
	var b strings.Builder
	for line := range strings.Lines(role) {
		rule, _, commented := strings.Cut(line, " # ")
		b.WriteString(rule)
		if commented {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// TestRoleNames pins what a chart's author may say besides, and what is refused.
func TestRoleNames(t *testing.T) {
	t.Parallel()
	dir := parent(t, map[string]string{"roles.yaml": `{{- define "web" }}{{ toYaml .Values.steps }}{{ end -}}
role: {{ include "initbox.rbac" (concat (list $ "web") .Values.names) | toJson }}`})
	render := func(steps string, names string) (string, error) {
		return template(t, helms(t)[1], dir, fmt.Sprintf(`{"steps": %s, "names": %s}`, steps, names))
	}
	if out, err := render(`[{"wait": {"for": "tcp://db:5432"}}, {"sleep": {"for": "1s"}}]`, `["web"]`); err != nil || !strings.HasSuffix(out, "role: \"\"\n") {
		t.Errorf("no Role is needed: %v\n%s", err, out)
	}
	if out, err := render(`[{"wait": {"for": "k8s:job/a"}}]`, `["web", "shop-wait"]`); err != nil || !strings.Contains(out, "{name: shop-wait, namespace: shop}") {
		t.Errorf("a name of its own: %v\n%s", err, out)
	}
	for _, c := range []struct{ steps, names, want string }{
		{`[{"wait": {"for": "k8s:certificate/web"}}]`, `["web"]`, `web: step 1 (wait): k8s:certificate: no such kind without a group: write k8s:PLURAL.GROUP/NAME`},
		{`[{"sleep": {"for": "1s"}}, {"wait": {"for": "k8s:pod/x?namespace=$(NS)"}}]`, `["web"]`, `web: step 2 (wait): k8s:pod/x?namespace=$(NS): initbox.rbac needs to know the namespace`},
		{`[{"wait": {"for": "k8s:$(KIND)/x"}}]`, `["web"]`, `web: step 1 (wait): k8s:$(KIND)/x: initbox.rbac needs to know the kind`},
		{`[{"wait": {"for": "k8s:job"}}]`, `["web"]`, `web: step 1 (wait): k8s:job: which objects?`},
		{`[{"wait": {"for": "k8s:job/"}}]`, `["web"]`, `k8s:job/: which objects?`},
		{`[{"kubeGet": {"for": "k8s:secret/db?all", "to": "/out"}}]`, `["web"]`, `k8s:secret/db?all: which objects?`},
		{`[{"wait": {"for": "k8s:pods?labels=app=web"}}]`, `["web"]`, `k8s:pods?labels=app=web: the parameter after ? is unknown`},
		// A rule for the name "" would be one for the lists of all objects, and a group may be "*".
		{`[{"wait": {"for": "k8s:secret/"}}]`, `["web"]`, `k8s:secret/: which objects?`},
		{`[{"wait": {"for": "k8s:secret?selector="}}]`, `["web"]`, `which objects?`},
		{`[{"wait": {"for": "k8s:secret/*"}}]`, `["web"]`, `is not a valid object name`},
		{`[{"wait": {"for": "k8s:job/$(A%0A- {x: y})"}}]`, `["web"]`, `is not a valid object name`},
		{`[{"wait": {"for": "k8s:job/$(A\n- {apiGroups: ['*'], resources: ['*'], verbs: ['*']})"}}]`, `["web"]`, `is not a valid object name`},
		{`[{"wait": {"for": "k8s:secrets.*/a"}}]`, `["web"]`, `the kind must be one that kubectl takes`},
		{`[{"wait": {"for": "k8s:pods%2Fexec.apps/a"}}]`, `["web"]`, `the kind must be one that kubectl takes`},
		{`[{"wait": {"for": "k8s:job/a?namespace=*"}}]`, `["web"]`, `want one namespace after ?namespace=`},
		{`[{"wait": {"for": "k8s:job/a?namespace=x&namespace=y"}}]`, `["web"]`, `want one namespace after ?namespace=`},
		{`[{"wait": {"for": "k8s:pods?selector=a=b", "sameNode": "x/"}}]`, `["web"]`, `same-node: "x/" is not the name of a Pod`},
		{`[{"wait": {"for": ["job", "x"], "fromK8sWaitFor": true}}]`, `["web"]`, `initbox.rbac does not read the command lines of other tools`},
		{`[{"wait": {"for": "k8s:job/a"}}]`, `[""]`, `name of the Pod's service account`},
	} {
		if out, err := render(c.steps, c.names); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v\n%s", c.steps, c.want, err, out)
		}
	}
}
