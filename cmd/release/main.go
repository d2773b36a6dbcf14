// Command release makes the files of a release in dist/VERSION: archives of the program and of the kubectl plugin,
// their software bills of materials, the images, the chart, completions, and the checksums of all. The same commit
// gives the same bytes, in any directory and at any time, with the same version of Go.
//
//	go run ./cmd/release -version 1.2.3 -- go build -ldflags "…"
//	go run ./cmd/release notes -version 1.2.3     prints what CHANGELOG.md says of the version
//	go run ./cmd/release completions -o DIR       writes the completions alone
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// errUsage is a wrong command line.
var errUsage = errors.New("wrong command line")

func run(args []string, stdout, stderr io.Writer) error {
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	r := release{log: stdout, messages: stderr}
	flags.StringVar(&r.version, "version", "", "`VERSION` to release, such as 1.2.3 or 1.3.0-rc.1")
	flags.StringVar(&r.root, "C", ".", "`DIR` of the repository")
	out := flags.String("o", "dist", "`DIR` to write to, in which a release has a directory of its own")
	flags.StringVar(&r.source, "source", "https://github.com/OWNER/initbox", "`URL` of the repository, under which the release can be downloaded")
	platforms := flags.String("platforms", strings.Join(append(slices.Clone(allPlatforms), pluginPlatforms[2:]...), ","), "`LIST` of platforms")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	r.dist, r.platforms, r.build = *out, strings.Split(*platforms, ","), flags.Args()
	var err error
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	switch name {
	case "":
		return r.run()
	case "notes":
		return r.printNotes()
	case "completions":
		dir, err := filepath.Abs(*out)
		if err != nil {
			return err
		}
		return r.writeCompletions(dir)
	}
	return fmt.Errorf("%w: no such subcommand: %s", errUsage, name)
}
