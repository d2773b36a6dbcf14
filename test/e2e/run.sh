#!/usr/bin/env bash
# run.sh runs the suite on the cluster of $KUBECONFIG, or on its own (test/cluster; root, Debian). It needs bin/initbox
# and bin/kubectl-initbox, which make build leaves. Arguments are passed to the binary of go test, as in
# run.sh -test.run Stuck.
#
# For another cluster, LOAD_IMAGE is the command that loads an image into it; the path of the file is appended:
#
#   KUBECONFIG=~/.kube/config LOAD_IMAGE="kind load image-archive" make e2e
#   KUBECONFIG=~/.kube/config LOAD_IMAGE="k3d image import" make e2e
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/cluster/lib.sh

enter=() down=
work=$(mktemp -d)
trap 'rm -rf "$work"; $down' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ -z "${KUBECONFIG-}" ]; then
	KUBECONFIG=$STATE/kubeconfig LOAD_IMAGE=test/cluster/load-image.sh
	export E2E_CLUSTER=$PWD/test/cluster
	init_pid >/dev/null || down="$here/down.sh" # a running cluster keeps running
	test/cluster/up.sh
	PATH="$(built kube)/bin:$PATH"
	enter=("$here/enter.sh")
fi
export KUBECONFIG E2E_INITBOX=$PWD/bin/initbox
build=-n # without helm, its cases are skipped
[ "${CI-}" != true ] || build=
E2E_HELMS=$(test/chart/build.sh $build)
export E2E_HELMS
: "${LOAD_IMAGE:?a command that loads an image into the cluster of \$KUBECONFIG, such as: kind load image-archive}"

# part NAME: prints how long the part took.
part() { echo "test/e2e: $1: $((SECONDS - ${began:-0})) s" >&2; began=$SECONDS; }
part "cluster"

# postgres_image makes an image of this machine's PostgreSQL: its programs and libraries, the shell and the files that
# they need, and the name of the user, which they ask for.
postgres_image() {
	local programs files=$work/postgres-files
	programs=$(find /usr/lib/postgresql -name bin | sort -V | tail -n 1)
	local installed=${programs%/bin}
	mkdir -p "$files/etc" "$files/usr/bin" "$files$installed/lib" "$files/usr/share/postgresql"
	echo "postgres:x:999:999::/:" >"$files/etc/passwd"
	cp "$programs/psql" "$files/usr/bin"
	cp "$installed"/lib/*.so "$files$installed/lib"
	cp -r "/usr/share/postgresql/${installed##*/}" "$files/usr/share/postgresql"
	mkdir "$work/entrypoint"
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.programs=$programs" -o "$work/entrypoint/entrypoint" ./test/e2e/postgres
	go run ./test/e2e/image -tag postgres:e2e -with "/bin/sh,$programs/postgres,$programs/initdb,$programs/psql" -files "$files" \
		-o "$work/postgres.tar" "$work/entrypoint/entrypoint"
}

mkdir "$work/app" # the program is called app
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$work/app/app" ./test/e2e/app
go run ./test/e2e/image -tag initbox:e2e -links -o "$work/initbox.tar" bin/initbox
go run ./test/e2e/image -tag app:e2e -o "$work/app.tar" "$work/app/app"
go run ./test/e2e/image -tag git:e2e -with "git,$(git --exec-path)/git-http-backend" -o "$work/git.tar" "$work/app/app"
go run ./test/e2e/image -tag redis:e2e -with redis-server -o "$work/redis.tar" "$work/app/app"
go run ./test/e2e/image -tag etcd:e2e -with etcd -o "$work/etcd.tar" "$work/app/app"
go run ./test/e2e/image -tag prometheus:e2e -with prometheus -o "$work/prometheus.tar" "$work/app/app"
postgres_image
go run ./test/e2e/image -tag theme:e2e -files test/e2e/testdata/theme -o "$work/theme.tar" "$work/app/app"
mkdir "$work/registry" # likewise
(cd test/registry && CGO_ENABLED=0 GOWORK=off go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$work/registry/registry" .)
go run ./test/e2e/image -tag registry:e2e -o "$work/registry.tar" "$work/registry/registry"
go build -C images -o "$work/images" .
mkdir "$work/binaries"
cp bin/initbox "$work/binaries/initbox-linux-$(go env GOARCH)"
export E2E_IMAGES=$work/images E2E_IMAGES_ARCHIVE=$work/images.tar
"$E2E_IMAGES" build -binaries "$work/binaries" -tag e2e -platforms "linux/$(go env GOARCH)" -o "$E2E_IMAGES_ARCHIVE"
go test -c -o "$work/e2e.test" ./test/e2e
mkdir "$work/plugins" # kubectl finds them in $PATH
cp bin/kubectl-initbox "$work/plugins"
PATH=$work/plugins:$PATH
mkdir -p "$work/busybox/bin"
for applet in sh nslookup sleep; do
	cp "$(command -v busybox)" "$work/busybox/bin/$applet"
done
go run ./test/e2e/image -tag busybox:e2e -files "$work/busybox" -o "$work/busybox.tar" "$(command -v busybox)"
for image in initbox app git redis etcd prometheus postgres theme registry busybox; do
	$LOAD_IMAGE "$work/$image.tar"
done

part "images"

# suite FLAG…: runs many cases at a time, since they mostly wait for the kubelet.
suite() { "${enter[@]}" "$work/e2e.test" -test.v -test.timeout 20m -test.parallel 10 "$@"; }

cd test/e2e
if [ $# -gt 0 ]; then
	suite "$@"
else # disturb the API server last: CoreDNS, for example, lags for seconds afterwards
	suite -test.skip '^TestAPIServer'
	suite -test.run '^TestAPIServer'
fi
part "suite"
