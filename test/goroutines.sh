#!/bin/sh
# goroutines.sh prints the packages of the product in which the race detector can find something: those whose code starts
# goroutines, by a go statement, a group or a timer, or guards what goroutines share. It prints a few too many rather than
# miss one.
set -eu
starts='(^|[{;:])[[:space:]]*go [a-zA-Z_(]|\.Go\(|AfterFunc\('
guards='^[[:space:]]*(import )?"(sync|sync/atomic|golang\.org/x/sync/.*)"'
go list -f '{{.Dir}} {{.ImportPath}}' ./... | grep -v ' initbox/test/' | while read -r dir package; do
	if find "$dir" -maxdepth 1 -name '*.go' ! -name '*_test.go' -exec grep -lE "$starts|$guards" {} + | grep -q .; then
		echo "$package"
	fi
done
