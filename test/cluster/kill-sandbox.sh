#!/usr/bin/env bash
# kill-sandbox.sh NAMESPACE POD: kills the Pod's sandbox, as a restart of the node or of the container runtime does. The
# kubelet creates a new one and runs the init containers again.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
ids=$(ctr containers list --quiet "labels.\"io.cri-containerd.kind\"==sandbox,labels.\"io.kubernetes.pod.namespace\"==$1,labels.\"io.kubernetes.pod.name\"==$2")
[ -n "$ids" ] || fail "no sandbox of Pod $2 in namespace $1"
for id in $ids; do
	ctr tasks kill --signal KILL "$id"
done
