#!/bin/sh
# build.sh builds the Consul of this directory, and leaves it where servers.StartConsul looks for it. Four minutes on two
# cores and 4 GB of disk for the first time, then nothing.
set -eu
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/initbox-consul
program=$cache/consul-$(cat go.mod go.sum main.go | sha256sum | cut -c 1-16)
[ -e "$program" ] && exit

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two builds at once would take twice as long
[ -e "$program" ] && exit

# Caches of their own: they are large, and of no use when it is built.
export GOCACHE="$cache/gocache" GOMODCACHE="$cache/gomodcache" GOFLAGS=-modcacherw GOWORK=off CGO_ENABLED=0
trap 'rm -rf "$cache/gocache" "$cache/gomodcache" "$cache/log" "$program.tmp"' EXIT
echo "test/consul/build.sh: building Consul: four minutes on two cores"
if ! go list -deps . 2>"$cache/log" >/dev/null; then # downloads what is linked, and not all that is in go.mod
	echo "test/consul/build.sh: not built, its modules are not to be had: $(tail -n 1 "$cache/log")" >&2
	exit 1
fi
nice go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$program.tmp" .
rm -f "$cache"/consul-*[0-9a-f] # of other versions
mv "$program.tmp" "$program"    # all of it or nothing, whenever this is killed
