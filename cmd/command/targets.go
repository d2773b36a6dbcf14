package command

import (
	"fmt"
	"os"
	"strings"

	"initbox/internal/failure"
	"initbox/waitfor"
)

// variableTargets is the variable that has the targets of a command line without any. An annotation of the Pod can set
// it, through the downward API, which sets variables but not arguments.
const variableTargets = "INITBOX_TARGETS"

// orListed returns the arguments or, if there are none, the targets in [variableTargets], which become part of the
// step. The command line wins, as it does for flags. The example is printed if there is no target.
func (e *env) orListed(arguments []string, example string) ([]string, error) {
	value, set := os.LookupEnv(variableTargets)
	listed := strings.Fields(value)
	switch {
	case len(arguments) > 0:
		if len(listed) > 0 && e.name != rbacName {
			e.log.Info("$" + variableTargets + " is ignored: the targets on the command line win")
		}
		return arguments, nil
	case set:
		e.listed = listed
		if len(listed) > 0 {
			return listed, nil
		}
		return nil, usagef("no target given, and $%s is empty", variableTargets).
			hint("is the annotation, or the key of a Secret or ConfigMap, that sets it missing or misspelt?")
	case len(e.next) > 0:
		return nil, usagef("no target given").hint("targets stand before --, as in: " + e.command + " " + example + " -- COMMAND")
	}
	return nil, usagef("no target given").hint("as in: " + e.command + " " + example)
}

// parseTargets returns the checks of targets.
func (e *env) parseTargets(texts []string, o waitfor.Options) ([]waitfor.Check, error) {
	var checks []waitfor.Check
	for i, text := range texts {
		if e.inspecting && readFromFile(text) {
			e.targetsRead = append(e.targetsRead, Target{Text: text})
			continue
		}
		check, err := waitfor.Parse(text, o)
		if err != nil && len(texts) > 1 {
			err = fmt.Errorf("target %d: %w", i+1, err)
		}
		if err != nil && len(e.listed) > 0 {
			err = listedError(text, err)
		}
		if err != nil {
			return nil, usageError{err}
		}
		checks = append(checks, check)
		e.targetsRead = append(e.targetsRead, Target{Text: text, Check: check})
	}
	return checks, nil
}

// listedError returns the error of a target in [variableTargets], with the rule that was broken if the target looks as
// if it were written for a shell, for another list, or for the args of a container.
func listedError(text string, err error) error {
	err = fmt.Errorf("$%s: %w", variableTargets, err)
	switch {
	case strings.ContainsAny(text[:1], `'"`):
		return failure.WithHint(err, "white space separates the targets, and quotes mean nothing: write %20 for a space in a target")
	case text[0] == '-':
		return failure.WithHint(err, "the variable takes targets only: flags are arguments, or settings of a target, as in tcp://mydb:5432#hold=1s")
	case strings.HasSuffix(text, ",") || strings.Count(text, "://") > 1:
		return failure.WithHint(err, "white space separates the targets, not commas")
	case strings.Contains(text, "$("):
		return failure.WithHint(err, "Kubernetes replaces $(NAME) in values that the manifest has, not in those of annotations, Secrets and ConfigMaps: write ${env:NAME:-DEFAULT}, which initbox replaces")
	}
	return err
}

// unusedFlag refuses a flag that none of the targets takes.
func unusedFlag(o waitfor.Options, checks []waitfor.Check) error {
	unused := waitfor.Unused(o.Settings, checks...)
	if len(unused) == 0 {
		return nil
	}
	schemes := strings.Join(kindsTaking(waitfor.Kinds())[unused[0]].names(), ", ")
	return usagef("--%s applies to none of the targets: it is for %s targets", unused[0], schemes)
}
