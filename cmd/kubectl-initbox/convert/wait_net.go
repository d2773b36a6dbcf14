package convert

import (
	"cmp"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

const (
	closedAtOnce = "a connection that is closed or reset within 20 ms does not count: a proxy without a server does that"
	searchList   = "the name is looked up as the Pod's programs do it, with the search list of resolv.conf; an A or an AAAA record is enough"
)

// tcp returns the step that waits for a port.
func tcp(scheme string, host, port shell.Word, c *manifest.Container) (Step, error) {
	address, err := hostPort(host, port, c)
	if err != nil {
		return Step{}, err
	}
	s := wait("a connection opens", scheme+"://"+address)
	s.Differs = []string{closedAtOnce}
	return s, nil
}

// netcat knows the options that BusyBox's, OpenBSD's and Nmap's nc have in common. Only with -z it does nothing but
// connect; -u is UDP, where nothing answers.
//
// https://git.busybox.net/busybox/tree/networking/nc_bloaty.c, https://man.openbsd.org/nc.1, https://nmap.org/ncat/
func netcat(a *asked) (Step, error) {
	if !a.has("z") {
		return Step{}, a.refuse("without -z its status depends on when the server closes the connection, and on which nc it is")
	}
	if len(a.args) != 2 {
		return Step{}, a.refuse("not called with a host and one port")
	}
	scheme := "tcp"
	switch {
	case a.has("4") && !a.has("6"):
		scheme = "tcp4"
	case a.has("6") && !a.has("4"):
		scheme = "tcp6"
	}
	s, err := tcp(scheme, a.args[0], a.args[1], a.c)
	if err != nil {
		return s, err
	}
	s.Flags, err = attempts(a.get("w"))
	return s, err
}

// withoutEmptyInput returns the call without an input that is empty.
func withoutEmptyInput(call *shell.Call) *shell.Call {
	if call.Stdin == nil {
		return call
	}
	if text, ok := call.Stdin.File.Literal(); ok && text == "/dev/null" {
		without := *call
		without.Stdin = nil
		return &without
	}
	return call
}

// bashTCP is a redirection to or from /dev/tcp/HOST/PORT, which bash opens as a connection. The programs in its table
// do nothing that could fail beside it.
func bashTCP(call *shell.Call, c *manifest.Container) (Step, error) {
	refused := &shell.Error{Pos: call.Pos, Word: call.Name, Why: "no wait for anything that is known here"}
	var file shell.Word
	switch {
	case call.Stdout != nil && call.Stdout.File != nil:
		file = call.Stdout.File
		if in := call.Stdin; in != nil && in.Text == nil && !isNull(in.File) {
			return Step{}, refused
		}
	case call.Stdin != nil && call.Stdin.File != nil && call.Name != "cat": // cat ends when the server closes
		file = call.Stdin.File
	}
	if call.Pipe != nil || !strings.HasPrefix(leading(file), "/dev/tcp/") || call.Name == "cat" && (len(call.Args) > 0 || call.Stdin == nil) {
		return Step{}, refused
	}
	if !runsBash(c) {
		return Step{}, stop(file, "only bash opens a connection for it, and the shell here may be another one")
	}
	host, port, err := cutWord(behind(file, len("/dev/tcp/")), "/")
	if err != nil {
		return Step{}, err
	}
	return tcp("tcp", host, port, c)
}

func isNull(file shell.Word) bool {
	text, ok := file.Literal()
	return ok && text == "/dev/null"
}

// runsBash reports whether the container's shell is bash by its name.
func runsBash(c *manifest.Container) bool {
	for _, w := range slices.Concat(c.Command, c.Args) {
		if path.Base(w) == "bash" {
			return true
		}
		if strings.ContainsAny(w, " \n") { // the script
			break
		}
	}
	return false
}

// cutWord cuts a word at the first separator in its literal text.
func cutWord(w shell.Word, separator string) (before, after shell.Word, err error) {
	for i, p := range w {
		if text, rest, found := strings.Cut(p.Text, separator); p.Env == "" && found {
			before = append(before, w[:i]...)
			if text != "" {
				before = append(before, shell.Part{Text: text})
			}
			if rest != "" {
				after = append(after, shell.Part{Text: rest})
			}
			return before, append(after, w[i+1:]...), nil
		}
	}
	return nil, nil, stop(w, "no "+separator+" in it")
}

// dns returns the step that waits for a name. fromServer is for programs that do not read /etc/hosts.
func dns(name shell.Word, fromServer bool, c *manifest.Container) (Step, error) {
	text, ok := known(name, c)
	if _, err := netip.ParseAddr(text); ok && err == nil && fromServer {
		return Step{}, stop(name, "an address, whose name it looks up")
	}
	for _, p := range name {
		if p.Env != "" && lookup(p.Env, c).origin == inConfigMap {
			return Step{}, stop(name, "the value of "+p.Env+" is in a ConfigMap and may be an address")
		}
	}
	place := hostPlace
	place.absent = ""
	written, err := place.in(name, c)
	if err != nil {
		return Step{}, err
	}
	s := Step{Subcommand: "wait-for-dns", Args: []string{written}, Why: "the name has an address"}
	if fromServer && (len(c.Pod.Spec.HostAliases) > 0 || ofThePod(name, c)) {
		s.Flags = []Flag{{"hosts", "/dev/null"}} // as the original, which asks the name server alone
	}
	return s, nil
}

// ofThePod reports whether a word has the name of the Pod, which is in its /etc/hosts.
func ofThePod(w shell.Word, c *manifest.Container) bool {
	for _, p := range w {
		if p.Env != "" && lookup(p.Env, c).origin == inPod {
			return true
		}
	}
	return false
}

// nslookup knows BusyBox's and BIND's. Both fail if the name has no record.
func nslookup(a *asked) (Step, error) {
	if len(a.args) != 1 && len(a.args) != 2 {
		return Step{}, a.refuse("not called with a name")
	}
	s, err := dns(a.args[0], true, a.c)
	if err != nil {
		return s, err
	}
	s.Differs = []string{searchList}
	if len(a.args) == 2 {
		server, ok := known(a.args[1], a.c)
		if _, err := netip.ParseAddr(server); !ok || err != nil {
			return s, stop(a.args[1], "a name server that is not given by its address")
		}
		text, err := hostPlace.in(a.args[1], a.c)
		if err != nil {
			return s, err
		}
		s.Flags = append(s.Flags, Flag{"server", text})
	}
	return recordType(s, a.get("type"))
}

// recordType adds the type of the records that are asked for.
func recordType(s Step, w shell.Word) (Step, error) {
	if w == nil {
		return s, nil
	}
	text, ok := w.Literal()
	text = strings.ToUpper(text)
	if !ok || !set("A AAAA CNAME SRV MX NS TXT")[text] {
		return s, stop(w, "not a record type that is known to mean the same here")
	}
	s.Flags = append(s.Flags, Flag{"type", text})
	s.Why = "the name has a record of type " + text
	s.Differs = []string{strings.ReplaceAll(searchList, "; an A or an AAAA record is enough", "")}
	return s, nil
}

// getent looks a name up as programs do: https://man7.org/linux/man-pages/man1/getent.1.html
func getent(a *asked) (Step, error) {
	if len(a.args) != 2 {
		return Step{}, a.refuse("not called with a database and a name")
	}
	database, _ := a.args[0].Literal()
	if !set("hosts ahosts ahostsv4")[database] {
		return Step{}, stop(a.args[0], "not a database of getent that is known here")
	}
	s, err := dns(a.args[1], false, a.c)
	if err == nil && database == "ahostsv4" {
		s.Flags = append(s.Flags, Flag{"family", "4"})
	}
	return s, err
}

// host asks a name server, with the search list.
func host(a *asked) (Step, error) {
	if len(a.args) != 1 {
		return Step{}, a.refuse("not called with one name")
	}
	s, err := dns(a.args[0], true, a.c)
	if err != nil {
		return s, err
	}
	s.Differs = []string{"the name must have an address; a record of another type does not count"}
	if s.Flags, err = withAttempts(s.Flags, a.get("W")); err != nil {
		return s, err
	}
	if family := strings.Join(oneOf(a.given, "4", "6"), ""); family != "" {
		return s, &shell.Error{Pos: a.call.Pos, Word: "-" + family, Why: "it says how the name server is reached"}
	}
	return recordType(s, a.get("t"))
}

func oneOf(g given, names ...string) (found []string) {
	for _, name := range names {
		if g.has(name) {
			found = append(found, name)
		}
	}
	return found
}

func withAttempts(flags []Flag, w shell.Word) ([]Flag, error) {
	more, err := attempts(w)
	return append(flags, more...), err
}

// digMatch is dig +short, which asks a name server, without the search list, for records of type A.
func digMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	refused := noMatch(m, "not whether dig +short NAME prints anything")
	text, _ := m.Pattern.Literal()
	if n := countOf(m, m.Call.Pipe); n != "" {
		call := *m.Call
		call.Pipe = nil
		s, err := digMatch(&shell.Match{Call: &call, Op: "-n"}, c)
		return enough(s, n), err
	}
	if err := noPipes(m.Call); err != nil || m.Op != "-n" && (!strings.HasPrefix(m.Op, "grep") || text != "." || m.Op == "grep -F") {
		return Step{}, cmp.Or(err, error(refused))
	}
	var name shell.Word
	recorded, short, search := "A", false, false
	for _, w := range m.Call.Args {
		switch text, ok := w.Literal(); {
		case ok && text == "+short":
			short = true
		case ok && text == "+search":
			search = true
		case ok && set("A AAAA SRV MX NS TXT CNAME")[strings.ToUpper(text)]:
			recorded = strings.ToUpper(text)
		case ok && strings.ContainsAny(text[:min(1, len(text))], "+-@"):
			return Step{}, stop(w, "an option that is not known to mean the same here")
		case name != nil:
			return Step{}, stop(w, "a second name")
		default:
			name = w
		}
	}
	if name == nil || !short {
		return Step{}, refused
	}
	s, err := dns(name, true, c)
	if err != nil {
		return s, err
	}
	if text, ok := name.Literal(); !search && (!ok || !strings.HasSuffix(text, ".")) {
		s.Args[0] += "." // no search list
	}
	s.Flags, s.Why = append(s.Flags, Flag{"type", recorded}), "dig +short prints the records"
	s.Differs = []string{"a CNAME that leads to no record does not count"}
	return s, nil
}

// countOf returns the number of lines that a comparison wants at least of wc -l, or "".
func countOf(m *shell.Match, wc *shell.Call) string {
	text, ok := m.Pattern.Literal()
	n, err := strconv.Atoi(text)
	if m.Op == "-gt" {
		n++
	}
	if wc == nil || wc.Name != "wc" || len(wc.Args) != 1 || wc.Args[0].String() != "-l" || noPipes(wc) != nil || !ok || err != nil || n < 1 ||
		!set("= == -eq -ge -gt")[m.Op] {
		return ""
	}
	return strconv.Itoa(n)
}

// enough returns a step that waits for a number of records.
func enough(s Step, n string) Step {
	s.Flags = append(slices.Clone(s.Flags), Flag{"min-records", n})
	s.Why = "the name has as many records"
	s.differs("more than " + n + " are enough, too, and those of one type count, where the script counts lines")
	return s
}

// nslookupMatch counts the addresses, for each of which there is a line with Name.
func nslookupMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	refused := noMatch(m, "not how many times nslookup prints Name")
	grep := m.Call.Pipe
	if grep == nil || grep.Name != "grep" || len(grep.Args) != 1 || !set("Name Name: ^Name ^Name:")[grep.Args[0].String()] || grep.Stdin != nil || grep.Stdout != nil {
		return Step{}, refused
	}
	n := countOf(m, grep.Pipe)
	if n == "" {
		return Step{}, refused
	}
	call := *m.Call
	call.Pipe = nil
	s, err := probes["nslookup"](&call, c)
	return enough(s, n), err
}

// telnetMatch looks for the line that telnet prints when it is connected.
func telnetMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	call := *m.Call
	call.Stdin = nil // what it sends
	text, _ := m.Pattern.Literal()
	if err := noPipes(&call); err != nil || len(call.Args) != 2 || !strings.HasPrefix(m.Op, "grep") || !set("Connected Connected%to Escape%character")[strings.ReplaceAll(text, " ", "%")] {
		return Step{}, cmp.Or(err, error(noMatch(m, "not the line with which telnet HOST PORT says that it is connected")))
	}
	return tcp("tcp", call.Args[0], call.Args[1], c)
}

// echoMatch is a text that echo or printf sends to a program, whose output is compared.
func echoMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	to := m.Call.Pipe
	if to == nil || to.Stdin != nil || !set("nc ncat telnet")[to.Name] || len(m.Call.Args) > 1 {
		return Step{}, noMatch(m, "not the answer of a server that is known here")
	}
	call := *to
	call.Stdin = &shell.Input{}
	if len(m.Call.Args) == 1 {
		text, ok := m.Call.Args[0].Literal()
		if !ok {
			return Step{}, stop(m.Call.Args[0], "a text that is not known")
		}
		call.Stdin.Text = shell.Word{{Text: strings.TrimSuffix(text, `\n`)}}
	}
	sent := &shell.Match{Call: &call, Op: m.Op, Pattern: m.Pattern}
	if to.Name == "telnet" {
		return telnetMatch(sent, c)
	}
	return netcatMatch(sent, c)
}

// netcatMatch is a four-letter word that is sent to ZooKeeper.
func netcatMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	call := *m.Call
	in := call.Stdin
	call.Stdin = nil
	g, err := optionsOf("w=; q=; N; v").read(call.Args)
	if err := cmp.Or(noPipes(&call), err); err != nil {
		return Step{}, err
	}
	want, _ := m.Pattern.Literal()
	if in == nil || len(g.args) != 2 {
		return Step{}, noMatch(m, "not the answer to a word that it is sent")
	}
	word, _ := in.Text.Literal()
	equal, pattern := m.Op == "=" || m.Op == "==", strings.HasPrefix(m.Op, "grep")
	known := false
	switch strings.TrimSpace(word) {
	case "ruok":
		known = (equal || pattern) && want == "imok"
	case "srvr", "stat":
		known = pattern && set("Mode Mode:")[want]
	}
	if !known {
		return Step{}, noMatch(m, "not ZooKeeper's answer to ruok or srvr")
	}
	address, err := hostPort(g.args[0], g.args[1], c)
	if err != nil {
		return Step{}, err
	}
	s := wait("the server of ZooKeeper answers", "zookeeper://"+address)
	s.Differs = []string{"the server must also serve requests: it answers ruok even without a quorum"}
	s.Flags, err = attempts(g.get("w"))
	return s, err
}

// grpcHealth is grpc_health_probe, whose status is 0 if the health service reports SERVING:
// https://github.com/grpc-ecosystem/grpc-health-probe
func grpcHealth(a *asked) (Step, error) {
	address := a.get("addr")
	if address == nil || len(a.args) > 0 || a.has("user-agent") {
		return Step{}, a.refuse("not called with -addr=HOST:PORT alone")
	}
	where, err := addressIn(address, a.c)
	if err != nil {
		return Step{}, err
	}
	scheme, settings := "grpc", []string{}
	if a.has("tls") {
		scheme = "grpcs"
		if settings, err = tlsSettings(a.given, "tls-ca-cert", "tls-no-verify", "tls-server-name", a.c); err != nil {
			return Step{}, err
		}
	}
	text := scheme + "://" + where
	if service := a.get("service"); service != nil {
		name, err := namePlace.in(service, a.c)
		if err != nil {
			return Step{}, err
		}
		text += "/" + name
	}
	s := wait("the health service reports SERVING", text+fragment(settings))
	s.Writes = a.has("tls-ca-cert")
	return s, nil
}

// tlsSettings returns the settings of TLS that options say: a file with certificates, no verification, a name.
func tlsSettings(g given, ca, insecure, name string, c *manifest.Container) (settings []string, err error) {
	if g.has(insecure) {
		return []string{"insecure"}, nil
	}
	if w := g.get(ca); w != nil {
		file, err := settingPlace.file(w, c)
		if err != nil {
			return nil, err
		}
		settings = append(settings, "ca-file="+file)
	}
	if w := g.get(name); w != nil {
		text, err := hostPlace.in(w, c)
		if err != nil {
			return nil, err
		}
		settings = append(settings, "server-name="+text)
	}
	return settings, nil
}

// fragment returns settings as they follow a target.
func fragment(settings []string) string {
	if len(settings) == 0 {
		return ""
	}
	return "#" + strings.Join(settings, "&")
}
