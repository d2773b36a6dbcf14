#!/usr/bin/env bash
# up.sh starts the cluster and returns when it is ready: after a few seconds, or some more on a busy machine. If necessary,
# it builds the cluster first. A running cluster is left alone; the remains of one that was killed are removed. Needs root.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || fail "only root can start a cluster; make e2e also runs on yours, with KUBECONFIG and LOAD_IMAGE set"
"$here/build.sh"

# until_ready SECONDS WHAT COMMAND…: repeats a command until it succeeds. The limits allow for a very busy machine.
until_ready() {
	local limit=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		if [ "$SECONDS" -gt "$limit" ] || ! init_pid >/dev/null; then
			tail -n 5 "$STATE"/logs/*.log >&2
			fail "$what: not ready; the logs are in $STATE/logs, and their ends are above"
		fi
		sleep 0.2
	done
	say "$what: ready after $((SECONDS - started)) s"
}

# The node has its own namespaces for processes, mounts and the network: its addresses and iptables rules do not touch the
# machine's, and nothing of it outlives its first process.
start_node() {
	"$here/down.sh"
	mkdir -p "$STATE/logs"
	rm -f "$STATE"/logs/*.log
	setsid nohup unshare --mount --net --pid --fork "$here/node.sh" >"$STATE/logs/node.log" 2>&1 </dev/null 9>&- &
}

kubectl() { "$here/kubectl" --request-timeout=5s "$@"; }

started=$SECONDS
if ! init_pid >/dev/null; then
	start_node
	for _ in $(seq 100); do
		! init_pid >/dev/null || break
		sleep 0.1
	done
fi
until_ready 180 "API server" kubectl get --raw /readyz
until_ready 180 "containerd" ctr version
until_ready 180 "pause image" ctr images import "$(built pause)/pause.tar"
until_ready 180 "DNS" inside bash -c 'exec 3<>/dev/tcp/127.0.0.1/8181 && printf "GET /ready HTTP/1.0\r\n\r\n" >&3 && grep -q "200 OK" <&3'
until_ready 180 "node" kubectl wait --for=condition=Ready "node/$NODE" --timeout=1s
until_ready 180 "service account" kubectl get serviceaccount default

cat <<MESSAGE
The cluster is up. Load your image with

  make cluster-image                          # bin/initbox, newly built, as initbox:dev
  test/cluster/load-image.sh IMAGE.tar        # a docker-archive or an OCI layout, with a tag other than latest

It has its own network; run commands that need it inside:

  export KUBECONFIG=$STATE/kubeconfig
  test/cluster/kubectl get pods --all-namespaces
  test/cluster/enter.sh COMMAND…              # for example curl http://CLUSTER-IP, or initbox wait-for-service …
  test/cluster/down.sh                        # or make cluster-down
MESSAGE
