# dockerd.sh is what the scripts share that run their own Docker daemon, beside any that is running. POSIX shells source it.
# Call need and begin, then start_dockerd. When the script ends, the daemon and its directory $work are gone.
#
# The daemon's files, its socket and what it is asked to run are in $work. What dockerd, containerd and runc leave elsewhere
# is removed if it was not there before. Everything needs root and Debian's docker.io.

export PATH="$PATH:/usr/sbin:/sbin" # where Debian keeps dockerd; an ordinary user's PATH lacks it

say() { echo "$script: $*"; }
fail() {
	say "FAILED: $*" >&2
	exit 1
}

# absent WHY: without what it needs, a test is skipped, or fails if CI=true.
absent() {
	[ "${CI-}" != true ] || fail "$1"
	say "skipped: $1"
	exit 0
}

# expect WHAT GOT WANTED
expect() {
	[ "$2" = "$3" ] || fail "$1 is \"$2\", not \"$3\""
	say "ok: $1: $2"
}

# need PROGRAM:PACKAGE...
need() {
	for pair; do
		command -v "${pair%%:*}" >/dev/null || absent "${pair%%:*} is not installed (apt-get install ${pair#*:})"
	done
	[ "$(id -u)" = 0 ] || absent "only root can start dockerd"
}

# begin makes $work, and sees to its end.
begin() {
	work=$(mktemp -d)
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	export DOCKER_HOST="unix://$work/docker.sock" DOCKER_CONFIG="$work"
}

# docker is the client that came with the daemon, even if PATH has another one first: that client has BuildKit.
docker() { "$(dirname "$(dirname "$(command -v dockerd)")")/bin/docker" "$@"; }

# start_dockerd FLAG...: starts the daemon with these flags about its network, which decide what it changes in the
# machine's. It uses a containerd that is already running, and therefore its own namespaces there.
start_dockerd() {
	for trace in $traces $(cgroups); do
		[ -e "$trace" ] || created="${created-} $trace"
	done
	echo '{}' >"$work/daemon.json"
	dockerd --config-file="$work/daemon.json" --host="$DOCKER_HOST" --pidfile="$work/dockerd.pid" \
		--data-root="$work/data" --exec-root="$work/exec" \
		--containerd-namespace=initbox-test --containerd-plugins-namespace=initbox-test-plugins "$@" \
		>"$work/dockerd.log" 2>&1 &
	dockerd=$!
	for _ in $(seq 300); do
		! docker version >/dev/null 2>&1 || return 0
		kill -0 "$dockerd" 2>/dev/null || break
		sleep 0.1
	done
	tail -n 20 "$work/dockerd.log" >&2
	fail "dockerd does not start; the end of its log is above"
}

# What dockerd, containerd and runc leave outside their directories: empty directories, and a key.
traces="/etc/docker/key.json /etc/docker /opt/containerd /run/containerd /run/docker /run/runc"

# cgroups prints the parents of all containers: of cgroup v2, or of each controller of v1.
cgroups() {
	for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
		[ ! -e "$hierarchy/cgroup.procs" ] || echo "$hierarchy/docker"
	done
}

# before_clean_up ends what the script itself has started; a script that needs it defines it.
before_clean_up() { :; }

clean_up() {
	trap - EXIT INT TERM
	before_clean_up
	if [ -n "${dockerd-}" ]; then
		kill "$dockerd" 2>/dev/null || true
		wait "$dockerd" 2>/dev/null || true
		for trace in $created; do
			find "$trace" -depth \( -type d -o -name key.json \) -delete 2>/dev/null || true
		done
	fi
	# BuildKit leaves the mount of a network namespace.
	awk -v under="$work/" 'index($5, under) == 1 {print $5}' /proc/self/mountinfo | sort -r | xargs -r umount
	rm -rf "$work"
}

# copy_with_libraries copies a program, and the shared libraries that it needs, to the same paths below $root.
copy_with_libraries() {
	for file in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true); do
		mkdir -p "$root$(dirname "$file")"
		cp -L "$file" "$root$file"
	done
}
