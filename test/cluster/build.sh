#!/usr/bin/env bash
# build.sh builds a Kubernetes for this machine, with what Debian has (containerd, runc, CNI plugins, etcd) and what
# the Go module proxy has (Kubernetes itself, CoreDNS); the last line names the folder. Six to ten minutes on two
# cores, and 5 GB of disk meanwhile; what has been built already is left as it is.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

"$root/test/install-servers.sh" cluster >&2
for program in containerd runc /usr/lib/cni/bridge iptables conntrack etcd openssl nsenter ip; do
	command -v "$program" >/dev/null || fail "$program is not installed"
done

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two builds at once would take twice as long

out=$(built)
if [ ! -e "$out" ]; then
	# Caches of their own: they are large, and of no use when everything is built.
	export GOCACHE=$cache/gocache GOMODCACHE=$cache/gomodcache CGO_ENABLED=0
	export GOFLAGS="-trimpath -buildvcs=false -modcacherw"
	rm -rf "$out".tmp
	mkdir -p "$out".tmp/bin
	say "building Kubernetes $version: six to ten minutes on two cores"
	started=$SECONDS
	stamp=k8s.io/component-base/version # what the programs say of themselves
	nice go build -C "$here/kube" -o "$out".tmp/bin/ \
		-ldflags "-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$(echo "$version" | cut -d . -f 2)" \
		k8s.io/kubernetes/cmd/{kubelet,kube-apiserver,kube-controller-manager,kube-scheduler,kube-proxy,kubectl}
	nice go build -C "$here/coredns" -ldflags '-s -w' -o "$out".tmp/bin/coredns .
	(
		unset GOMODCACHE GOCACHE # of the main module
		cd "$root"
		go build -ldflags '-s -w' -o "$out".tmp/pause ./test/cluster/pause
		go run ./test/e2e/image -tag "$PAUSE" -o "$out".tmp/pause.tar "$out".tmp/pause
	)
	mv "$out".tmp "$out" # all of it or nothing, whenever this is killed
	rm -rf "$cache/gocache" "$cache/gomodcache"
	say "built in $((SECONDS - started)) s: $(du -sh "$out" | cut -f 1)"
fi
echo "$out"
