#!/usr/bin/env bash
# pods.sh measures how long five Pods take from kubectl apply to Running, with different init containers, on test/cluster's
# Kubernetes: root, Debian, bin/initbox. The images are on the node before the first trial. Arguments are passed to bench,
# as in pods.sh -write docs/benchmarks.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/cluster/lib.sh

work=$(mktemp -d) down=
trap 'rm -rf "$work"; $down' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
helm=$(test/chart/build.sh)/helm3
go build -o "$work/bench" ./bench
init_pid >/dev/null || down="$here/down.sh" # a running cluster keeps running
test/cluster/up.sh >/dev/null
go run ./test/e2e/image -tag initbox:bench -links -o "$work/initbox.tar" bin/initbox
go run ./test/e2e/image -tag busybox:bench -o "$work/busybox.tar" "$(command -v busybox)"
test/cluster/load-image.sh "$work/initbox.tar" "$work/busybox.tar"
PATH="$(built kube)/bin:$PATH"
export PATH KUBECONFIG=$STATE/kubeconfig
"$here/enter.sh" "$work/bench" -initbox bin/initbox -only pods -helm "$helm" "$@"
