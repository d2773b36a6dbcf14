package command

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/podinfo"
	"initbox/internal/stage"
	"initbox/volume/kubeget"
)

const kubeGetName = "kube-get"

func kubeGet(e *env) *cli.Command {
	var (
		o     kubeget.Options
		watch kubeWatchFlags
	)
	return &cli.Command{
		Usage:     "write what the Kubernetes API knows to files",
		ArgsUsage: "TARGET… DST",
		Description: `Waits until the objects and the fields are there, and writes them to files: keys of
Secrets and ConfigMaps, one field, or whole objects. What is right already is left alone.

DST is a directory if it ends with a slash, exists as one, or gets more than one file.
With --env-file there is no DST: each key or field is a variable in that file.
TARGET is one of
  k8s:KIND/NAME                        KIND is any that kubectl takes
  k8s:KIND?selector=LABELS, k8s:KIND?all
of which a Secret or a ConfigMap means all its keys, each a file; key, jsonpath or format
say what else. ?namespace=NAMESPACE may follow. What follows # are settings, which are
flags too; a flag holds for all targets that do not set it.

Examples:
  initbox kube-get 'k8s:secret/db#key=password' /out/password
  initbox kube-get 'k8s:node/$(NODE_NAME)#jsonpath=.metadata.labels.zone&to=zone' /out/
  initbox kube-get 'k8s:configmaps?selector=dashboard=1#optional' /dashboards/ --prune
  initbox kube-get 'k8s:svc/lb#jsonpath=.spec.ports[0].nodePort&to=PORT' --env-file /out/env
  initbox kube-get 'k8s:configmaps?selector=dashboard=1' /dashboards/ --namespace '*' --watch 10m`,
		Flags: slices.Concat(flagsOf(kubeget.Settings, "What is read and written; also after # in one TARGET"), []cli.Flag{
			textFlag("env-file", "`FILE` to write variables to, instead of files in DST: NAME='VALUE' lines, for fileKeyRef and for \"set -a; . FILE\"", categoryFiles, &o.EnvFile),
			onFlag("prune", "remove files that an earlier run with this flag wrote, and this run does not", categoryFiles, &o.Prune),
			onFlag("dry-run", "say what would change", categoryFiles, &o.DryRun),
			followFlag(categoryFiles, &o.Follow),
			attemptTimeoutFlag(&o.AttemptTimeout),
		}, watch.flags()),
		Action: e.action(func(c *cli.Context) (work, error) {
			o.Getenv, o.Seed, o.Log = os.Getenv, podinfo.Seed(), e.log
			targets, err := watch.arguments(c, e)
			if err != nil {
				return nil, err
			}
			if err := e.kubeGetTargets(c, targets, &o); err != nil {
				return nil, err
			}
			if watch.used(c) {
				return watch.watch(c, e, o)
			}
			for _, t := range o.Targets {
				if t.Namespace == kubeget.AllNamespaces {
					return nil, usagef("namespace=*: is for a folder of many objects").hint("add --watch DURATION, or --unique-names for one run")
				}
			}
			return func(ctx context.Context) error { return e.kubeGet(ctx, o) }, nil
		}),
	}
}

// kubeGetTargets reads the arguments.
func (e *env) kubeGetTargets(c *cli.Context, targets []string, o *kubeget.Options) error {
	const example = "as in: initbox kube-get 'k8s:secret/db#key=password' /out/password"
	switch {
	case len(targets) == 0:
		return usagef("no target given").hint(example)
	case o.EnvFile == "" && (len(targets) == 1 || strings.HasPrefix(targets[len(targets)-1], "k8s:")):
		return usagef("no destination given").hint("the targets come first, then the destination; " + example)
	case o.EnvFile == "":
		o.Dst, targets = targets[len(targets)-1], targets[:len(targets)-1]
	}
	if last := targets[len(targets)-1]; o.EnvFile != "" && !strings.Contains(last, ":") {
		return usagef("%s: with --env-file there is no DST", failure.Printable(last)).hint("leave out one of the two")
	}
	if err := unreplaced("the destination", o.Dst+o.EnvFile); err != nil {
		return err
	}
	for i, text := range targets {
		t, err := kubeget.Parse(text, settingsOf(c, kubeget.Settings))
		if err != nil && len(targets) > 1 {
			err = fmt.Errorf("target %d: %w", i+1, err)
		}
		if err != nil {
			return usageError{err}
		}
		o.Targets = append(o.Targets, t)
		e.needs = append(e.needs, t.Needs())
	}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

// kubeGet reads, writes, and logs what was done.
func (e *env) kubeGet(ctx context.Context, o kubeget.Options) error {
	files, err := kubeget.Read(ctx, o)
	if err != nil {
		return err
	}
	var done kubeget.Summary
	err = untilDone(ctx, func() (err error) {
		done, err = kubeget.Write(o, files)
		return err
	})
	if err != nil {
		return err
	}
	for _, path := range done.InPlace {
		e.log.Warn(stage.InPlace(path))
	}
	e.log.Info(done.String(), failure.Fields(failure.Printable(done.Path), done.Duration, nil))
	if !o.DryRun {
		e.warnNowhere(o.Dst, o.EnvFile)
	}
	return nil
}
