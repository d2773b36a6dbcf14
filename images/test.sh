#!/bin/sh
# test.sh builds the image with its own Docker daemon and checks it: each subcommand has a link, it can be built for another
# architecture, and it runs without any privilege. It builds the images of make images, too, and checks that they have the
# same layer, and that Docker, containerd and skopeo take them.
#
# It needs no registry: the base image that the Dockerfile names is made from this machine's Go toolchain and busybox. It
# needs root and Debian's docker.io and busybox-static; without them it is skipped, or fails if CI=true. Everything happens
# in a temporary directory, and all that remains is a cache of compiled packages, in the user's cache directory.
set -eu
cd "$(dirname "$0")/.."

script=images/test.sh
. images/dockerd.sh

# What dockerd.sh does not know: the web server of listen_late.
before_clean_up() { [ -z "${httpd-}" ] || kill "$httpd" 2>/dev/null || true; }

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

	# A module cache is also a module proxy. Take what go.mod names from this machine's cache, or else from its proxy, so that
	# the build needs no network.
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

# compile_dependencies ARCHITECTURE: compiles the packages of Go and of other modules into $gocache, with the Dockerfile's
# flags. The three builds then compile only the packages of this module, which is what the comparison of them is about.
compile_dependencies() (
	export GOCACHE="$gocache" GOARCH="$1" CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -tags=urfave_cli_no_docs"
	go list -deps ./cmd/initbox | grep -v '^initbox/' | xargs go build
)

# --- building and looking inside ---

# build TAG CONTEXT FLAG...: builds with or without BuildKit, depending on DOCKER_BUILDKIT.
build() {
	tag=$1 context=$2
	shift 2
	started=$(date +%s)
	if ! docker build --tag "$tag" --build-arg VERSION="$version" "$@" "$context" >"$work/build.log" 2>&1; then
		cat "$work/build.log" >&2
		fail "docker build failed for $tag"
	fi
	say "built the image \"$tag\" in $(($(date +%s) - started)) s"
}

inspect() { docker image inspect --format "$2" "$1"; }

# unpack TAG: stores the image's only layer as $work/TAG.tar, and its files in the directory $work/TAG.
unpack() {
	mkdir "$work/$1.image" "$work/$1"
	docker save "$1" | tar -C "$work/$1.image" -xf -
	layer=$(sed 's/.*"Layers":\["\([^"]*\)"\].*/\1/' "$work/$1.image/manifest.json")
	cp "$work/$1.image/$layer" "$work/$1.tar"
	tar -C "$work/$1" -xf "$work/$1.tar"
}

# machine FILE: prints the architecture of an ELF file, by Go's name (e_machine, at offset 18).
machine() {
	case $(od -An -tu1 -j18 -N2 "$1" | tr -s ' ') in
	" 62 0") echo amd64 ;;
	" 183 0") echo arm64 ;;
	" 40 0") echo arm ;;
	*) echo unknown ;;
	esac
}

check_layer() {
	layers=$(inspect "$1" '{{len .RootFS.Layers}}')
	expect "the number of layers" "$layers" 1
	unpack "$1"
	"$work/initbox" --list | sort >"$work/links"
	[ -s "$work/links" ] || fail "initbox --list names no subcommand"
	expect "what is at /" "$(cd "$work/$1" && echo *)" "$(echo bin | sort - "$work/links" | xargs)"
	expect "what is in /bin" "$(cd "$work/$1/bin" && echo *)" initbox
	while read -r link; do
		[ "$(readlink "$work/$1/$link")" = bin/initbox ] || fail "/$link is not a link to bin/initbox"
	done <"$work/links"
	expect "owners and times in the layer" \
		"$(TZ=UTC tar --numeric-owner --full-time -tvf "$work/$1.tar" | awk '{print $2, $4, $5}' | sort -u)" \
		"0/0 1970-01-01 00:00:00"
	expect "the program's mode" "$(stat -c %a "$work/$1/bin/initbox")" 755
}

# check_config TAG ARCHITECTURE
check_config() {
	expect "the image's architecture" "$(inspect "$1" '{{.Architecture}}')" "$2"
	expect "the program's architecture" "$(machine "$work/$1/bin/initbox")" "$2"
	expect "the user" "$(inspect "$1" '{{.Config.User}}')" 65532:65532
	expect "the entrypoint" "$(inspect "$1" '{{.Config.Entrypoint}}')" '[/bin/initbox]'
	expect "the version label" "$(inspect "$1" '{{index .Config.Labels "org.opencontainers.image.version"}}')" "$version"
}

# --- the images of make images ---

loaded=registry.example/initbox

# check_images ARCHITECTURE TAG: builds the images from the program, loads them, and compares the layer with TAG's.
check_images() {
	go run -C images . build -binaries "$work/binaries" -o "$work/images-$1.tar" -version "$version" -tag "$1" \
		-registry registry.example -docker "$1" -platforms "linux/$(echo "$1" | sed 's,^arm$,arm/v7,')"
	docker load --quiet --input "$work/images-$1.tar" >/dev/null
	expect "the layer for $1, built without Docker" "$(inspect "$loaded:$1" '{{.RootFS.Layers}}')" "$(inspect "$2" '{{.RootFS.Layers}}')"
	expect "the images" "$(docker image ls --quiet --filter reference="$loaded*:$1" | wc -l)" "$(($(wc -l <"$work/links") + 1))"
}

# check_containerd FILE: imports the images as kind load image-archive does, into the containerd that dockerd has started.
check_containerd() {
	socket=$work/exec/containerd/containerd.sock
	if [ ! -S "$socket" ]; then
		say "containerd: skipped, dockerd uses that of the machine"
		return
	fi
	ctr --address "$socket" --namespace initbox-import images import --all-platforms --digests "$1" >"$work/ctr.log" 2>&1 || {
		cat "$work/ctr.log" >&2
		fail "ctr images import"
	}
	expect "the image in containerd" "$(ctr --address "$socket" --namespace initbox-import images ls --quiet name=="$loaded-sleep:$here")" "$loaded-sleep:$here"
}

# check_skopeo FILE: copies an image out of the layout, and looks for its layer.
check_skopeo() {
	if ! command -v skopeo >/dev/null; then
		absent_part "skopeo is not installed (apt-get install skopeo)"
		return
	fi
	echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$work/policy.json"
	skopeo --policy "$work/policy.json" copy --quiet "oci-archive:$1:initbox-sleep:$here" "dir:$work/skopeo"
	expect "the entrypoint that skopeo copied" "$(grep -l '"Entrypoint":\["/sleep"\]' "$work"/skopeo/* | wc -l)" 1
}

# absent_part WHY: a part is skipped, or fails if CI=true.
absent_part() {
	[ "${CI-}" != true ] || fail "$1"
	say "skipped: $1"
}

# --- running ---

# run STATUS WHAT ARG...: checks an exit status under all restrictions of the restricted Pod Security Standard, and more.
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

# check_stop: the kernel delivers to a container's first process only the signals that it handles.
check_stop() {
	id=$(docker run --detach --network=none --user="$uid:$uid" --read-only --cap-drop=ALL "$1" sleep 1h)
	docker stop --time=10 "$id" >/dev/null
	expect "docker stop: exit status" "$(docker container inspect --format '{{.State.ExitCode}}' "$id")" 143
	docker rm "$id" >/dev/null
}

# --- the test ---

need dockerd:docker.io containerd:docker.io busybox:busybox-static go:golang
begin

# The cache is kept between runs, in the user's cache directory; go itself removes what is no longer used.
gocache=${XDG_CACHE_HOME:-$HOME/.cache}/initbox-image
mkdir -p "$gocache"
here=$(go env GOHOSTARCH)
other=arm # where an int has 32 bits

version=1.2.3-test
mkdir "$work/binaries"
CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" go build -tags urfave_cli_no_docs -ldflags "-s -w -buildid= -X main.version=$version" \
	-o "$work/binaries/initbox-linux-$here" ./cmd/initbox
cp "$work/binaries/initbox-linux-$here" "$work/initbox"
start_dockerd --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false
import_base "$(sed -n 's/^FROM .*\(golang:[^ ]*\) AS build$/\1/p' Dockerfile)"

# Once with each of Docker's builders, and in /src of a container. The program for here was built above in another directory,
# and neither the builder nor the path may change the layer.
export DOCKER_BUILDKIT=0
build classic . --no-cache
export DOCKER_BUILDKIT=1
build foreign . --network=host --platform="linux/$other/v7"
check_layer classic
check_config classic "$here"
check_layer foreign
check_config foreign "$other"
cp "$work/foreign/bin/initbox" "$work/binaries/initbox-linux-$other"

check_images "$here" classic
check_images "$other" foreign
expect "the labels of initbox-sleep" "$(inspect "$loaded-sleep:$here" '{{index .Config.Labels "org.opencontainers.image.title"}}')" initbox-sleep
check_running "$loaded:$here"
run 0 "the image of a subcommand" "$loaded-sleep:$here" 10ms
check_containerd "$work/images-$here.tar"
check_skopeo "$work/images-$here.tar"

for tag in classic foreign; do
	say "size for $(inspect $tag '{{.Architecture}}'): program $(stat -c %s "$work/$tag/bin/initbox") bytes," \
		"compressed layer $(gzip -9c "$work/$tag.tar" | wc -c) bytes"
done
