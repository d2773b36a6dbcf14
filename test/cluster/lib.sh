# lib.sh is what the scripts of test/cluster share. bash sources it.
#
# What is built is in the user's cache directory, under a name made from the sources. The state of the running cluster is in
# STATE, a fixed and short path, because the path of a Unix socket has at most 107 bytes. So each machine has at most one
# cluster.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/initbox-cluster
STATE=/var/lib/initbox-e2e
NODE=initbox-e2e                        # the name of the node and of its cgroups
NODE_IP=10.88.0.1                       # in its own network namespace: the machine's addresses do not matter
POD_NET=10.88.0.0/24 SERVICE_NET=10.96.0.0/16
PAUSE=initbox-e2e/pause:1
CRI=$STATE/containerd.sock
export PATH="$PATH:/usr/sbin:/sbin"     # where Debian keeps iptables; an ordinary user's PATH lacks it

# built MODULE prints the directory for what build.sh builds from kube, containerd, coredns or pause. Its name depends on
# that module's sources only: a change to another module or to a script does not cause Kubernetes to be built again.
built() {
	local sources
	sources=$(cd "$here/$1" && cat go.mod go.sum *.go 2>/dev/null | sha256sum | cut -c 1-8)
	echo "$cache/$1-$sources"
}

say() { echo "test/cluster: $*" >&2; }
fail() {
	say "$*"
	exit 1
}

# born prints when a process started, in ticks since boot: its id may belong to another process by now.
born() { cut -d ' ' -f 22 "/proc/$1/stat" 2>/dev/null; }

# init_pid prints the id of the cluster's first process, if it is running. All others are in its PID namespace, and end
# with it.
init_pid() {
	local pid since
	read -r pid since 2>/dev/null <"$STATE/init" && [ -n "$since" ] && [ "$(born "$pid")" = "$since" ] && echo "$pid"
}

# inside COMMAND…: runs a command in the cluster's namespaces.
inside() {
	local pid
	pid=$(init_pid) || fail "the cluster is not up: test/cluster/up.sh"
	nsenter --target "$pid" --mount --net --pid -- "$@"
}

# ctr COMMAND…: runs containerd's client on the images and containers of Kubernetes.
ctr() { inside "$(built containerd)/bin/ctr" --address "$CRI" --namespace k8s.io "$@"; }
