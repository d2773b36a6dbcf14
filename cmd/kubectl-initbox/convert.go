package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/kubectl-initbox/convert"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/failure"
	"initbox/internal/lazy"
)

const convertHelp = `Turns init containers that are shell scripts, or run other tools, into containers of
initbox that do the same. What it does not understand wholly it keeps, and says which
word of the script stopped it.

Examples:
  kubectl initbox convert -f web.yaml --image registry.example/initbox:1.2 | patch -p1
  kubectl initbox convert -f web.yaml -o report
  helm template . | kubectl initbox convert -f - -o report
  kubectl initbox convert -- sh -c 'until nc -z db 5432; do sleep 2; done'

Containers that are kept are listed on stderr, and are no failure. A command alone is taken
for that of a container of busybox, which runs as root, and its paths for those of a volume.
`

func (s *streams) convert() *cli.Command {
	var outputs []string
	for _, o := range convert.Outputs {
		outputs = append(outputs, string(o))
	}
	return &cli.Command{
		Name:        "convert",
		Usage:       "turn init containers that are shell scripts or other tools into ones of initbox",
		ArgsUsage:   "{-f FILE|DIR|- | -- COMMAND ARG…}",
		Description: convertHelp,
		Flags: []cli.Flag{
			fileFlags()[0],
			outputFlag("a unified diff, the changed manifests, strategic merge patches, the field patches of a kustomization, or how each container is converted and why", outputs...),
			&cli.StringFlag{Name: "image", Usage: "`IMAGE` of initbox, for all forms but report and json", EnvVars: []string{"INITBOX_IMAGE"}, Action: checkImage},
			&cli.StringSliceFlag{Name: "container", Usage: "`NAME` of the init containers to convert, instead of all; may be repeated"},
		},
		Action: func(c *cli.Context) error {
			as := c.String("output")
			if c.Args().Present() && len(c.StringSlice("filename")) == 0 {
				if file := c.Args().First(); c.Args().Len() == 1 && slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(file)) {
					return failure.WithHint(usagef("files are given with -f, got the argument %s", failure.Printable(file)), "did you mean -f "+failure.Printable(file)+"?")
				}
				return s.convertCommand(c.Args().Slice(), convert.Output(as))
			}
			return s.convertFiles(c, convert.Output(as))
		},
	}
}

// imageName matches the name of an image; the registry checks the rest.
var imageName = lazy.Regexp(`^[A-Za-z0-9][\w./:@-]*$`)

func checkImage(_ *cli.Context, image string) error {
	if image != "" && !imageName().MatchString(image) {
		return failure.WithHint(usagef("--image: not the name of an image: %q", image), "as in --image registry.example/initbox:1.2.3")
	}
	return nil
}

func (s *streams) convertFiles(c *cli.Context, as convert.Output) error {
	objects, err := s.objects(c)
	if err != nil {
		return err
	}
	image := c.String("image")
	reports := as == convert.Report || as == convert.JSON
	if image == "" && !reports {
		return failure.WithHint(usagef("no image: the containers that are written need one"), "--image registry.example/initbox:TAG, or $INITBOX_IMAGE; -o report needs none")
	}
	names := c.StringSlice("container")
	conversion := convert.New(objects, image, names)
	if len(names) > 0 && len(conversion.Changes) == 0 {
		return fmt.Errorf("no init container called %s, or it runs initbox already", strings.Join(names, " or "))
	}
	if err := conversion.Write(s.stdout, as); err != nil || reports {
		return err
	}
	for _, line := range append(conversion.Kept(), conversion.Summary()) {
		fmt.Fprintln(s.stderr, line)
	}
	return nil
}

// commandHint says how a script is given to convert.
const commandHint = "a command is given after --, a script as an argument of a shell: " + name + " convert -- sh -c 'until nc -z db 5432; do sleep 2; done'"

// convertCommand converts a command line alone, as that of a container of busybox all of whose paths are in a volume.
func (s *streams) convertCommand(line []string, as convert.Output) error {
	if first := line[0]; strings.ContainsAny(first, " \t\n;|&") || slices.Contains([]string{"until", "while", "for", "if", "[", "[["}, first) {
		return failure.WithHint(usagef("%s is shell syntax, not a program", failure.Printable(first)), commandHint)
	}
	const volume = "volume"
	pod := &manifest.Pod{Object: &manifest.Object{File: &manifest.File{}}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		Name: volume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volume}},
	}}}}
	change := convert.Container(&manifest.Container{Pod: pod, Init: true, Container: corev1.Container{
		Image: "busybox", Command: line, VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/"}},
	}}, "initbox", nil)
	if as == convert.JSON {
		if err := (&convert.Conversion{Changes: []*convert.Change{change}}).Write(s.stdout, as); err != nil {
			return err
		}
	} else if _, err := fmt.Fprint(s.stdout, change.Entry().Text()); err != nil {
		return err
	}
	if change.Verdict == convert.Kept {
		return errFound
	}
	return nil
}
