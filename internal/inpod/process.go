package inpod

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/podinfo"
	"initbox/internal/words"
)

// capabilities are the names of the kernel's capabilities without CAP_, by number: capabilities(7).
const capabilities = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE " +
	"NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT " +
	"SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG " +
	"WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"

// capabilityNames returns the names in a mask in hexadecimal digits.
func capabilityNames(mask string) string {
	bits, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		return "unknown"
	}
	var set, missing []string
	for i, name := range strings.Fields(capabilities) {
		if bits&(1<<i) != 0 {
			set = append(set, name)
		} else {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) == 0:
		return "all"
	case len(missing) < len(set)/2:
		return "all but " + printable(missing)
	}
	return printable(set)
}

// process tells who this process is, and what it may do: proc_pid_status(5).
func process(_ context.Context, o *Options, s *section) {
	text, err := o.read("/proc/self/status")
	if err != nil {
		s.unknown("user", err)
		return
	}
	status := map[string][]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.Fields(value)
	}
	first := func(key string) string { return strings.Join(status[key][:min(1, len(status[key]))], "") }
	s.add("user", "%s", first("Uid"))
	s.add("groups", "%s; supplementary: %s", first("Gid"), printable(status["Groups"]))
	s.add("capabilities", "%s", capabilityNames(first("CapEff")))
	s.add("bounding set", "%s", capabilityNames(first("CapBnd")))
	s.add("ambient set", "%s", capabilityNames(first("CapAmb")))
	s.add("no_new_privs", "%s", yes(first("NoNewPrivs") == "1", "yes", "no"))
	s.add("seccomp", "%s", map[string]string{"0": "off", "1": "strict", "2": "filter"}[first("Seccomp")])
	module, err := o.read("/proc/self/attr/current") // of AppArmor or SELinux
	if module = strings.Trim(module, "\x00\n "); err != nil || module == "" {
		module = "none"
	}
	s.add("security module", "%s", failure.Printable(module))
}

// limits tells what the container may use, and what it does use.
func limits(_ context.Context, o *Options, s *section) {
	c := podinfo.ReadCgroup(o.Root)
	s.add("memory", "%s of %s in use", words.Bytes(c.Memory), yes(c.Limits.Memory > 0, words.Bytes(c.Limits.Memory), "any size"))
	if c.Killed > 0 {
		s.problem("raise resources.limits.memory of this container", "processes that the kernel has killed for lack of memory: %d", c.Killed)
	}
	cpu := "no limit"
	if c.Limits.CPU > 0 {
		cpu = fmt.Sprintf("%.4g cores", c.Limits.CPU)
	}
	if c.Throttled > 0 {
		cpu += fmt.Sprintf(", reached in %d of %d periods", c.Throttled, c.Periods)
	}
	s.add("CPU", "%s", cpu)
	s.add("threads", "%d of %s", c.Processes, yes(c.MaxProcesses > 0, strconv.FormatInt(c.MaxProcesses, 10), "any number"))
	if c.MaxProcesses > 0 && c.Processes >= c.MaxProcesses {
		s.problem("raise podPidsLimit of the kubelet, or find what starts so many", "no more can be started")
	}
	text, _ := o.read("/proc/self/limits")
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, "Max open files"); found {
			if f := strings.Fields(rest); len(f) > 1 { // the program raises the soft limit when it starts
				s.add("open files", "at most %s", f[1])
			}
		}
	}
	if value := o.Getenv("GOMEMLIMIT"); value != "" {
		s.add("GOMEMLIMIT", "%s", failure.Printable(value))
	}
}

// downwardAPI tells which fields of the downward API are set.
func downwardAPI(_ context.Context, o *Options, s *section) {
	p, err := podinfo.Source{Dir: podinfo.DefaultDir}.Read()
	if err != nil {
		s.add("fields", "%s", failure.Printable(err.Error()))
		s.problem("correct the variable or the file", "%s", failure.Printable(err.Error()))
		return
	}
	addrs := func(list []netip.Addr) string { return strings.Join(words.Each(list, netip.Addr.String), ", ") }
	values := map[string]string{
		"Name": p.Name, "Namespace": p.Namespace, "UID": p.UID, "Node": p.Node, "ServiceAccount": p.ServiceAccount,
		"IPs": addrs(p.IPs), "HostIPs": addrs(p.HostIPs),
		"Labels": count(len(p.Labels), "label"), "Annotations": count(len(p.Annotations), "annotation"),
	}
	var missing []string
	for _, f := range podinfo.Fields {
		value, shown := values[f.Name]
		switch {
		case value != "":
			s.add(f.Name, "%s", failure.Printable(value))
		case shown:
			missing = append(missing, yes(f.Variable != "", f.Variable+" ("+f.Path+")", f.Path))
		}
	}
	if len(missing) > 0 {
		s.add("not set", "%s", strings.Join(missing, ", "))
	}
}

// count returns a count of a noun, or "" for none.
func count(n int, noun string) string {
	if n == 0 {
		return ""
	}
	return words.Plural(n, noun)
}

// environment tells the names of the variables, but no values, and the hosts of proxies.
func environment(_ context.Context, o *Options, s *section) {
	var names, links []string
	for _, pair := range o.Environ {
		name, value, _ := strings.Cut(pair, "=")
		upper := strings.ToUpper(name)
		switch {
		case slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}, upper) && value != "":
			s.add(failure.Printable(name), "%s", proxyHost(value))
		case upper == "NO_PROXY" && value != "":
			s.add(failure.Printable(name), "%s", words.Plural(len(strings.Split(value, ",")), "name"))
		case serviceLink(name):
			links = append(links, name)
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	s.add("variables", "%s", printable(names))
	if len(links) > 0 {
		s.add("of Services", "%s", words.Plural(len(links), "variable"))
	}
}

// serviceLink reports whether a variable is one that Kubernetes sets for a Service.
func serviceLink(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") || strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}

// proxyHost returns the host and port of a proxy's URL, which may have a password.
func proxyHost(value string) string {
	if i := strings.LastIndexByte(value, '@'); i >= 0 {
		value = value[i+1:]
	}
	if _, rest, found := strings.Cut(value, "://"); found {
		value = rest
	}
	u, err := url.Parse("http://" + value)
	if err != nil || u.Host == "" || strings.Trim(u.Host, words.NameCharacters+":[]") != "" {
		return "set, and not a URL"
	}
	return u.Host
}
