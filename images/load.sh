#!/usr/bin/env bash
# load.sh FILE loads the images of an archive, which make images writes, with the command $LOAD_IMAGE, such as "kind load
# image-archive"; without it, into the first of these that runs: the cluster of test/cluster, Docker, containerd.
set -euo pipefail
. "$(dirname "$0")/../test/cluster/lib.sh"

file=$1
if [ -n "${LOAD_IMAGE-}" ]; then
	$LOAD_IMAGE "$file"
elif init_pid >/dev/null 2>&1; then
	"$here/load-image.sh" "$file"
	echo "loaded into the cluster of test/cluster"
elif docker version >/dev/null 2>&1; then
	docker load --quiet --input "$file"
elif command ctr --namespace k8s.io version >/dev/null 2>&1; then
	command ctr --namespace k8s.io images import "$file"
else
	echo "images/load.sh: neither test/cluster nor Docker nor containerd runs here; set LOAD_IMAGE to a command that loads $file" >&2
	exit 1
fi
