package oci

import (
	"cmp"
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
func parse(text string) (reference, error) {
	rest, ok := strings.CutPrefix(text, "oci://")
	host, name, hasName := strings.Cut(rest, "/")
	if strings.Contains(host, "@") {
		return reference{}, fmt.Errorf("a reference to an image has no user and password: give --user and --password-file, or --docker-config")
	}
	name, pinned, _ := strings.Cut(name, "@")
	name, tag, hasTag := strings.Cut(name, ":")
	r := reference{registry: host, repository: name, tag: tag, digest: digest.Digest(pinned)}
	if !ok || !hasName || hasTag && tag == "" || strings.HasSuffix(rest, "@") {
		return reference{}, fmt.Errorf("want oci://REGISTRY/NAME[:TAG][@DIGEST], as in oci://docker.io/grafana/grafana:11.2.0")
	}
	if r.host() == dockerHub && !strings.Contains(name, "/") {
		r.repository = "library/" + name
	}
	parts := registry.Reference{Registry: r.host(), Repository: r.repository, Reference: cmp.Or(tag, "latest")}
	switch {
	case parts.ValidateRegistry() != nil:
		return reference{}, fmt.Errorf("%s is not a registry: want HOST or HOST:PORT", failure.Printable(host))
	case strings.ToLower(r.repository) != r.repository:
		return reference{}, fmt.Errorf("the name of an image has no capital letters: %s", failure.Printable(name))
	case parts.ValidateRepository() != nil:
		return reference{}, fmt.Errorf("%s is not the name of an image", failure.Printable(name))
	case parts.ValidateReferenceAsTag() != nil:
		return reference{}, fmt.Errorf("%s is not a tag: want up to 128 letters, digits and _.-", failure.Printable(tag))
	case pinned != "" && r.digest.Validate() != nil:
		return reference{}, fmt.Errorf("%s is not a digest: want sha256: and 64 hexadecimal digits", failure.Printable(pinned))
	case pinned == "" && tag == "":
		r.tag = "latest"
	}
	return r, nil
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
