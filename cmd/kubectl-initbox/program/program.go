// Package program finds the containers of a manifest that run initbox, and the command lines with which they do.
//
//	if program.Runs(c, nil) {
//		steps, err := command.Inspect(program.Words(c), program.Environment(c))
//	}
package program

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

const name = "initbox"

// tools is the directory into which the charts and examples install the program, for other images.
const tools = "/initbox-tools/"

// Runs reports whether a container runs initbox: its image, or the image that one of the patterns matches (see
// [path.Match]; with or without the tag), or a program of that name, or of the name of a link to it.
func Runs(c *manifest.Container, images []string) bool {
	if IsImage(c.Image, images) {
		return true
	}
	if len(c.Command) == 0 {
		return false
	}
	dir, base := path.Split(c.Command[0])
	subcommand, prefixed := strings.CutPrefix(base, name+"-")
	switch {
	case base == name:
		return true
	case !slices.Contains(command.Subcommands(), subcommand):
		return false
	}
	return prefixed || dir == tools || strings.Contains(subcommand, "-") // other programs are called sleep and install, too
}

// IsImage reports whether an image is that of initbox, or one of its subcommands, or one that a pattern matches.
func IsImage(image string, patterns []string) bool {
	repository := withoutTag(image)
	for _, pattern := range patterns {
		for _, form := range []string{image, repository} {
			if ok, _ := path.Match(pattern, form); ok {
				return true
			}
		}
	}
	base := path.Base(repository)
	subcommand, prefixed := strings.CutPrefix(base, name+"-")
	return base == name || prefixed && slices.Contains(command.Subcommands(), subcommand)
}

// withoutTag returns the name of an image without its tag and its digest.
func withoutTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		image = image[:i]
	}
	return image
}

// Words returns the command line of a container that runs initbox, in the form that [command.Inspect] takes: what the
// image runs, if the container does not say it, and the arguments, with the kubelet's variables replaced.
func Words(c *manifest.Container) []string {
	words := slices.Concat(c.Command, c.Args)
	if len(c.Command) == 0 {
		subcommand, prefixed := strings.CutPrefix(path.Base(withoutTag(c.Image)), name+"-")
		if prefixed && slices.Contains(command.Subcommands(), subcommand) {
			words = append([]string{subcommand}, words...)
		}
	}
	environment := Environment(c)
	for i, word := range words {
		words[i] = expand(word, environment, len(c.EnvFrom) > 0)
	}
	return words
}

// Environment returns the variables of a container. A value that the manifest does not have is that of
// [command.Opaque].
func Environment(c *manifest.Container) map[string]string {
	environment := map[string]string{}
	if len(c.EnvFrom) > 0 { // its names are not known: it has those that the command line refers to
		for _, word := range slices.Concat(c.Command, c.Args) {
			for _, match := range reference().FindAllStringSubmatch(word, -1) {
				environment[match[1]] = command.Opaque("")
			}
		}
	}
	for _, variable := range c.Env {
		if variable.ValueFrom != nil {
			environment[variable.Name] = command.Opaque(sample(c, variable.ValueFrom))
		} else {
			environment[variable.Name] = expand(variable.Value, environment, len(c.EnvFrom) > 0)
		}
	}
	return environment
}

// memory is what each subcommand needs, in MiB: what docs/benchmarks.md shows it resident with, rounded down.
var memory = map[string]int64{"git-clone": 32, "fetch": 24}

// waitingMemory is what the others need.
const waitingMemory = 14

// Memory returns what a command line needs, in MiB, and the subcommand that needs the most.
func Memory(steps []command.Inspected) (need int64, subcommand string) {
	for _, s := range steps {
		n := int64(waitingMemory)
		if memory[s.Name] > 0 {
			n = memory[s.Name]
		}
		if n > need {
			need, subcommand = n, s.Name
		}
	}
	return need, subcommand
}

// sample returns what a value that is not known may look like.
func sample(c *manifest.Container, from *corev1.EnvVarSource) string {
	switch {
	case from.ResourceFieldRef != nil:
		return "1"
	case from.FieldRef == nil:
		return ""
	}
	switch from.FieldRef.FieldPath {
	case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
		return "10.0.0.1"
	case "metadata.namespace":
		if c.Pod.Object.Namespace != "" {
			return c.Pod.Object.Namespace
		}
	case "metadata.uid":
		return "6f6a1a0e-0d4b-4a51-9a3f-000000000000"
	case "metadata.name":
		return "unknown-0" // as a Pod of a StatefulSet, of which some command lines need the number
	case "spec.nodeName", "spec.serviceAccountName":
		return "unknown"
	}
	return "" // labels and annotations are any text
}

var (
	reference = lazy.Regexp(`\$\{env:([A-Za-z_][A-Za-z0-9_.-]*)\}`)
	// What the kubelet replaces: $$ and $(NAME).
	variable = lazy.Regexp(`\$\$|\$\(([^()$]*)\)`)
)

// expand replaces $(NAME) as the kubelet does: names that are not set stay as they are, and $$ is $. With moreNames,
// any name may be set.
func expand(word string, environment map[string]string, moreNames bool) string {
	return variable().ReplaceAllStringFunc(word, func(found string) string {
		if found == "$$" {
			return "$"
		}
		name := found[2 : len(found)-1]
		value, set := environment[name]
		switch {
		case set:
			return value
		case strings.HasSuffix(name, "_SERVICE_HOST"): // a Service's, which every Pod gets
			return command.Opaque("10.0.0.1")
		case strings.HasSuffix(name, "_SERVICE_PORT"), moreNames:
			return command.Opaque("")
		}
		return found
	})
}
