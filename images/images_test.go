package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestTable compares the table with the subcommands of the program.
func TestTable(t *testing.T) {
	command := exec.Command("go", "run", "./cmd/initbox", "--list", "--format", "json")
	command.Dir = ".."
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Subcommands []struct{ Name, Usage string }
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, s := range list.Subcommands {
		want = append(want, s.Name+": "+s.Usage)
	}
	for _, i := range table[1:] {
		got = append(got, i.Subcommand+": "+i.What)
	}
	if !slices.Equal(got, want) {
		t.Errorf("table.go has\n%s\nthe program\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// binaries makes a directory with binaries for some platforms, all of them this test with another header.
func binaries(t *testing.T, archs ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, arch := range archs {
		one := slices.Clone(content)
		one[18] = byte(machines[arch]) // e_machine in the header of ELF, so the layers differ
		for header := range headers(one) {
			if elf.ProgType(binary.LittleEndian.Uint32(header)) == elf.PT_INTERP { // without CGO_ENABLED=0, this test has a loader
				binary.LittleEndian.PutUint32(header, uint32(elf.PT_NULL))
			}
		}
		if err := os.WriteFile(binaryOf(dir, arch), one, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// built builds an archive for linux/amd64 and linux/arm/v7, and returns its path.
func built(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dist", "images.tar")
	flags := []string{"build", "-binaries", binaries(t, "amd64", "arm"), "-o", path, "-version", "1.2.3+x", "-revision", "abc",
		"-source", "https://git.example/initbox", "-registry", "registry.example/team", "-platforms", "linux/arm/v7 linux/amd64", "-docker", "amd64"}
	if err := run(t.Context(), append(flags, args...), io.Discard); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBuild(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	path := built(t)
	dir := t.TempDir()
	if err := unpack(path, dir); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != len(table) {
		t.Fatalf("%d images, want %d", len(top.Manifests), len(table))
	}
	layers := map[string]bool{}
	for n, desc := range top.Manifests {
		name := table[n].name()
		if got := desc.Annotations["io.containerd.image.name"]; got != "registry.example/team/"+name+":1.2.3_x" {
			t.Errorf("%s: the name on a node is %q", name, got)
		}
		image, err := index.ImageIndex(desc.Digest)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := image.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if manifest.Annotations["org.opencontainers.image.created"] != "2023-11-14T22:13:20Z" {
			t.Errorf("%s: the annotations of the index are %v", name, manifest.Annotations)
		}
		var got []string
		for _, m := range manifest.Manifests {
			got = append(got, m.Platform.String())
			img, err := image.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			layers[checkImage(t, img, table[n], *m.Platform)] = true
		}
		if fmt.Sprint(got) != "[linux/amd64 linux/arm/v7]" {
			t.Errorf("%s: the platforms are %v", name, got)
		}
	}
	if len(layers) != 2 {
		t.Errorf("%d layers, want one for each platform", len(layers))
	}
	checkDocker(t, dir)
}

// checkImage returns the digest of the image's layer.
func checkImage(t *testing.T, img v1.Image, i image, p v1.Platform) string {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Config.Entrypoint, i.entrypoint()) || config.Config.User != "65532:65532" {
		t.Errorf("%s: entrypoint %q, user %q", i.name(), config.Config.Entrypoint, config.Config.User)
	}
	if config.Architecture != p.Architecture || config.Variant != p.Variant {
		t.Errorf("%s: the configuration is for %s %s, the index says %s", i.name(), config.Architecture, config.Variant, p)
	}
	for key, want := range map[string]string{"version": "1.2.3+x", "revision": "abc", "source": "https://git.example/initbox", "licenses": "Apache-2.0", "title": i.name()} {
		if got := config.Config.Labels["org.opencontainers.image."+key]; got != want {
			t.Errorf("%s: the label %s is %q, want %q", i.name(), key, got, want)
		}
	}
	all, err := img.Layers()
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %d layers, %v", i.name(), len(all), err)
	}
	digest, err := all[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// checkDocker reads the archive as docker load of Docker 20.10 does: by manifest.json alone.
func checkDocker(t *testing.T, dir string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []dockerImage
	if err := json.Unmarshal(content, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != len(table) {
		t.Fatalf("manifest.json has %d images, want %d", len(list), len(table))
	}
	layer, err := os.Open(filepath.Join(dir, list[0].Layers[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	unzipped, err := gzip.NewReader(layer)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%s: owner %d:%d, time %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		if h.Typeflag == tar.TypeSymlink && h.Linkname != "bin/initbox" {
			t.Errorf("%s is a link to %s", h.Name, h.Linkname)
		}
		got = append(got, h.Name)
	}
	if len(got) != len(table)+1 || !slices.Contains(got, "bin/initbox") || !slices.Contains(got, "wait-for-dns") {
		t.Errorf("the layer has %q", got)
	}
}

// TestSameBytes builds twice, from and to different directories.
func TestSameBytes(t *testing.T) {
	first, err := os.ReadFile(built(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(built(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two builds differ")
	}
}

func TestSBOM(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	path := filepath.Join(t.TempDir(), "sbom.json")
	if err := run(t.Context(), []string{"sbom", "-version", "1.2.3", "-o", path, binaryOf(binaries(t, "amd64"), "amd64")}, io.Discard); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, c := range *bom.Components {
		found[c.Name] = c.PackageURL
	}
	if bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" || bom.Metadata.Component.Version != "1.2.3" || found["std"] == "" ||
		!strings.HasPrefix(found["github.com/google/go-containerregistry"], "pkg:golang/github.com/google/go-containerregistry@v") {
		t.Errorf("%+v\n%v", bom.Metadata, found)
	}
}

// headers yields the program headers of an ELF file of 64 bits, each of which begins with its type.
func headers(file []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		at := binary.LittleEndian.Uint64(file[32:])           // e_phoff
		size := uint64(binary.LittleEndian.Uint16(file[54:])) // e_phentsize
		for range binary.LittleEndian.Uint16(file[56:]) {     // e_phnum
			if !yield(file[at : at+size]) {
				return
			}
			at += size
		}
	}
}

// TestWrongBinaries pins that no image is made of a program that cannot run in it.
func TestWrongBinaries(t *testing.T) {
	dir := binaries(t, "arm64", "amd64")
	good, err := os.ReadFile(binaryOf(dir, "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	dynamic := slices.Clone(good)
	for header := range headers(dynamic) {
		binary.LittleEndian.PutUint32(header, uint32(elf.PT_INTERP))
		break
	}
	other, err := os.ReadFile(binaryOf(dir, "arm64"))
	if err != nil {
		t.Fatal(err)
	}
	for text, content := range map[string][]byte{
		"initbox-linux-amd64 was built for EM_AARCH64, not for amd64":                       other,
		"initbox-linux-amd64 is linked dynamically, and the image has no libraries\nhint: ": dynamic,
		"initbox-linux-amd64 is not a program for Linux":                                    []byte("#!/bin/sh\n"),
		"initbox-linux-amd64 is not a program for Linux: EOF":                               {},
		"initbox-linux-amd64": good[:1000],
	} {
		if err := os.WriteFile(binaryOf(dir, "amd64"), content, 0o755); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "images.tar")
		err := run(t.Context(), []string{"build", "-o", to, "-binaries", dir, "-platforms", "linux/amd64"}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
		if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: there are images: %v", text, err)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	empty := t.TempDir()
	for _, args := range [][]string{
		{}, {"none"}, {"build"}, {"build", "-o", "x", "-binaries", empty, "more"}, {"push", "x"}, {"sbom", "x"},
	} {
		if err := run(t.Context(), args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v, want its usage", args, err)
		}
	}
	for text, args := range map[string][]string{
		`platform "linux/mips": not one of linux/amd64`: {"build", "-o", empty + "/x", "-binaries", empty, "-platforms", "linux/mips"},
		"-registry has a login or a scheme":             {"push", "-registry", "https://me:hush@registry.example", "x"},
		"-registry has a login":                         {"push", "-registry", "me:hush@registry.example", "x"},
		"initbox-linux-amd64: no such file":             {"build", "-o", empty + "/x", "-binaries", empty},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v, want %q", args, err, text)
		}
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) > 0 {
		t.Errorf("failures have left %v, %v", entries, err)
	}
}

// TestPush pushes to distribution's registry, and pulls from it as crane does.
func TestPush(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a registry")
	}
	address, sent := counted(t, registry(t))
	archive := built(t)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"push", "-registry", address + "/team", "-tags", "1.2,latest", archive}, &out); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(archive); err != nil || sent.Load() > 2*info.Size() {
		t.Errorf("pushing the archive of %d bytes has sent %d: the layers are not mounted (%v)", info.Size(), sent.Load(), err)
	}
	lines := strings.Fields(out.String())
	if len(lines) != len(table) {
		t.Fatalf("the output is\n%s", &out)
	}
	for n, i := range table {
		repository, digest, _ := strings.Cut(lines[n], "@")
		if repository != address+"/team/"+i.name() {
			t.Errorf("line %d is %s", n, lines[n])
		}
		for _, tag := range []string{"1.2.3_x", "1.2", "latest"} {
			if got, err := crane.Digest(repository + ":" + tag); got != digest || err != nil {
				t.Errorf("%s:%s is %s, %v, want %s", repository, tag, got, err, digest)
			}
		}
		img, err := crane.Pull(lines[n], crane.WithPlatform(&v1.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}))
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, img, i, v1.Platform{OS: "linux", Architecture: "arm", Variant: "v7"})
		checkReferrer(t, repository, img)
	}
}

// counted returns the address of a proxy in front of a registry, and how many bytes were sent to it.
func counted(t *testing.T, address string) (string, *atomic.Int64) {
	t.Helper()
	sent := new(atomic.Int64)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = counter{r.Body, sent}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), sent
}

type counter struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c counter) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// checkReferrer looks for the SBOM of an image in the registry.
func checkReferrer(t *testing.T, repository string, img v1.Image) {
	t.Helper()
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewDigest(repository + "@" + digest.String())
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Referrers(ref)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != sbomType {
		t.Fatalf("%s: what refers to it is %+v, %v", ref, list, err)
	}
	artifact, err := crane.Pull(repository + "@" + list.Manifests[0].Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%s: the SBOM has %d layers, %v", ref, len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(content, cdx.BOMFileFormatJSON).Decode(bom); err != nil || bom.Metadata.Component.Version != "1.2.3+x" {
		t.Errorf("%s: the SBOM: %v", ref, err)
	}
}

// registry starts distribution's registry, the module test/registry, and returns its address.
func registry(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/registry", ".")
	build.Dir = "../test/registry"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	config := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %s/data}}\nhttp: {addr: %q}\n", dir, address)
	if err := os.WriteFile(dir+"/config.yml", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, dir+"/registry", "serve", dir+"/config.yml")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); server.Wait() })
	for range 300 {
		if r, err := http.Get("http://" + address + "/v2/"); err == nil {
			r.Body.Close()
			return address
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the registry does not answer")
	return ""
}
