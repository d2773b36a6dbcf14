package command

import (
	"context"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/cmd/help"
	"initbox/cmd/translate"
	"initbox/internal/resolver"
	"initbox/internal/sidecar"
	"initbox/internal/tlsconfig"
	"initbox/volume/kubeget"
)

// With this value, flagCompat has kube-get read k8s-sidecar's variables, and its arguments, which are all that follows;
// see [permute].
const compatK8sSidecar = "k8s-sidecar"

const categoryFolder = "Folders of many objects"

// kubeWatchFlags are the flags of a folder that is what many objects are, once or for as long as they change.
type kubeWatchFlags struct {
	sidecar   sidecarFlags
	o         kubeget.WatchOptions
	fetch     bool
	skipFirst bool
	compat    string
}

func (k *kubeWatchFlags) flags() []cli.Flag {
	return append([]cli.Flag{
		textFlag("folder-annotation", "`NAME` of the annotation with which an object names the folder below DST for its files", categoryFolder, &k.o.FolderIn),
		onFlag("unique-names", "name files namespace_NAMESPACE.KIND_OBJECT.KEY", categoryFolder, &k.o.Unique),
		onFlag("gunzip", "unpack values whose keys end in .gz", categoryFolder, &k.o.Unzip),
		onFlag("fetch-urls", "download what the URLs in keys that end in .url refer to: anyone who may write the objects chooses the server", categoryFolder, &k.fetch),
		textFlag(flagCompat, "`k8s-sidecar`: read the variables and arguments of kiwigrid/k8s-sidecar", categoryFrom, &k.compat),
		onFlag("webhook-skip-first", "do not call the webhook or send the signal for the files that are there at first", categoryResult, &k.skipFirst),
	}, k.sidecar.flags(sidecarTexts{
		look: "keep DST up to date with the objects by a watch; all of them are listed again this often", changed: "files have changed",
		revision: "a checksum of all files", there: "everything is written",
	})...)
}

// used returns whether the flags ask for a [kubeget.Watcher].
func (k *kubeWatchFlags) used(c *cli.Context) bool {
	return k.sidecar.watch > 0 || k.compat != "" || given(c, "folder-annotation", "unique-names", "gunzip", "fetch-urls") != nil
}

// arguments returns the arguments, or those that k8s-sidecar's variables translate into, which set flags, too.
func (k *kubeWatchFlags) arguments(c *cli.Context, e *env) ([]string, error) {
	own, foreign := arguments(c)
	switch {
	case k.compat == "":
		return own, nil
	case k.compat != compatK8sSidecar:
		return nil, usagef("--%s: want %s, got %q", flagCompat, compatK8sSidecar, k.compat)
	case len(own) > 0:
		return nil, usagef("unexpected argument with --%s %s: %s", flagCompat, compatK8sSidecar, own[0]).hint("LABEL and FOLDER say what is read and written")
	}
	line, err := translate.K8sSidecar(foreign, e.environment())
	if err != nil {
		return nil, usagef("--%s %s: %w", flagCompat, compatK8sSidecar, err)
	}
	for _, f := range line.Flags {
		if isSet(c, f.Name) {
			continue
		}
		if err := c.Set(f.Name, f.Value); err != nil {
			return nil, usagef("--%s %s: %w", flagCompat, compatK8sSidecar, help.WrongValue(err, c.Command.Flags))
		}
	}
	if line.Body != "" && !isSet(c, "webhook-body") {
		if err := c.Set("webhook-body", line.Body); err != nil {
			return nil, err
		}
	}
	e.logTranslation(line)
	return line.Arguments, nil
}

// watch returns what keeps the folder up to date with the objects.
func (k *kubeWatchFlags) watch(c *cli.Context, e *env, o kubeget.Options) (work, error) {
	if wrong := given(c, "env-file", "dry-run"); wrong != nil {
		return nil, usagef("%s: not for a folder of many objects", strings.Join(wrong, ", ")).hint("leave out --watch, --folder-annotation, --unique-names, --gunzip and --fetch-urls")
	}
	if err := k.sidecar.check(c); err != nil {
		return nil, err
	}
	switch stays := k.sidecar.watch > 0; {
	case stays && e.once != "":
		return nil, usagef("--%s is for commands that end, and k8s-sidecar's variables keep it running without METHOD=LIST", flagOnce)
	case stays && e.chained():
		return nil, errStays("--watch")
	}
	e.needs = nil
	for _, t := range o.Targets {
		e.needs = append(e.needs, t.WatchNeeds())
	}
	names := &resolver.Resolver{}
	hook, err := k.sidecar.webhook(e, names, tlsconfig.Options{})
	if err != nil {
		return nil, err
	}
	k.o.Options, k.o.Every = o, k.sidecar.watch
	if k.fetch {
		k.o.Fetch = &kubeget.Fetcher{Timeout: k.sidecar.timeout, TLS: hookTLS(hook), Resolver: names}
	}
	if err := k.o.Check(); err != nil {
		return nil, usageError{err}
	}
	return func(ctx context.Context) error {
		if os.Getenv("GOGC") == "" { // little of what a list brings stays in use
			defer debug.SetGCPercent(debug.SetGCPercent(clonePercent))
		}
		e.warnNowhere(o.Dst)
		return k.run(ctx, e, hook)
	}, nil
}

// hookTLS returns how the webhook is trusted, which holds for what is fetched, too.
func hookTLS(w *sidecar.Webhook) tlsconfig.Options {
	if w == nil {
		return tlsconfig.Options{}
	}
	return tlsconfig.Options{CAFile: w.TLS.CAFile, Insecure: w.TLS.Insecure}
}

// run writes the folder, once or until a signal comes.
func (k *kubeWatchFlags) run(ctx context.Context, e *env, hook *sidecar.Webhook) error {
	if k.sidecar.watch == 0 {
		k.o.Every = time.Hour // it ends before
	}
	w := kubeget.NewWatcher(k.o)
	defer w.Close()
	if k.sidecar.watch == 0 {
		look := w.Once
		if k.compat != "" {
			look = w.Look // k8s-sidecar goes on without what it cannot fetch
		}
		revision, changed, err := look(ctx)
		if err == nil && k.sidecar.touch != "" {
			err = sidecar.Touch(k.sidecar.touch, revision, changed)
		}
		if err == nil && changed && hook != nil && !k.skipFirst {
			err = hook.Call(ctx, revision)
		}
		return err
	}
	if k.compat != "" && k.sidecar.probe == (probeFlags{}) {
		k.sidecar.probe.http = usualPort(e)
	}
	o := k.sidecar.options(hook, e.log)
	o.Metrics = written(w.Written)
	o.Wake, o.Health, o.Quiet = w.Wake(), w.Health, k.skipFirst
	o.Secret = slices.ContainsFunc(k.o.Targets, func(t *kubeget.Target) bool { return t.Needs().Resource != "configmaps" })
	return e.stay(ctx, o, k.sidecar.watch, w.Look)
}

// usualPort returns the port where k8s-sidecar answers probes if HEALTH_PORT does not name another one, or "" if that
// is taken: where a Pod has several, k8s-sidecar goes on without.
func usualPort(e *env) string {
	l, err := net.Listen("tcp", ":"+translate.SidecarPort)
	if err != nil {
		e.log.Warn("nothing answers probes: port " + translate.SidecarPort + " is in use; set HEALTH_PORT to another one")
		return ""
	}
	l.Close()
	return ":" + translate.SidecarPort
}
