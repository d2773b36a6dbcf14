#!/usr/bin/env bash
# run.sh runs git-sync's own end-to-end tests, test_e2e.sh of the sources in $GIT_SYNC_SOURCE, unmodified, on git-clone
# --compat git-sync, and compares each case with cases.txt. Without that variable it does nothing. Arguments are names of
# cases, as the script itself takes them; the default is all. See test/README.md.
set -euo pipefail

# inside runs the script where only its own containers can be reached.
inside() {
	mount --bind "$GITSYNC_WORK/tmp" /tmp
	ip link set lo up
	ip link add containers up type bridge
	ip address add 10.88.0.1/16 dev containers
	cd "$GITSYNC_WORK/git-sync"
	GIT_SYNC_E2E_IMAGE=initbox CLEANUP=0 PATH=$GITSYNC_WORK/bin:$PATH exec ./test_e2e.sh "$@"
}

# judge compares the results with cases.txt, and prints a summary.
judge() {
	awk -F '\t' '
		FNR == NR { if ($0 !~ /^#/ && NF) kind[$1] = $2; next }
		/^testcase / {
			split($0, word, /[ :]+/)
			passed = / PASS$/; skipped = / SKIP$/
			name = word[2]; want = kind[name]
			class = want == "" ? (passed ? "passes" : "fails") : want
			n[class]++; all++
			if (want == "" ? !passed : want == "inconclusive" ? !passed : passed) {
				bad++
				print "gitsync: " name ": " (passed ? "passes" : skipped ? "is skipped" : "fails") ", and cases.txt says: " (want == "" ? "passes" : want)
			}
		}
		END {
			summary = "gitsync: " all + 0 " cases"
			for (class in n) summary = summary ", " class ": " n[class]
			print summary
			exit bad > 0 || all == 0
		}' "$here/cases.txt" "$1"
}

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1-}" = --inside ]; then
	shift
	inside "$@"
fi
if [ -z "${GIT_SYNC_SOURCE-}" ]; then
	echo "gitsync: skipped: GIT_SYNC_SOURCE is not the directory of git-sync's sources"
	exit 0
fi
if [ "$(id -u)" != 0 ]; then
	echo "gitsync: skipped: namespaces need root"
	exit 0
fi
export GITSYNC_WORK
GITSYNC_WORK=$(mktemp -d -p /var/tmp gitsync-XXXXXXXX) # not in /tmp, which the script has for itself
work=$GITSYNC_WORK
mkdir "$work"/{bin,etc,tmp,containers,git-sync}
chmod 755 "$work"
chmod 1777 "$work/tmp"
cp -r "$GIT_SYNC_SOURCE"/{test_e2e.sh,_test_tools} "$work/git-sync"
git -C "$work/git-sync" init -q # the script asks for the top of its repository
cp "$here"/{docker,run.sh} "$work/bin"
printf '#!/bin/sh\n' >"$work/bin/make" # which would build images
chmod 755 "$work/bin/make"
(cd "$here/../.." && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/bin" ./cmd/initbox ./test/gitsync && mv "$work/bin/gitsync" "$work/bin/httpd")
cat >"$work/etc/passwd" <<-END
	root:x:0:0::/root:/bin/sh
	sshd:x:100:65534::/run/sshd:/usr/sbin/nologin
	test:x:65533:65533::/home/test:/usr/bin/git-shell
END
echo "root:x:0:" >"$work/etc/group"
printf '[safe]\n\tdirectory = *\n' >"$work/etc/gitconfig"
ssh-keygen -q -t ed25519 -N "" -f "$work/ssh_host_ed25519_key" # since making the usual ones takes too long
echo "testuser:$(openssl passwd -apr1 testpass)" >"$work/etc/htpasswd"
unshare --mount --net --pid --fork --kill-child --mount-proc "$work/bin/run.sh" --inside "$@" 2>&1 | tee "$work/log" || true
if judge "$work/log"; then
	rm -rf "$work"
else
	echo "gitsync: the logs are in $work"
	exit 1
fi
