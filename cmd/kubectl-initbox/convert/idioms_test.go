package convert

import (
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

// TestIdioms pins the results for the forms that init containers mostly have, from the manifest to the command line. A
// result that begins with a dash is what stops the conversion.
func TestIdioms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ script, want string }{
		{"until nc -z db 5432; do echo waiting; sleep 2; done", "wait-for-service tcp://db:5432 --timeout 5m"},
		{"while ! nc -z -w 3 $DB_HOST $DB_PORT; do sleep 1; done", "wait-for-service tcp://$(DB_HOST):$(DB_PORT) --attempt-timeout 3s --timeout 5m"},
		{`until [ "$(nslookup db | grep Name | wc -l)" -ge 3 ]; do sleep 2; done`, "wait-for-dns db --min-records 3 --timeout 5m"},
		{`while [ "$(nslookup db | grep ^Name: | wc -l)" != 2 ]; do sleep 2; done`, "wait-for-dns db --min-records 2 --timeout 5m"},
		{`until [ "$(nslookup db | grep Name | wc -l)" -lt 3 ]; do sleep 2; done`, "-not how many times nslookup prints Name"},
		{`until [ "$(nslookup db | grep Name | wc -l)" != 3 ]; do sleep 2; done`, "-not how many times nslookup prints Name"},
		{`until [ "$(nslookup db | grep Address | wc -l)" = 3 ]; do sleep 2; done`, "-not how many times nslookup prints Name"},
		{`P=http; until wget -q -O /dev/null $P://$DB_HOST:$DB_PORT/; do nslookup $DB_HOST && echo waiting; sleep 5; done`, "-not the port of an HTTP server"},
		{`until wget -q -O /dev/null $SCHEME://$DB_USER:$DB_PW@$DB_HOST/; do nslookup $DB_HOST && echo waiting; sleep 5; done`,
			"wait-for-service http://${env:DB_USER}:${env:DB_PW}@$(DB_HOST)/#status=200-299 --timeout 5m"},
		{"curl -LO http://repo/kubectl; chmod +x kubectl; mv kubectl /usr/local/bin/; touch /data/a", "prepare /data/a#file"},
		{"curl -LO http://repo/kubectl; chmod +x kubectl; mv kubectl /usr/local/bin/; touch /data/a; /app/run", "-may matter to what else runs"},
		{"curl -LO http://repo/kubectl; chmod +x kubectl; mv kubectl /usr/local/bin/; cp /usr/local/bin/kubectl /data", "-"},
		{"touch a", "-in no volume"},
		{"until nslookup db; do sleep 2; done", "wait-for-dns db --timeout 5m"},
		{"until nslookup db; do sleep 2; done; until nc -z db 5432; do sleep 2; done", "wait-for-dns db --timeout 5m -- wait-for-service tcp://db:5432 --timeout 5m"},
		{"until nc -z a 1; do sleep 1; done; until nc -z b 2; do sleep 1; done", "wait-for-service tcp://a:1 tcp://b:2 --timeout 5m"},
		{"until curl -fsS http://api/health; do sleep 5; done", "wait-for-service http://api/health#no-redirect --timeout 5m"},
		{`until [ "$(curl -so /dev/null -w '%{http_code}' http://api/)" = 200 ]; do sleep 5; done`, "wait-for-service http://api/#status=200&no-redirect --timeout 5m"},
		{"until curl -s http://api/ | grep -q UP; do sleep 5; done", "wait-for-service http://api/#status=any&no-redirect&body=UP --timeout 5m"},
		{`until [ "$(wget -S http://api/ 2>&1 | awk '/^  HTTP/{print $2}')" -eq 200 ]; do sleep 5; done`, "wait-for-service http://api/#status=200&no-redirect --timeout 5m"},
		{`until [ "$(wget --spider -S http://api/ 2>&1 | awk '/HTTP\//{print $2}')" = 204 ]; do sleep 5; done`, "wait-for-service http://api/#status=204&no-redirect --timeout 5m"},
		{`until [ "$(wget -S http://api/ 2>&1 | awk '/^  HTTP/{print $2}')" != 404 ]; do sleep 5; done`, "-not the status in what wget -S writes"},
		{`until [ "$(wget -S http://api/ 2>&1 | awk '/^  HTTP/{print $3}')" = 200 ]; do sleep 5; done`, "-not the status in what wget -S writes"},
		{`until [ "$(wget -S http://api/ 2>&1 | awk '{print $2}')" = 200 ]; do sleep 5; done`, "-not the status in what wget -S writes"},
		{`until [ "$(wget -S http://api/ 2>&1 | awk '/^  HTTP/{print $2}' | head -n1)" = 200 ]; do sleep 5; done`, "-not the status in what wget -S writes"},
		{`until [ "$(wget http://api/ 2>&1 | awk '/^  HTTP/{print $2}')" = 200 ]; do sleep 5; done`, "-not the status in what wget -S writes"},
		{"until pg_isready -h db -p 5432 -U app; do sleep 1; done", "wait-for-service postgres://db:5432 --timeout 5m"},
		{"for i in $(seq 30); do nc -z db 5432 && exit 0; sleep 2; done; exit 1", "wait-for-service tcp://db:5432 --timeout 1m"},
		{"mkdir -p /data/a /data/b", "prepare /data/a /data/b"},
		{"mkdir -p /data/a && chown -R 999:999 /data", "prepare /data/a /data#owner=999:999&recursive"},
		{"rm -rf /data/lost+found", "prepare /data/lost+found#absent"},
		{"rm -rf /data/*", "prepare /data#empty&name=[^.]* --force"},
		{"sysctl -w vm.max_map_count=262144", "sysctl vm.max_map_count=262144"},
		{"sleep 10", "sleep 10s"},
		{"if [ -d /data ]; then touch /data/a; else mkdir /data; fi", "prepare /data/a#file"},
		{`T=; [ -d /data/ ] && T="$T /data"; if [ -n "$T" ]; then chown -R 5 $T; fi`, "prepare /data#owner=5&recursive"},
		{`[ -d /data/a ] && T="$T /data/a"; chown 5 $T`, "-$T: its value is not known"},
		{"until [ -d /data ]; do sleep 1; done", "wait-for-service file:///data --timeout 5m"},
		{"mkdir -p /data/$(hostname)", "prepare /data/$(HOSTNAME)"},
		{"D=/data/$HOSTNAME; mkdir -p $D && chmod 700 $D", "prepare /data/$(HOSTNAME)#mode=0700"},
		{`find /data -exec chown 5 {} \;`, "prepare /data#owner=5&recursive"},
		{"cat /config/a > /data/a || true", "-its failure is ignored"},
		{"chown -R 999:999 /data || true", "prepare /data#owner=999:999&recursive&ignore-errors"},
		{"mkdir -p /data/a; chmod 700 /data/a || true", "prepare /data/a /data/a#mode=0700&ignore-errors"},
		{"mkdir /data/a || true; chown 9 /data/a || echo no", "prepare /data/a#ignore-errors&owner=9"},
		{"rm /data/a.pid || true", "prepare /data/a.pid#absent=file&ignore-errors"},
		{"rm -rf /data/a /data/b || true", "prepare /data/a#absent&ignore-errors /data/b#absent&ignore-errors"},
		{"rm /data/*.pid || true", "prepare /data#empty&name=[^.]*.pid&older-than=0&ignore-errors --force"},
		{"[ -d /data/a ] || mkdir /data/a || true", "prepare /data/a#ignore-errors"},
		{`[ "$(stat -c %u /data)" = 9 ] || chown -R 9:5 /data`, "prepare /data#owner=9:5&recursive"},
		{"if [ $(stat -c %u /data) -ne 9 ]; then chown 9 /data; fi", "prepare /data#owner=9"},
		{`[ "$(stat -c %u /data)" = 8 ] || chown -R 9:5 /data`, "-/data: a condition"},
		{`[ "$(stat -c %u /data)" = 9 ] || chown -R 9:5 /data/a`, "-/data: a condition"},
		{`[ "$(stat -c %u /data)" = 9 ] || chmod 700 /data`, "-/data: a condition"},
		{`[ "$(stat -c %u /data)" != 9 ] || chown 9 /data`, "-/data: a condition"},
		{`[ "$(stat -c %a /data)" = 9 ] || chown 9 /data`, "-a condition that is not on a file"},
		{`[ "$(stat -c %u /data)" = root ] || chown root /data`, "-a condition that is not on a file"},
		{"kubectl get cm a -o jsonpath={.data.b} > /data/b 2>&1", "-kubectl: what it prints does not become a file"},
		{"kubectl get cm a -o jsonpath={.data.b} > /data/b", "kube-get k8s:cm/a#jsonpath={.data.b}&default&mode=0644 /data/b"},
		{"kubectl get cm a -o jsonpath={.data.b} > /data/b || true", "-its failure is ignored"},
		{"cp /data/a /data/b || true", "copy /data/a:/data/b#mode=go-w&optional"},
		{"mkdir -p /data/a && sleep 1 || true", "-&& in a list whose failure is ignored"},
		{"touch /data/a; rm -rf /data/a || true; echo x > /data/f || true", "-echo: its failure is ignored"},
		{"until nc -z db 5432; do sleep 2; done; exec /app/server --port 80", "/initbox-tools/initbox wait-for-service tcp://db:5432 --timeout 5m -- /app/server --port 80"},

		{"until nc -z $UNSET 5432; do sleep 2; done", "-nc: not called with a host and one port"}, // it is certainly unset: the word vanishes,
		{"until nc -z db 5432 || frobnicate; do sleep 2; done", "-frobnicate"},
		{"until nc --frobnicate db 5432; do sleep 2; done", "-frobnicate"},
		{"until nc -z db 5432; do kill 1; done", "-kill"},
		{"until nc -z db 5432; do sleep 2; done &", "-line 1"},
		{"mkdir -p /data/a; python3 /fix.py", "-python3"},
		{"mkdir -p /data/$(hostname -f)", "-hostname"},
		{"mkdir -p /data/$(HOSTNAME)", "-HOSTNAME"}, // a command of that name: env has no such variable
		{"chown app:app /data", "/initbox-tools/initbox prepare /data#owner=app:app"},
		{"cp -a /data/a /data/b || true", "-its failure is ignored"},
		{"cd /nowhere && rm -rf lib", "-/nowhere: whether it is a directory is not known"},
		{"cd /nowhere && mkdir -p /data/a", "-/nowhere: whether it is a directory is not known"}, // which cd decides about, too
		{"cd /data/a && touch b", "-/data/a: whether it is a directory is not known"},
		{"cd /data/a/ && touch b", "-/data/a/: whether it is a directory is not known"},
		{"cd /data; touch a; cd a; rm -rf b", "-/data/a: whether it is a directory is not known"},
		{"set -e; mkdir -p /data/a; rm -rf /data/a; cd /data/a; rm -rf b", "-/data/a: whether it is a directory is not known"},
		{"[ -d /data/a ] && cd /data/a; rm -rf b", "-"},
		{"cd /data && wget -q http://repo/a", "fetch http://repo/a /data/a"},
		{"cd /data && wget -q http://repo/a && wget -q http://repo/a", "-a: wget without -O does not write over a file"},
		{"set -e; if [ -f /data/db ]; then rm -rf /data/db; fi; mkdir -p /data/db", "prepare /data/db#absent=file /data/db"},
		{"mkdir -p /data/a; [ -f /data/a ] && rm -rf /data/a; true", "-/data/a: a condition"},
		{"! [ -f /data/a ] || rm -rf /data/a", "prepare /data/a#absent=file"},
		{"[ -d /data/a ] && rm -rf /data/a; true", "-/data/a: a condition"},
		{"git clone -q https://git/a /data/a && rm -rf /data/a/.git", "-/data/a/.git: the repository of a clone"},
		{"cp /dev/null /data/log", "-/dev/null: a device"},
		{"install -m 600 /dev/null /data/log", "-/dev/null: a device"},
		{"cat /dev/null > /data/log", "render --inline /data/log="},
		{"cd /data && rm -rf lib", "prepare /data/lib#absent"},
		{"mkdir -p /data/a; cd /data/a || exit 1; touch b", "prepare /data/a /data/a/b#file"},
		{"git -C /data/a clone https://git.example/b c", "-/data/a: whether it is a directory is not known"},
		{"cd /tmp && touch /data/a", "prepare /data/a#file"},
		{"umask 077; cat /data/a > /data/f", "-umask 077: a umask other than 022"},
		{"umask 077; curl -fo /data/f http://repo/f", "-umask 077: a umask other than 022"},
		{"umask 000; mkdir -p /data/logs && touch /data/logs/a", "-umask 000: a umask other than 022"},
		{"umask 0077; echo a > /data/f", "render --inline /data/f=a\n --mode 0600"},
		{"local x=1; touch /data/a", "-outside of a function"},
		{"f() { local x=a; touch /data/$x; }; f", "prepare /data/a#file"},
		{"chown -R 5:5 /", "-/: in no volume"},
		{"eval $DB_HOST", "-eval"},
		{"echo hello", "-nothing"},
	} {
		c := containerOf(t, "image: busybox, volumeMounts: [{name: data, mountPath: /data}], env: [{name: DB_HOST, value: db}, {name: DB_PORT, value: '5432'}, {name: SCHEME, value: http}, "+
			"{name: DB_USER, valueFrom: {secretKeyRef: {name: s, key: u}}}, {name: DB_PW, valueFrom: {secretKeyRef: {name: s, key: p}}}]",
			"  volumes: [{name: data, emptyDir: {}}]\n")
		c.Command = []string{"sh", "-c", tt.script}
		change := Container(c, "initbox", []*manifest.Object{c.Pod.Object})
		switch stop, stops := strings.CutPrefix(tt.want, "-"); {
		case stops && (change.Verdict != Kept || !strings.Contains(change.Why, stop)):
			t.Errorf("%s: %s, %q, %s; want it kept because of %s", tt.script, change.Verdict, change.Words, change.Why, stop)
		case !stops && strings.Join(change.Words, " ") != tt.want:
			t.Errorf("%s: %s, %q, %s; want %s", tt.script, change.Verdict, change.Words, change.Why, tt.want)
		}
	}
}
