package convert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"initbox/cmd/duration"
	"initbox/cmd/kubectl-initbox/convert/shell"
)

// TestReadScript pins what scripts become: the command line, then what is different and what is not needed.
func TestReadScript(t *testing.T) {
	t.Parallel()
	const forever = "it gives up after 5 minutes, and the kubelet starts it again; the script waited forever"
	for _, test := range []struct{ script, want, differs string }{
		{"until nc -z db 5432; do echo waiting; sleep 2; done", "wait-for-service tcp://db:5432 --timeout 5m", forever},
		{"until nc -z $HOST 5432; do sleep 2; done", "wait-for-service tcp://$(HOST):5432 --timeout 5m", forever},
		{"until nc -z a 1; do sleep 1; done; until nc -z b 2; do sleep 1; done", "wait-for-service tcp://a:1 tcp://b:2 --timeout 5m", forever},
		{"for h in a b a; do until nc -z $h 80; do sleep 1; done; done", "wait-for-service tcp://a:80 tcp://b:80 --timeout 5m", forever},
		{"set -e; for i in $(seq 1 30); do nc -z db 1 && exit 0; sleep 2; done; echo no; exit 1", "wait-for-service tcp://db:1 --timeout 1m", "it gives up after 1m instead of after 30 attempts"},
		{"for i in $(seq 1 30); do nc -z -w 3 db 1 && break; sleep 2; done", "wait-for-service tcp://db:1 --attempt-timeout 3s --timeout 2m30s", "it fails if the wait times out; the script went on"},
		{"for i in 1 2 3; do nc -z db 1 && exit 0; done; exit 1", "wait-for-service tcp://db:1 --timeout 5m", "instead of after 3 attempts"},
		{"timeout 90 sh -c 'until nc -z db 1; do sleep 1; done'", "wait-for-service tcp://db:1 --timeout 1m30s", ""},
		{"timeout 90 sh -c 'until nc -z db 1; do sleep 1; done'; sleep 3", "wait-for-service tcp://db:1 --timeout 1m30s -- sleep 3s", "it fails if the wait times out"},
		{"until nc -z db $PORT; do sleep 1; done", "wait-for-service tcp://db:$(PORT) --timeout 5m", "$PORT stands without quotes"},
		{"apk add --no-cache curl; until nc -z db 1; do sleep 1; done", "wait-for-service tcp://db:1 --timeout 5m", "unused: apk add --no-cache curl"},
		{"command -v nc || apk add nc; until nc -z db 1; do sleep 1; done", "wait-for-service tcp://db:1 --timeout 5m", "unused: apk add nc"},
		{"for i in $(seq 60); do nc -z -w 5 a 1 && nc -z -w 5 b 1 && exit 0; sleep 5; done; exit 1", "wait-for-service tcp://a:1 tcp://b:1 --attempt-timeout 5s --timeout 15m", "it gives up after 15m instead of after 60 attempts"},
		{"timeout 60 sh -c 'until nc -z a 1 && nc -z b 1; do sleep 1; done'", "wait-for-service tcp://a:1 tcp://b:1 --timeout 1m", "not all at the same moment"},
		{"while true; do ok=true; for h in a b; do if nc -z $h 1; then echo up; else ok=false; fi; done; [ $ok = true ] && break; sleep 1; done", "wait-for-service tcp://a:1 tcp://b:1 --timeout 5m", "not all at the same moment"},
		{"until nc -z db 1 && nc -z db 2; do sleep 1; done", "wait-for-service tcp://db:1 tcp://db:2 --timeout 5m", "not all at the same moment"},
		{"set -e; sleep 5; until nc -z db 1; do sleep 1; done; exec /app/run --now", "sleep 5s -- wait-for-service tcp://db:1 --timeout 5m --  /app/run --now", forever},
		{"while true; do c=$(curl -s -o /dev/null -w '%{http_code}' http://web/); if [ \"$c\" = 200 ]; then break; fi; sleep 1; done", "wait-for-service http://web/#status=200&no-redirect --timeout 5m", forever},

		{"sysctl -w vm.swappiness=1 && ulimit -c unlimited", "sysctl vm.swappiness=1", "unused: ulimit -c unlimited"},
		{"sysctl -w vm.swappiness=1 && ulimit -c unlimited", "sysctl vm.swappiness=1", "the script failed where the limit"},
		{"ulimit -c unlimited; sleep 1", "error: ulimit …: limits of what follows", ""},
		{`i=0; until nc -z db 1 || [ "$((i+=1))" -ge 60 ]; do sleep 5; done`, "wait-for-service tcp://db:1 --timeout 5m", "it fails if the wait times out; the script went on"},
		{"until nc -z $NOWHERE 1; do sleep 1; done", "error: nc: not called with a host and one port", ""},
		{"until $(nc -z db 1); do sleep 1; done", "wait-for-service tcp://db:1 --timeout 5m", forever},
		{"until $(pg_isready -h db); do sleep 1; done", "error: what it prints would be run", ""},
		{"timeout 9 sh -c 'until nc -z db 1; do sleep 1; done' || true; sleep 1", "error: the script wants to go on", ""},
		{"for i in 1 2 3; do nc -z db 1 && break; sleep 2; done || true", "error: the script wants to go on", ""},
		{"for i in 1 2 3; do nc -z db 1 && break; sleep 2; done || echo no", "error: the script wants to go on", ""},
		{"until nc -z db 1; do sleep 2; done || true", "wait-for-service tcp://db:1 --timeout 5m", forever},
		{"sleep 1; /app/run $HOST", "sleep 1s --  /app/run $(HOST)", ""},
		{"sleep 1; /app/run $PORT", "error: may be several words for run", ""},
		{"sleep 1; cd /x; /app/run", "error: run: initbox has no replacement for this command", ""},
		{"sleep 1; A=1 /app/run", "error: run: initbox has no replacement for this command", ""},
		{"until frobnicate; do sleep 1; done", "error: frobnicate: a condition that initbox does not wait for", ""},
		{"frobnicate; sleep 1", "error: frobnicate: initbox has no replacement for this command", ""},
		{"sleep 1 || true", "sleep 1s", ""},
		{"timeout 5 sleep 10", "error: timeout: a limit of the time of sleep", ""},
		{"until nc -z a 1 || nc -z b 1; do sleep 1; done", "error: a second condition that ends the loop", ""},
		{"if [ -f /x ]; then sleep 1; fi", "error: line 1", ""},
		{"set -e; nc -z db 1; sleep 1", "wait-for-service tcp://db:1 --timeout 5m -- sleep 1s", "it gives up after 5m instead of after 1 attempt,"},
		{"pg_isready -h db || exit 1; sleep 1", "wait-for-service postgres://db --timeout 5m -- sleep 1s", "instead of after 1 attempt,"},
		{"nc -z db 1; sleep 1", "error: nc: initbox has no replacement", ""},
		{"nc -z db 1 || true; sleep 1", "error: nc: initbox has no replacement", ""},
		{"nc -z db 1", "wait-for-service tcp://db:1 --timeout 5m", "instead of after 1 attempt,"},
		{"psql -h db -U a -c 'drop table b'", "error: a query whose errors count", ""},
		{`x=$(kubectl get node a -o jsonpath={.spec.podCIDR}); if [ -z "$x" ]; then echo no; exit 1; fi`, "wait-for-service k8s:node/a#jsonpath={.spec.podCIDR} --timeout 5m", "instead of after 1 attempt,"},
		{"if [ -f /x ]; then until nc -z db 1; do sleep 1; done; fi", "error: a wait under a condition", ""},
		{"if [ -f /x ]; then echo there; fi; until timeout 2 nc -z db 1; do sleep 1; done", "wait-for-service tcp://db:1 --attempt-timeout 2s --timeout 5m", forever},
		{"sleep $(cat /x)", "error: $(cat /x): a time that is not known", ""},
		{"until nc -z $(cat /x) 1; do sleep 1; done", "error: $(cat /x): what is in a file", ""},
		{"sleep 1; /app/run $(cat /x)", "error: $(cat /x): what is in a file", ""},
		{`N="$(cat /var/run/secrets/kubernetes.io/serviceaccount/namespace)"; until kubectl get secret a -n "$N"; do sleep 1; done`, "wait-for-service k8s:secret/a#exists --timeout 5m", forever},
		{`until kubectl get secret a -n "$(cat /x/namespace)"; do sleep 1; done`, "error: what is in a file", ""},
		{`until [ "$(kubectl get secret a -o jsonpath={.data.b})" != "" ]; do sleep 1; done`, "wait-for-service k8s:secret/a#jsonpath={.data.b} --timeout 5m", forever},
		{"apk add nc; /app/run", "error: apk add nc: what it installs", ""},
	} {
		result, err := readScript("sh", test.script, nil, container(t, someEnv))
		want, wantError := strings.CutPrefix(test.want, "error: ")
		if wantError {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s\n   got %s, %v\n  want the error %s", test.script, commandLine(result), err, want)
			}
			continue
		}
		notes := strings.Join(result.Differs, "\n")
		for _, unused := range result.Unused {
			notes += "\nunused: " + unused
		}
		if got := commandLine(result); err != nil || got != want || !strings.Contains(notes, test.differs) {
			t.Errorf("%s\n   got %s, %v\n  want %s\n%s", test.script, got, err, want, notes)
		}
	}
}

// TestImplied checks that pg_isready is left out where initbox would log in, and a later wait does.
func TestImplied(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"until pg_isready -h db -U $PGUSER; do sleep 1; done; until psql -h db -U $PGUSER -d b -c 'select 1'; do sleep 1; done":   "wait-for-service postgres://${env:PGUSER}@db/b --timeout 5m",
		"until pg_isready -h db -p 1; do sleep 1; done; sleep 1; until psql -h db -p 1 -U a -d b -c 'select 1'; do sleep 1; done": "sleep 1s -- wait-for-service postgres://a@db:1/b --timeout 5m",
		"until pg_isready -h db; do sleep 1; done":                                                                  "error: PGUSER",
		"until pg_isready -h db; do sleep 1; done; until psql -h db2 -U a -d b -c 'select 1'; do sleep 1; done":     "error: PGUSER",
		"until pg_isready -h db; do sleep 1; done; until psql -h db -p 1 -U a -d b -c 'select 1'; do sleep 1; done": "error: PGUSER",
		"until psql -h db -U a -d b -c 'select 1'; do sleep 1; done; until pg_isready -h db; do sleep 1; done":      "error: PGUSER",
	} {
		result, err := readScript("sh", script, nil, containerOf(t, "image: app, env: [{name: PGUSER, value: u}]", ""))
		got := commandLine(result)
		if err != nil {
			got = "error: " + err.(*shell.Error).Word
		}
		if got != want {
			t.Errorf("%s\n   got %s, %v\n  want %s", script, got, err, want)
		}
	}
}

// commandLine returns the steps as they are typed.
func commandLine(r Result) string {
	var all []string
	for _, s := range r.Steps {
		all = append(all, strings.Join(s.words(), " "))
	}
	return strings.Join(all, " -- ")
}

// TestReadScriptOfKubelet checks what the kubelet does with a script before the shell reads it.
func TestReadScriptOfKubelet(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"until nc -z $(HOST) 1; do sleep 1; done":               "tcp://db:1",
		"until nc -z '$(PORT)' 1; do sleep 1; done":             "tcp://$(PORT):1",
		"until nc -z $(PG_SERVICE_HOST) 1; do sleep 1; done":    "error: such a Service",
		"until nc -z $$HOST 1; do sleep 1; done":                "tcp://$(HOST):1",
		"until nc -z \"$1\" $2; do sleep 1; done":               "tcp://$(HOST):5",
		"HOST=other; until nc -z $HOST 1; do sleep 1; done":     "tcp://other:1",
		"X=$HOST; until nc -z $X 1; do sleep 1; done":           "tcp://$(HOST):1",
		"X=${Y:-other}; until nc -z $X 1; do sleep 1; done":     "tcp://other:1",
		"until nc -z ${LIST} 1; do sleep 1; done":               "error",
		"until nc -z \"$(cat <<<$(HOST))\" 1; do sleep 1; done": "error",
		"echo a 2> /data/errors > /data/a":                      "error: the errors of echo",
	} {
		result, err := readScript("sh", script, []string{"sh", "$(HOST)", "5"}, container(t, someEnv))
		if reason, wantError := strings.CutPrefix(want, "error"); wantError {
			if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(reason, ": ")) {
				t.Errorf("%s: %s, %v; want an error: %s", script, commandLine(result), err, reason)
			}
		} else if got := fmt.Sprint(commandLine(result)); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %s, %v; want %s", script, got, err, want)
		}
	}
}

func TestRoundUp(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1s 5s", "60s 1m", "61s 1m5s", "121s 2m30s", "10m 10m", "601s 11m", "3600s 1h", "90m 1h30m"} {
		given, want, _ := strings.Cut(text, " ")
		d, err := time.ParseDuration(given)
		if got := duration.Short(roundUp(d)); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", given, got, err, want)
		}
	}
}

// dash has no pipefail, which some versions of the shells of other images have.
func TestPipefailOfDash(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]Verdict{"debian:12": Kept, "ubuntu": Kept, "busybox": Different, "app": Different} {
		c := containerOf(t, "image: "+image+", volumeMounts: [{name: data, mountPath: /data}]", "  volumes: [{name: data, emptyDir: {}}]\n")
		c.Command = []string{"sh", "-c", "set -euo pipefail; touch /data/a"}
		if got := Container(c, "initbox", nil); got.Verdict != want {
			t.Errorf("%s: %s, %s; want %s", image, got.Verdict, got.Why, want)
		}
	}
}
