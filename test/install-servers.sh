#!/bin/sh
# install-servers.sh installs what the tests need besides Go, from Debian. If nothing is missing, it prints nothing. Without
# root or apt, it names what is missing and still exits with 0: the tests that need it are skipped. Services are neither
# started nor enabled.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" # where Debian keeps servers; an ordinary user's PATH lacks it

# program:package, for every program that a test or a benchmark runs; for a library, one of its files.
wanted="
nginx:nginx-light haproxy:haproxy named:bind9 unbound:unbound etcd:etcd-server
busybox:busybox-static dig:bind9-dnsutils nc:netcat-openbsd
curl:curl wget:wget ip:iproute2
git:git git-lfs:git-lfs gpg:gnupg sshd:openssh-server ssh-keygen:openssh-client
keytool:default-jre-headless openssl:openssl
/usr/lib/postgresql:postgresql mariadbd:mariadb-server redis-server:redis-server rabbitmq-server:rabbitmq-server
memcached:memcached nats-server:nats-server /usr/share/java/zookeeper.jar:zookeeper
envsubst:gettext-base /usr/lib/python3/dist-packages/jinja2:python3-jinja2
zsh:zsh fish:fish promtool:prometheus
"

# install-servers.sh cluster installs what test/cluster needs instead.
if [ "${1-}" = cluster ]; then
	wanted="
	runc:runc /usr/lib/cni/bridge:containernetworking-plugins etcd:etcd-server
	git:git iptables:iptables conntrack:conntrack openssl:openssl ip:iproute2
	"
fi

missing() {
	for pair in $wanted; do
		command -v "${pair%%:*}" >/dev/null || [ -e "${pair%%:*}" ] || printf ' %s' "${pair#*:}"
	done
}

# forbid_start keeps packages from starting their services: Debian's maintainer scripts ask policy-rc.d, with or without
# systemd. An existing policy-rc.d is restored afterwards.
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

# disable_new disables the services that were enabled since $work/enabled was written. It removes the links of a unit, as
# systemctl disable would, which may not be installed. dpkg respects that as the administrator's decision, and does not
# enable the service again when its package is updated.
disable_new() {
	enabled | comm -13 "$work/enabled" - | while read -r link; do
		case $link in
		/etc/systemd/*) rm -f "$link" && rmdir --ignore-fail-on-non-empty "${link%/*}" ;;
		*) update-rc.d "$(basename "$(readlink "$link")")" disable >/dev/null 2>&1 || true ;;
		esac
	done
	[ ! -d /run/systemd/system ] || systemctl daemon-reload
}

# try_install installs from the present package lists, and updates them only if that fails: they are mostly recent enough,
# and updating is slow.
try_install() {
	apt_install "$@" || { apt-get -qq update && apt_install "$@"; }
}

apt_install() {
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@"
}

packages=$(missing)
[ -n "$packages" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "install-servers.sh: not installed:$packages (the tests that need them will be skipped)"
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
