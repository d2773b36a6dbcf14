package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/podinfo"
	"initbox/internal/secret"
	"initbox/internal/sidecar"
	"initbox/internal/words"
	"initbox/register"
	"initbox/register/exchange"
)

// Categories of register's flags.
const (
	categoryEntry   = "What is registered, with --preset"
	categoryRequest = "What is sent, without --preset"
	categoryServer  = "Server"
	categoryAnswer  = "Answer"
	categoryOnce    = "Registering once"
	categoryHold    = "Heartbeats and deregistration"
	categoryPod     = "Pod"
)

func registerCommand(e *env) *cli.Command {
	var r registerFlags
	return &cli.Command{
		Usage:       "register this Pod with a server, once, however often it runs",
		Description: describeRegister(),
		Flags:       r.flags(),
		Action: e.action(func(c *cli.Context) (work, error) {
			if words := c.Args().Slice(); len(words) > 0 {
				return nil, usagef("unexpected argument: %s", words[0]).hint("as in: initbox register --url http://registry:8080/register")
			}
			o, err := r.options(c, e)
			if err != nil {
				return nil, err
			}
			var registration *register.Registration
			if given(c, "body-template", "field-file") == nil { // whose files an earlier step may make
				if registration, err = r.open(c.Context, e, o); err != nil {
					return nil, err
				}
			}
			return func(ctx context.Context) (err error) {
				if registration == nil {
					if registration, err = r.open(ctx, e, o); err != nil {
						return err
					}
				}
				return r.run(ctx, e, registration)
			}, nil
		}),
	}
}

// open returns the registration with its body, which may be in files.
func (r *registerFlags) open(ctx context.Context, e *env, o register.Options) (*register.Registration, error) {
	if o.Protocol.Preset == "" {
		source, err := r.pod.source(e)
		if err != nil {
			return nil, err
		}
		pod, err := source.Read()
		if err != nil {
			return nil, err
		}
		if r.custom.Body, o.Secrets, err = r.content(ctx, e, pod, source); err != nil {
			return nil, err
		}
	}
	registration, err := register.Open(o)
	if err != nil {
		return nil, usageError{err}
	}
	return registration, nil
}

// run registers and, with --hold, stays.
func (r *registerFlags) run(ctx context.Context, e *env, registration *register.Registration) error {
	if r.hold {
		return r.stay(ctx, e, registration)
	}
	result, err := registration.Register(ctx)
	if err != nil {
		return err
	}
	return r.print(e, result)
}

func describeRegister() string {
	var b strings.Builder
	b.WriteString(`Announces this Pod to a server, with what the downward API says of the Pod.
Without --preset it sends the form instance=<Pod name>&ip=<Pod IP>, or the --field,
--json or --body-template given. With --preset it speaks the protocol of a registry:
`)
	for _, p := range register.Presets() {
		fmt.Fprintf(&b, "  %-20s %s\n", p.Name, p.About)
	}
	b.WriteString(`
Temporary failures are retried: connection errors, and status 408, 425, 429 and 5xx.
A --url may refer to secrets: http://app:${file:/secrets/password}@registry/

Examples:
  initbox register --url http://$(MANAGEMENT_SERVICE_HOST):$(MANAGEMENT_SERVICE_PORT)/register
  initbox register --url http://registry/nodes --json name=$(POD_NAME) --json port:=8080 --state /state/registered
  initbox register --url http://eureka:8761/eureka --preset eureka --service web --port 8080 --hold`)
	return b.String()
}

// registerFlags are the values of the flags.
type registerFlags struct {
	o      register.Options // what flags set directly
	custom register.Custom  // likewise
	server serverFlags

	tags, meta cli.StringSlice
	ttl        time.Duration
	body       bodyFlags
	status     statusFlags

	hold         bool
	leaveTimeout time.Duration
	probe        probeFlags

	pod   podFlags
	names resolverFlags
}

func (r *registerFlags) flags() []cli.Flag {
	r.ttl, r.leaveTimeout = 30*time.Second, 5*time.Second
	return slices.Concat([]cli.Flag{
		textFlag("preset", "`NAME` of the kind of registry, see above", categoryEntry, &r.o.Protocol.Preset),
		textFlag("service", "`NAME` of the service that the Pod is an instance of", categoryEntry, &r.o.Entry.Service),
		textFlag("id", "`ID` of the instance (default the Pod's name and namespace)", categoryEntry, &r.o.Entry.ID),
		textFlag("address", "`ADDRESS` at which clients reach the instance (default the Pod's IP)", categoryEntry, &r.o.Entry.Address),
		&cli.IntFlag{Name: "port", Usage: "`PORT` at which clients reach the instance", Category: categoryEntry, Destination: &r.o.Entry.Port},
		onFlag("secure", "the port speaks TLS", categoryEntry, &r.o.Entry.Secure),
		textsFlag("tag", "`TAG` of the instance", categoryEntry, &r.tags),
		textsFlag("meta", "`KEY=VALUE` of the instance's metadata", categoryEntry, &r.meta),
		textFlag("health", "`URL|PATH` for the registry's health checks", categoryEntry, &r.o.Entry.Health),
		durationFlag("ttl", "with --hold, how long the registry keeps the entry without a heartbeat", categoryEntry, &r.ttl),

		textFlag("method", "`METHOD` of the request (default POST)", categoryRequest, &r.custom.Method),
	}, r.body.flags(categoryRequest, "; with --preset, of the entry"), r.server.flags(), r.status.flags(categoryAnswer), []cli.Flag{
		textFlag("output", "`FILE` for the answer, mode 0600", categoryAnswer, &r.o.Output),
		followFlag(categoryAnswer, &r.o.Follow),
		textFlag("extract", "`POINTER`: keep only this value of the answer, a JSON Pointer as in /id; it is printed if there is no --output", categoryAnswer, &r.o.Extract),

		textFlag("state", "`FILE` on a volume that records what was registered, so that a restart checks with the server instead of registering again", categoryOnce, &r.o.State),
		onFlag("idempotency-key", "send a header Idempotency-Key, which is the same for the same request", categoryOnce, &r.o.IdempotencyKey),
		textFlag("check-url", "`URL` to check with GET, without --preset: 2xx means registered, 404 or 410 means not registered", categoryOnce, &r.custom.CheckURL),

		onFlag("hold", "keep running as a sidecar: send heartbeats, register again if the server has forgotten the entry, deregister on SIGTERM", categoryHold, &r.hold),
		durationFlag("heartbeat", "time between heartbeats (default that of the registry; 10s without --preset)", categoryHold, &r.o.Every),
		textFlag("heartbeat-url", "`URL` for heartbeats, without --preset (default a GET of --check-url)", categoryHold, &r.custom.HeartbeatURL),
		textFlag("heartbeat-method", "`METHOD` for --heartbeat-url (default PUT)", categoryHold, &r.custom.HeartbeatMethod),
		textFlag("deregister-url", "`URL` to deregister at, without --preset; braces refer to the answer to the registration: /nodes/{/id}, {Location}", categoryHold, &r.custom.DeregisterURL),
		textFlag("deregister-method", "`METHOD` for --deregister-url (default DELETE)", categoryHold, &r.custom.DeregisterMethod),
		durationFlag("deregister-timeout", "with --hold, how long to try to deregister after SIGTERM", categoryHold, &r.leaveTimeout),
	}, r.probe.flags("--hold", "registered", categoryHold), r.pod.flags(categoryPod), tryFlags(&r.o.AttemptTimeout, &r.o.Spread, &r.o.RetryTLS, &r.names))
}

// serverFlags say where a server is, and with which credentials to use it.
type serverFlags struct {
	register.Server
	header      cli.StringSlice
	credentials credentialFlags
}

func (s *serverFlags) flags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		textFlag("url", "`URL` of the server; with --preset, of its API, see above", categoryServer, &s.URL),
		textsFlag("header", "`NAME:VALUE`: header of the request; refer to a secret in it, as in 'X-Api-Key: ${file:/secrets/key}'", categoryServer, &s.header),
	}, s.credentials.flags(categoryServer), tlsFlags(categoryServer, &s.TLS), []cli.Flag{
		onFlag("no-proxy", "connect directly, whatever HTTP_PROXY says", categoryServer, &s.NoProxy),
	})
}

// server returns what the flags say. A secret on the command line is an error.
func (s *serverFlags) server() (register.Server, error) {
	o := s.Server
	if o.URL == "" {
		return o, usagef("--url is missing").hint("as in: initbox register --url http://registry:8080/register")
	}
	if _, err := secret.ParseURL(o.URL, os.Getenv); err != nil {
		return o, usagef("--url: %w", err)
	}
	o.Credentials = s.credentials.value()
	return o, setHeader(&o.Credentials, s.header.Value())
}

// setSurroundings sets the options that do not come from flags, and the resolver.
func (e *env) setSurroundings(o *register.Options, names *resolverFlags) (err error) {
	o.Seed, o.Getenv, o.Log = podinfo.Seed(), os.Getenv, e.log
	o.Resolver, err = names.resolver(e)
	return err
}

// options returns what the flags say.
func (r *registerFlags) options(c *cli.Context, e *env) (register.Options, error) {
	o := r.o
	if err := r.check(c); err != nil {
		return o, err
	}
	var err error
	if o.Server, err = r.server.server(); err != nil {
		return o, err
	}
	if err := e.setSurroundings(&o, &r.names); err != nil {
		return o, err
	}
	if err := r.status.set(&o.Success, &o.Again); err != nil {
		return o, err
	}
	source, err := r.pod.source(e)
	if err != nil {
		return o, err
	}
	pod, err := source.Read()
	if err != nil {
		return o, fmt.Errorf("read the downward API: %w", err)
	}
	o.Pod = cmp.Or(pod.UID, pod.Namespace+"/"+pod.Name)
	r.warn(e, pod)
	if o.Protocol.Preset != "" {
		o.Entry, err = r.entry(pod, source)
		return o, err
	}
	o.Protocol.Custom, o.Entry.ID = &r.custom, pod.Name
	for _, method := range []*string{&r.custom.Method, &r.custom.HeartbeatMethod, &r.custom.DeregisterMethod} {
		*method = strings.ToUpper(*method)
	}
	r.custom.Method = cmp.Or(r.custom.Method, http.MethodPost)
	return o, nil
}

// check refuses flags that exclude each other or need another one, and values that cannot be right.
func (r *registerFlags) check(c *cli.Context) error {
	for _, check := range []func(*cli.Context) error{r.checkPreset, r.checkHold, r.body.check, checkCredentials, r.checkReplaced} {
		if err := check(c); err != nil {
			return err
		}
	}
	for flag, method := range map[string]string{"method": r.custom.Method, "heartbeat-method": r.custom.HeartbeatMethod, "deregister-method": r.custom.DeregisterMethod} {
		if strings.ContainsAny(method, " \t\r\n:/") {
			return usagef("--%s %s: want a method such as POST or PUT", flag, method)
		}
	}
	if r.o.Extract != "" && r.o.Extract[0] != '/' {
		return usagef("--extract %s: want a JSON Pointer, as in /service/id", r.o.Extract)
	}
	return nil
}

// checkPreset refuses flags that are not for the preset, or only for one, and a preset without the flags that it needs.
func (r *registerFlags) checkPreset(c *cli.Context) error {
	name := r.o.Protocol.Preset
	if name == "" {
		if own := given(c, "service", "id", "address", "port", "secure", "tag", "meta", "health", "ttl"); own != nil {
			return usagef("%s: only with --preset", strings.Join(own, ", ")).hint("without a preset, --field, --json or --body-template say what is sent")
		}
		return nil
	}
	p := register.PresetOf(name)
	if p == nil {
		return usagef("--preset %s: want one of %s", name, strings.Join(words.Each(register.Presets(), func(p *register.Preset) string { return p.Name }), ", "))
	}
	if own := given(c, "method", "field", "field-file", "body-template", "content-type", "check-url", "heartbeat-url", "heartbeat-method", "deregister-url", "deregister-method"); own != nil {
		return usagef("%s: the preset %s sets this itself", strings.Join(own, ", "), name).hint("describe the entry with --service, --id, --address, --port, --tag, --meta and --json")
	}
	if port := r.o.Entry.Port; isSet(c, "port") && (port < 1 || port > 65535) {
		return usagef("--port %d: want a number from 1 to 65535", port)
	}
	for _, need := range p.Needs {
		if slices.Contains([]string{"service", "port", "health"}, need) && !isSet(c, need) { // the others come from the downward API
			return usagef("the preset %s needs --%s", name, need)
		}
	}
	return nil
}

// checkHold refuses flags for what follows the registration that would have no effect.
func (r *registerFlags) checkHold(c *cli.Context) error {
	if own := given(c, "heartbeat", "heartbeat-url", "heartbeat-method", "deregister-timeout", "http", "startup-probe", "ttl"); own != nil && !r.hold {
		return usagef("%s: only with --hold", strings.Join(own, ", "))
	}
	kept := r.hold || r.o.State != ""
	switch {
	case r.custom.DeregisterURL != "" && !kept:
		return usagef("--deregister-url: only with --hold, or with --state for initbox deregister")
	case r.custom.CheckURL != "" && !kept:
		return usagef("--check-url: only with --state or --hold, since nothing else records what was registered")
	case isSet(c, "heartbeat") && r.o.Every < minHeartbeat:
		return usagef("--heartbeat %v: want at least %v", r.o.Every, minHeartbeat)
	}
	if err := needs(c, [][2]string{{"heartbeat-method", "heartbeat-url"}, {"deregister-method", "deregister-url"}}); err != nil {
		return err
	}
	return r.probe.check()
}

// checkReplaced refuses $(NAME) in what is sent: every Pod would have that name or address.
func (r *registerFlags) checkReplaced(c *cli.Context) error {
	for _, flag := range []string{"service", "id", "address", "health", "tag", "meta", "field", "json", "header", "url", "check-url", "heartbeat-url", "deregister-url"} {
		for _, value := range slices.Concat(c.StringSlice(flag), []string{c.String(flag)}) {
			if err := unreplaced("--"+flag, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// minHeartbeat is the shortest time between heartbeats.
const minHeartbeat = 100 * time.Millisecond

// warn logs what may surprise the user.
func (r *registerFlags) warn(e *env, pod podinfo.Pod) {
	if p := register.PresetOf(r.o.Protocol.Preset); p != nil && p.Unheld != "" && !r.hold {
		e.log.Warn(p.Unheld + ": send some with --hold")
	}
	if r.o.Protocol.Preset != "" && r.o.Entry.ID == "" && pod.Namespace == "" {
		e.log.Warn("the namespace is not known, so a Pod of the same name in another namespace would have the same --id: set $POD_NAMESPACE from the downward API")
	}
	if r.o.IdempotencyKey && pod.UID == "" {
		e.log.Warn("the Pod's UID is not known, so the next Pod of the same name would have the same Idempotency-Key: set $POD_UID from the downward API")
	}
	e.warnNowhere(r.o.Output, r.o.State)
	if r.hold && r.o.Protocol.Preset == "" && r.custom.CheckURL == "" && r.custom.HeartbeatURL == "" && r.custom.DeregisterURL == "" {
		e.log.Warn("--hold has nothing to do: give --heartbeat-url or --check-url, and --deregister-url")
	}
}

// entry returns the entry for a registry with a preset.
func (r *registerFlags) entry(pod podinfo.Pod, source podinfo.Source) (register.Entry, error) {
	entry := r.o.Entry
	entry.Tags, entry.Meta = r.tags.Value(), map[string]string{}
	if entry.ID == "" {
		entry.ID = pod.Name
		if pod.Namespace != "" { // Pods of two namespaces may have one name
			entry.ID += "." + pod.Namespace
		}
	}
	needsAddress := slices.Contains(register.PresetOf(r.o.Protocol.Preset).Needs, "address") || strings.HasPrefix(r.o.Entry.Health, "/")
	if entry.Address == "" && (needsAddress || len(pod.IPs) > 0) {
		ip, err := podIP(pod, source, "--address")
		if err != nil {
			return entry, err
		}
		entry.Address = ip.String()
	}
	for flag, name := range map[string]string{"service": entry.Service, "id": entry.ID} {
		if name == "." || name == ".." { // a path's element that is not a name
			return entry, usagef("--%s %s: no registry can have an entry of that name", flag, name)
		}
	}
	for _, text := range r.meta.Value() {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return entry, usagef("--meta %s: want KEY=VALUE", text)
		}
		entry.Meta[key] = value
	}
	if r.hold {
		entry.TTL = r.ttl
		if entry.TTL < time.Second {
			return entry, usagef("--ttl %v: want at least a second", r.ttl)
		}
	}
	if strings.HasPrefix(entry.Health, "/") {
		if entry.Port == 0 {
			return entry, usagef("--health %s: a path needs --port; or give a full URL", r.o.Entry.Health)
		}
		entry.Health = entry.URL(entry.Health)
	}
	var err error
	entry.Extra, err = jsonMembers(r.body.json.Value())
	for _, name := range register.PresetOf(r.o.Protocol.Preset).Own {
		if _, given := entry.Extra[name]; given {
			return entry, usagef("--json %s: the preset %s identifies the entry by it", name, r.o.Protocol.Preset).hint("give it with --service, --id, --address or --port, or in the query of --url")
		}
	}
	return entry, err
}

// podIP returns the Pod's address, or an error that says how to set it.
func podIP(pod podinfo.Pod, source podinfo.Source, orFlag string) (netip.Addr, error) {
	if len(pod.IPs) == 0 {
		return netip.Addr{}, failure.WithHint(errors.New("the Pod's IP is not known"), "give it with "+orFlag+", or set it from the downward API; in the container:\n"+source.Stanza("IPs"))
	}
	return pod.IPs[0], nil
}

// content returns the body for a server without a preset, and the secrets in it.
func (r *registerFlags) content(ctx context.Context, e *env, pod podinfo.Pod, source podinfo.Source) (body *exchange.Body, secrets []string, err error) {
	if r.body.given() {
		return r.body.content(ctx, e, source, nil)
	}
	ip, err := podIP(pod, source, "--field ip=ADDRESS")
	if err != nil {
		return nil, nil, err
	}
	return exchange.Form([]exchange.Field{{Name: "instance", Value: pod.Name}, {Name: "ip", Value: ip.String()}}), nil, nil
}

// print writes the value of --extract, unless it went to a file.
func (r *registerFlags) print(e *env, result register.Result) error {
	if r.o.Extract == "" || r.o.Output != "" {
		return nil
	}
	if err := e.print(string(result.Answer) + "\n"); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// stay registers, keeps the entry alive until a signal comes, and deregisters. The deadline applies to the
// registration.
func (r *registerFlags) stay(first context.Context, e *env, registration *register.Registration) error {
	there := false
	o := sidecar.Options{HTTP: r.probe.http, File: r.probe.file, Pause: registration.Pause, Metrics: func() []sidecar.Family {
		return []sidecar.Family{{Name: "initbox_registry_answers_total", Type: "counter", Help: "Answers of the registry, by status, and attempts without one, by class of the failure.", Samples: sidecar.Counts("answer", registration.Answers())}}
	}}
	err := e.stay(first, o, 0, func(ctx context.Context) (string, bool, error) {
		if there {
			return "", false, registration.Beat(ctx)
		}
		result, err := registration.Register(ctx)
		if err != nil {
			return "", false, err
		}
		there = true
		return "", true, r.print(e, result)
	})
	switch {
	case err == nil:
		return r.leave(e, registration, r.leaveTimeout)
	case there: // no process would keep the entry alive and remove it
		if err := r.leave(e, registration, r.leaveTimeout); err != nil {
			e.log.Warn(err.Error())
		}
	case errors.As(err, new(stopped)): // the server may have received the request
		if err := r.leave(e, registration, min(r.leaveTimeout, unsureTimeout)); err != nil {
			e.log.Warn(err.Error())
		}
	}
	return err
}

// unsureTimeout is how long to try to deregister if the registration has probably failed: there may be no server at
// all.
const unsureTimeout = time.Second

// leave deregisters after a signal. If that succeeds, so does the command.
func (r *registerFlags) leave(e *env, registration *register.Registration, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, deadlinePassed(timeout))
	defer cancel()
	err := registration.Leave(ctx)
	if errors.Is(err, register.ErrCannotLeave) {
		e.log.Info(err.Error())
		return nil
	}
	return err
}
