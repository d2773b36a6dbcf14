#!/usr/bin/env bash
# load-image.sh TAR…: loads images into the cluster.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
for tar; do
	ctr images import - <"$tar" >/dev/null
done
