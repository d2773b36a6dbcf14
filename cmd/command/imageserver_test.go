package command

import (
	"archive/tar"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"initbox/test/servers"
)

// images NAME [login] starts a registry, puts its HOST:PORT into $NAME, and with login a file with the login for it
// into $NAME_config. It has
//
//	team/app:1     an image with /opt/theme/login.html and /opt/theme/img/logo.svg, of two layers
//	team/model:1   an artifact with the file model.bin
//	team/packed:1  one with model.bin.gz
//	team/links:1   one with links.tar, in which a link leads out
//
// The digest of the image is in $NAME_digest.
func cmdImages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: images NAME [login]")
	}
	t := &scriptTB{ts: ts}
	r := servers.StartRegistry(t, servers.RegistryOptions{Login: len(args) > 1})
	ts.Setenv(args[0], r.Addr)
	if r.User != "" {
		ts.Setenv(args[0]+"_config", r.DockerConfig(t))
	}
	lower := servers.Tar(t, map[string]string{"opt/theme/login.html": "old\n", "opt/theme/img/logo.svg": "<svg/>\n", "etc/passwd": "root\n"},
		tar.Header{Name: "opt/theme/"}, tar.Header{Name: "opt/theme/login.html", Mode: 0o644}, tar.Header{Name: "opt/theme/img/logo.svg", Mode: 0o644}, tar.Header{Name: "etc/passwd"})
	upper := servers.Tar(t, map[string]string{"opt/theme/login.html": "new\n"}, tar.Header{Name: "opt/theme/login.html", Mode: 0o644})
	digest := r.Push(t, "team/app", "1", servers.NewImage(t, "amd64", servers.Gzip(t, lower), servers.Gzip(t, upper)))
	ts.Setenv(args[0]+"_digest", digest)
	links := servers.Tar(t, nil, tar.Header{Name: "passwd", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})
	pushArtifact(t, r, "team/model", "model.bin", []byte("weights\n"))
	pushArtifact(t, r, "team/packed", "model.bin.gz", servers.Gzip(t, []byte("weights\n")))
	pushArtifact(t, r, "team/links", "links.tar", links)
}

// pushArtifact pushes an artifact with one file.
func pushArtifact(t testing.TB, r *servers.Registry, repository, title string, content []byte) {
	layer := servers.Describe("application/octet-stream", content)
	layer.Annotations = map[string]string{"org.opencontainers.image.title": title}
	empty := []byte("{}")
	m := servers.Manifest{Config: servers.Describe("application/vnd.example.model", empty), Layers: []servers.Descriptor{layer}}
	r.Push(t, repository, "1", m.Image(t, content, empty))
}
