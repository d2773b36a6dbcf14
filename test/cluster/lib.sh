# lib.sh is what the scripts of test/cluster share. It is sourced, by bash.
#
# What is built lies in the user's cache directory, under a name that says from which sources; what runs lies in STATE.
# That is a fixed path, and a short one, whatever the clone's: a Unix socket's path has at most 107 bytes. So there is
# one cluster to a machine.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/initbox-cluster
STATE=/var/lib/initbox-e2e
NODE=initbox-e2e                        # the node's name, and that of its cgroups
NODE_IP=10.88.0.1                       # in a network namespace of its own: the machine's addresses do not matter
POD_NET=10.88.0.0/24 SERVICE_NET=10.96.0.0/16
PAUSE=initbox-e2e/pause:1
CRI=$STATE/containerd.sock
export PATH="$PATH:/usr/sbin:/sbin"     # where Debian keeps iptables, and not in the PATH of a plain user

# built MODULE prints the directory of what build.sh makes of kube, coredns or pause. Its name is made from their sources
# alone: neither another module nor a change to a script has Kubernetes built again.
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

# born prints when a process began, in ticks since boot: a process id may belong to another one by now.
born() { cut -d ' ' -f 22 "/proc/$1/stat" 2>/dev/null; }

# init_pid prints the process id of the cluster's first process, if it lives. All others live in its PID namespace:
# when it dies, so do they.
init_pid() {
	local pid since
	read -r pid since 2>/dev/null <"$STATE/init" && [ -n "$since" ] && [ "$(born "$pid")" = "$since" ] && echo "$pid"
}

# inside COMMAND…: in the namespaces of the cluster, as its own processes are.
inside() {
	local pid
	pid=$(init_pid) || fail "the cluster is not up: test/cluster/up.sh"
	nsenter --target "$pid" --mount --net --pid -- "$@"
}
