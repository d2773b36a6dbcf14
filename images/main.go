// Command images builds the images of initbox, without a daemon, from the binaries of all platforms: an index for the
// image initbox and one for each subcommand, all with the same layer for a platform, and an SBOM for each manifest.
//
//	go run -C images . build -version 1.2.3 -binaries $PWD/dist -o $PWD/dist/initbox-images.tar
//	go run -C images . push -registry registry.example $PWD/dist/initbox-images.tar
//	go run -C images . sbom -version 1.2.3 -o $PWD/dist/initbox-linux-amd64.cdx.json $PWD/dist/initbox-linux-amd64
//
// The file is an OCI layout in a tar, and has a manifest.json as well, for docker load before Docker 25. All times in
// it are $SOURCE_DATE_EPOCH, in seconds since 1970, or 0: the same binaries and flags give the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A verb is a subcommand of this program. run defines its flags, parses args, and writes results to out.
type verb struct {
	name, usage string
	run         func(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error
}

var verbs = []verb{
	{"build", "build -binaries DIR -o FILE [FLAG…]", buildVerb},
	{"push", "push -registry REGISTRY [FLAG…] FILE", pushVerb},
	{"sbom", "sbom -o FILE [-version VERSION] BINARY", sbomVerb},
}

// errUsage is an error in the command line, which has been printed.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	for _, v := range verbs {
		if len(args) > 0 && args[0] == v.name {
			f := flag.NewFlagSet(v.name, flag.ContinueOnError)
			f.Usage = func() {
				fmt.Fprintln(os.Stderr, "usage: images", v.usage)
				f.PrintDefaults()
			}
			return v.run(ctx, f, args[1:], out)
		}
	}
	for _, v := range verbs {
		fmt.Fprintln(os.Stderr, "usage: images", v.usage)
	}
	return errUsage
}

// parse parses the flags of a verb. Those named must be given, and count arguments must follow.
func parse(f *flag.FlagSet, args []string, count int, required ...string) error {
	if err := f.Parse(args); err != nil {
		return errUsage
	}
	missing := f.NArg() != count
	for _, name := range required {
		missing = missing || f.Lookup(name).Value.String() == ""
	}
	if missing {
		f.Usage()
		return errUsage
	}
	return nil
}

func buildVerb(_ context.Context, f *flag.FlagSet, args []string, _ io.Writer) error {
	var b build
	f.StringVar(&b.binaries, "binaries", "", "`DIR` with initbox-linux-ARCH for each architecture")
	output := f.String("o", "", "`FILE` to write")
	f.StringVar(&b.version, "version", "devel", "`VERSION` of the binaries")
	f.StringVar(&b.revision, "revision", "", "the commit that they were built from")
	f.StringVar(&b.source, "source", "", "`URL` of the sources")
	f.StringVar(&b.documentation, "documentation", "", "`URL` of the documentation")
	f.StringVar(&b.registry, "registry", "", "`REGISTRY` in the names that a node knows the images by, such as registry.example/team")
	f.StringVar(&b.tag, "tag", "", "`TAG` of the images (default: the version)")
	list := f.String("platforms", "", "`PLATFORMS`, such as linux/amd64,linux/arm/v7 (default: all)")
	f.StringVar(&b.docker, "docker", runtime.GOARCH, "`ARCH` of the images that docker load takes from the file")
	if err := parse(f, args, 0, "binaries", "o"); err != nil {
		return err
	}
	var err error
	if b.platforms, err = parsePlatforms(*list); err != nil {
		return err
	}
	if b.made, err = sourceDate(); err != nil {
		return err
	}
	return b.write(*output)
}

func sbomVerb(_ context.Context, f *flag.FlagSet, args []string, _ io.Writer) error {
	output := f.String("o", "", "`FILE` to write")
	version := f.String("version", "devel", "`VERSION` of the binary")
	if err := parse(f, args, 1, "o"); err != nil {
		return err
	}
	made, err := sourceDate()
	if err != nil {
		return err
	}
	content, err := sbom(f.Arg(0), *version, made)
	if err != nil {
		return err
	}
	return os.WriteFile(*output, content, 0o644)
}

func pushVerb(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	registry := f.String("registry", "", "`REGISTRY` to push to, such as registry.example/team")
	tags := f.String("tags", "", "more `TAGS` for each image, with commas between them, such as 1.2,latest")
	plain := f.Bool("plain-http", false, "use HTTP without TLS; on localhost, that is the default")
	if err := parse(f, args, 1, "registry"); err != nil {
		return err
	}
	if strings.Contains(*registry, "@") || strings.Contains(*registry, "://") { // it may have a password, and is not shown
		return errors.New("-registry has a login or a scheme: want HOST[:PORT][/PATH]; logins are in ~/.docker/config.json")
	}
	more := strings.FieldsFunc(*tags, func(r rune) bool { return r == ',' })
	return push(ctx, f.Arg(0), *registry, more, *plain, out)
}

// sourceDate returns the time that stands for now: https://reproducible-builds.org/specs/source-date-epoch/.
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		text = "0"
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%q: not a number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
