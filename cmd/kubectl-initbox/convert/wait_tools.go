package convert

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"initbox/cmd/duration"
	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/cmd/translate"
)

// asCommand returns a tool as it is called in a script.
func asCommand(t tool) command {
	return func(call *shell.Call, c *manifest.Container) ([]Step, error) {
		if err := noPipes(call); err != nil {
			return nil, err
		}
		if mounted(call.Path, c) {
			return nil, &shell.Error{Pos: call.Pos, Word: call.Path, Why: "a file on a volume, which may be another program of that name"}
		}
		return t(call.Args, c)
	}
}

// noCommand refuses a program that a tool runs at the end, if it does anything.
func noCommand(words []shell.Word) error {
	if len(words) == 0 {
		return nil
	}
	if name, ok := words[0].Literal(); ok && set("echo true /bin/echo /bin/true")[name] {
		return nil
	}
	return stop(words[0], "a program of the image that it runs at the end")
}

// deadline returns the flag of a tool's timeout: a duration as Go writes it, or a number of seconds.
func deadline(w shell.Word, otherwise string) ([]Flag, error) {
	text := otherwise
	if w != nil {
		var ok bool
		if text, ok = w.Literal(); !ok {
			return nil, stop(w, "a timeout that is not known")
		}
		if strings.Trim(text, "0123456789") == "" && text != "0" {
			text += "s"
		}
		if _, err := duration.Parse(text); err != nil {
			return nil, stop(w, "a timeout that initbox does not take")
		}
	}
	return []Flag{{"timeout", text}}, nil
}

// beforeDashes cuts words at --.
func beforeDashes(words []shell.Word) (before, after []shell.Word) {
	i := slices.IndexFunc(words, func(w shell.Word) bool { text, _ := w.Literal(); return text == "--" })
	if i < 0 {
		return words, nil
	}
	return words[:i], words[i+1:]
}

// waitForIt is wait-for-it.sh and wait-for: HOST:PORT, and a timeout of 15 s.
//
// https://github.com/vishnubob/wait-for-it, https://github.com/eficode/wait-for
func waitForIt(words []shell.Word, c *manifest.Container) ([]Step, error) {
	words, after := beforeDashes(words)
	if err := noCommand(after); err != nil {
		return nil, err
	}
	g, err := optionsOf("t timeout=; q quiet; s strict; h host=; p port=").read(words)
	if err != nil {
		return nil, err
	}
	host, port := g.get("h"), g.get("p")
	if len(g.args) == 1 && host == nil && port == nil {
		if host, port, err = cutWord(g.args[0], ":"); err != nil {
			return nil, err
		}
	} else if len(g.args) > 0 || host == nil || port == nil {
		return nil, &shell.Error{Word: "wait-for-it", Why: "not called with one HOST:PORT; what it takes otherwise differs from version to version"}
	}
	s, err := tcp("tcp", host, port, c)
	if err != nil {
		return nil, err
	}
	if len(after) > 0 && !g.has("s") {
		return nil, stop(after[0], "it also runs, and decides the status, when the timeout has passed")
	}
	s.Flags, err = deadline(g.get("t"), "15s")
	return []Step{s}, err
}

// waitFor is wait-for, which runs a command behind -- only if it has not waited in vain, as wait-for-it.sh does with
// -s.
func waitFor(words []shell.Word, c *manifest.Container) ([]Step, error) {
	return waitForIt(append([]shell.Word{{{Text: "-s"}}}, words...), c)
}

// dockerize is jwilder/dockerize, which makes files of templates and then waits, for 10 s:
// https://github.com/jwilder/dockerize
func dockerize(words []shell.Word, c *manifest.Container) ([]Step, error) {
	g, err := optionsOf("wait=; timeout=; wait-retry-interval=; wait-http-header=; template=; delims=; no-overwrite").readGo(words)
	if err != nil {
		return nil, err
	}
	if err := noCommand(g.args); err != nil {
		return nil, err
	}
	steps := dockerizeTemplates(g)
	switch {
	case len(g.options["wait"]) > 0:
	case len(steps) > 0:
		return steps, nil
	default:
		return nil, &shell.Error{Word: "dockerize", Why: "without -wait and -template it does nothing"}
	}
	s := wait("the same targets, all at once")
	call := &shell.Call{Name: "dockerize"}
	for _, w := range g.options["wait"] {
		one, err := dockerizeTarget(w, g, call, c)
		if err != nil {
			return nil, err
		}
		s.add(one)
	}
	s.Flags, err = deadline(g.get("timeout"), "10s")
	return append(steps, s), err
}

// add adds what another step waits for.
func (s *Step) add(other Step) {
	s.Args = append(s.Args, other.Args...)
	s.Writes = s.Writes || other.Writes
	for _, d := range other.Differs {
		if !slices.Contains(s.Differs, d) {
			s.Differs = append(s.Differs, d)
		}
	}
}

func dockerizeTarget(w shell.Word, g given, call *shell.Call, c *manifest.Container) (Step, error) {
	scheme, _, _ := strings.Cut(leading(w), "://")
	rest := behind(w, len(scheme)+len("://"))
	switch scheme {
	case "tcp", "tcp4", "tcp6":
		host, port, err := cutWord(rest, ":")
		if err != nil {
			return Step{}, err
		}
		return tcp(scheme, host, port, c)
	case "http", "https":
		r := request{url: w, settings: []string{"status=200-299"}, verified: true}
		if err := r.curlHeaders(given{options: map[string][]shell.Word{"H": g.options["wait-http-header"]}}, c); err != nil {
			return Step{}, err
		}
		return r.step("a status of 2xx, after redirects", call, c)
	case "file", "unix":
		file, err := pathPlace.file(rest, c)
		s := wait("it exists", scheme+"://"+file)
		s.Writes = true
		return s, err
	}
	return Step{}, stop(w, "not a target that dockerize knows")
}

const wait4xOptions = `i interval=; t timeout=; q quiet; l log-level=; no-color; backoff-policy=; backoff-exponential-coefficient=; backoff-exponential-max-interval=;
	connection-timeout=; expect-status-code=; expect-body expect-body-regex=; expect-header=; request-header=; insecure-skip-tls-verify;
	no-redirect; ca-file=; cert-file=; key-file=; h2c; expect-key=; request-method http-method=; insecure-transport; namespace=; task-queue=;
	expect-ip=; n nameserver=`

// wait4x is https://github.com/wait4x/wait4x: its checks of one or several addresses. Its timeout is 10 s.
func wait4x(words []shell.Word, c *manifest.Container) ([]Step, error) {
	words, after := beforeDashes(words)
	if err := noCommand(after); err != nil {
		return nil, err
	}
	g, err := optionsOf(wait4xOptions).read(words)
	if err != nil {
		return nil, err
	}
	if len(g.args) < 2 {
		return nil, &shell.Error{Word: "wait4x", Why: "not called with a kind of server and an address"}
	}
	kind, _ := g.args[0].Literal()
	addresses := g.args[1:]
	if kind == "dns" || kind == "temporal" {
		sub, _ := addresses[0].Literal()
		kind, addresses = kind+" "+sub, addresses[1:]
	}
	check := wait4xKinds[kind]
	switch {
	case check == nil:
		return nil, stop(g.args[0], "a kind of server of wait4x that is not translated")
	case len(addresses) == 0:
		return nil, &shell.Error{Word: "wait4x", Why: "not called with a kind of server and an address"}
	}
	s, err := check(addresses[0], g, c)
	if err != nil {
		return nil, err
	}
	for _, w := range addresses[1:] {
		one, err := check(w, g, c)
		if err != nil {
			return nil, err
		}
		s.add(one)
	}
	timeout, err := deadline(g.get("t"), "10s")
	if err != nil {
		return nil, err
	}
	s.Flags = append(s.Flags, timeout...)
	if w := g.get("connection-timeout"); w != nil {
		text, ok := w.Literal()
		if _, err := duration.Parse(text); !ok || err != nil {
			return nil, stop(w, "a timeout that initbox does not take")
		}
		s.Flags = append(s.Flags, Flag{"attempt-timeout", text})
	}
	return []Step{s}, nil
}

var wait4xKinds = map[string]func(w shell.Word, g given, c *manifest.Container) (Step, error){
	"tcp": func(w shell.Word, _ given, c *manifest.Container) (Step, error) {
		host, port, err := cutWord(w, ":")
		if err != nil {
			return Step{}, err
		}
		return tcp("tcp", host, port, c)
	},
	"http":            wait4xHTTP,
	"postgresql":      loginByURL("postgres", "postgresql"),
	"mongodb":         loginByURL("mongodb"),
	"mysql":           wait4xMySQL,
	"rabbitmq":        loginByURL("amqp", "amqps"),
	"redis":           wait4xRedis,
	"kafka":           wait4xKafka,
	"influxdb":        wait4xInfluxDB,
	"temporal server": wait4xTemporal,
	"temporal worker": wait4xTemporal,
	"dns A":           wait4xDNS("A"),
	"dns a":           wait4xDNS("A"),
	"dns AAAA":        wait4xDNS("AAAA"),
	"dns aaaa":        wait4xDNS("AAAA"),
}

// wait4xHTTP is any answer without --expect-status-code, at the end of redirects.
func wait4xHTTP(w shell.Word, g given, c *manifest.Container) (Step, error) {
	r := request{url: w, settings: []string{"status=any"}, verified: !g.has("insecure-skip-tls-verify")}
	if g.has("http-method") || g.has("request-method") {
		return Step{}, stop(shell.Word{{Text: "--request-method"}}, "a request that may change something")
	}
	if status := g.get("expect-status-code"); status != nil {
		text, ok := status.Literal()
		if !ok || len(text) != 3 || strings.Trim(text, "0123456789") != "" {
			return Step{}, stop(status, "not a status")
		}
		r.settings[0] = "status=" + text
	}
	for _, name := range []string{"no-redirect", "h2c"} {
		if g.has(name) {
			r.settings = append(r.settings, name)
		}
	}
	if body := g.get("expect-body"); body != nil {
		text, ok := body.Literal()
		if !ok || strings.Contains(text, "\n") || strings.ContainsAny(text, "^$") {
			return Step{}, stop(body, "a pattern that may mean something else here")
		}
		r.settings = append(r.settings, "body=/"+settingPlace.encode(text)+"/") // both are Go's
	}
	if header := g.get("expect-header"); header != nil {
		return Step{}, stop(header, "a pattern for headers")
	}
	if err := r.curlHeaders(given{options: map[string][]shell.Word{"H": g.options["request-header"]}}, c); err != nil {
		return Step{}, err
	}
	settings, err := tlsSettings(g, "ca-file", "insecure-skip-tls-verify", "", c)
	if err != nil {
		return Step{}, err
	}
	if g.has("cert-file") || g.has("key-file") {
		return Step{}, stop(shell.Word{{Text: "--cert-file"}}, "a client's certificate")
	}
	r.settings, r.reads = append(r.settings, settings...), g.has("ca-file")
	return r.step("the same answer", &shell.Call{Name: "wait4x"}, c)
}

// loginByURL returns the check of a server with a URL that has a user, whose login both make.
func loginByURL(schemes ...string) func(w shell.Word, g given, c *manifest.Container) (Step, error) {
	return func(w shell.Word, _ given, c *manifest.Container) (Step, error) {
		if len(w) == 1 && w[0].Env != "" && w[0].Default == nil && lookup(w[0].Env, c).origin == inSecret {
			return attempted("the same login", "${env:"+w[0].Env+"}"), nil
		}
		scheme, _, _ := strings.Cut(leading(w), "://")
		if !slices.Contains(schemes, scheme) {
			return Step{}, stop(w[:1], "not a URL of such a server")
		}
		login, rest, err := cutWord(behind(w, len(scheme)+len("://")), "@")
		if err != nil {
			return Step{}, stop(shell.Word{{Text: scheme + "://"}}, "a URL without a user")
		}
		written, _, err := urlParts(rest, scheme+"://", c)
		if err != nil {
			return Step{}, err
		}
		return logsIn(scheme, login, written, c)
	}
}

// logsIn returns the step that waits for a login with USER:PASSWORD at a server.
func logsIn(scheme string, login shell.Word, server string, c *manifest.Container) (Step, error) {
	user, password, err := cutWord(login, ":")
	if err != nil {
		user, password = login, nil
	}
	at, err := credentials(user, password, c)
	return attempted("the same login", scheme+"://"+at+server), err
}

// wait4xMySQL is a login with a DSN of Go's driver, USER:PASSWORD@tcp(HOST:PORT)/DATABASE.
//
// https://github.com/go-sql-driver/mysql#dsn-data-source-name
func wait4xMySQL(w shell.Word, _ given, c *manifest.Container) (Step, error) {
	login, rest, err := cutWord(w, "@tcp(")
	if err != nil {
		return Step{}, stop(w[:1], "not USER:PASSWORD@tcp(HOST:PORT)/DATABASE")
	}
	address, database, err := cutWord(rest, ")/")
	if err != nil {
		return Step{}, err
	}
	if _, _, err := cutWord(database, "?"); err == nil {
		return Step{}, stop(database, "parameters of Go's driver")
	}
	host, port, err := cutWord(address, ":")
	if err != nil {
		host, port = address, nil
	}
	server, err := hostPort(host, port, c)
	if err != nil {
		return Step{}, err
	}
	if len(database) > 0 {
		name, err := namePlace.in(database, c)
		if err != nil {
			return Step{}, err
		}
		server += "/" + name
	}
	return logsIn("mysql", login, server, c)
}

// wait4xKafka asks one broker for the list of all.
func wait4xKafka(w shell.Word, _ given, c *manifest.Container) (s Step, err error) {
	const scheme = "kafka://"
	if !strings.HasPrefix(leading(w), scheme) {
		return Step{}, stop(w, "not a URL of such a server")
	}
	broker, mechanism := behind(w, len(scheme)), ""
	if before, after, err := cutWord(broker, "?authMechanism="); err == nil {
		text, _ := after.Literal()
		if mechanism = strings.ToUpper(text); mechanism != "SCRAM-SHA-256" && mechanism != "SCRAM-SHA-512" {
			return Step{}, stop(after, "a mechanism that wait4x does not know")
		}
		broker = before
	}
	login, address, err := cutWord(broker, "@")
	if err != nil {
		login, address = nil, broker
	}
	server, err := addressIn(address, c)
	switch {
	case err != nil:
		return Step{}, err
	case mechanism == "": // without one, wait4x ignores the login
		s = wait("the broker answers", scheme+server)
	case login == nil:
		return Step{}, stop(w[:1], "a mechanism without a login")
	default:
		if s, err = logsIn("kafka", login, server+"#mechanism="+mechanism, c); err != nil {
			return Step{}, err
		}
	}
	s.differs("a broker without a controller of the cluster is not ready")
	return s, nil
}

// wait4xInfluxDB is a ping, which needs no login.
func wait4xInfluxDB(w shell.Word, _ given, c *manifest.Container) (Step, error) {
	const scheme = "http://"
	if !strings.HasPrefix(leading(w), scheme) {
		return Step{}, stop(w, "not a URL of such a server without TLS")
	}
	server, err := addressIn(behind(w, len(scheme)), c)
	s := wait("the server answers", "influxdb://"+server)
	s.differs("the server must also say that it is healthy")
	return s, err
}

// wait4xTemporal asks the frontend for its health, or for the pollers of a task queue.
func wait4xTemporal(w shell.Word, g given, c *manifest.Container) (Step, error) {
	server, err := addressIn(w, c)
	if err != nil {
		return Step{}, err
	}
	var settings []string
	switch {
	case g.has("insecure-transport"):
	case g.has("insecure-skip-tls-verify"):
		settings = append(settings, "tls", "insecure")
	default:
		settings = append(settings, "tls")
	}
	s := wait("the frontend is serving")
	for _, name := range []string{"namespace", "task-queue"} {
		if !g.has(name) {
			continue
		}
		text, err := settingPlace.in(g.get(name), c)
		if err != nil {
			return Step{}, err
		}
		settings = append(settings, name+"="+text)
		s.Why = "a worker polls the queue"
	}
	s.Args = []string{"temporal://" + server + fragment(settings)}
	return s, nil
}

// wait4xDNS is a record of one type, which may have to be one of several addresses.
func wait4xDNS(kind string) func(w shell.Word, g given, c *manifest.Container) (Step, error) {
	return func(w shell.Word, g given, c *manifest.Container) (Step, error) {
		switch {
		case g.has("n"):
			return Step{}, stop(g.get("n"), "a name server of its own")
		case len(g.options["expect-ip"]) > 1:
			return Step{}, stop(g.get("expect-ip"), "one of several addresses, where initbox would wait for all of them")
		}
		s, err := dns(w, false, c)
		if err != nil {
			return Step{}, err
		}
		s.Flags = append(s.Flags, Flag{"type", kind})
		if ip := g.get("expect-ip"); ip != nil {
			text, ok := ip.Literal()
			if address, err := netip.ParseAddr(text); !ok || err != nil || address.String() != text {
				return Step{}, stop(ip, "not an address as wait4x compares it")
			}
			s.Flags = append(s.Flags, Flag{"expect", text})
		}
		return s, nil
	}
}

// wait4xRedis is a PING, and perhaps a key.
func wait4xRedis(w shell.Word, g given, c *manifest.Container) (Step, error) {
	s, err := wait4xPing(w, g, c)
	key := g.get("expect-key")
	if err != nil || key == nil {
		return s, err
	}
	if text, ok := key.Literal(); !ok || strings.Contains(text, "=") {
		return Step{}, stop(key, "a key whose value is compared")
	}
	name, err := settingPlace.in(key, c)
	s.Args[0] += "#key=" + name
	return s, err
}

func wait4xPing(w shell.Word, g given, c *manifest.Container) (Step, error) {
	if _, _, err := cutWord(w, "@"); err == nil || len(w) == 1 && w[0].Env != "" {
		return loginByURL("redis", "rediss")(w, g, c)
	}
	scheme, _, found := strings.Cut(leading(w), "://")
	if !found || scheme != "redis" && scheme != "rediss" {
		return Step{}, stop(w, "not a URL of such a server")
	}
	written, _, err := urlParts(behind(w, len(scheme)+len("://")), scheme+"://", c)
	return wait("the server answers PING", scheme+"://"+written), err
}

// k8sWaitFor is groundnuty/k8s-wait-for: https://github.com/groundnuty/k8s-wait-for
func k8sWaitFor(words []shell.Word, c *manifest.Container) ([]Step, error) {
	v := &samples{c: c}
	var texts []string
	for _, w := range words {
		text, err := v.text(w)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	line, err := translate.K8sWaitFor(texts, v.environment())
	if err != nil {
		return nil, &shell.Error{Word: "k8s-wait-for", Why: err.Error()}
	}
	s := wait("it waits for the same objects", v.restore(line.Arguments)...)
	s.Differs = []string{bounded, needsRole, "a failed Job ends the wait at once", "a Job without a Pod is not ready yet",
		"a Service is judged by its endpoints, not by the Pods behind it"}
	return []Step{s}, v.err
}

// kubernetesEntrypoint is airshipit/kubernetes-entrypoint, which reads variables alone.
func kubernetesEntrypoint(_ []shell.Word, c *manifest.Container) ([]Step, error) {
	v := &samples{c: c}
	line, err := translate.KubernetesEntrypoint(v.environment())
	if v.err != nil {
		return nil, v.err
	}
	if err != nil {
		return nil, &shell.Error{Word: "kubernetes-entrypoint", Why: err.Error()}
	}
	if len(line.Arguments) == 0 {
		return nil, &shell.Error{Word: "kubernetes-entrypoint", Why: "no variable DEPENDENCY_… says what to wait for"}
	}
	var after []shell.Word
	for _, text := range line.Command {
		after = append(after, shell.Word{{Text: text}})
	}
	if err := noCommand(after); err != nil {
		return nil, err
	}
	s := wait("it waits for the same objects", v.restore(line.Arguments)...)
	s.Differs = []string{bounded, needsRole, "a failed Job ends the wait at once"}
	return []Step{s}, nil
}

// samples stand for variables whose values are not known, while another package translates.
type samples struct {
	c     *manifest.Container
	names []string
	err   error
}

func (v *samples) text(w shell.Word) (string, error) {
	text := ""
	for _, p := range w {
		if p.Env == "" && !p.Glob {
			text += p.Text
			continue
		}
		if _, err := arg(shell.Word{p}, v.c); err != nil {
			return "", err
		}
		v.names = append(v.names, p.Env)
		text += fmt.Sprintf("initboxsample%dx", len(v.names)-1)
	}
	return text, nil
}

// restore puts the variables back.
func (v *samples) restore(targets []string) []string {
	restored := slices.Clone(targets)
	for i := range restored {
		restored[i] = strings.ReplaceAll(restored[i], "$(", "%24(")
		for n, name := range v.names {
			restored[i] = strings.ReplaceAll(restored[i], fmt.Sprintf("initboxsample%dx", n), "$("+name+")")
		}
	}
	return restored
}

// environment returns the environment of the container.
func (v *samples) environment() translate.Environment {
	return translate.Environment{
		Lookup: func(name string) (string, bool) {
			for _, e := range v.c.Env {
				if e.Name != name {
					continue
				}
				w := shell.Word{{Env: name}}
				if text, ok := known(w, v.c); ok {
					return text, true
				}
				text, err := v.text(w)
				v.err = cmp.Or(v.err, err)
				return text, true
			}
			return "", false
		},
		ReadFile: func(string) ([]byte, error) { return nil, os.ErrNotExist },
		Exists:   func(string) bool { return false },
	}
}
