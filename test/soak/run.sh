#!/usr/bin/env bash
# run.sh is make soak: what is random, and therefore not in .ci/run. It takes about $DURATION (20m), and prints its seed.
# With the same $SEED, the kills, the order of tests and the mutants are the same. Fuzzing has no seed: an input that fails
# is written to the package's testdata/fuzz, where every go test finds it from then on.
#
#   make soak
#   make soak DURATION=2h SEED=7
#   make soak CHANGED=v1.2.0     # mutants also of lines that have changed since, in any package
#
# Each part runs for its share of the time, even if an earlier one failed. PARTS="kills mutants" runs only some. gitsync,
# which needs $GIT_SYNC_SOURCE, takes a quarter of an hour besides.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { echo "soak: $*"; }

# seconds DURATION prints a duration of the form 90s, 20m or 2h as seconds.
seconds() {
	case $1 in
	*[0-9]h) echo $((${1%h} * 3600)) ;;
	*[0-9]m) echo $((${1%m} * 60)) ;;
	*[0-9]s) echo "${1%s}" ;;
	*)
		say "DURATION=$1 is not of the form 90s, 20m or 2h" >&2
		return 1
		;;
	esac
}

total=$(seconds "${DURATION:-20m}")
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
parts=${PARTS:-fuzz kills races mutants sidecars gitsync}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=""
say "SEED=$seed, for $total s: $parts"

# shuffled prints the lines of its input in an order that depends on the seed.
shuffled() { awk -v seed="$seed" 'BEGIN { srand(seed) } { print rand() "\t" $0 }' | sort | cut -f 2-; }

# --- parts: each takes $share seconds, and fails if it found something ---

# fuzz runs every target of the product for an equal part of the time, in random order until the time is over. Not those
# of test/helm: where Helm parses invalid input differently, there is nothing to fix. Before them, it runs the tests with
# Variety in their names, which compare random input with another program, once.
fuzz() {
	local directory target each done=0 bad=0 end=$((SECONDS + share))
	grep -rl --include='*_test.go' --exclude-dir=test '^func Fuzz' . | while read -r file; do
		sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|$(dirname "$file") \1|p" "$file"
	done | shuffled >"$work/targets"
	[ -s "$work/targets" ] || { say "fuzz: no target found"; return 1; }
	for directory in $(grep -rl --include='*_test.go' '^func Test[A-Za-z]*Variety(' . | xargs -r -n 1 dirname | sort -u); do
		INITBOX_SOAK=1s INITBOX_SEED=$seed go test -count=1 -vet=off -run Variety "$directory" </dev/null || bad=$((bad + 1))
	done
	while read -r directory target && [ "$SECONDS" -lt "$end" ]; do
		each=$(((end - SECONDS) / ($(wc -l <"$work/targets") - done)))
		[ "$each" -gt 0 ] || each=1
		done=$((done + 1))
		# go test sometimes reports the end of the time as a failure, "context deadline exceeded". A real one names its input.
		if ! go test "$directory" -run '^$' -fuzz "^$target\$" -fuzztime "${each}s" -fuzzminimizetime 10s </dev/null >"$work/log" 2>&1 &&
			{ grep -q 'Failing input written to\|panic:' "$work/log" || ! grep -q 'context deadline exceeded' "$work/log"; }; then
			cat "$work/log"
			bad=$((bad + 1))
			continue
		fi
		say "fuzz: $directory $target: $(grep -o 'execs: [0-9]*' "$work/log" | tail -n 1)"
	done <"$work/targets"
	say "fuzz: $done of $(wc -l <"$work/targets") targets, $bad failed"
	[ "$bad" = 0 ]
}

# kills repeats the tests that use soak.Moments, which then returns random moments, until the time is over. A test in
# test/soak ensures that their names contain Killed. Each takes a small part of the time, and logs its seed, which is
# different in each round.
kills() {
	local directory round=0 bad=0 runs=0 end=$((SECONDS + share))
	grep -rl --include='*_test.go' --exclude-dir=soak 'soak\.Moments(' . | xargs -r -n 1 dirname | sort -u | shuffled >"$work/directories"
	[ -s "$work/directories" ] || { say "kills: no test uses soak.Moments"; return 1; }
	while [ "$SECONDS" -lt "$end" ]; do
		round=$((round + 1))
		while read -r directory && [ "$SECONDS" -lt "$end" ]; do
			INITBOX_SOAK=$((share / 40 + 1))s INITBOX_SEED=$((seed + round)) \
				go test -count=1 -timeout 30m -vet=off -run Killed "$directory" </dev/null || bad=$((bad + 1))
			runs=$((runs + 1))
		done <"$work/directories"
		[ "$bad" -lt "$runs" ] || break # every run has failed
	done
	say "kills: $runs runs of $(wc -l <"$work/directories") packages, $bad of them failed"
	[ "$bad" = 0 ]
}

# races runs the tests of the packages that start goroutines under the race detector, without -short, repeatedly and in a
# different order each time.
races() {
	local package round=0 bad=0 runs=0 end=$((SECONDS + share))
	test/goroutines.sh | shuffled >"$work/packages"
	[ -s "$work/packages" ] || { say "races: no package found"; return 1; }
	while [ "$SECONDS" -lt "$end" ]; do
		round=$((round + 1))
		while read -r package && [ "$SECONDS" -lt "$end" ]; do
			CGO_ENABLED=1 go test -race -count=1 -timeout 30m -vet=off -shuffle "$((seed + round))" "$package" </dev/null || bad=$((bad + 1))
			runs=$((runs + 1))
		done <"$work/packages"
		[ "$bad" -lt "$runs" ] || break # every run has failed
	done
	say "races: $runs runs of $(wc -l <"$work/packages") packages, $bad of them failed"
	[ "$bad" = 0 ]
}

# mutants changes one operator at a time, and expects a test to fail (see test/mutants): in a random sample of the critical
# packages and, for half of the time, of the lines that have changed since $CHANGED.
mutants() {
	local bad=0 each=$share
	if [ -n "${CHANGED-}" ]; then
		each=$((share / 2))
		go run ./test/mutants -for "${each}s" -seed "$seed" -changed "$CHANGED" || bad=1
	fi
	go run ./test/mutants -for "${each}s" -seed "$seed" || bad=1
	[ "$bad" = 0 ]
}

# sidecars runs all sidecars beside servers that come and go: nothing may be missed, and memory and files must not grow.
sidecars() {
	INITBOX_SOAK=${share}s INITBOX_SEED=$seed go test -count=1 -timeout $((share + 1800))s -vet=off -v ./test/sidecars </dev/null
}

# gitsync runs git-sync's own tests on git-clone, and takes as long as they do.
gitsync() { test/gitsync/run.sh; }

for part in $parts; do
	case $part in # shares of the time
	fuzz) weight=4 ;;
	kills | races | mutants | sidecars) weight=2 ;;
	gitsync) weight=0 ;;
	*) say "unknown part $part" >&2 && exit 1 ;;
	esac
	weights=$((${weights:-0} + weight))
	plan="${plan-} $part:$weight"
done
for part in $plan; do
	share=$((total * ${part#*:} / (weights > 0 ? weights : 1)))
	began=$SECONDS
	say "==> ${part%:*}: $share s"
	"${part%:*}" || failed="$failed ${part%:*}"
	say "<== ${part%:*}: $((SECONDS - began)) s"
done
[ -z "$failed" ] || { say "FAILED with SEED=$seed:$failed"; exit 1; }
say "nothing found in $SECONDS s, SEED=$seed"
