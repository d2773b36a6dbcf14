package command

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"initbox/internal/failure"
)

// inspected describes what Inspect returns, in one line.
func inspected(words []string, environment map[string]string) string {
	steps, err := Inspect(words, environment)
	var texts []string
	for _, s := range steps {
		text := s.Name
		for _, name := range slices.Sorted(maps.Keys(s.Flags)) {
			text += " " + name + "=" + strings.Join(s.Flags[name], ",")
		}
		text += " " + fmt.Sprint(s.Args) + " " + s.Timeout.String()
		for _, need := range s.Needs {
			text += " needs " + strings.Join(need.Verbs, ",") + " " + need.Resource + " " + strings.Join(need.Names, ",")
		}
		if s.Stays != "" {
			text += " stays " + s.Stays
		}
		if s.Unknown {
			text += " unknown"
		}
		if s.Command != nil {
			text += " runs " + strings.Join(s.Command, " ")
		}
		texts = append(texts, text)
	}
	text := strings.Join(texts, "; ")
	if err != nil {
		text += "error: " + err.Error()
		if hint := failure.Hint(err); hint != "" {
			text += " hint: " + hint
		}
	}
	return text
}

// It sets the environment of the process, so it does not run beside other tests.
func TestInspect(t *testing.T) {
	environment := map[string]string{"URL": "redis://cache", "PASSWORD": Opaque(""), "POD_IP": Opaque("10.0.0.1")}
	host := Opaque("")
	for _, test := range []struct{ line, want string }{
		{"wait-for-service tcp://db:5432 --timeout 1m ${env:URL}#tls", "wait-for-service timeout=1m [tcp://db:5432 ${env:URL}#tls] 1m0s"},
		{"/bin/initbox wait-for-dns db --type SRV", "wait-for-dns type=SRV [db] 5m0s"},
		{"/tools/wait-for-service k8s:job/migrate -- /app/server --port 80", "wait-for-service [k8s:job/migrate] 5m0s needs list,watch jobs migrate needs list pods  runs /app/server --port 80"},
		{"/tools/ib request http://api --method put", "request method=put [http://api] 5m0s"},
		{"register --url http://registry --hold --field a=b", "register field=a=b hold=true url=http://registry [] 5m0s stays --hold"},
		{"register --url http://registry --preset eureka --service web --port 80", "register port=80 preset=eureka service=web url=http://registry [] 5m0s"},
		{"deregister --state /state/r --timeout 10s", "deregister state=/state/r timeout=10s [] 10s"},
		{"render /nowhere:/config --values /none.yaml --owner app", "render owner=app values=/none.yaml [/nowhere:/config] 5m0s"},
		{"merge /etc /usr/x.yaml /out/x.yaml", "merge [/etc /usr/x.yaml /out/x.yaml] 5m0s"},
		{"git-clone https://git.example/a /work --known-hosts /none --watch 30s", "git-clone known-hosts=/none watch=30s [https://git.example/a /work] 5m0s stays --watch"},
		{"git-clone --compat git-sync --repo https://git.example/a --root /git --one-time", ""},
		{"fetch https://files.example/a.jar /drivers --replace", "fetch replace=true [https://files.example/a.jar /drivers] 5m0s"},
		{"fetch --list /none /drivers/", "fetch list=/none [/drivers/] 5m0s"},
		{"copy /none:/config --once /none/x", "copy once=/none/x [/none:/config] 5m0s"},
		{"prepare /data#owner=app -- copy /a:/b -- /bin/true", "prepare [/data#owner=app] 5m0s; copy [/a:/b] 5m0s runs /bin/true"},
		{"sysctl --file /none vm.max_map_count=1", "sysctl file=/none [vm.max_map_count=1] 5m0s"},
		{"wait-for-service k8s:widget/w k8s:job/migrate", "wait-for-service [k8s:widget/w k8s:job/migrate] 5m0s needs list,watch jobs migrate needs list pods "},
		{"kube-get k8s:secret/db#key=password /out/password", "kube-get [k8s:secret/db#key=password /out/password] 5m0s needs get secrets db"},
		{"generate password /none/x", "generate [password /none/x] 5m0s"},
		{"trust-bundle roots /none --pem /trust/ca.crt", "trust-bundle pem=/trust/ca.crt [roots /none] 5m0s"},
		{"keystore --cert-file /none --key-file /none --jks /stores/a.jks", "keystore cert-file=/none jks=/stores/a.jks key-file=/none [] 5m0s"},
		{"rbac k8s:job/migrate -- copy", "rbac [k8s:job/migrate] 5m0s"},
		{"sleep 1s --ordinal-step 10s", "sleep ordinal-step=10s [1s] 0s"},
		{"install /none wait-for-dns", "install [/none wait-for-dns] 5m0s"},
		{"wait-for-service --from-k8s-wait-for job migrate", "wait-for-service from-k8s-wait-for=true [k8s:job/migrate] 5m0s needs"},
		{"wait-for-service --resolv-conf /none tcp://db:1", "wait-for-service resolv-conf=/none [tcp://db:1] 5m0s"},
		{"--version", ""},
		{"", ""},
		{"wait-for-service --help", "wait-for-service help=true [] 0s"},

		{"wait-for-srvice tcp://db:1", "error: no such subcommand: wait-for-srvice hint: did you mean wait-for-service? run initbox --help for the list"},
		{"/bin/initbox initbox sleep 1", "error: no such subcommand: initbox"},
		{"wait-for-service --tmeout 5m tcp://db:1", "error: no such flag: --tmeout hint: did you mean --timeout?"},
		{"prepare /data -- wait-for-service tcp:/db:1", "prepare [/data] 5m0serror: step 2, wait-for-service: "},
		{"prepare /data -- register --hold --url http://a", "prepare [/data] 5m0serror: step 2, register: with --hold it keeps running"},
		{"wait-for-service tcp://$(DB):1", "error: a target contains $(DB), which Kubernetes did not replace"},
		{"wait-for-service redis://:${env:NONE}@cache", "error: environment variable NONE is not set"},
		{"wait-for-service", "error: no target given"},

		// What is not known is taken to be right; a mistake beside it is found.
		{"wait-for-service tcp://" + host + ":5432", "wait-for-service [tcp://unknown:5432] 5m0s unknown"},
		{"wait-for-service tcp://db:" + host, "wait-for-service [tcp://db:8080] 5m0s unknown"},
		{"wait-for-service ${env:PASSWORD}", "wait-for-service [${env:PASSWORD}] 5m0s unknown"},
		{"wait-for-service ${file:/etc/hostname}#db=x", "wait-for-service [${file:/etc/hostname}#db=x] 5m0s unknown"},
		{"git-clone ${file:/etc/hostname} /work", "git-clone [http://unknown:8080/unknown /work] 5m0s unknown"},
		{"wait-for-service tcp://db:1 --timeout " + host, "wait-for-service timeout=8080 [tcp://db:1] 2h14m40s unknown"},
		{"wait-for-service tcp://db:1 --log-format " + host, ""},
		{"wait-for-service redis://:${env:PASSWORD}@cache --tmeout " + host, "error: no such flag: --tmeout"},
	} {
		before := os.Environ()
		got := inspected(strings.Fields(test.line), environment)
		if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" && !strings.Contains(test.line, "compat") {
			t.Errorf("%s:\n got %s\nwant %s", test.line, got, test.want)
		}
		if after := os.Environ(); !slices.Equal(slices.Sorted(slices.Values(before)), slices.Sorted(slices.Values(after))) {
			t.Fatalf("%s: the environment of the process has changed", test.line)
		}
	}
}

func TestInspectTargetsOfVariable(t *testing.T) {
	for _, test := range []struct{ value, want string }{
		{"tcp://db:5432 redis://cache", "wait-for-service [tcp://db:5432 redis://cache] 5m0s"},
		{Opaque(""), "wait-for-service [http://unknown:8080/unknown] 5m0s unknown"},
		{"tcp:/db", "error: $INITBOX_TARGETS: "},
		{"", "error: no target given, and $INITBOX_TARGETS is empty"},
	} {
		if got := inspected([]string{waitForServiceName}, map[string]string{variableTargets: test.value}); !strings.HasPrefix(got, test.want) {
			t.Errorf("%q:\n got %s\nwant %s", test.value, got, test.want)
		}
	}
	got := inspected([]string{waitForServiceName, "tcp://a:1"}, map[string]string{"INITBOX_TIMEOUT": "90", "INITBOX_LOG_FORMAT": "jsn"})
	if !strings.HasPrefix(got, `error: --log-format: want text or json, got "jsn"`) {
		t.Error(got)
	}
}

// TestInspectReads pins that what else runs in the process keeps its variables, such as those of a login to a cluster.
func TestInspectReads(t *testing.T) {
	read := readBy([]string{"wait-for-service", "redis://:${env:PASSWORD}@cache"}, map[string]string{variableTargets: "${env:URL}"})
	for name, want := range map[string]bool{
		"PATH": false, "HOME": false, "AWS_PROFILE": false, "HTTPS_PROXY": false,
		"PASSWORD": true, "PASSWORD_FILE": true, "URL": true, "INITBOX_TIMEOUT": true, "POD_IP": true, "NODE_NAME": true,
	} {
		if read(name) != want {
			t.Errorf("%s: read is %v", name, !want)
		}
	}
	if !readBy([]string{"git-clone", "--compat", "git-sync"}, nil)("GITSYNC_REPO") {
		t.Error("another tool's variables are not read")
	}
}
