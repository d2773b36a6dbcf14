#!/usr/bin/env bash
# signal.sh SIGNAL PROGRAM: sends a signal to one of the cluster's programs, such as kube-apiserver. If that ends the
# program, it is started again after a second.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
inside kill -s "$1" "$(cat "$STATE/run/$2.pid")"
