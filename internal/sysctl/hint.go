package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"initbox/internal/failure"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// safe are the parameters that a Pod may set on every node, since Kubernetes 1.32; see
// https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/#safe-and-unsafe-sysctls.
var safe = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

// namespaced are the prefixes of what each Pod has for itself, according to the same page.
var namespaced = []string{"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.", "net."}

// ofPod returns whether each Pod has a value of its own of the parameter.
func ofPod(name string) bool {
	return slices.ContainsFunc(namespaced, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// problem is why a parameter does not have its value.
type problem struct {
	Setting
	err error
}

// refused returns an error with all problems, and a hint for those that the Pod's manifest solves.
func refused(problems []problem, root string) error {
	var errs []error
	var hints, unsafe []string
	var pod, node []Setting
	for _, p := range problems {
		errs = append(errs, failure.About(p.Key, p.err, fmt.Errorf("%s: %w", failure.Printable(p.Key), p.err)))
		switch {
		case errors.Is(p.err, errMissing):
			hints = append(hints, missing(p.Setting, root))
		case errors.Is(p.err, syscall.EINVAL), errors.Is(p.err, syscall.ERANGE):
			hints = append(hints, "the kernel does not accept this value of "+p.name())
		case !errors.Is(p.err, fs.ErrPermission) && !errors.Is(p.err, syscall.EROFS):
		case ofPod(p.name()):
			pod = append(pod, p.Setting)
			if !slices.Contains(safe, p.name()) {
				unsafe = append(unsafe, p.name())
			}
		default:
			node = append(node, p.Setting)
		}
	}
	if len(pod) > 0 {
		list := words.Each(pod, func(s Setting) string { return fmt.Sprintf("{name: %s, value: %q}", s.name(), s.Value) })
		hint := "the Pod has " + those(pod) + " for itself: set it in the Pod's manifest, which needs no init container:\nsecurityContext: {sysctls: [" + strings.Join(list, ", ") + "]}"
		if len(unsafe) > 0 {
			hint += "\nthe kubelet must allow what Kubernetes does not count as safe: --allowed-unsafe-sysctls=" + strings.Join(unsafe, ",")
		}
		hints = append(hints, hint)
	}
	if len(node) > 0 {
		hints = append(hints, "the node has one "+those(node)+" for all Pods: set it in the node's configuration (/etc/sysctl.d, the node pool), or give this container\nsecurityContext: {privileged: true, runAsUser: 0}")
	}
	hints = slices.DeleteFunc(hints, func(s string) bool { return s == "" })
	if len(hints) == 0 {
		return errors.Join(errs...)
	}
	return failure.WithHint(errors.Join(errs...), strings.Join(hints, "\n"))
}

func those(settings []Setting) string { return words.List(words.Each(settings, Setting.name)) }

// missing returns a hint for a parameter that the kernel does not have.
func missing(s Setting, root string) string {
	if meant := near(s, root); meant != "" {
		return "did you mean " + meant + "?"
	}
	if name := s.name(); strings.HasPrefix(name, "net.") {
		return "some parameters of net exist only on the node (hostNetwork: true), others once a module is loaded there; leave it out where it is missing with " + s.Key + "=…#if-exists"
	}
	return "it may be of another version of the kernel, or of a module that is not loaded; leave it out where it is missing with " + s.Key + "=…#if-exists"
}

// closest returns the name of the entry that a misspelt name was meant to be, or "".
func closest(name string, entries []os.DirEntry) string {
	dashed := func(e os.DirEntry) string { return strings.ReplaceAll(e.Name(), "_", "-") } // as suggest compares
	meant := suggest.Closest(name, words.Each(entries, dashed))
	if i := slices.IndexFunc(entries, func(e os.DirEntry) bool { return dashed(e) == meant }); i >= 0 {
		return entries[i].Name()
	}
	return ""
}
