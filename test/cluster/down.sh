#!/usr/bin/env bash
# down.sh ends the cluster, or removes what is left of one that was killed. The logs stay, in STATE/logs, until the
# next cluster comes up.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if pid=$(init_pid); then
	kill -9 "$pid" # and with it every process in its namespace, and the mounts and network that they held
	for _ in $(seq 600); do
		[ -e "/proc/$pid" ] || break
		sleep 0.1
	done
	[ ! -e "/proc/$pid" ] || fail "process $pid does not die"
	say "down"
fi
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
	[ ! -d "$hierarchy/$NODE" ] || find "$hierarchy/$NODE" -depth -type d -exec rmdir {} +
done
if grep -q " $STATE/" /proc/mounts; then # it never was: its mounts are in its own namespace
	fail "something is mounted under $STATE: not removing it"
fi
find "$STATE" -mindepth 1 -maxdepth 1 ! -name logs -exec rm -rf --one-file-system {} + 2>/dev/null || true
rmdir /var/lib/kubelet /var/lib/cni 2>/dev/null || true # node.sh made them to mount on; others' are not empty
