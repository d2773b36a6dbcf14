package fetch

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/resolver"
	"initbox/volume/fetch/oci"
)

// Options say what to download, and where to.
type Options struct {
	Sources []*Source
	Dst     string // a file; or a directory, as with a slash at its end

	Replace bool // the directory has nothing but what is downloaded
	Follow  bool // symbolic links in a volume
	DryRun  bool // only log what would be done

	MaxSize  int64 // of one download, and of what is unpacked from it, in bytes; 0 for no limit
	MaxFiles int   // that are unpacked from one download; 0 for no limit
	Parallel int   // downloads at the same time; 0 for 4

	DockerConfig string              // file with logins for registries, or its directory
	Mirrors      map[string][]string // URLs by registry, which are asked before it
	PlainHTTP    []string            // registries without TLS

	AttemptTimeout time.Duration // without progress; 0 for none
	Spread         time.Duration // over which to come back to a server that says "not now"
	Proxy          *url.URL      // instead of those in the environment
	NoProxy        bool
	Resolver       *resolver.Resolver
	Seed           uint64
	Log            *slog.Logger // nil to discard

	Elsewhere bool // Check is for another machine: whether DST is a directory there is not known
}

// Check returns what is wrong with the options, before anything is tried.
func (o *Options) Check() error {
	directory, names := o.directory(), map[string]bool{}
	for _, src := range o.Sources {
		if src.URL == nil {
			image, err := oci.Open(src.OCI, o.registry(src)) // without a request
			if err != nil {
				return err
			}
			image.Close()
		}
		switch {
		case src.tree():
		case !directory:
		case src.Name == "":
			return failure.WithHint(fmt.Errorf("%s does not end in the name of a file", src), "give one: #to=NAME")
		case names[src.Name]:
			return failure.WithHint(fmt.Errorf("two URLs have a file %s", failure.Printable(src.Name)), "give one of them another name: #to=NAME")
		default:
			names[src.Name] = true
		}
	}
	switch {
	case len(o.Sources) == 0:
		return errors.New("nothing to download")
	case o.Dst == "":
		return errors.New("the destination is empty: is a variable unset?")
	case root(o.Dst):
		return errors.New("the directory / is not a destination: name the directory of a volume")
	case o.Replace && slices.ContainsFunc(o.Sources, func(src *Source) bool { return src.NoOverwrite }):
		return errors.New("replace and no-overwrite are mutually exclusive")
	case o.Replace && slices.ContainsFunc(o.Sources, func(src *Source) bool {
		return src.Optional && len(o.Sources) > 1 || src.Unless != o.Sources[0].Unless
	}):
		return errors.New("replace would remove the files of a URL that is left out: with several URLs, it excludes optional, and unless for some of them")
	case o.Replace && !directory && !o.Elsewhere:
		return errors.New("only a directory can be replaced as a whole: end its name with a slash")
	}
	return nil
}

// directory returns whether DST is known to be a directory before anything is downloaded.
func (o *Options) directory() bool {
	if len(o.Sources) > 1 || strings.HasSuffix(o.Dst, "/") {
		return true
	}
	for _, src := range o.Sources {
		if src.To != "" || o.Replace && src.tree() {
			return true
		}
	}
	if o.Elsewhere {
		return false
	}
	info, err := os.Stat(o.Dst)
	return err == nil && info.IsDir()
}

// root returns whether a path is /, also as the directory of this process.
func root(name string) bool {
	abs, err := filepath.Abs(name)
	return err == nil && abs == "/"
}
