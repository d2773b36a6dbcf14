#!/usr/bin/env bash
# build.sh builds the real helm 3 and 4 from the Go module proxy, and prints the directory that has helm3 and helm4. It
# is in the user's cache directory, under a name made from the module: what is built already is not built again. The
# first time takes minutes. With -n, nothing is built.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/initbox-chart
out=$cache/helm-$(cat "$here/helm/go.mod" "$here/helm/go.sum" | sha256sum | cut -c 1-8)

if [ "${1-}" = -n ]; then
	echo "$out"
	exit
fi
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two builds at once would take twice as long
if [ ! -e "$out" ]; then
	rm -rf "$out.tmp"
	for version in 3 4; do
		# A helm that does not know its own version takes the constraint kubeVersion of a chart for a wrong one.
		release=$(sed -n "s#.*helm.sh/helm/v$version \(v[0-9.]*\).*#\1#p" "$here/helm/go.mod" | head -n 1)
		echo "test/chart: building helm $release" >&2
		GOFLAGS="-trimpath -buildvcs=false" CGO_ENABLED=0 nice go build -C "$here/helm" \
			-ldflags "-s -w -X helm.sh/helm/v$version/internal/version.version=$release" \
			-o "$out.tmp/helm$version" "helm.sh/helm/v$version/cmd/helm" >&2
	done
	mv "$out.tmp" "$out"
fi
echo "$out"
