package main

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/failure"
	"initbox/internal/suggest"
)

// outputFlag is the flag for the form of what is printed, by default the first one.
func outputFlag(usage string, forms ...string) *cli.StringFlag {
	return &cli.StringFlag{
		Name: "output", Aliases: []string{"o"}, Value: forms[0], Usage: "`" + strings.Join(forms, "|") + "`: " + usage,
		Action: func(_ *cli.Context, form string) error {
			if slices.Contains(forms, form) {
				return nil
			}
			return failure.WithHint(usagef("--output: no such form: %s", failure.Printable(form)), suggest.Question(form, forms, "")+"the forms are "+strings.Join(forms, ", "))
		},
	}
}

// fileFlags are the flags of the subcommands that read manifests.
func fileFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, Usage: "`FILE|DIR|-` with manifests: a file, a directory with all below it that ends in .yaml, .yml or .json, or stdin; may be repeated"},
		&cli.StringSliceFlag{Name: "image", Usage: "`PATTERN` of images that also hold initbox, such as registry.example/tools/*; may be repeated", Action: checkPatterns},
	}
}

// checkPatterns returns an error if one of the patterns of images can match none.
func checkPatterns(_ *cli.Context, patterns []string) error {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.ContainsAny(pattern, " \t\n") {
			return failure.WithHint(usagef("--image: not a pattern of images: %q", pattern), "as in --image 'registry.example/tools/*', where * is any text without a slash")
		}
	}
	return nil
}

// objects returns the objects of the files that [fileFlags] name. If some of them cannot be read, it returns those of
// the others with the error.
func (s *streams) objects(c *cli.Context) ([]*manifest.Object, error) {
	files := c.StringSlice("filename")
	switch {
	case c.Args().Present():
		return nil, failure.WithHint(usagef("files are given with -f, got the argument %s", c.Args().First()), "did you mean -f "+c.Args().First()+"?")
	case len(files) == 0:
		return nil, failure.WithHint(usagef("no manifest given: -f FILE, -f DIR, or -f - for stdin"), "as in: helm template . | "+name+" "+c.Command.Name+" -f -")
	}
	objects, err := manifest.ReadFiles(files, s.stdin)
	if err == nil && len(objects) == 0 {
		err = failure.WithHint(errors.New("there is no Kubernetes object in the input"), "objects have apiVersion and kind; render a chart first: helm template . | "+name+" "+c.Command.Name+" -f -")
	}
	return objects, err
}
