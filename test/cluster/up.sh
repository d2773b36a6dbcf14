#!/usr/bin/env bash
# up.sh starts the cluster, builds it first if need be, and returns when it is ready: a few seconds, or some more on
# a busy machine. A cluster that runs is left alone; what an earlier one left that was killed is removed. Needs root.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || fail "only root can start a cluster; make e2e also runs on yours, with KUBECONFIG and LOAD_IMAGE set"
"$here/build.sh"

# until_ready SECONDS WHAT COMMAND…: the limits are those of a machine that does ten other things.
until_ready() {
	local limit=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		if [ "$SECONDS" -gt "$limit" ] || ! init_pid >/dev/null; then
			tail -n 5 "$STATE"/logs/*.log >&2
			fail "$what: not ready; the logs are in $STATE/logs, and their last words above"
		fi
		sleep 0.2
	done
	say "$what: ready after $((SECONDS - started)) s"
}

# The node is in namespaces of its own, of processes, mounts and the network: neither its addresses nor its iptables rules
# touch the machine's, and nothing of it outlives its first process.
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
until_ready 180 "containerd" inside ctr --address "$CRI" version
until_ready 180 "pause image" inside ctr --address "$CRI" --namespace k8s.io images import "$(built pause)/pause.tar"
until_ready 180 "DNS" inside bash -c 'exec 3<>/dev/tcp/127.0.0.1/8181 && printf "GET /ready HTTP/1.0\r\n\r\n" >&3 && grep -q "200 OK" <&3'
until_ready 180 "node" kubectl wait --for=condition=Ready "node/$NODE" --timeout=1s
until_ready 180 "service account" kubectl get serviceaccount default

cat <<MESSAGE
The cluster is up. Put your image there with

  make cluster-image                          # bin/initbox, newly built, as initbox:dev
  test/cluster/load-image.sh IMAGE.tar        # a docker-archive or an OCI layout; with a tag, and not latest

It is in a network of its own; commands that talk to it run inside:

  export KUBECONFIG=$STATE/kubeconfig
  test/cluster/kubectl get pods --all-namespaces
  test/cluster/enter.sh COMMAND…              # for example curl http://CLUSTER-IP, or initbox wait-for-service …
  test/cluster/down.sh                        # or make cluster-down
MESSAGE
