package command

import (
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"initbox/cmd/translate"
	"initbox/internal/readfile"
)

// The flags that read the command line of another tool. All that follows the first belongs to that tool, flags
// included; see [permute].
const (
	flagFromK8sWaitFor           = "from-k8s-wait-for"
	flagFromKubernetesEntrypoint = "from-kubernetes-entrypoint"
)

const categoryFrom = "Replacing other tools"

func fromFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: flagFromK8sWaitFor, Usage: "everything that follows is a command line of groundnuty/k8s-wait-for, such as job migrate or pod -lapp=web", Category: categoryFrom},
		&cli.BoolFlag{Name: flagFromKubernetesEntrypoint, Usage: "wait for what the variables DEPENDENCY_… of airshipit/kubernetes-entrypoint say, and then run its COMMAND", Category: categoryFrom},
	}
}

// environment returns what a translation of another tool's command line depends on.
func (e *env) environment() translate.Environment {
	if e.inspecting {
		return translate.Environment{
			Lookup:   os.LookupEnv,
			ReadFile: func(string) ([]byte, error) { return nil, nil },
			Exists:   func(string) bool { return false },
		}
	}
	return translate.Environment{
		Lookup:   os.LookupEnv,
		ReadFile: readfile.All,
		Exists:   func(name string) bool { return checkFile(name) == nil },
	}
}

// targets returns the targets on the command line, those in another tool's language translated, or those of
// [variableTargets]. The example is printed if there is no target.
func (e *env) targets(c *cli.Context, example string) ([]string, error) {
	targets, foreign := arguments(c)
	if e.name == rbacName {
		targets = withoutProgram(targets)
	}
	switch {
	case c.Bool(flagFromK8sWaitFor) && c.Bool(flagFromKubernetesEntrypoint):
		return nil, usagef("--%s and --%s are mutually exclusive", flagFromK8sWaitFor, flagFromKubernetesEntrypoint)
	case c.Bool(flagFromK8sWaitFor):
		line, err := translate.K8sWaitFor(foreign, e.environment())
		if err != nil {
			return nil, usagef("--%s: %w", flagFromK8sWaitFor, err).hint("everything after --" + flagFromK8sWaitFor + " belongs to k8s-wait-for; put flags of initbox before it")
		}
		e.logTranslation(line)
		return append(targets, line.Arguments...), nil
	case c.Bool(flagFromKubernetesEntrypoint):
		line, err := translate.KubernetesEntrypoint(e.environment())
		if err == nil && len(targets)+len(line.Arguments) == 0 {
			err = errors.New("no variable DEPENDENCY_… is set")
		}
		if err != nil {
			return nil, usagef("--%s: %w", flagFromKubernetesEntrypoint, err)
		}
		if len(e.next) > 0 {
			line.Command = e.next
		}
		e.next = line.Command
		e.logTranslation(line)
		return append(targets, line.Arguments...), nil
	}
	return e.orListed(targets, example)
}

// logTranslation logs a translation, for those who want to replace the other tool's command line by it.
func (e *env) logTranslation(line translate.Line) {
	for _, warning := range line.Warnings {
		e.log.Warn(warning)
	}
	e.log.Debug("the same as: " + e.command + line.String())
}
