#!/usr/bin/env bash
# enter.sh COMMAND…: runs a command in the cluster's network, but with the machine's files.
. "$(dirname "$0")/lib.sh"
pid=$(init_pid) || fail "the cluster is not up: test/cluster/up.sh"
exec nsenter --target "$pid" --net -- "$@"
