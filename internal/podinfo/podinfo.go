// Package podinfo is the one reader of what the downward API tells a Pod about
// itself.
package podinfo

import (
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
)

// Name returns the Pod's name: $POD_NAME, which the downward API can set, or
// the host name, which the kubelet sets to it unless the Pod uses the host's
// network or sets a host name of its own.
func Name() string {
	if name := os.Getenv("POD_NAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// Seed returns a number that tells this Pod from others, for jitter.
func Seed() uint64 {
	h := fnv.New64a()
	h.Write([]byte(Name()))
	return h.Sum64()
}

// Ordinal returns the number at the end of the name of a StatefulSet's Pod: 2
// for "web-2".
func Ordinal(name string) (int, error) {
	i := strings.LastIndexByte(name, '-')
	n, err := strconv.ParseUint(name[i+1:], 10, 31)
	if i < 0 || err != nil {
		return 0, fmt.Errorf("the Pod's name %q has no ordinal: a StatefulSet's Pod ends in one, as in web-2", name)
	}
	return int(n), nil
}
