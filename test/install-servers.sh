#!/bin/sh
# install-servers.sh: what the tests want beside Go, from Debian. Says nothing when nothing is missing;
# where it may not install (no root, no apt), it names what is missing and still exits 0: those tests skip.
# What it installs is neither started nor enabled: no server comes up now or with the next boot.
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

# install-servers.sh cluster: what test/cluster wants instead.
if [ "${1-}" = cluster ]; then
	wanted="
	containerd:containerd runc:runc /usr/lib/cni/bridge:containernetworking-plugins etcd:etcd-server
	git:git iptables:iptables conntrack:conntrack openssl:openssl ip:iproute2
	"
fi

missing() {
	for pair in $wanted; do
		command -v "${pair%%:*}" >/dev/null || [ -e "${pair%%:*}" ] || printf ' %s' "${pair#*:}"
	done
}

# forbid_start keeps packages from starting what they bring: Debian's maintainer scripts ask policy-rc.d, whether or not
# systemd runs. One that is here already is put back afterwards.
forbid_start() {
	trap allow_start EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	[ ! -e "$policy" ] || mv "$policy" "$work/policy"
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
}

allow_start() {
	trap - EXIT
	rm -f "$policy"
	[ ! -e "$work/policy" ] || mv "$work/policy" "$policy"
	rm -rf "$work"
}

# enabled lists the links by which services start at boot: of units, and of scripts in init.d.
enabled() {
	find /etc/systemd/system /etc/rc[2-5].d -type l \( -path '/etc/systemd/*' -o -name 'S*' \) 2>/dev/null | sort
}

# disable_new disables the services that are enabled now and were not when $work/enabled was written. That a unit's links
# are gone is all that systemctl disable does, which may not be here; dpkg takes it for the administrator's wish, and
# does not enable the service again with the next version of its package.
disable_new() {
	enabled | comm -13 "$work/enabled" - | while read -r link; do
		case $link in
		/etc/systemd/*) rm -f "$link" && rmdir --ignore-fail-on-non-empty "${link%/*}" ;;
		*) update-rc.d "$(basename "$(readlink "$link")")" disable >/dev/null 2>&1 || true ;;
		esac
	done
	[ ! -d /run/systemd/system ] || systemctl daemon-reload
}

# try_install installs from the package lists as they are, and updates them only if
# that fails: lists that are there are mostly good enough, and updating is slow.
try_install() {
	apt_install "$@" || { apt-get -qq update && apt_install "$@"; }
}

apt_install() {
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@"
}

packages=$(missing)
[ -n "$packages" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "install-servers.sh: not installed:$packages (the tests that want them will be skipped)"
	exit 0
fi

echo "install-servers.sh: installing$packages"
policy=/usr/sbin/policy-rc.d
work=$(mktemp -d)
enabled >"$work/enabled"
forbid_start
# shellcheck disable=SC2086 # one word per package
try_install $packages >"$work/log" 2>&1 || failed=1
disable_new
if [ -n "${failed-}" ]; then
	cat "$work/log"
	echo "install-servers.sh: could not install everything; still missing:$(missing)"
fi
