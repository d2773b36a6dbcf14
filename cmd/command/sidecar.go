package command

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/internal/httpclient"
	"initbox/internal/podinfo"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/internal/sidecar"
	"initbox/internal/tlsconfig"
)

// defaultWebhookTimeout is the deadline of one attempt to call --webhook-url.
const defaultWebhookTimeout = 10 * time.Second

// minWatch is the shortest value of --watch.
const minWatch = 100 * time.Millisecond

// sidecarTexts are what the help of a subcommand says of the flags of [sidecarFlags].
type sidecarTexts struct {
	look     string // what --watch looks for, as in "look for a new commit"
	changed  string // after which the others are notified, as in "DIR has changed"
	revision string // what the touched file holds, as in "the commit's id"
	header   string // the header of the webhook that has it, too; "" for none
	there    string // when the startup probe succeeds, as in "DIR is there"
}

// sidecarFlags are the flags of the subcommands that can stay running and notify other containers of changes.
type sidecarFlags struct {
	watch time.Duration
	probe probeFlags
	touch string

	signalText string
	signal     *sidecar.Signal

	url, method, body, success string
	credentials                credentialFlags
	timeout                    time.Duration
	tls                        tlsconfig.Options
	once                       bool // the webhook is called once, even if that fails; not a flag

	header string // see sidecarTexts
}

func (s *sidecarFlags) flags(t sidecarTexts) []cli.Flag {
	s.timeout, s.header = defaultWebhookTimeout, t.header
	with := ""
	if t.header != "" {
		with = ", with " + t.revision + " in a header " + t.header
	}
	return append([]cli.Flag{
		textFlag("touch", "`FILE` to write "+t.revision+" to, and to touch, when "+t.changed, categoryResult, &s.touch),
		textFlag("signal", "with --watch, `NAME:PROCESS`: send a signal to a program in the Pod, as in HUP:nginx, when "+t.changed+"; needs shareProcessNamespace: true", categoryResult, &s.signalText),
		textFlag("webhook-url", "`URL` to call when "+t.changed+with+"; may refer to secrets", categoryResult, &s.url),
		textFlag("webhook-method", "`METHOD` for --webhook-url (default POST)", categoryResult, &s.method),
		textFlag("webhook-body", "`TEXT` to send to it, not secret; application/json if it is JSON", categoryResult, &s.body),
		textFlag("webhook-user", "`NAME` to log in there as, with --webhook-password-file", categoryResult, &s.credentials.User),
		textFlag("webhook-password-file", "`FILE` with the password", categoryResult, &s.credentials.PasswordFile),
		textsFlag("webhook-header-file", "`FILE` with headers of the request, one per line", categoryResult, &s.credentials.headerFiles),
		textFlag("webhook-ca-file", "`FILE` with the CA of its certificate", categoryResult, &s.tls.CAFile),
		onFlag("webhook-insecure", "do not verify its certificate", categoryResult, &s.tls.Insecure),
		textFlag("webhook-success-status", "`LIST` of statuses that mean success, as in 200,202 (default 2xx)", categoryResult, &s.success),
		durationFlag("webhook-timeout", "deadline of one attempt to call it", categoryResult, &s.timeout),

		durationFlag("watch", "keep running as a sidecar, and "+t.look, categoryWatch, &s.watch),
	}, s.probe.flags("--watch", t.there, categoryWatch)...)
}

// probeFlags are the flags of all sidecars for the kubelet's probes and the metrics.
type probeFlags struct {
	http, startup string
	file          string // what startup names, unless it is a port
}

// flags returns the flags of a sidecar that is one with the flag stays.
func (p *probeFlags) flags(stays, there, category string) []cli.Flag {
	return []cli.Flag{
		textFlag("http", "with "+stays+", `[ADDRESS]:PORT` that answers /startupz and /readyz, with 503 until "+there+", /livez, /healthz and /metrics, for the sidecar's probes and Prometheus", category, &p.http),
		textFlag("startup-probe", "with "+stays+", `FILE|[HOST:]PORT`: create FILE once "+there+", for the sidecar's startupProbe; with a port, the same as --http", category, &p.startup),
	}
}

// check refuses invalid values.
func (p *probeFlags) check() error {
	startup, err := sidecar.Address(p.startup)
	if err != nil {
		return usagef("--startup-probe %s: want a file, or %w", p.startup, err)
	}
	address, err := sidecar.Address(p.http)
	if p.http != "" && address == "" && err == nil {
		err = sidecar.ErrAddress
	}
	switch {
	case err != nil:
		return usagef("--http %s: want %w", p.http, err)
	case startup == "":
		p.file = p.startup
	case p.http != "":
		return usagef("--startup-probe %s: --http already gives the port", p.startup).hint("beside --http, it may only be a file")
	}
	p.http = cmp.Or(address, startup)
	return nil
}

// check refuses flags that need another one, and values that cannot be right.
func (s *sidecarFlags) check(c *cli.Context) error {
	pairs := [][2]string{{"http", "watch"}, {"startup-probe", "watch"}, {"signal", "watch"}, {"webhook-user", "webhook-password-file"}, {"webhook-password-file", "webhook-user"}}
	for _, flag := range []string{"method", "body", "user", "header-file", "ca-file", "insecure", "success-status", "timeout"} {
		pairs = append(pairs, [2]string{"webhook-" + flag, "webhook-url"})
	}
	if err := needs(c, pairs); err != nil {
		return err
	}
	if s.timeout <= 0 {
		return usagef("--webhook-timeout %v: want a time such as 10s", s.timeout)
	}
	if isSet(c, "watch") && s.watch < minWatch {
		return usagef("--watch %v: want at least %v", s.watch, minWatch)
	}
	if s.signalText != "" {
		var err error
		if s.signal, err = sidecar.ParseSignal(s.signalText); err != nil {
			return usagef("--signal %s: %w", s.signalText, err)
		}
	}
	return s.probe.check()
}

// webhook returns what the flags say, or nil without --webhook-url. tls is what holds without flags for the webhook.
func (s *sidecarFlags) webhook(e *env, names *resolver.Resolver, tls tlsconfig.Options) (*sidecar.Webhook, error) {
	if s.url == "" {
		return nil, nil
	}
	address, err := secret.ParseURL(s.url, os.Getenv)
	if err != nil {
		return nil, usagef("--webhook-url: %w", err)
	}
	if address.PasswordShown() {
		return nil, usagef("--webhook-url: a password in the URL would show in the Pod's specification").
			hint("refer to a file, as in https://user:${file:/secrets/password}@HOST/PATH, or use --webhook-user and --webhook-password-file")
	}
	tls.Insecure = tls.Insecure || s.tls.Insecure
	tls.CAFile = cmp.Or(s.tls.CAFile, tls.CAFile)
	w := &sidecar.Webhook{
		URL: address, Method: strings.ToUpper(cmp.Or(s.method, http.MethodPost)), Body: s.body,
		Credentials: s.credentials.value(), Revision: s.header,
		Timeout: s.timeout, Once: s.once, TLS: tls, Names: names, Seed: podinfo.Seed(), Log: e.log,
	}
	if strings.ContainsAny(w.Method, " \t\r\n:/") {
		return nil, usagef("--webhook-method %s: want a method such as POST or PUT", s.method)
	}
	if w.Success, err = httpclient.ParseStatuses(cmp.Or(s.success, "200-299")); err != nil {
		return nil, usagef("--webhook-success-status %s: %w", s.success, err)
	}
	return w, nil
}

// files returns the files that the flags name, by flag.
func (s *sidecarFlags) files() map[string]string {
	return map[string]string{"touch": s.touch, "startup-probe": s.probe.file}
}

// options returns what the flags say; hook is that of webhook.
func (s *sidecarFlags) options(hook *sidecar.Webhook, log *slog.Logger) sidecar.Options {
	o := sidecar.Options{HTTP: s.probe.http, File: s.probe.file, Touch: s.touch}
	if s.signal != nil {
		o.Hooks = append(o.Hooks, s.signal.Hook(log))
	}
	if hook != nil {
		o.Hooks = append(o.Hooks, hook.Hook())
	}
	return o
}

// written returns the metrics of a sidecar that has written as many bytes into files as the function says.
func written(bytes func() int64) func() []sidecar.Family {
	return func() []sidecar.Family {
		return []sidecar.Family{{Name: "initbox_written_bytes_total", Type: "counter", Help: "Bytes that were written into files.", Samples: sidecar.Value(float64(bytes()))}}
	}
}

// stay checks, and checks again, as [sidecar.Run] does, until a signal comes. first, which ends at the deadline, limits
// the first check only.
func (e *env) stay(first context.Context, o sidecar.Options, every time.Duration, look func(context.Context) (revision string, changed bool, err error)) error {
	ctx, lift, cancel := e.afterFirst(first)
	defer cancel(nil)
	o.Started, o.Log, o.Command, o.Version = lift, e.log, e.name, e.version
	o.Rand = rand.New(rand.NewPCG(podinfo.Seed(), uint64(os.Getpid())))
	return sidecar.Run(ctx, o, every, look)
}

// afterFirst returns a context that ends when a signal comes, and with first until lift is called.
func (e *env) afterFirst(first context.Context) (ctx context.Context, lift func(), cancel context.CancelCauseFunc) {
	ctx, cancel = context.WithCancelCause(e.untilStopped)
	if first.Err() != nil {
		cancel(context.Cause(first))
	}
	stop := context.AfterFunc(first, func() { cancel(context.Cause(first)) })
	return ctx, func() { stop() }, cancel
}
