package command

import (
	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/sidecar"
	"initbox/internal/words"
)

const writableHint = sidecar.WritableHint

// followFlag returns the flag of the subcommands that write to volumes.
func followFlag(category string, dst *bool) cli.Flag {
	return onFlag("follow", "write through symbolic links in a volume, which other programs may have made; by default a link at the destination is replaced by a file, and refused as a directory", category, dst)
}

// warnNowhere logs which of the paths that are written to are not in a volume, if this is a container: other containers
// find nothing there. An empty path stands for no file, and "-" for stdout.
func (e *env) warnNowhere(paths ...string) {
	if e.inspecting {
		return
	}
	var texts []string
	of := map[string][]string{}
	for _, path := range paths {
		if path == "" || path == "-" {
			continue
		}
		if text := mounts.Nowhere(path); text != "" {
			if of[text] == nil {
				texts = append(texts, text)
			}
			of[text] = append(of[text], failure.Printable(path))
		}
	}
	for _, text := range texts {
		e.log.Warn(words.List(of[text]) + ": " + text)
	}
}
