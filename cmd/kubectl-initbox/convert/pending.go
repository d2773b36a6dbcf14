package convert

import (
	"errors"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// These are replaced by the reading of scripts.

func readScript(string, []string, *manifest.Container) (Result, error) {
	return Result{}, errors.New("scripts are not read yet")
}

func readCommand([]shell.Word, *manifest.Container) (Result, error) {
	return Result{}, errors.New("commands are not read yet")
}
