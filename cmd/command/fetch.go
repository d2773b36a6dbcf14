package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/podinfo"
	"initbox/internal/secret"
	"initbox/internal/setting"
	"initbox/volume/fetch"
)

// Categories of fetch's flags. Those of the first are settings too.
const (
	categorySources  = "What is downloaded; also in the URL, as in URL#unpack&mode=0755"
	categoryRegistry = "Registries, for oci://"
)

func fetchCommand(e *env) *cli.Command {
	f := &fetchFlags{}
	return &cli.Command{
		Usage:     "download files and archives, check, unpack and put them in place",
		ArgsUsage: "URL… DST",
		Description: `Downloads each URL, compares its checksum, unpacks it if asked to, and then puts it in
place: all or nothing, even if the program is killed. Into a directory that exists, files
are added, and others stay. What is there already is not downloaded again.

DST is a directory if it ends with a slash, exists as one, or gets more than one file or
an archive.
URL is one of
  https://HOST/PATH, http://…           refer to a secret in it, as in
                                        https://me:${file:/secrets/token}@HOST/PATH
  oci://REGISTRY/NAME[:TAG][@DIGEST]    an artifact, or what lies at #path=… in an image
${os} and ${arch} in it stand for this machine's, as in linux and amd64. What follows #
are settings, which are flags too; a flag holds for all URLs that do not set it.

Examples:
  initbox fetch 'https://repo.example/driver.jar#sha256=9f86d0…' /drivers/
  initbox fetch 'https://repo.example/tool_${os}_${arch}.tar.gz#unpack&strip-components=1' /opt/tool/
  initbox fetch --list /config/dashboards /dashboards/ --no-overwrite
  initbox fetch 'oci://registry.example/team/theme:1.2#path=/theme' /themes/acme/ --replace`,
		Flags: f.flags(),
		Action: e.action(func(c *cli.Context) (work, error) {
			o, err := f.options(c, e)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if f.list != "" {
					if err := f.addList(&o); err != nil {
						return err
					}
				}
				e.warnNowhere(o.Dst)
				if os.Getenv("GOGC") == "" {
					debug.SetGCPercent(clonePercent)
				}
				return fetch.Run(ctx, o)
			}, nil
		}),
	}
}

// fetchFlags are the values of the flags.
type fetchFlags struct {
	o        fetch.Options // what flags set directly
	list     string
	mirrors  cli.StringSlice
	plain    cli.StringSlice
	proxy    string
	names    resolverFlags
	settings setting.Settings
}

func (f *fetchFlags) flags() []cli.Flag {
	f.o.AttemptTimeout, f.o.Spread = defaultGitTimeout, httpclient.DefaultSpread
	f.o.MaxSize, f.o.MaxFiles, f.o.Parallel = 4<<30, 1_000_000, 4
	return slices.Concat(flagsOf(fetch.Settings, categorySources), []cli.Flag{
		textFlag("list", "`FILE` with more to download: lines of NAME URL; # begins a comment", categorySources, &f.list),

		onFlag("replace", "make DST exactly what is downloaded: other files in it are removed", categoryPlace, &f.o.Replace),
		followFlag(categoryPlace, &f.o.Follow),
		onFlag("dry-run", "download nothing, and say what would change", categoryPlace, &f.o.DryRun),

		&cli.GenericFlag{Name: "max-size", Usage: "`SIZE` limit of one download, and of what is unpacked from it", Category: categoryLimits, Value: (*byteCount)(&f.o.MaxSize), DefaultText: "4Gi"},
		&cli.IntFlag{Name: "max-files", Usage: "`N` files at most that are unpacked from one download", Category: categoryLimits, Destination: &f.o.MaxFiles, Value: f.o.MaxFiles},

		textFlag("docker-config", "`FILE` with logins for registries: a mounted Secret of type kubernetes.io/dockerconfigjson, or its directory", categoryRegistry, &f.o.DockerConfig),
		textsFlag("mirror", "`REGISTRY=URL` of a mirror that is asked before the registry", categoryRegistry, &f.mirrors),
		textsFlag("plain-http", "`REGISTRY` that is used without TLS", categoryRegistry, &f.plain),

		textFlag("proxy", "`URL` of an http, https or socks5 proxy, instead of those in HTTPS_PROXY and similar variables", categoryReach, &f.proxy),
		onFlag("no-proxy", "connect directly, whatever HTTP_PROXY says", categoryReach, &f.o.NoProxy),
		&cli.IntFlag{Name: "parallel", Usage: "`N` downloads at a time", Category: categoryReach, Destination: &f.o.Parallel, Value: f.o.Parallel},

		durationFlag("spread", "after status 429 or 503, retry at a random moment within this time: the time the server needs for all Pods that may arrive at once", categoryWait, &f.o.Spread),
		durationFlag("attempt-timeout", "give up an attempt after so long without progress, 0 for never", categoryWait, &f.o.AttemptTimeout, "INITBOX_ATTEMPT_TIMEOUT"),
	}, f.names.flags())
}

// options returns what the command line says.
func (f *fetchFlags) options(c *cli.Context, e *env) (fetch.Options, error) {
	o := f.o
	o.Seed, o.Log, o.Elsewhere = podinfo.Seed(), e.log, e.inspecting
	f.settings = settingsOf(c, fetch.Settings)
	var err error
	if o.Proxy, err = parseProxy(f.proxy); err != nil {
		return o, err
	}
	if o.Resolver, err = f.names.resolver(e); err != nil {
		return o, err
	}
	for _, flag := range []struct {
		name  string
		value int64
	}{{"parallel", int64(o.Parallel)}, {"max-files", int64(o.MaxFiles)}, {"max-size", o.MaxSize}} {
		if flag.value < 1 {
			return o, usagef("--%s: want a number from 1", flag.name)
		}
	}
	o.PlainHTTP, o.Mirrors = f.plain.Value(), map[string][]string{}
	for _, text := range f.mirrors.Value() {
		registry, mirror, ok := strings.Cut(text, "=")
		if !ok || registry == "" || !strings.Contains(mirror, "://") {
			return o, usagef("--mirror %s: want REGISTRY=URL, as in docker.io=https://mirror.example", secret.Word(text))
		}
		o.Mirrors[registry] = append(o.Mirrors[registry], mirror)
	}
	return o, f.setSources(c, &o)
}

// setSources reads the arguments.
func (f *fetchFlags) setSources(c *cli.Context, o *fetch.Options) error {
	const example = "as in: initbox fetch https://repo.example/driver.jar /drivers/"
	args := c.Args().Slice()
	switch {
	case len(args) == 0:
		return usagef("no URL given").hint(example)
	case len(args) == 1 && f.list == "":
		return usagef("no destination given for %s", secret.Word(args[0])).hint(example)
	}
	urls, dst := args[:len(args)-1], args[len(args)-1]
	if o.Dst = dst; strings.Contains(dst, "://") {
		return usagef("the destination %s looks like a URL", secret.Word(dst)).hint("the URLs come first, then the destination: initbox fetch URL… DST")
	}
	if err := unreplaced("the destination", dst); err != nil {
		return err
	}
	for i, text := range urls {
		src, err := fetch.Parse(text, f.settings, os.Getenv)
		if err != nil && len(urls) > 1 {
			err = fmt.Errorf("URL %d: %w", i+1, err)
		}
		if err != nil {
			return usageError{err}
		}
		o.Sources = append(o.Sources, src)
	}
	if f.list == "" {
		return checked(o)
	}
	return nil
}

// checked returns the error of options that cannot be right.
func checked(o *fetch.Options) error {
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

// addList reads the list.
func (f *fetchFlags) addList(o *fetch.Options) error {
	list, err := fetch.ReadList(f.list, f.settings, os.Getenv)
	switch hint := failure.Beside(err); {
	case errors.As(err, new(*fs.PathError)):
		return failure.WithHint(fmt.Errorf("--list: %w", err), hint+"is the ConfigMap mounted, and may this user read it?")
	case err != nil:
		return usagef("--list: %w", err)
	}
	o.Sources = append(o.Sources, list...)
	return checked(o)
}
