// Command image puts a static binary into an image, as a docker-archive, without a Docker daemon or a registry: FROM
// scratch, the binary as the entrypoint, user 65532. The binary lies at /, or with -links in /bin, as in the
// Dockerfile. It can also add programs of this machine, and files.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

func main() {
	tag := flag.String("tag", "", "`NAME:TAG` of the image")
	output := flag.String("o", "", "`FILE` to write")
	links := flag.Bool("links", false, "add a link to the binary for each name that it prints with --list")
	with := flag.String("with", "", "add these `PROGRAMS` of the machine, with commas between them, and their libraries, each at its path here")
	files := flag.String("files", "", "add what is in `DIR`, at /")
	flag.Parse()
	if *tag == "" || *output == "" || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: image -tag NAME:TAG -o FILE [-links] [-with PROGRAM,…] BINARY")
		os.Exit(2)
	}
	if err := write(*output, *tag, flag.Arg(0), *links, *with, *files); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(output, tag, binary string, links bool, with, files string) error {
	layer, err := newLayer(binary, links, with, files)
	if err != nil {
		return err
	}
	settings := map[string]any{"User": "65532:65532", "Entrypoint": []string{"/" + name(binary, links)}, "WorkingDir": "/"}
	if with != "" {
		settings["Env"] = []string{"PATH=/usr/bin"}
	}
	config := encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": settings,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum(layer)}},
	})
	manifest := encode([]any{map[string]any{"Config": sum(config) + ".json", "RepoTags": []string{tag}, "Layers": []string{"layer.tar"}}})

	var archive archive
	archive.file("layer.tar", 0o644, layer)
	archive.file(sum(config)+".json", 0o644, config)
	archive.file("manifest.json", 0o644, manifest)
	return os.WriteFile(output, archive.bytes(), 0o644)
}

// name returns the path of the binary in the image.
func name(binary string, links bool) string {
	if links {
		return "bin/" + filepath.Base(binary)
	}
	return filepath.Base(binary)
}

// newLayer returns a tar with the content of the image.
func newLayer(binary string, links bool, with, files string) ([]byte, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var layer archive
	layer.file(name(binary, links), 0o755, content)
	if links {
		path, err := filepath.Abs(binary)
		if err != nil {
			return nil, err
		}
		names, err := exec.Command(path, "--list").Output()
		if err != nil {
			return nil, fmt.Errorf("%s --list: %w", binary, err)
		}
		for _, link := range strings.Fields(string(names)) {
			layer.entry(tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: name(binary, links), Mode: 0o777}, nil)
		}
	}
	if with != "" {
		if err := layer.programs(strings.Split(with, ",")); err != nil {
			return nil, err
		}
	}
	if files != "" {
		if err := layer.tree(files); err != nil {
			return nil, err
		}
	}
	return layer.bytes(), nil
}

// tree adds the files of a directory.
func (a *archive) tree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		a.file(name, mode, content)
		return nil
	})
}

// programs adds programs of this machine, and the libraries that they are linked with.
func (a *archive) programs(names []string) error {
	files := map[string]bool{}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		files[path] = true
		libraries, err := exec.Command("ldd", path).Output()
		if err != nil {
			return fmt.Errorf("ldd %s: %w", path, err)
		}
		for _, word := range strings.Fields(string(libraries)) {
			if filepath.IsAbs(word) {
				files[word] = true
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		a.file(strings.TrimPrefix(path, "/"), 0o755, content)
	}
	return nil
}

// archive is a tar in memory, so an error can only be a bug.
type archive struct {
	content bytes.Buffer
	writer  *tar.Writer
}

func (a *archive) file(name string, mode int64, content []byte) {
	a.entry(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, content)
}

func (a *archive) entry(h tar.Header, content []byte) {
	if a.writer == nil {
		a.writer = tar.NewWriter(&a.content)
	}
	must(a.writer.WriteHeader(&h))
	_, err := a.writer.Write(content)
	must(err)
}

func (a *archive) bytes() []byte {
	must(a.writer.Close())
	return a.content.Bytes()
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	must(err)
	return text
}

func sum(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}
