#!/usr/bin/env bash
# build.sh builds a Kubernetes for this machine, from Debian's packages (runc, CNI plugins, etcd) and from the Go module
# proxy (Kubernetes itself, containerd, CoreDNS), into the directories that lib.sh's function built prints. It takes seven
# to ten minutes on two cores, and 5 GB of disk meanwhile. What is built already is not built again.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

"$root/test/install-servers.sh" cluster >&2
for program in runc /usr/lib/cni/bridge iptables conntrack etcd openssl nsenter ip; do
	command -v "$program" >/dev/null || fail "$program is not installed"
done

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two builds at once would take twice as long

# build MODULE PACKAGE…: builds programs into the module's directory: all or none of them, even if it is killed. Without
# debugging information, the compiler is somewhat faster.
build() {
	local module=$1 out pid started=$SECONDS
	shift
	out=$(built "$module")
	[ ! -e "$out" ] || return 0
	say "building $module"
	rm -rf "$out".tmp
	mkdir -p "$out".tmp/bin
	# Separate caches: they are large, and useless when everything is built. Until then they stay, so that a build that was
	# killed can continue.
	GOCACHE=$cache/gocache GOMODCACHE=$cache/gomodcache GOFLAGS="-trimpath -buildvcs=false -modcacherw" CGO_ENABLED=0 \
		nice go build -C "$here/$module" -gcflags all=-dwarf=false -ldflags "-s -w ${stamps-}" -o "$out".tmp/bin/ "$@" >"$out".tmp/log 2>&1 &
	pid=$!
	progress "$out".tmp/bin "$pid"
	wait "$pid" || { grep -v '^go: downloading ' "$out".tmp/log >&2; fail "go build failed; its output is above"; }
	mv "$out".tmp "$out"
}

# progress DIR PID: prints a line for each program as it appears, until the process ends.
progress() {
	local program said=" " alive=1
	while [ -n "$alive" ]; do
		kill -0 "$2" 2>/dev/null || alive=
		for program in "$1"/*; do
			case $said in *" ${program##*/} "*) continue ;; esac
			[ -x "$program" ] || continue # go build makes it executable when it is complete
			said="$said${program##*/} "
			say "built ${program##*/}: $((SECONDS - started)) s"
		done
		[ -z "$alive" ] || sleep 1
	done
}

# build_pause makes the image of a Pod's sandbox.
build_pause() {
	local out
	out=$(built pause)
	[ ! -e "$out" ] || return 0
	rm -rf "$out".tmp
	mkdir -p "$out".tmp
	(
		cd "$root"
		CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$out".tmp/pause ./test/cluster/pause
		go run ./test/e2e/image -tag "$PAUSE" -o "$out".tmp/pause.tar "$out".tmp/pause
	)
	mv "$out".tmp "$out"
	say "built pause.tar"
}

kubernetes=$(sed -n 's#.*k8s.io/kubernetes v\([0-9.]*\).*#\1#p' "$here/kube/go.mod" | head -n 1)
version=k8s.io/component-base/version # what the programs report as their version
stamps="-X $version.gitVersion=v$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=$(echo "$kubernetes" | cut -d . -f 2)" \
	build kube k8s.io/kubernetes/cmd/{kubelet,kube-apiserver,kube-controller-manager,kube-scheduler,kube-proxy,kubectl}
build containerd -tags "no_btrfs no_devmapper no_zfs" github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr}
build coredns .
build_pause
rm -rf "$cache/gocache" "$cache/gomodcache"
