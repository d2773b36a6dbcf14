#!/bin/sh
# test.sh builds the image with a Docker daemon of its own and checks what it promises: the same bytes twice, a
# link for each subcommand, another architecture, and that it runs with no privilege at all.
#
# It needs no registry: the base image that the Dockerfile names is imported from this machine's Go toolchain and
# busybox. It needs root and Debian's docker.io and busybox-static; without them it is skipped, or fails where
# CI=true. Everything happens in a temporary directory, and nothing remains but a cache
# of compiled packages, in the user's cache directory.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" # where Debian keeps dockerd, and not in the PATH of a plain user
cd "$(dirname "$0")/.."

say() { echo "images/test.sh: $*"; }
fail() {
	say "FAILED: $*" >&2
	exit 1
}

# expect WHAT GOT WANTED
expect() {
	[ "$2" = "$3" ] || fail "$1 is \"$2\", not \"$3\""
	say "ok: $1: $2"
}

need() {
	for program in dockerd containerd busybox go; do
		command -v "$program" >/dev/null || absent "$program is not installed (apt-get install docker.io busybox-static)"
	done
	[ "$(id -u)" = 0 ] || absent "only root can start dockerd"
}

# docker is the client that came with the daemon, whatever else PATH may have first: BuildKit is in that one.
docker() { "$(dirname "$(dirname "$(command -v dockerd)")")/bin/docker" "$@"; }

absent() {
	[ "${CI-}" != true ] || fail "$1"
	say "skipped: $1"
	exit 0
}

# --- the daemon ---

# Without bridge and iptables, the daemon changes nothing in the machine's network; a containerd that already runs
# here would be used, so what this daemon does in it gets a namespace of its own.
start_dockerd() {
	for trace in $traces $(cgroups); do
		[ -e "$trace" ] || created="${created-} $trace"
	done
	echo '{}' >"$work/daemon.json"
	dockerd --config-file="$work/daemon.json" --host="$DOCKER_HOST" --pidfile="$work/dockerd.pid" \
		--data-root="$work/data" --exec-root="$work/exec" \
		--containerd-namespace=initbox-test --containerd-plugins-namespace=initbox-test-plugins \
		--bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
		>"$work/dockerd.log" 2>&1 &
	dockerd=$!
	for _ in $(seq 300); do
		! docker version >/dev/null 2>&1 || return 0
		kill -0 "$dockerd" 2>/dev/null || break
		sleep 0.1
	done
	tail -n 20 "$work/dockerd.log" >&2
	fail "dockerd does not start; its last words are above"
}

# What dockerd, containerd and runc leave outside their directories: empty directories, and a key.
traces="/etc/docker/key.json /etc/docker /opt/containerd /run/containerd /run/docker /run/runc"

# cgroups prints the parents of all containers: of cgroup v2, or of each controller of v1.
cgroups() {
	for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
		[ ! -e "$hierarchy/cgroup.procs" ] || echo "$hierarchy/docker"
	done
}

clean_up() {
	trap - EXIT INT TERM
	[ -z "${httpd-}" ] || kill "$httpd" 2>/dev/null || true
	if [ -n "${dockerd-}" ]; then
		kill "$dockerd" 2>/dev/null || true
		wait "$dockerd" 2>/dev/null || true
		for trace in $created; do
			find "$trace" -depth \( -type d -o -name key.json \) -delete 2>/dev/null || true
		done
	fi
	# BuildKit leaves the mount of a network namespace.
	awk -v under="$work/" 'index($5, under) == 1 {print $5}' /proc/self/mountinfo | sort -r | xargs -r umount
	rm -rf "$work"
}

# --- the base image ---

# import_base makes an image with what the Dockerfile's first stage runs: Go, the modules, and a shell.
import_base() {
	root="$work/base"
	mkdir -p "$root/bin" "$root/tmp" "$root/usr/local/go" "$root/modules"
	copy_with_libraries "$(command -v busybox)"
	mv "$root$(command -v busybox)" "$root/bin/busybox.tmp" && mv "$root/bin/busybox.tmp" "$root/bin/busybox"
	for applet in sh chmod ln touch; do
		ln -s busybox "$root/bin/$applet"
	done
	goroot=$(go env GOROOT)
	tar -C "$goroot" -cf - bin pkg src VERSION go.env | tar -C "$root/usr/local/go" -xf -

	# A directory of modules is also a proxy: from the one of this machine, and behind it from where it got them, take
	# what go.mod names, and no more. The build is then offline.
	GOFLAGS=-modcacherw GOMODCACHE="$work/modules" GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" \
		go mod download
	cp -R "$work/modules/cache/download/." "$root/modules"
	compile_dependencies "$(go env GOHOSTARCH)"
	compile_dependencies "$other"
	cp -R "$gocache" "$root/gocache"

	tar -C "$root" -cf - . | docker import --change 'ENV PATH=/usr/local/go/bin:/bin' \
		--change 'ENV GOTOOLCHAIN=local' --change 'ENV GOPROXY=file:///modules' --change 'ENV GOCACHE=/gocache' \
		- "$1" >/dev/null
	rm -r "$root"
}

# compile_dependencies ARCHITECTURE: compiles what is linked beside the packages of this module into $gocache, with the
# Dockerfile's flags. Each of the three builds would otherwise compile Go's and other modules' packages from the start; it
# still compiles those of this module, which are what the builds are compared for.
compile_dependencies() (
	export GOCACHE="$gocache" GOARCH="$1" CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -tags=urfave_cli_no_docs"
	go list -deps ./cmd/initbox | grep -v '^initbox/' | xargs go build
)

# copy_with_libraries copies a program, and the libraries of one that is not static, to where they were.
copy_with_libraries() {
	for file in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true); do
		mkdir -p "$root$(dirname "$file")"
		cp -L "$file" "$root$file"
	done
}

# --- building and looking inside ---

# build TAG CONTEXT FLAG...: with or without BuildKit, as DOCKER_BUILDKIT says.
build() {
	tag=$1 context=$2
	shift 2
	started=$(date +%s)
	if ! docker build --tag "$tag" --build-arg VERSION="$version" "$@" "$context" >"$work/build.log" 2>&1; then
		cat "$work/build.log" >&2
		fail "docker build does not build $tag"
	fi
	say "built the image \"$tag\" in $(($(date +%s) - started)) s"
}

inspect() { docker image inspect --format "$2" "$1"; }

# unpack TAG: the image's only layer as $work/TAG.tar, and its files in the directory $work/TAG.
unpack() {
	mkdir "$work/$1.image" "$work/$1"
	docker save "$1" | tar -C "$work/$1.image" -xf -
	layer=$(sed 's/.*"Layers":\["\([^"]*\)"\].*/\1/' "$work/$1.image/manifest.json")
	cp "$work/$1.image/$layer" "$work/$1.tar"
	tar -C "$work/$1" -xf "$work/$1.tar"
}

# machine FILE: the architecture that an ELF file is for, as Go calls it (e_machine, at offset 18).
machine() {
	case $(od -An -tu1 -j18 -N2 "$1" | tr -s ' ') in
	" 62 0") echo amd64 ;;
	" 183 0") echo arm64 ;;
	*) echo unknown ;;
	esac
}

check_layer() {
	layers=$(inspect "$1" '{{len .RootFS.Layers}}')
	expect "the number of layers" "$layers" 1
	unpack "$1"
	"$work/initbox" --list | sort >"$work/links"
	[ -s "$work/links" ] || fail "initbox --list names no subcommand"
	expect "what is at /" "$(cd "$work/$1" && echo *)" "$(echo initbox | sort - "$work/links" | xargs)"
	while read -r link; do
		[ "$(readlink "$work/$1/$link")" = initbox ] || fail "/$link is not a link to initbox"
	done <"$work/links"
	expect "owners and times in the layer" \
		"$(TZ=UTC tar --numeric-owner --full-time -tvf "$work/$1.tar" | awk '{print $2, $4, $5}' | sort -u)" \
		"0/0 1970-01-01 00:00:00"
	expect "the program's mode" "$(stat -c %a "$work/$1/initbox")" 755
}

# check_config TAG ARCHITECTURE
check_config() {
	expect "the image's architecture" "$(inspect "$1" '{{.Architecture}}')" "$2"
	expect "the program's architecture" "$(machine "$work/$1/initbox")" "$2"
	expect "the user" "$(inspect "$1" '{{.Config.User}}')" 65532:65532
	expect "the entrypoint" "$(inspect "$1" '{{.Config.Entrypoint}}')" '[/initbox]'
	expect "the version label" "$(inspect "$1" '{{index .Config.Labels "org.opencontainers.image.version"}}')" "$version"
}

# --- running ---

# run STATUS WHAT ARG...: an exit status, with all that the restricted Pod Security Standard takes away, and more.
run() {
	wanted=$1 what=$2 status=0
	shift 2
	docker run --rm --network=host --user="$uid:$uid" --read-only --cap-drop=ALL \
		--security-opt=no-new-privileges "$@" >"$work/run.log" 2>&1 || status=$?
	[ "$status" = "$wanted" ] || cat "$work/run.log" >&2
	expect "$what: exit status" "$status" "$wanted"
}

# listen_late starts a web server on a free port of loopback, after a while.
listen_late() {
	mkdir "$work/www"
	echo ok >"$work/www/healthz"
	for _ in $(seq 20); do
		port=$((20000 + $(od -An -tu2 -N2 /dev/urandom) % 12000))
		busybox nc -z -w 1 127.0.0.1 "$port" 2>/dev/null || break
	done
	(sleep 2 && exec busybox httpd -f -p "127.0.0.1:$port" -h "$work/www") &
	httpd=$!
}

check_running() {
	uid=$((100000 + $(od -An -tu2 -N2 /dev/urandom)))
	say "user $uid, read-only, no capabilities:"
	listen_late
	run 0 "waits for a port that opens two seconds later" "$1" wait-for-service "tcp://127.0.0.1:$port" --timeout 20s
	run 0 "the same under the name of a link" --entrypoint=/wait-for-service "$1" "tcp://127.0.0.1:$port" \
		"http://127.0.0.1:$port/healthz" --timeout 20s
	kill "$httpd"
	wait "$httpd" 2>/dev/null || true
	httpd=
	run 124 "gives up on a port that is closed" "$1" wait-for-service "tcp://127.0.0.1:$port" --timeout 300ms
	run 2 "rejects a bad command line" "$1" wait-for-service nonsense://
	run 127 "has no shell" --entrypoint=/bin/sh "$1" -c true
	check_stop "$1"
}

# check_stop: the kernel keeps from a container's first process every signal that it does not handle itself.
check_stop() {
	id=$(docker run --detach --network=none --user="$uid:$uid" --read-only --cap-drop=ALL "$1" sleep 1h)
	docker stop --time=10 "$id" >/dev/null
	expect "docker stop: exit status" "$(docker container inspect --format '{{.State.ExitCode}}' "$id")" 143
	docker rm "$id" >/dev/null
}

# --- the test ---

need
work=$(mktemp -d)
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export DOCKER_HOST="unix://$work/docker.sock" DOCKER_CONFIG="$work"

# Kept from one run to the next, in the user's cache directory: go itself removes from it what is no longer used.
gocache=${XDG_CACHE_HOME:-$HOME/.cache}/initbox-image
mkdir -p "$gocache"
here=$(go env GOHOSTARCH)
[ "$here" = arm64 ] && other=amd64 || other=arm64

version=1.2.3-test
CGO_ENABLED=0 go build -tags urfave_cli_no_docs -o "$work/initbox" ./cmd/initbox
start_dockerd
import_base "$(sed -n 's/^FROM .*\(golang:[^ ]*\) AS build$/\1/p' Dockerfile)"

# Once with each of Docker's builders, the second time from other files with the same text: neither the builder nor
# the files' directory and age may show.
export DOCKER_BUILDKIT=0
build classic . --no-cache
export DOCKER_BUILDKIT=1
mkdir "$work/elsewhere"
tar -cf - --exclude=./.git --exclude=./bin . | tar -C "$work/elsewhere" --touch -xf -
build native "$work/elsewhere" --no-cache --network=host
expect "the layer, built twice" "$(inspect native '{{.RootFS.Layers}}')" "$(inspect classic '{{.RootFS.Layers}}')"

build foreign . --network=host --platform="linux/$other"

check_layer native
check_config native "$here"
check_layer foreign
check_config foreign "$other"
check_running native

for tag in native foreign; do
	say "size for $(inspect $tag '{{.Architecture}}'): program $(stat -c %s "$work/$tag/initbox") bytes," \
		"compressed layer $(gzip -9c "$work/$tag.tar" | wc -c) bytes"
done
