#!/usr/bin/env bash
# down.sh stops the cluster, or removes the remains of one that was killed. The logs stay, in STATE/logs, until the next
# cluster starts.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if pid=$(init_pid); then
	kill -9 "$pid" # and with it all processes in its namespace, their mounts and their network
	for _ in $(seq 600); do
		[ -e "/proc/$pid" ] || break
		sleep 0.1
	done
	[ ! -e "/proc/$pid" ] || fail "process $pid was killed, but does not end"
	say "down"
fi
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
	[ ! -d "$hierarchy/$NODE" ] || find "$hierarchy/$NODE" -depth -type d -exec rmdir {} +
done
if grep -q " $STATE/" /proc/mounts; then # should not be: the cluster's mounts are in its own namespace
	fail "something is mounted under $STATE: not removing it"
fi
find "$STATE" -mindepth 1 -maxdepth 1 ! -name logs -exec rm -rf --one-file-system {} + 2>/dev/null || true
rmdir /var/lib/kubelet /var/lib/cni 2>/dev/null || true # node.sh creates them as mount points; rmdir keeps directories that have content
