package oci

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"

	"initbox/internal/failure"
)

// reference names an image in a registry.
type reference struct {
	registry   string // as it is written
	repository string
	tag        string // latest if neither is given
	digest     digest.Digest
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
	if r.digest = digest.Digest(pinned); r.tag == "" && pinned == "" {
		r.tag = "latest"
	}
	if r.host() == dockerHub && !strings.Contains(r.repository, "/") {
		r.repository = "library/" + r.repository
	}
	parts := registry.Reference{Registry: r.host(), Repository: r.repository, Reference: cmp.Or(r.tag, "latest")}
	err = cmp.Or(parts.ValidateRegistry(), parts.ValidateRepository(), parts.ValidateReferenceAsTag())
	if parts.Reference = pinned; err == nil && pinned != "" {
		err = parts.ValidateReferenceAsDigest()
	}
	switch {
	case err != nil && strings.ToLower(r.repository) != r.repository:
		err = fmt.Errorf("the name of an image has no capital letters: %s", failure.Printable(r.repository))
	case err != nil:
		err = errors.New(failure.Printable(err.Error()))
	}
	return r, err
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
		text += "@" + r.digest.String()
	}
	return text
}
