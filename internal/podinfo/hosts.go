package podinfo

import (
	"net/netip"
	"os"
	"slices"
	"strings"

	"initbox/internal/readfile"
)

// hostsFile is the one that the kubelet writes. It has the Pod's addresses with its host name and, if the Pod has a
// subdomain, as the Pods of a StatefulSet do, its name in that headless Service.
const hostsFile = "/etc/hosts"

// Hosts returns the names and the addresses that the kubelet has given this Pod: web-0, and in a headless Service
// web-0.web, web-0.web.NAMESPACE and so on up to the whole name. Both are empty if the file does not tell.
func Hosts() (names []string, addrs []netip.Addr, err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, err
	}
	text, err := readfile.All(hostsFile)
	if err != nil {
		return nil, nil, err
	}
	names, addrs = parseHosts(string(text), host)
	return names, addrs, nil
}

// parseHosts reads the lines of a hosts(5) file that are about the host.
func parseHosts(text, host string) (names []string, addrs []netip.Addr) {
	host, _, _ = strings.Cut(strings.ToLower(host), ".") // it is a whole name with setHostnameAsFQDN
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(strings.ToLower(line))
		if len(fields) == 0 || !slices.Contains(fields[1:], host) {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil || addr.IsLoopback() {
			continue
		}
		addrs = append(addrs, addr)
		for _, name := range fields[1:] {
			names = append(names, within(name, host)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), addrs
}

// within returns the names by which others may shorten name: web-0.web.shop.svc.cluster.local has web-0, web-0.web,
// web-0.web.shop and web-0.web.shop.svc.
func within(name, host string) (names []string) {
	labels := strings.Split(name, ".")
	if labels[0] != host {
		return nil // an alias, from hostAliases
	}
	if len(labels) > 3 && labels[3] == "svc" {
		for n := 1; n <= 4; n++ {
			names = append(names, strings.Join(labels[:n], "."))
		}
	}
	return append(names, name)
}
