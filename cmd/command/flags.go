package command

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/cmd/duration"
	"initbox/cmd/help"
	"initbox/internal/httpclient"
	"initbox/internal/perm"
	"initbox/internal/podinfo"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/internal/setting"
	"initbox/internal/tlsconfig"
	"initbox/internal/words"
	"initbox/waitfor"
)

// Categories of flags, in the order of the help.
const (
	categoryResult = "Result"
	categoryWait   = "Waiting"
	categoryDNS    = "Name servers"
	categoryCommon = help.Common

	categoryTargets = "Targets" // and the kinds that take the settings
)

// The two flags, and their variables, that [env.setReporting] reads.
const (
	flagLogFormat          = "log-format"
	flagTerminationLog     = "termination-log"
	variableLogFormat      = "INITBOX_LOG_FORMAT"
	variableTerminationLog = "INITBOX_TERMINATION_LOG"
)

// durationFlag returns a flag that takes a duration, as [duration.Value] reads it, and starts from the value in *dst.
func durationFlag(name, usage, category string, dst *time.Duration, env ...string) *cli.GenericFlag {
	value := (*duration.Value)(dst)
	return &cli.GenericFlag{Name: name, Usage: usage, Category: category, Value: value, EnvVars: env, DefaultText: value.String()}
}

// textFlag returns a flag that takes a string and starts from the value in *dst.
func textFlag(name, usage, category string, dst *string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Category: category, Destination: dst, Value: *dst}
}

// textsFlag returns a flag that takes a string and may be repeated. Each string stays as it is given, as with textFlag:
// the library would remove the space around it, which may be content, such as the line break at the end of a file.
func textsFlag(name, usage, category string, dst *cli.StringSlice) cli.Flag {
	return &cli.StringSliceFlag{Name: name, Usage: usage + "; may be repeated", Category: category, Destination: dst, KeepSpace: true}
}

// onFlag returns a flag that turns something on.
func onFlag(name, usage, category string, dst *bool) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, Category: category, Destination: dst}
}

// commonFlags returns the flags of every subcommand: a command line that starts with a link to the binary has no place
// for global ones. No variable may end in _PORT, _SERVICE_HOST or _SERVICE_PORT: Kubernetes sets those for a Service
// called initbox. setReporting reads the values of two of the flags; the library only checks and explains them.
func (e *env) commonFlags(command string) []cli.Flag {
	timeout := durationFlag("timeout", "deadline of the whole command, 0 for none", categoryCommon, &e.timeout, "INITBOX_TIMEOUT")
	if command == "sleep" {
		// Its argument says how long it takes; a variable that is meant for waits must not cut it short.
		timeout.DefaultText, timeout.EnvVars = "none", nil // see start
	}
	return []cli.Flag{
		timeout,
		&cli.StringFlag{Name: flagOnce, Usage: "`FILE` on an emptyDir that records success: a later run in the same Pod, with the same arguments, ends at once", Category: categoryCommon},
		&cli.StringFlag{Name: flagLogFormat, Usage: "`text|json`: format of the log", Category: categoryCommon, Value: "text", EnvVars: []string{variableLogFormat}},
		&cli.StringFlag{Name: "log-level", Usage: "`LEVEL` of the log: debug, info, warn or error", Category: categoryCommon, Value: "info", Destination: &e.logLevel, EnvVars: []string{"INITBOX_LOG_LEVEL"}},
		&cli.StringFlag{Name: flagTerminationLog, Usage: "`FILE` to write the reason of a failure to, if it exists", Category: categoryCommon, Value: kubeletTerminationLog, EnvVars: []string{variableTerminationLog}},
	}
}

// waitFlags are shared by the subcommands that wait for targets.
type waitFlags struct {
	o     waitfor.Options // what flags set directly
	any   bool
	tells bool // by Events
	names resolverFlags
}

func (w *waitFlags) flags() []cli.Flag {
	return append([]cli.Flag{
		&cli.BoolFlag{Name: "any", Usage: "one target is enough", Category: categoryWait, Destination: &w.any},
		&cli.IntFlag{Name: "min", Usage: "`N` targets are enough", Category: categoryWait, Destination: &w.o.Need},
		&cli.BoolFlag{Name: "gone", Usage: "wait until the targets are gone", Category: categoryWait, Destination: &w.o.Gone},
		durationFlag("stable-for", "how long targets must stay ready without interruption", categoryWait, &w.o.StableFor),
		attemptTimeoutFlag(&w.o.AttemptTimeout),
		onFlag("events", "write an Event of the Pod, for kubectl describe pod, once a wait has lasted 30s, when its reason changes, and at its end; needs the Pod's UID, and a Role that initbox rbac prints", categoryWait, &w.tells),
	}, w.names.flags()...)
}

// attemptTimeoutFlag returns the flag of the subcommands that retry.
func attemptTimeoutFlag(dst *time.Duration) cli.Flag {
	*dst = 10 * time.Second
	return durationFlag("attempt-timeout", "deadline of one attempt, 0 for none", categoryWait, dst, "INITBOX_ATTEMPT_TIMEOUT")
}

// options returns what the flags say for a wait for n targets.
func (w *waitFlags) options(c *cli.Context, e *env, n int) (waitfor.Options, error) {
	o := w.o
	o.Getenv, o.Seed, o.Log = os.Getenv, podinfo.Seed(), e.log
	if w.tells {
		e.needs = append(e.needs, eventsNeed)
	}
	err := w.checkMin(isSet(c, "min"), n)
	if err != nil {
		return o, err
	}
	if w.any {
		o.Need = 1
	}
	o.Resolver, err = w.names.resolver(e)
	return o, err
}

// all waits for the checks, and writes Events meanwhile if the flags ask for them.
func (w *waitFlags) all(ctx context.Context, e *env, o waitfor.Options, checks []waitfor.Check) error {
	if w.tells {
		events := e.newEvents()
		defer events.close()
		o.Notice = events.notice
	}
	return waitfor.All(ctx, o, checks...)
}

// checkMin refuses a number of targets that cannot be enough of n.
func (w *waitFlags) checkMin(set bool, n int) error {
	const hint = "want a number from 1 to the number of targets"
	switch {
	case !set:
		return nil
	case w.any:
		return usagef("--any and --min are mutually exclusive")
	case w.o.Need < 1:
		return usagef("--min %d: that would wait for no target", w.o.Need).hint(hint)
	case w.o.Need > n && n == 1:
		return usagef("--min %d: there is only 1 target", w.o.Need).hint(hint)
	case w.o.Need > n:
		return usagef("--min %d: there are only %d targets", w.o.Need, n).hint(hint)
	}
	return nil
}

// resolverFlags say how host names are looked up.
type resolverFlags struct {
	servers    cli.StringSlice
	resolvConf string
	hosts      string
}

func (r *resolverFlags) flags() []cli.Flag {
	return []cli.Flag{
		textsFlag("server", "`ADDR[:PORT]` of a name server, instead of those in resolv.conf", categoryDNS, &r.servers),
		textFlag("resolv-conf", "`FILE` to read instead of /etc/resolv.conf", categoryDNS, &r.resolvConf),
		textFlag("hosts", "`FILE` to read instead of /etc/hosts", categoryDNS, &r.hosts),
	}
}

func (r *resolverFlags) resolver(e *env) (*resolver.Resolver, error) {
	for flag, name := range map[string]string{"resolv-conf": r.resolvConf, "hosts": r.hosts} {
		if err := checkFile(name); name != "" && err != nil && !e.inspecting {
			return nil, usagef("--%s %s: %w", flag, name, err)
		}
	}
	servers, err := nameServers(r.servers.Value())
	return &resolver.Resolver{Servers: servers, ResolvConf: r.resolvConf, Hosts: r.hosts}, err
}

// podFlags say where to read the downward API.
type podFlags struct {
	dir       string
	variables cli.StringSlice
}

func (p *podFlags) flags(category string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "pod-info", Usage: "`DIR` where the downward API is mounted", Category: category, Value: podinfo.DefaultDir, Destination: &p.dir},
		textsFlag("pod-env", "`NAME=VARIABLE`: the variable that holds a field of the Pod, if it is not the usual one, as in ip=MY_IP", category, &p.variables),
	}
}

func (p *podFlags) source(e *env) (podinfo.Source, error) {
	s := podinfo.Source{Dir: p.dir, Variables: map[string]string{}}
	if e.inspecting {
		s.Dir = ""
	}
	for _, text := range p.variables.Value() {
		field, variable, err := podinfo.ParseVariable(text)
		if err != nil {
			return s, usagef("--pod-env %s: %w", text, err)
		}
		s.Variables[field] = variable
	}
	return s, nil
}

// checkFile returns why the file cannot be found, without its name.
func checkFile(name string) error {
	_, err := os.Stat(name)
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// nameServers reads addresses with or without a port: 10.96.0.10, [::1]:5353, ::1, fe80::1%eth0.
func nameServers(texts []string) ([]netip.AddrPort, error) {
	var servers []netip.AddrPort
	for _, text := range texts {
		server, err := netip.ParseAddrPort(text)
		if err != nil {
			addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
			if err != nil {
				return nil, usagef("--server %s: want an address such as 10.96.0.10, 10.96.0.10:53 or [fd00::10]:53", text).
					hint("a name server is given by its address, not its name")
			}
			server = netip.AddrPortFrom(addr, 53)
		}
		servers = append(servers, server)
	}
	return servers, nil
}

// settingFlags makes a flag of every setting of the kinds given, so that flags and fragments cannot differ.
func settingFlags(kinds ...*waitfor.Kind) []cli.Flag {
	var flags []cli.Flag
	taking := kindsTaking(kinds)
	for _, k := range kinds {
		for _, s := range k.Settings {
			takers := taking[s.Name]
			if takers == nil {
				continue // the flag is there
			}
			taking[s.Name] = nil
			flag := setting.Setting{Name: s.Name, Value: s.Value, Multi: s.Multi, Usage: takers.usage(s.Name)}
			flags = append(flags, flagOf(flag, categoryTargets+" "+strings.Join(takers.names(), ", ")))
		}
	}
	return flags
}

// flagOf returns the flag that holds for all arguments where a setting holds for one.
func flagOf(s setting.Setting, category string) cli.Flag {
	usage := s.Usage
	if s.Value != "" {
		usage = "`" + s.Value + "`: " + usage
	}
	switch {
	case s.Value == "":
		return &cli.BoolFlag{Name: s.Name, Usage: usage, Category: category}
	case s.Multi:
		return textsFlag(s.Name, usage, category, nil)
	case s.Optional:
		return &cli.GenericFlag{Name: s.Name, Usage: usage, Category: category, Value: new(optionalText)}
	}
	return &cli.StringFlag{Name: s.Name, Usage: usage, Category: category}
}

// optionalText is the value of a flag that is written --NAME or --NAME=VALUE.
type optionalText string

func (o *optionalText) Set(s string) error {
	if s == "true" { // how package flag sets a switch
		s = ""
	}
	*o = optionalText(s)
	return nil
}

func (o *optionalText) String() string   { return string(*o) }
func (o *optionalText) IsBoolFlag() bool { return true } // for package flag: the next word is not the value

// flagsOf returns the flags of the settings in a list.
func flagsOf(list setting.List, category string) (flags []cli.Flag) {
	for _, s := range list {
		flags = append(flags, flagOf(s, category))
	}
	return flags
}

// settingsOf returns the values of the flags that [flagsOf] made.
func settingsOf(c *cli.Context, list setting.List) setting.Settings {
	values, given := setting.Settings{}, c.LocalFlagNames()
	for _, s := range list {
		switch {
		case !slices.Contains(given, s.Name):
		case s.Value == "":
			if c.Bool(s.Name) {
				values[s.Name] = []string{""}
			}
		case s.Multi:
			values[s.Name] = c.StringSlice(s.Name)
		case s.Optional:
			values[s.Name] = []string{c.Generic(s.Name).(*optionalText).String()}
		default:
			values[s.Name] = []string{c.String(s.Name)}
		}
	}
	return values
}

// takers are the kinds that take a setting.
type takers []*waitfor.Kind

// kindsTaking returns, for each setting, the kinds that take it.
func kindsTaking(kinds []*waitfor.Kind) map[string]takers {
	taking := map[string]takers{}
	for _, k := range kinds {
		for _, s := range k.Settings {
			taking[s.Name] = append(taking[s.Name], k)
		}
	}
	return taking
}

// names returns the kinds by their first schemes.
func (ts takers) names() []string {
	return words.Each(ts, func(k *waitfor.Kind) string { return k.Schemes[0] })
}

// usage returns what the setting means or, if that differs, what it means for each kind.
func (ts takers) usage(setting string) string {
	var usages []string
	of := map[string]takers{}
	for _, k := range ts {
		i := slices.IndexFunc(k.Settings, func(s waitfor.Setting) bool { return s.Name == setting })
		usage := k.Settings[i].Usage
		if of[usage] == nil {
			usages = append(usages, usage)
		}
		of[usage] = append(of[usage], k)
	}
	if len(usages) > 1 {
		for i, usage := range usages {
			usages[i] = strings.Join(of[usage].names(), ", ") + ": " + usage
		}
	}
	return strings.Join(usages, "; ")
}

// settings returns the values of the flags that settingFlags made.
func settings(c *cli.Context, kinds ...*waitfor.Kind) waitfor.Settings {
	values := waitfor.Settings{}
	for _, k := range kinds {
		maps.Copy(values, settingsOf(c, k.Settings))
	}
	return values
}

// given returns which of the flags are given, with their dashes.
func given(c *cli.Context, names ...string) (given []string) {
	for _, name := range names {
		if isSet(c, name) {
			given = append(given, "--"+name)
		}
	}
	return given
}

// needs refuses the first flag of a pair without the second. (Neither can be empty: see option.check.)
func needs(c *cli.Context, pairs [][2]string) error {
	for _, p := range pairs {
		if isSet(c, p[0]) && !isSet(c, p[1]) {
			return usagef("--%s needs --%s", p[0], p[1])
		}
	}
	return nil
}

// unreplaced refuses a text with a $(NAME), which the kubelet replaces in args only if the container has the variable.
func unreplaced(what, text string) error {
	if err := secret.Unreplaced(what, text); err != nil {
		return usageError{err}
	}
	return nil
}

// credentialFlags are the credentials for an HTTP server.
type credentialFlags struct {
	httpclient.Credentials
	headerFiles cli.StringSlice
}

func (f *credentialFlags) flags(category string) []cli.Flag {
	return []cli.Flag{
		textFlag("user", "`NAME` to log in as, with --password-file; a server that takes tokens accepts any name, or expects a fixed one", category, &f.User),
		textFlag("password-file", "`FILE` with the password, or with an access token", category, &f.PasswordFile),
		textFlag("token-file", "`FILE` with a bearer token, such as a projected one of the service account", category, &f.TokenFile),
		textsFlag("header-file", "`FILE` with headers of the request, one per line", category, &f.headerFiles),
	}
}

func (f *credentialFlags) value() httpclient.Credentials {
	f.HeaderFiles = f.headerFiles.Value()
	return f.Credentials
}

// tlsFlags returns the flags of a TLS client.
func tlsFlags(category string, o *tlsconfig.Options) []cli.Flag {
	return []cli.Flag{
		textFlag("ca-file", "`FILE`: "+tlsconfig.Usage["ca-file"], category, &o.CAFile),
		textFlag("cert-file", "`FILE`: "+tlsconfig.Usage["cert-file"], category, &o.CertFile),
		textFlag("key-file", "`FILE`: "+tlsconfig.Usage["key-file"], category, &o.KeyFile),
		textFlag("server-name", "`NAME`: "+tlsconfig.Usage["server-name"], category, &o.ServerName),
		onFlag("insecure", tlsconfig.Usage["insecure"], category, &o.Insecure),
	}
}

// byteCount is the value of a flag: a number of bytes as Kubernetes writes it, such as 500Mi.
type byteCount int64

func (b byteCount) String() string { return strconv.FormatInt(int64(b), 10) }

func (b *byteCount) Set(s string) error {
	digits := strings.TrimRight(s, "kKMGTi")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := byteUnits[s[len(digits):]]
	if err != nil || !ok || n < 0 || n > maxBytes/unit {
		return errors.New("want a number of bytes such as 500Mi, 2Gi or 1000000")
	}
	*b = byteCount(n * unit)
	return nil
}

const maxBytes = 1 << 60

var byteUnits = map[string]int64{
	"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}

// parsePermissions reads a mode without setuid, setgid and sticky bits, which a file that is written here never gets.
func parsePermissions(text string) (perm.Mode, error) {
	mode, err := perm.ParseMode(text)
	if err == nil && mode.Of(0, false) > 0o777 {
		err = errors.New("want a mode up to 0777")
	}
	return mode, err
}

// isSet returns whether a flag of the subcommand is given, or its variable. It is [cli.Context.IsSet] without the time
// that takes: it splits the names of all flags for each flag that is asked for.
func isSet(c *cli.Context, name string) bool { return slices.Contains(c.LocalFlagNames(), name) }
