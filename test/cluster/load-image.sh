#!/usr/bin/env bash
# load-image.sh TAR…: loads images into the cluster.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
for tar; do
	inside ctr --address "$CRI" --namespace k8s.io images import - <"$tar" >/dev/null
done
