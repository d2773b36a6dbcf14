package main

import (
	"errors"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/waitfor"
)

// The flags that read the language of another program. What follows the first
// is all of that program's, flags included; see [permute].
const (
	flagFromK8sWaitFor           = "from-k8s-wait-for"
	flagFromKubernetesEntrypoint = "from-kubernetes-entrypoint"
)

const categoryFrom = "In place of other programs"

func fromFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: flagFromK8sWaitFor, Usage: "what follows are the arguments of groundnuty/k8s-wait-for, such as job migrate or pod -lapp=web", Category: categoryFrom},
		&cli.BoolFlag{Name: flagFromKubernetesEntrypoint, Usage: "the variables DEPENDENCY_… and COMMAND of airshipit/kubernetes-entrypoint say what to wait for, and then run", Category: categoryFrom},
	}
}

// targets returns the targets that the command line asks for, those in other
// programs' languages translated, and the command to become after them. The
// example is for who gave none.
func (e *env) targets(c *cli.Context, example string) (targets, command []string, err error) {
	targets, after, ended := arguments(c)
	switch {
	case c.Bool(flagFromK8sWaitFor) && c.Bool(flagFromKubernetesEntrypoint):
		return nil, nil, usagef("--%s and --%s exclude each other", flagFromK8sWaitFor, flagFromKubernetesEntrypoint)
	case c.Bool(flagFromK8sWaitFor):
		more, err := waitfor.FromK8sWaitFor(after, os.Getenv)
		if err != nil {
			return nil, nil, usagef("--%s: %w", flagFromK8sWaitFor, err).hint("what follows --" + flagFromK8sWaitFor + " is all of k8s-wait-for's; flags of initbox stand before it")
		}
		return e.translated(targets, more), nil, nil
	case c.Bool(flagFromKubernetesEntrypoint):
		more, err := waitfor.FromKubernetesEntrypoint(os.Getenv)
		if err == nil && len(targets)+len(more) == 0 {
			err = errors.New("no variable DEPENDENCY_… is set")
		}
		if err != nil {
			return nil, nil, usagef("--%s: %w", flagFromKubernetesEntrypoint, err)
		}
		if ended && len(after) == 0 {
			return nil, nil, errNoCommand()
		}
		if !ended { // as there, split at spaces and not by a shell
			after = strings.Fields(os.Getenv("COMMAND"))
		}
		return e.translated(targets, more), after, nil
	case len(targets) == 0 && len(after) > 0:
		return nil, nil, usagef("no target given").hint("targets stand before --, as in: " + e.command + " " + example + " -- COMMAND")
	case len(targets) == 0:
		return nil, nil, usagef("no target given").hint("as in: " + e.command + " " + example)
	case ended && len(after) == 0:
		return nil, nil, errNoCommand()
	}
	return targets, after, nil
}

func errNoCommand() error { return usagef("no command after --") }

// translated adds the targets of a translation, and tells it to who wants to
// write them so from now on.
func (e *env) translated(targets, more []string) []string {
	e.log.Debug("the same as: " + e.command + " '" + strings.Join(more, "' '") + "'")
	return append(targets, more...)
}
