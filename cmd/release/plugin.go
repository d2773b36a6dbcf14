package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"initbox/internal/completion"
)

// pluginPlatforms has the platforms of the kubectl plugin, which runs where people sit. Windows is not among them: it
// has WSL.
var pluginPlatforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

const pluginName = "kubectl-initbox"

// plugin makes an archive of the kubectl plugin for each of its platforms, with its bill of materials beside it, and
// the manifest with which Krew installs them.
func (r *release) plugin() error {
	manifest := krewManifest{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin"}
	manifest.Metadata.Name = "initbox"
	manifest.Spec.Version = "v" + r.version
	manifest.Spec.Homepage = r.source
	manifest.Spec.ShortDescription = "Check, convert and debug init containers"
	manifest.Spec.Description = pluginDescription
	for _, platform := range pluginPlatforms {
		if !slices.Contains(r.platforms, platform) {
			continue
		}
		made, err := r.pluginFor(platform)
		if err != nil {
			return err
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, made)
	}
	if len(manifest.Spec.Platforms) == 0 {
		return nil
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, manifest.Metadata.Name+".yaml"), text, 0o644) // Krew wants this name
}

const pluginDescription = `lint finds mistakes in the init containers of manifests. convert replaces
shell loops and other tools in them by initbox. doctor says why Pods are
stuck in init containers, of any image. rbac prints the Roles that waiting
for Kubernetes objects needs.
`

// pluginFor makes the archive for a platform.
func (r *release) pluginFor(platform string) (made krewPlatform, err error) {
	binary, err := r.compile(r.dir, pluginName, platform)
	if err != nil {
		return made, err
	}
	defer os.Remove(binary)
	top := r.nameFor(pluginName, platform)
	files := []member{{path: pluginName, from: binary, mode: 0o755}, {path: "LICENSE", from: filepath.Join(r.root, "LICENSE"), mode: 0o644}}
	for _, shell := range completion.Shells() {
		name := shell.File(pluginName)
		files = append(files, member{path: "completions/" + name, from: filepath.Join(r.completions(), name), mode: 0o644})
	}
	archive := top + ".tar.gz"
	if err := writeArchive(filepath.Join(r.dir, archive), top, files, r.commit.time); err != nil {
		return made, err
	}
	if err := r.inImages("sbom", "-o", filepath.Join(r.dir, top+".cdx.json"), binary); err != nil {
		return made, err
	}
	made.URI = r.source + "/releases/download/v" + r.version + "/" + archive
	made.Bin = pluginName
	for _, name := range []string{pluginName, "LICENSE"} {
		made.Files = append(made.Files, krewFile{From: top + "/" + name, To: "."})
	}
	system, arch, _ := strings.Cut(platform, "/")
	made.Selector.MatchLabels = map[string]string{"os": system, "arch": arch}
	made.SHA256, err = digest(filepath.Join(r.dir, archive))
	return made, err
}

// krewManifest is what Krew reads: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
type krewManifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string     `json:"uri"`
	SHA256 string     `json:"sha256"`
	Files  []krewFile `json:"files"`
	Bin    string     `json:"bin"`
}

// krewFile is a file of an archive, and the directory into which Krew puts it.
type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}
