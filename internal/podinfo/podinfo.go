// Package podinfo reads what the downward API provides about the Pod itself, from environment
// variables and files. No other package does.
package podinfo

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"

	"initbox/internal/mounts"
	"initbox/internal/readfile"
)

// Name returns the Pod's name: $POD_NAME, which the downward API can set, or the host name, which the kubelet sets to
// it unless the Pod uses the host's network or sets a host name of its own.
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

// Seed returns a number that differs between Pods, as a seed for jitter: web-0 of one
// namespace must not act in step with web-0 of another.
func Seed() uint64 {
	h := fnv.New64a()
	for _, part := range []string{Name(), namespace(), os.Getenv("POD_UID")} {
		h.Write(append([]byte(part), 0))
	}
	return h.Sum64()
}

// namespace returns $POD_NAMESPACE, or the namespace in the service account's volume.
func namespace() string {
	if name := os.Getenv("POD_NAMESPACE"); name != "" {
		return name
	}
	text, _ := readfile.All(namespaceFile)
	return strings.TrimSpace(string(text))
}

// UID returns the Pod's UID: $POD_UID, which the downward API can set, or what the kubelet's mounts show. It is empty
// if neither is known.
func UID() string { return cmp.Or(os.Getenv("POD_UID"), mounts.PodUID()) }

// Ordinal returns the number at the end of the name of a StatefulSet's Pod: 2 for "web-2".
func Ordinal(name string) (int, error) {
	i := strings.LastIndexByte(name, '-')
	n, err := strconv.ParseUint(name[i+1:], 10, 31)
	if i < 0 || err != nil {
		return 0, fmt.Errorf("the Pod's name %q has no ordinal: a StatefulSet's Pod ends in one, as in web-2", name)
	}
	return int(n), nil
}
