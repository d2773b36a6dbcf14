#!/bin/sh
# build.sh makes the site of this repository's pages in bin/site/public. It needs Hugo and npm, and as root on Debian
# installs them. npm provides the search, at the version in package-lock.json.
set -eu
cd "$(dirname "$0")/../.."
out=bin/site

# installed PROGRAM PACKAGE returns whether PROGRAM is there, and as root on Debian installs it.
installed() {
	command -v "$1" >/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		export DEBIAN_FRONTEND=noninteractive
		apt-get -qq install -y --no-install-recommends "$2" >/dev/null ||
			{ apt-get -qq update && apt-get -qq install -y --no-install-recommends "$2" >/dev/null; }
	fi
	command -v "$1" >/dev/null || { echo "build.sh: $1 is not installed: install the package $2" >&2; exit 1; }
}
installed hugo hugo
installed npm npm

mkdir -p $out/assets
# Only if the lock file has changed: the registry is needed once.
if ! cmp -s docs/site/package-lock.json $out/package-lock.json || [ ! -d $out/node_modules/minisearch ]; then
	cp docs/site/package.json docs/site/package-lock.json docs/site/.npmrc $out/
	npm ci --prefix $out --silent || { rm -f $out/package-lock.json; exit 1; }
fi
cp $out/node_modules/minisearch/dist/es/index.js $out/assets/minisearch.js

node docs/site/stage.mjs . $out
hugo --quiet --noBuildLock --minify --source docs/site --destination "$PWD/$out/public"
node docs/site/index.mjs $out/public
echo "build.sh: $(find $out/public -name index.html | wc -l) pages in $out/public"
