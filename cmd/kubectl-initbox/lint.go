package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/cmd/kubectl-initbox/lint"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/failure"
	"initbox/internal/words"
)

func (s *streams) lint() *cli.Command {
	format := outputFlag("text for people, json, commands for a GitHub workflow, or SARIF 2.1.0; also --format", lint.Formats...)
	format.Aliases = append(format.Aliases, "format") // as other linters call it
	return &cli.Command{
		Name:      "lint",
		Usage:     "find mistakes in the init containers of manifests, without a cluster",
		ArgsUsage: "-f FILE|DIR|-",
		Description: "Reads the command lines of all initbox containers as the program does in the Pod, and compares them with the\n" +
			"Pod around them: its volumes, probes, variables, deadlines and rights. Each finding has a place, a rule and a\n" +
			"fix; docs/lint.md has the rules, and how to silence one.\n\n" +
			"Examples:\n" +
			"  kubectl initbox lint -f web.yaml\n" +
			"  kubectl initbox lint --chart charts/web\n" +
			"  helm template . --values prod.yaml | kubectl initbox lint -f - -o github\n\n" +
			"Exit status: 0 if there is no error, 1 if there is one, with --strict also for a warning, 2 if the command line\n" +
			"is wrong.",
		Flags: append(fileFlags(),
			&cli.StringFlag{Name: "chart", Usage: "`DIR` of a chart to render with its defaults, by the helm that is installed"},
			format,
			&cli.BoolFlag{Name: "strict", Usage: "warnings are errors"},
		),
		Action: s.runLint,
	}
}

func (s *streams) runLint(c *cli.Context) error {
	objects, unread := s.lintObjects(c)
	if len(objects) == 0 {
		return unread
	}
	o := lint.Options{Images: c.StringSlice("image")}
	findings := lint.Check(objects, o)
	failed := false
	for i := range findings {
		if c.Bool("strict") {
			findings[i].Severity = lint.Error
		}
		failed = failed || findings[i].Severity == lint.Error
	}
	if err := lint.Write(s.stdout, c.String("output"), lint.BySource(findings, objects, c.String("chart"))); err != nil {
		return fmt.Errorf("write the findings: %w", err)
	}
	fmt.Fprintln(s.stderr, summary(findings, lint.Containers(objects, o), len(objects)))
	if unread != nil {
		return unread
	}
	if failed {
		return errFound
	}
	return nil
}

// summary is the last line, for people.
func summary(findings []lint.Finding, containers, objects int) string {
	of := words.Plural(containers, "initbox container") + " in " + words.Plural(objects, "object")
	if containers == 0 {
		return of + ": nothing to check; --image PATTERN names other images that have it"
	}
	count := map[lint.Severity]int{}
	for _, f := range findings {
		count[f.Severity]++
	}
	if len(findings) == 0 {
		return of + ": nothing found"
	}
	return of + ": " + words.Plural(count[lint.Error], "error") + ", " + words.Plural(count[lint.Warning], "warning")
}

// lintObjects returns the objects of the files, or of a chart.
func (s *streams) lintObjects(c *cli.Context) ([]*manifest.Object, error) {
	dir := c.String("chart")
	if dir == "" {
		return s.objects(c)
	}
	if len(c.StringSlice("filename")) > 0 || c.Args().Present() {
		return nil, usagef("--chart and -f: give one of them")
	}
	text, err := helmTemplate(c.Context, dir)
	if err != nil {
		return nil, err
	}
	return manifest.Read(path.Clean(dir), bytes.NewReader(text))
}

// helmTemplate renders a chart with its defaults.
func helmTemplate(ctx context.Context, dir string) ([]byte, error) {
	helm, err := exec.LookPath("helm")
	if err != nil {
		return nil, failure.WithHint(fmt.Errorf("render the chart %s: there is no helm in PATH", dir), "install Helm, or render elsewhere: helm template . | "+name+" lint -f -")
	}
	if strings.HasPrefix(dir, "-") {
		dir = "./" + dir
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, helm, "template", "release", dir)
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		if reason := strings.TrimSpace(stderr.String()); reason != "" {
			err = errors.New(strings.TrimPrefix(reason, "Error: "))
		}
		return nil, failure.WithHint(fmt.Errorf("render the chart %s: %w", dir, err), "with values: helm template . --values FILE | "+name+" lint -f -")
	}
	return text, nil
}
