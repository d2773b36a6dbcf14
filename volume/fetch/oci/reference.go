package oci

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/lazy"
)

// reference names an image in a registry.
type reference struct {
	registry   string // as it is written
	repository string
	tag        string // latest if neither is given
	digest     digest
}

// parse reads oci://REGISTRY/NAME[:TAG][@DIGEST].
func parse(text string) (r reference, err error) {
	rest, ok := strings.CutPrefix(text, "oci://")
	host, name, hasName := strings.Cut(rest, "/")
	switch {
	case strings.Contains(host, "@"):
		return r, errors.New("a reference to an image has no user and password: give --user and --password-file, or --docker-config")
	case !ok || !hasName || strings.HasSuffix(name, ":") || strings.HasSuffix(name, "@"): // perhaps a variable that is empty
		return r, errors.New("want oci://REGISTRY/NAME[:TAG][@DIGEST], as in oci://docker.io/grafana/grafana:11.2.0")
	}
	r.registry = host
	name, pinned, _ := strings.Cut(name, "@")
	r.repository, r.tag, _ = strings.Cut(name, ":")
	if r.digest = digest(pinned); r.tag == "" && pinned == "" {
		r.tag = "latest"
	}
	if r.host() == dockerHub && !strings.Contains(r.repository, "/") {
		r.repository = "library/" + r.repository
	}
	return r, r.validate()
}

// The grammar of names and tags, see "Pulling manifests" in
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md.
var (
	repositories = lazy.Regexp(`^[a-z0-9]+(?:(?:[._]|__|-*)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-*)[a-z0-9]+)*)*$`)
	tags         = lazy.Regexp(`^\w[\w.-]{0,127}$`)
)

func (r reference) validate() error {
	u, err := url.Parse("https://" + r.host())
	switch {
	case err != nil || u.Host == "" || u.Host != r.host():
		return fmt.Errorf("invalid registry %s", failure.Printable(r.registry))
	case strings.ToLower(r.repository) != r.repository:
		return fmt.Errorf("the name of an image has no capital letters: %s", failure.Printable(r.repository))
	case !repositories().MatchString(r.repository):
		return fmt.Errorf("invalid repository %s", failure.Printable(r.repository))
	case r.tag != "" && !tags().MatchString(r.tag):
		return fmt.Errorf("invalid tag %s", failure.Printable(r.tag))
	}
	if r.digest == "" {
		return nil
	}
	if err := r.digest.validate(); err != nil {
		return fmt.Errorf("invalid digest %s: %w", failure.Printable(string(r.digest)), err)
	}
	return nil
}

// dockerHub is the server of docker.io.
const dockerHub = "registry-1.docker.io"

// host returns the server of the registry.
func (r reference) host() string {
	switch r.registry {
	case "docker.io", "index.docker.io":
		return dockerHub
	}
	return r.registry
}

func (r reference) String() string {
	text := r.registry + "/" + r.repository
	if r.tag != "" {
		text += ":" + r.tag
	}
	if r.digest != "" {
		text += "@" + string(r.digest)
	}
	return text
}
