package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/inotify"
	"initbox/internal/perm"
	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/internal/sidecar"
	"initbox/internal/stage"
	"initbox/internal/tlsconfig"
	"initbox/internal/words"
	"initbox/render"
	"initbox/render/engine"
	"initbox/render/envsubst"
	"initbox/render/format"
	"initbox/render/values"
)

// Categories of render's flags.
const (
	categoryValues    = "Values"
	categoryTemplates = "Templates"
	categoryFiles     = "Files"
	categoryChecks    = "Checks"
	categoryLook      = "Inspecting without writing"
)

func renderCommand(e *env) *cli.Command {
	var r renderFlags
	return &cli.Command{
		Usage:     "make configuration files from templates and values, all or none",
		ArgsUsage: "SRC:DST…",
		Description: `Renders each SRC, a template or a directory of them, to DST; "-" is stdin and stdout.
If anything is missing or wrong, all of it is reported, and nothing is written. Files
that are already right are not touched.

Templates are Go templates, with the functions of sprig and Helm; in a directory, files
that end in .tmpl, .tpl or .gotmpl. Those that end in .j2 are Jinja templates. All see
.Values, .Env, .Pod and .Files. Other files in a directory are copied.

Examples:
  initbox render /templates:/config --values /values/app.yaml --set port=8080
  initbox render app.conf.tmpl:/config/app.conf --values /etc/secret --validate
  initbox render nginx.conf:/etc/nginx/nginx.conf --engine envsubst --vars '$BACKEND'
  initbox render /templates:/config --values /etc/config --watch 10m --webhook-url http://localhost:8080/-/reload`,
		Flags: r.flags(),
		Action: e.action(func(c *cli.Context) (work, error) {
			o, err := r.options(c, e, c.Args().Slice())
			if err != nil {
				return nil, err
			}
			hook, err := r.checkStay(c, e, o)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				if r.sidecar.watch > 0 {
					return r.stay(ctx, e, o, hook)
				}
				err := r.run(ctx, e, o)
				if err == nil && r.looking(c) == 0 {
					e.warnNowhere(destinations(o)...)
				}
				return err
			}, nil
		}),
	}
}

// renderFlags are the values of the flags.
type renderFlags struct {
	o render.Options // what flags set directly

	values, secretValues, set, setString, setFile, setJSON cli.StringSlice
	tokenFile, caFile                                      string
	envAllow, secretEnv                                    cli.StringSlice
	pod                                                    podFlags

	vars, delims, missingKey                       string
	inline, partials, mode, owner, formats, schema cli.StringSlice
	suffixes                                       cli.StringSlice
	resolve                                        bool
	names                                          resolverFlags

	dryRun, diff, exitCode, listInputs bool
	explain                            string

	sidecar sidecarFlags
}

func (r *renderFlags) flags() []cli.Flag {
	r.missingKey = "error"
	return append([]cli.Flag{
		textsFlag("values", "`FILE|DIR|URL` of values: YAML, JSON, TOML, .env or .properties; in a directory, such as a mounted ConfigMap or Secret, each file is a value", categoryValues, &r.values),
		textsFlag("secret-values", "`FILE|DIR|URL` of values that are all secret; those of a mounted Secret are secret anyway", categoryValues, &r.secretValues),
		textsFlag("set", "`KEY=VALUE` as in Helm: a.b[0]=v,c={x,y}", categoryValues, &r.set),
		textsFlag("set-string", "`KEY=VALUE` whose value stays text", categoryValues, &r.setString),
		textsFlag("set-file", "`KEY=FILE` whose content is the value", categoryValues, &r.setFile),
		textsFlag("set-json", "`KEY=JSON` whose value is JSON", categoryValues, &r.setJSON),
		textFlag("values-token-file", "`FILE` with a bearer token for values from a URL", categoryValues, &r.tokenFile),
		textFlag("values-ca-file", "`FILE` of certificates to trust for values from a URL", categoryValues, &r.caFile),
		textFlag("values-schema", "`FILE` with a JSON Schema that the values must match", categoryValues, &r.o.ValuesSchema),
		textsFlag("env-allow", "`PATTERN` of the variables that templates see, as in APP_* (default all)", categoryValues, &r.envAllow),
		textsFlag("secret-env", "`PATTERN` of variables whose value is secret, as in *_PASSWORD", categoryValues, &r.secretEnv),
		textFlag("files", "`DIR` that .Files reads", categoryValues, &r.o.Files),

		textFlag("engine", "`NAME` of the language of all templates, whatever their extension: "+strings.Join(render.Engines, ", "), categoryTemplates, &r.o.Engine),
		textsFlag("template-suffix", "`SUFFIX[=ENGINE]` of more files in directories that are templates, as in .template or .jinja2=jinja", categoryTemplates, &r.suffixes),
		textsFlag("inline", "`DST=TEXT`: render the template TEXT to the file DST", categoryTemplates, &r.inline),
		textsFlag("partials", "`FILE|DIR` of templates for others to include", categoryTemplates, &r.partials),
		textFlag("vars", "with --engine envsubst, `NAMES` of the only variables that are substituted, as in '$HOST $PORT'", categoryTemplates, &r.vars),
		textFlag("delims", "`LEFT:RIGHT` of Go templates, as in '[[:]]'", categoryTemplates, &r.delims),
		textFlag("missing-key", "`error|zero`: a missing value is an error, or empty", categoryTemplates, &r.missingKey),
		textFlag("compat", "`dockerize`: functions with the names and argument orders of dockerize", categoryTemplates, &r.o.Compat),
		onFlag("resolve", "templates may look up host names and SRV records", categoryTemplates, &r.resolve),

		onFlag("only-templates", "in directories, ignore files that are not templates", categoryFiles, &r.o.OnlyTemplates),
		onFlag("no-overwrite", "do not replace existing files", categoryFiles, &r.o.NoOverwrite),
		textsFlag("mode", "`[PATTERN=]MODE` of files, as in '*.sh=0755' (default 0644, or 0600 for files that hold a secret)", categoryFiles, &r.mode),
		textsFlag("owner", "`[PATTERN=]UID[:GID]` of files: "+perm.OwnerUsage, categoryFiles, &r.owner),
		onFlag("atomic-dir", "make DST a link to a directory that is replaced as a whole", categoryFiles, &r.o.AtomicDir),
		onFlag("prune", "remove files that an earlier run with this flag wrote, and this run does not", categoryFiles, &r.o.Prune),
		followFlag(categoryFiles, &r.o.Follow),
		textFlag("env-file", "`FILE` to write the values to, in the format of Kubernetes' fileKeyRef", categoryFiles, &r.o.EnvFile),

		onFlag("validate", "check the syntax of results by their extension", categoryChecks, &r.o.Validate),
		textsFlag("format", "`[PATTERN=]FORMAT` of results whose extension does not tell it, as in '*.conf=nginx'", categoryChecks, &r.formats),
		textsFlag("schema", "`[PATTERN=]FILE` with a JSON Schema that results must match", categoryChecks, &r.schema),

		onFlag("dry-run", "say what would change", categoryLook, &r.dryRun),
		onFlag("diff", "print what would change, as diff -u does", categoryLook, &r.diff),
		onFlag("exit-code", "with --diff or --dry-run, exit with status 1 if anything would change", categoryLook, &r.exitCode),
		onFlag("list-inputs", "print what the templates read, and where", categoryLook, &r.listInputs),
		textFlag("explain", "`KEY`: print where its value comes from", categoryLook, &r.explain),
	}, slices.Concat(r.names.flags(), r.pod.flags(categoryValues), r.sidecar.flags(sidecarTexts{
		look: "render again when templates or values change, such as a mounted ConfigMap, and at least this often", changed: "a file has changed",
		revision: "a checksum of the files without secrets", there: "everything is rendered",
	}))...)
}

// checkStay checks the flags of the sidecar, and returns its webhook.
func (r *renderFlags) checkStay(c *cli.Context, e *env, o render.Options) (*sidecar.Webhook, error) {
	if err := needs(c, [][2]string{{"touch", "watch"}, {"webhook-url", "watch"}}); err != nil {
		return nil, err
	}
	if err := r.sidecar.check(c); err != nil {
		return nil, err
	}
	stdio := func(s render.Source) bool { return s.From == "-" || s.To == "-" }
	piped := func(s values.Source) bool { return s.Kind == values.File && s.Text == "-" }
	switch {
	case r.sidecar.watch == 0:
	case r.looking(c) > 0:
		return nil, usagef("--watch writes files: leave out --dry-run, --diff, --list-inputs and --explain")
	case slices.ContainsFunc(o.Sources, stdio), slices.ContainsFunc(o.Values, piped):
		return nil, usagef("--watch: stdin and stdout are for one run").hint("give files, as in /templates/app.conf:/config/app.conf")
	}
	return r.sidecar.webhook(e, &resolver.Resolver{}, tlsconfig.Options{})
}

const (
	settle    = 50 * time.Millisecond // for changes that come together
	lookLimit = time.Minute           // of a run after the first: values at a URL must not hold up all others forever
)

// stay renders, and renders again after each change of what is read, until a signal comes.
func (r *renderFlags) stay(first context.Context, e *env, o render.Options, hook *sidecar.Webhook) error {
	side := r.sidecar.options(hook, e.log)
	side.Wake = inotify.Watch(e.untilStopped, o.Paths()...)
	o.Sum = &render.Sum{}
	var size atomic.Int64
	side.Metrics = written(size.Load)
	again := false
	return e.stay(first, side, r.sidecar.watch, func(ctx context.Context) (string, bool, error) {
		if again {
			if err := poll.Sleep(ctx, settle); err != nil {
				return "", false, err
			}
			limited, cancel := context.WithTimeoutCause(ctx, lookLimit, deadlinePassed(lookLimit))
			defer cancel()
			ctx = limited
		}
		changes, err := render.Run(ctx, o)
		logChanges(e, changes, false)
		for _, c := range changes {
			size.Add(c.Size)
		}
		if err != nil {
			return "", len(changes) > 0, err
		}
		if !again {
			if len(changes) == 0 {
				e.log.Info("nothing to change")
			}
			e.warnNowhere(destinations(o)...)
		}
		again = true
		return o.Sum.String(), len(changes) > 0, nil
	})
}

// options returns what the flags say.
func (r *renderFlags) options(c *cli.Context, e *env, sources []string) (render.Options, error) {
	pod, err := r.pod.source(e)
	if err != nil {
		return render.Options{}, err
	}
	o := r.o
	o.Partials, o.SecretEnv = r.partials.Value(), r.secretEnv.Value()
	o.Values, o.Fetch = r.valueSources(), render.Fetcher{TokenFile: r.tokenFile, CAFile: r.caFile, Log: e.log}.Fetch
	o.Environ, o.Pod, o.Limits = os.Environ(), pod, engine.DefaultLimits
	o.DryRun = r.dryRun || r.diff
	o.Stdin, o.Stdout, o.Log = e.stdin, e.stdout, e.log
	if r.diff {
		o.Diff = e.stdout
	}
	if isSet(c, "env-allow") {
		o.EnvAllow = r.envAllow.Value()
	}
	for _, pattern := range slices.Concat(o.EnvAllow, o.SecretEnv) {
		if _, err := path.Match(pattern, ""); err != nil {
			return o, usagef("--env-allow or --secret-env %s: %w", pattern, err)
		}
	}
	if r.resolve {
		names, err := r.names.resolver(e)
		if err != nil {
			return o, err
		}
		o.Resolve, o.ResolveSRV = render.Names{Resolver: names}.Addresses, render.Names{Resolver: names}.Services
	}
	for _, text := range sources {
		source, err := render.ParseSource(text)
		if err != nil {
			return o, usageError{err}
		}
		o.Sources = append(o.Sources, source)
	}
	for _, text := range r.inline.Value() {
		inline, err := render.ParseInline(text)
		if err != nil {
			return o, usagef("--inline: %w", err)
		}
		o.Inline = append(o.Inline, inline)
	}
	return o, errors.Join(r.check(c, o), r.templateOptions(c, &o), r.rules(&o))
}

// looking returns how many of the flags that only inspect are given.
func (r *renderFlags) looking(c *cli.Context) int {
	n := 0
	for _, on := range []bool{r.dryRun || r.diff, r.listInputs, isSet(c, "explain")} {
		if on {
			n++
		}
	}
	return n
}

// check refuses flags that exclude each other.
func (r *renderFlags) check(c *cli.Context, o render.Options) error {
	stdin := 0
	for _, source := range o.Sources {
		if source.From == "-" {
			stdin++
		}
	}
	for _, source := range o.Values {
		if source.Kind == values.File && source.Text == "-" {
			stdin++
		}
	}
	if err := needs(c, [][2]string{{"server", "resolve"}, {"resolv-conf", "resolve"}, {"hosts", "resolve"}}); err != nil {
		return err
	}
	switch {
	case len(o.Sources)+len(o.Inline) == 0 && r.o.EnvFile == "" && !isSet(c, "explain"):
		return usagef("no template given").hint("as in: initbox render /templates:/config --values /values/app.yaml")
	case stdin > 1:
		return usagef("stdin can be read only once, and is given %d times", stdin)
	case r.looking(c) > 1:
		return usagef("--list-inputs, --explain, and --dry-run or --diff are mutually exclusive")
	case r.exitCode && !r.dryRun && !r.diff:
		return usagef("--exit-code: only with --diff or --dry-run")
	case r.o.AtomicDir && r.o.Prune:
		return usagef("--atomic-dir and --prune are mutually exclusive: each run writes a new directory")
	case r.o.AtomicDir && r.o.NoOverwrite:
		return usagef("--atomic-dir and --no-overwrite are mutually exclusive: each run writes a new directory")
	}
	return nil
}

// valueSources returns the values in the order in which they apply, which is Helm's: files, then what is set.
func (r *renderFlags) valueSources() []values.Source {
	var sources []values.Source
	add := func(kind values.Kind, secret bool, texts cli.StringSlice) {
		for _, text := range texts.Value() {
			sources = append(sources, values.Source{Kind: kind, Text: text, Secret: secret})
		}
	}
	add(values.File, false, r.values)
	add(values.File, true, r.secretValues)
	add(values.SetJSON, false, r.setJSON)
	add(values.Set, false, r.set)
	add(values.SetString, false, r.setString)
	add(values.SetFile, false, r.setFile)
	return sources
}

func (r *renderFlags) templateOptions(c *cli.Context, o *render.Options) error {
	switch r.missingKey {
	case "error":
	case "zero":
		o.MissingZero = true
	default:
		return usagef("--missing-key: want error or zero, got %q", r.missingKey)
	}
	if r.o.Engine != "" && !slices.Contains(render.Engines, r.o.Engine) {
		return usagef("--engine: want one of %s, got %q", strings.Join(render.Engines, ", "), r.o.Engine)
	}
	o.Suffixes = map[string]string{}
	for _, text := range r.suffixes.Value() {
		suffix, language, err := render.ParseSuffix(text)
		if err != nil {
			return usagef("--template-suffix: %w", err)
		}
		o.Suffixes[suffix] = language
	}
	if r.o.Compat != "" && r.o.Compat != "dockerize" {
		return usagef("--compat: want dockerize, got %q", r.o.Compat)
	}
	if r.delims != "" {
		left, right, _ := strings.Cut(r.delims, ":")
		if left == "" || right == "" {
			return usagef("--delims: want LEFT:RIGHT, as in '[[:]]', got %q", r.delims)
		}
		o.Delims = []string{left, right}
	}
	if err := r.engineOptions(c); err != nil {
		return err
	}
	if isSet(c, "vars") {
		vars, err := envsubst.ParseVars(r.vars)
		if err != nil {
			return usagef("--vars: %w", err)
		}
		o.Vars = vars
	}
	return nil
}

// engineOptions refuses flags that the language of the templates does not have: without --engine, it follows from their
// extensions, none of which is envsubst's.
func (r *renderFlags) engineOptions(c *cli.Context) error {
	switch other := r.o.Engine; {
	case isSet(c, "vars") && other != render.Envsubst:
		return usagef("--vars: only with --engine envsubst")
	case other == "" || other == render.GoTemplate:
	case isSet(c, "delims") || isSet(c, "compat"):
		return usagef("%s: only for Go templates, and not with --engine %s", strings.Join(given(c, "delims", "compat"), ", "), other)
	case isSet(c, "partials") && other == render.Envsubst:
		return usagef("--partials: templates of envsubst cannot include others")
	}
	return nil
}

func (r *renderFlags) rules(o *render.Options) (err error) {
	if o.Modes, err = rules("mode", r.mode, parsePermissions); err != nil {
		return err
	}
	if o.Owners, err = rules("owner", r.owner, perm.ParseOwner); err != nil {
		return err
	}
	if o.Formats, err = rules("format", r.formats, format.Named); err != nil {
		return err
	}
	literal := func(s string) (string, error) { return s, nil }
	o.Schemas, err = rules("schema", r.schema, literal)
	return err
}

func rules[T any](flag string, texts cli.StringSlice, parse func(string) (T, error)) ([]perm.Rule[T], error) {
	var all []perm.Rule[T]
	for _, text := range texts.Value() {
		rule, err := perm.ParseRule(text, parse)
		if err != nil {
			return nil, usagef("--%s %s: %w", flag, text, err)
		}
		all = append(all, rule)
	}
	return all, nil
}

// run does what the flags ask for.
func (r *renderFlags) run(ctx context.Context, e *env, o render.Options) error {
	switch {
	case r.listInputs:
		return listInputs(ctx, e, o)
	case r.explain != "":
		return explain(ctx, e, o, r.explain)
	}
	defer roomyHeap()()
	changes, err := render.Run(ctx, o)
	logChanges(e, changes, o.DryRun)
	if err != nil {
		return err
	}
	stdout := func(s render.Source) bool { return s.To == "-" }
	if len(changes) == 0 && !slices.ContainsFunc(o.Sources, stdout) {
		e.log.Info("nothing to change")
	}
	if r.exitCode && len(changes) > 0 {
		return fmt.Errorf("%s would change", words.Plural(len(changes), "file"))
	}
	return nil
}

// destinations returns the paths that are written to, each once.
func destinations(o render.Options) []string {
	paths := words.Each(o.Sources, func(s render.Source) string { return s.To })
	paths = append(paths, words.Each(o.Inline, func(i render.Inline) string { return i.To })...)
	paths = append(paths, o.EnvFile)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// maxListed is how many changes are logged one by one.
const maxListed = 20

func logChanges(e *env, changes []render.Change, dry bool) {
	would := ""
	if dry {
		would = "would be "
	}
	for i, c := range changes {
		path := failure.Printable(c.Path)
		if c.InPlace && !dry {
			e.log.Warn(stage.InPlace(c.Path))
		}
		if i == maxListed && !dry {
			e.log.Info(fmt.Sprintf("and %d more", len(changes)-maxListed))
		}
		if i < maxListed || dry {
			secret := ""
			if c.Secret {
				secret = ", with a secret in it"
			}
			e.log.Info(path+": "+would+c.What+secret, failure.Fields(path, 0, nil))
		}
	}
}

// listInputs prints a line for each place where a template reads something.
func listInputs(ctx context.Context, e *env, o render.Options) error {
	inputs, err := render.ListInputs(ctx, o)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, in := range inputs {
		need := "required"
		if in.Optional {
			need = "optional"
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\n", in.Name, need, in.Position)
	}
	_, err = e.stdout.Write([]byte(b.String()))
	return err
}

// explain prints a line for each source of a value, the one that won last.
func explain(ctx context.Context, e *env, o render.Options, key string) error {
	origins, err := render.Explain(ctx, o, key)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, origin := range origins {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", origin.Key, origin.Source, origin.Value)
	}
	_, err = e.stdout.Write([]byte(b.String()))
	return err
}
