#!/bin/sh
# test.sh runs the examples for docker compose and docker run with Debian's docker.io and docker-compose, as a reader would:
# what is in compose.yaml and healthcheck.yaml, and the commands in docker/README.md. It checks that they come up in order,
# what is said if they do not, and that a second run changes nothing.
#
# It needs no registry: the images are made from bin/initbox, which make build leaves, and from this machine's PostgreSQL, git
# and busybox. It needs root; without a program it is skipped, or fails if CI=true. The daemon is its own, and has its own
# network namespace, so its bridges and rules are not the machine's.
set -eu
cd "$(dirname "$0")/../.."

script=examples/compose/test.sh
. images/dockerd.sh
export PATH="$PATH:$(echo /usr/lib/postgresql/*/bin)"
need dockerd:docker.io containerd:docker.io docker-compose:docker-compose busybox:busybox-static go:golang git:git \
	initdb:postgresql iptables:iptables ip:iproute2
[ "${1-}" = inside ] || exec unshare --net --mount "$0" inside

# --- images ---

# import TAG FLAG...: makes an image of the files below $root.
import() {
	tag=$1
	shift
	tar -C "$root" -cf - . | docker import "$@" - "$tag" >/dev/null
	rm -r "$root"
}

# tools PROGRAM...: starts an image with busybox under these names.
tools() {
	root=$work/root
	mkdir -p "$root/bin" "$root/etc" "$root/tmp"
	chmod 1777 "$root/tmp"
	cp "$(command -v busybox)" "$root/bin/busybox"
	for applet; do ln -s busybox "$root/bin/$applet"; done
}

# postgres_image TAG makes an image that takes the same settings as the one on Docker Hub, as far as they are needed here,
# and starts in the same way: the server that sets up the database listens on a socket only.
postgres_image() {
	tools sh cat chown chmod id mv sleep su
	bin=$(pg_config --bindir) share=$(pg_config --sharedir) lib=$(pg_config --pkglibdir)
	for program in initdb postgres psql pg_ctl; do copy_with_libraries "$bin/$program"; done
	mkdir -p "$root$share" "$root$lib"
	tar -C "$share" --exclude=./man --exclude=./contrib -cf - . | tar -C "$root$share" -xf -
	cp "$lib/plpgsql.so" "$lib/dict_snowball.so" "$root$lib"
	printf 'root:x:0:0::/:/bin/sh\npostgres:x:999:999::/:/bin/sh\n' >"$root/etc/passwd"
	printf 'root:x:0:\npostgres:x:999:\n' >"$root/etc/group"
	cat >"$root/entrypoint" <<-'ENTRYPOINT'
		#!/bin/sh
		set -eu
		[ $# = 0 ] || exec "$@"
		data=/var/lib/postgresql/data
		if [ "$(id -u)" = 0 ]; then
			export POSTGRES_PASSWORD="$(cat "$POSTGRES_PASSWORD_FILE")"
			chown 999:999 "$data" && chmod 700 "$data"
			exec su postgres -s /bin/sh -c /entrypoint
		fi
		if [ ! -s "$data/pg_hba.conf.ours" ]; then
			initdb -D "$data" -U postgres -A trust --locale=C --no-sync --no-instructions >/dev/null
			pg_ctl -D "$data" -w -o "-c listen_addresses= -k /tmp" start >/dev/null
			psql -h /tmp -U postgres -qc "CREATE USER $POSTGRES_USER SUPERUSER PASSWORD '$POSTGRES_PASSWORD'" \
				-c "CREATE DATABASE $POSTGRES_USER OWNER $POSTGRES_USER"
			pg_ctl -D "$data" -w stop >/dev/null
			echo 'host all all all scram-sha-256' >"$data/pg_hba.conf.ours"
		fi
		exec postgres -D "$data" -c 'listen_addresses=*' -c "hba_file=$data/pg_hba.conf.ours" -k /tmp
	ENTRYPOINT
	chmod 755 "$root/entrypoint"
	import "$1" --change 'ENTRYPOINT ["/entrypoint"]' --change 'VOLUME /var/lib/postgresql/data' \
		--change "ENV PATH=$bin:/bin"
}

# initbox_image TAG makes an image of bin/initbox as the Dockerfile does.
initbox_image() {
	root=$work/root
	mkdir -p "$root/bin"
	cp bin/initbox "$root/bin/initbox"
	for name in $(bin/initbox --list); do ln -s bin/initbox "$root/$name"; done
	import "$1" --change 'USER 65532:65532' --change 'ENTRYPOINT ["/bin/initbox"]' --change 'WORKDIR /'
}

# go_image TAG stands for the image of Go: its go hands over what this machine's has built.
go_image() {
	tools sh cp mkdir
	CGO_ENABLED=0 go build -C examples/compose/web -trimpath -buildvcs=false -o "$root/built" .
	printf '#!/bin/sh\n# build -o FILE .\ncp /built "$3"\n' >"$root/bin/go"
	chmod 755 "$root/bin/go"
	import "$1" --change 'ENV PATH=/bin'
}

# servers_image TAG has a web server, for files, and test/e2e/app, which serves Git.
servers_image() {
	tools sh httpd
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$root/bin/app" ./test/e2e/app
	for program in "$(command -v git)" "$(git --exec-path)/git-http-backend"; do copy_with_libraries "$program"; done
	mkdir -p "$root/www" "$root/repositories" "$work/theme"
	echo 'body { margin: 2em }' >"$work/theme/theme.css"
	tar -C "$work" -czf "$root/www/theme.tar.gz" theme
	import "$1" --change 'ENV PATH=/usr/bin:/bin'
}

# --- compose ---

# compose ARG...: runs docker-compose on the example.
compose() { docker-compose --ansi never --project-directory examples/compose "$@"; }

# container SERVICE: prints the ID of its container, whatever name this version of compose gives it.
container() {
	docker ps --all --quiet --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$1"
}

inspect() { docker container inspect --format "$2" "$(container "$1")"; }

# moment SERVICE FIELD: prints when a container started or finished, in nanoseconds.
moment() { date -d "$(inspect "$1" "{{.State.$2}}")" +%s%N; }

# ended_before FIRST SECOND
ended_before() {
	[ "$(moment "$1" FinishedAt)" -le "$(moment "$2" StartedAt)" ] || fail "$2 started before $1 had ended"
	expect "$1, before $2: exit status" "$(inspect "$1" '{{.State.ExitCode}}')" 0
}

# up FILE FLAG...: brings the example up, and says how long that took.
up() {
	file=$1
	shift
	started=$(date +%s)
	if ! compose -f "examples/compose/$file" up --detach "$@" >"$work/up.log" 2>&1; then
		cat "$work/up.log" >&2
		compose -f "examples/compose/$file" logs --no-color >&2
		fail "$file does not come up"
	fi
	say "$file is up after $(($(date +%s) - started)) s"
}

down() { compose -f "examples/compose/$1" down --volumes --timeout 0 >/dev/null 2>&1; }

visit() { busybox wget -qO- "http://127.0.0.1:$PORT/"; }

# until_true COMMAND...: repeats a command until it succeeds.
until_true() {
	for _ in $(seq 600); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	fail "still fails after a minute: $*"
}

# state prints what a second run must not change: the volumes' files, and which containers run since when.
state() {
	for volume in secrets config tools; do
		find "$work/data/volumes/${project}_$volume" -type f -printf '%P %i %T@ %m %U:%G %s\n' 2>/dev/null || true
	done | sort
	for service in db web; do inspect "$service" "{{.Id}} {{.State.StartedAt}}"; done
}

# check_again FILE: a second run changes nothing.
check_again() {
	state >"$work/before"
	up "$1"
	state >"$work/after"
	diff "$work/before" "$work/after" >&2 || fail "$1: a second up has changed something, see above"
	expect "$1: files and containers after a second up" "$(wc -l <"$work/after")" "$(wc -l <"$work/before")"
}

check_completed() {
	export COMPOSE_PROJECT_NAME=compose project=compose
	up compose.yaml --build
	ended_before volumes config
	ended_before config db
	ended_before config wait
	ended_before wait migrate
	ended_before migrate web
	until_true visit
	expect "the second visit" "$(visit)" "Visits: 2"
	check_again compose.yaml
	expect "a visit after that" "$(visit)" "Visits: 3"
}

check_healthcheck() {
	export COMPOSE_PROJECT_NAME=healthcheck project=healthcheck
	up healthcheck.yaml
	ended_before config db
	ended_before migrate web
	expect "the database" "$(inspect db '{{.State.Health.Status}}')" healthy
	until_true healthy web
	expect "the application" "$(inspect web '{{.State.Health.Status}}')" healthy
	expect "a visit" "$(visit)" "Visits: 1"
	check_again healthcheck.yaml
}

healthy() { [ "$(inspect "$1" '{{.State.Health.Status}}')" = healthy ]; }

# check_refused FILE [SETTINGS]: the database, with these settings, never listens. What depends on it does not start.
check_refused() {
	export COMPOSE_PROJECT_NAME=refused project=refused
	cat >"$work/refused.yaml" <<-OVERRIDE
		services:
		  db: {command: [sleep, 1h]${2:+, $2}}
	OVERRIDE
	status=0
	compose -f "examples/compose/$1" -f "$work/refused.yaml" up --detach >"$work/up.log" 2>&1 || status=$?
	expect "$1 without a database: the status of up" "$status" 1
	tail -n 3 "$work/up.log"
	for service in migrate web; do # version 2 of compose has created their containers
		[ -z "$(container $service)" ] || expect "$service: started" "$(inspect $service '{{.State.StartedAt}}')" "0001-01-01T00:00:00Z"
	done
}

# says FILE TEXT
says() {
	cat "$1"
	grep -q "$2" "$1" || fail "this does not say what is missing: $2"
}

check_failing_wait() {
	export WAIT_TIMEOUT=2s
	check_refused compose.yaml
	expect "the wait: exit status" "$(inspect wait '{{.State.ExitCode}}')" 124
	docker logs "$(container wait)" >"$work/wait.log" 2>&1
	says "$work/wait.log" 'db.*connection refused'
	down compose.yaml
	unset WAIT_TIMEOUT
}

check_failing_healthcheck() {
	check_refused healthcheck.yaml 'healthcheck: {retries: 2}'
	expect "the database" "$(inspect db '{{.State.Health.Status}}')" unhealthy
	inspect db '{{range .State.Health.Log}}{{.ExitCode}}: {{.Output}}{{end}}' >"$work/health.log"
	says "$work/health.log" 'localhost.*connection refused'
	down healthcheck.yaml
}

# --- docker run ---

# blocks FILE: prints each block of shell in a page, preceded by a line with its number.
blocks() { awk '/^```sh$/ {n++; on = 1; print "#block " n; next} /^```$/ {on = 0} on' "$1"; }

# check_docker runs the commands of examples/docker/README.md. They may use the network and the application of compose.yaml;
# the servers they download from are here.
check_docker() {
	docker run --detach --name files --network compose_default --network-alias files.example servers \
		/bin/httpd -f -p 80 -h /www >/dev/null
	docker run --detach --name git --network compose_default --network-alias git.example --publish 127.0.0.1:8081:80 servers \
		/bin/app -git :80 >/dev/null
	until_true busybox wget -qO- http://127.0.0.1:8081/
	printf 'blob\nmark :1\ndata 6\nhello\n\ncommit refs/heads/main\ncommitter A <a@git.example> 0 +0000\ndata 1\nx\nM 644 :1 index.html\n' |
		curl -fsS --data-binary @- http://127.0.0.1:8081/import/site.git >/dev/null
	mkdir "$work/docker"
	blocks examples/docker/README.md |
		sed 's,https://\([a-z]*\)\.example,http://\1.example,; s/^docker run /&--network compose_default /' >"$work/blocks"
	last=$(grep -c '^#block' "$work/blocks")
	for n in $(seq "$last"); do
		[ "$n" != "$last" ] || expect "the files in the volume" "$(cd "$work/data/volumes/site/_data" && \
			find . -name '.?*' -prune -o -type f -print | sort | xargs)" \
			"./conf/nginx.conf ./content/index.html ./themes/theme/theme.css"
		awk -v n="$n" '/^#block/ {on = $2 == n; next} on' "$work/blocks" >"$work/block"
		(cd "$work/docker" && PATH="$work/bin:$PATH" sh -eu "$work/block") >"$work/block.log" 2>&1 || {
			cat "$work/block" "$work/block.log" >&2
			fail "examples/docker/README.md: block $n: status $?"
		}
		cat "$work/block.log"
		say "ok: block $n"
	done
	docker rm --force files git >/dev/null
}

# --- the test ---

ip link set lo up
mount -t tmpfs tmpfs /run # what Docker leaves there ends with this mount namespace
begin
export PORT=8080 INITBOX_IMAGE=registry.example/initbox:1.2.3
mkdir "$work/bin"
ln -s "$(dirname "$(dirname "$(command -v dockerd)")")/bin/docker" "$work/bin/docker"
start_dockerd --iptables=true
initbox_image "$INITBOX_IMAGE"
postgres_image postgres:17
go_image golang:1.26
servers_image servers
say "the images are there"
check_completed
check_docker
down compose.yaml
check_healthcheck
down healthcheck.yaml
check_failing_wait
check_failing_healthcheck
