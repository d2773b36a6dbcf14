#!/bin/sh
# build.sh builds the Consul of this directory, and stores it where servers.StartConsul looks for it. The first time, that
# takes four minutes on two cores and 4 GB of disk.
set -eu
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/initbox-consul
program=$cache/consul-$(cat go.mod go.sum main.go | sha256sum | cut -c 1-16)
[ -e "$program" ] && exit

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two builds at once would take twice as long
[ -e "$program" ] && exit

# Separate caches: they are large, and useless when Consul is built.
export GOCACHE="$cache/gocache" GOMODCACHE="$cache/gomodcache" GOFLAGS=-modcacherw GOWORK=off CGO_ENABLED=0
trap 'rm -rf "$cache/gocache" "$cache/gomodcache" "$cache/log" "$program.tmp"' EXIT
echo "test/consul/build.sh: building Consul: four minutes on two cores"
if ! go list -deps . 2>"$cache/log" >/dev/null; then # downloads only what is linked, not everything in go.mod
	echo "test/consul/build.sh: not built: its modules cannot be downloaded: $(tail -n 1 "$cache/log")" >&2
	exit 1
fi
nice go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$program.tmp" .
rm -f "$cache"/consul-*[0-9a-f] # of other versions
mv "$program.tmp" "$program"    # complete or not at all, even if this script is killed
