package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kustomized returns the objects that a directory of the repository becomes with Kustomize, as manifests with the
// images and the Git server of the suite.
func (n namespace) kustomized(dir string) []string {
	n.Helper()
	manifest := n.kubectl("kustomize", filepath.Join("..", "..", dir))
	manifest = strings.Replace(manifest, "token: change-me-too", "token: t0ken-of-the-suite", 1)
	return strings.Split(n.withImages(manifest), "\n---\n")
}

var kindAndName = regexp.MustCompile(`(?sm)^kind: (\w+)$.*?^  name: (\S+)$`)

// applyStep applies manifests, and waits until each Job among them is complete, and each workload is ready, as Argo CD
// and Flux do.
func (n namespace) applyStep(manifests []string) {
	n.Helper()
	if len(manifests) == 0 {
		n.Fatal("a step without objects")
	}
	n.applyText(strings.Join(manifests, "\n---\n"))
	for _, manifest := range manifests {
		found := kindAndName.FindStringSubmatch(manifest)
		switch kind, name := found[1], found[2]; kind {
		case "Job":
			n.wait("condition=Complete", "job/"+name)
		case "Deployment", "StatefulSet":
			n.kubectl("rollout", "status", kind+"/"+name, "--timeout="+patience.String())
		}
	}
}

// The web application with its database, with Kustomize: all at once, in the order of the annotations.
func TestExampleWebKustomize(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.newShop()
	n.applyText(strings.Join(n.kustomized("examples/web/kustomize"), "\n---\n"))
	n.requireShop()
}

// The hooks for Argo CD, in the order in which it applies them; all of its waits end, and the order is enough.
func TestExampleArgoCD(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.newShop()
	manifests := n.kustomized("examples/argocd/shop")
	annotated := func(annotation string) (found []string) {
		manifests = slices.DeleteFunc(manifests, func(manifest string) bool {
			is := strings.Contains(manifest, annotation)
			if is {
				found = append(found, manifest)
			}
			return is
		})
		return found
	}
	before, migration := annotated("argocd.argoproj.io/hook: PreSync"), annotated(`argocd.argoproj.io/sync-wave: "1"`)
	second, after := annotated(`argocd.argoproj.io/sync-wave: "2"`), annotated("argocd.argoproj.io/hook: PostSync")
	for _, step := range [][]string{before, manifests, migration, second, after} {
		n.applyStep(step)
	}
	n.requireShop()
	contains(t, "the log after the sync", n.kubectl("logs", "job/shop-after"), `http://shop-web/: ready after`)
}

// The steps for Flux, each after those that it depends on.
func TestExampleFlux(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.newShop()
	text, err := os.ReadFile("../../examples/flux/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range regexp.MustCompile(`(?m)^  path: (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		n.applyStep(n.kustomized(step[1]))
	}
	n.requireShop()
}
