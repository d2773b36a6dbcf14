#!/bin/sh
# install-servers.sh: what the tests want beside Go, from Debian. Says nothing when nothing is missing;
# where it may not install (no root, no apt), it names what is missing and still exits 0: those tests skip.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" # where Debian keeps servers, and not in the PATH of a plain user

# program:package, for every program that a test or a benchmark runs, or a file of what is no program.
wanted="
nginx:nginx-light haproxy:haproxy named:bind9 unbound:unbound etcd:etcd-server
busybox:busybox-static dig:bind9-dnsutils nc:netcat-openbsd
curl:curl wget:wget ip:iproute2
git:git git-lfs:git-lfs gpg:gnupg sshd:openssh-server ssh-keygen:openssh-client
/usr/lib/postgresql:postgresql mariadbd:mariadb-server redis-server:redis-server rabbitmq-server:rabbitmq-server
memcached:memcached nats-server:nats-server /usr/share/java/zookeeper.jar:zookeeper
envsubst:gettext-base /usr/lib/python3/dist-packages/jinja2:python3-jinja2
"
# Packages whose installation would start a daemon, by the name of its service.
services="nginx haproxy named unbound unbound-resolvconf etcd ssh
	postgresql mariadb redis-server rabbitmq-server epmd memcached nats-server zookeeper"

# install-servers.sh cluster: what test/cluster wants instead.
if [ "${1-}" = cluster ]; then
	wanted="
	containerd:containerd runc:runc /usr/lib/cni/bridge:containernetworking-plugins etcd:etcd-server
	git:git iptables:iptables conntrack:conntrack openssl:openssl ip:iproute2
	"
	services="containerd etcd"
fi

missing() {
	for pair in $wanted; do
		command -v "${pair%%:*}" >/dev/null || [ -e "${pair%%:*}" ] || printf ' %s' "${pair#*:}"
	done
}

# forbid_start keeps systemd from starting those services that are not here yet, and
# prints which they are. Masking at run time leaves nothing under /etc.
forbid_start() {
	[ -d /run/systemd/system ] || return 0
	for service in $services; do
		if ! systemctl cat "$service.service" >/dev/null 2>&1; then
			systemctl --quiet --runtime mask "$service.service"
			printf ' %s' "$service"
		fi
	done
}

# allow_start lifts that again, but leaves what was installed for the tests disabled:
# a server nobody asked for must not come up with the next boot either.
allow_start() {
	for service; do
		systemctl --quiet --runtime unmask "$service.service"
		systemctl --quiet disable "$service.service" 2>/dev/null || true
	done
}

# running prints the process ids of the services' daemons. Those of ssh are somebody's
# sessions, too, which are nobody's to stop.
running() {
	for service in $services; do
		[ "$service" != ssh ] || continue
		pidof "$service" || true
	done | tr -s ' ' '\n' | sort
}

# stop_new stops the daemons that run now but are not among those in $1.
stop_new() {
	for pid in $(running); do
		case " $1 " in *" $pid "*) continue ;; esac
		if kill "$pid" 2>/dev/null; then
			echo "install-servers.sh: stopped process $pid, which a package had started"
		fi
	done
}

# try_install installs from the package lists as they are, and updates them only if
# that fails: lists that are there are mostly good enough, and updating is slow.
try_install() {
	apt_install "$@" || { apt-get -qq update && apt_install "$@"; }
}

# Without systemd, packages start services through invoke-rc.d if the runlevel wants
# them; RUNLEVEL=1 tells it that the machine is in single-user mode, which wants none.
apt_install() {
	RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
		apt-get -qq install -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@"
}

packages=$(missing)
[ -n "$packages" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "install-servers.sh: not installed:$packages (the tests that want them will be skipped)"
	exit 0
fi

echo "install-servers.sh: installing$packages"
before=$(running | tr '\n' ' ')
masked=$(forbid_start)
# shellcheck disable=SC2086 # one word per package, per service
try_install $packages >/dev/null || failed=1
# shellcheck disable=SC2086
allow_start $masked
stop_new "$before"
[ -z "${failed-}" ] || echo "install-servers.sh: could not install everything; still missing:$(missing)"
