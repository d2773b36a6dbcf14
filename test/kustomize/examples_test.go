package kustomize_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"initbox/test/servers"
)

// checkAll checks the containers of objects that run initbox, and returns how many these are.
func checkAll(t *testing.T, where string, objects []object) (checked int) {
	t.Helper()
	program, err := servers.Initbox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		pod := o.template()
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if strings.HasPrefix(c.Image, "registry.example/initbox") {
				checked++
				check(t, program, where+": "+o.Kind+" "+o.Metadata.Name, pod, c)
			}
		}
	}
	return checked
}

// TestExamples pins that the kustomizations of examples are ones, and that the program takes the command lines in what
// they become.
func TestExamples(t *testing.T) {
	t.Parallel()
	want := map[string]int{"web/kustomize": 4, "argocd/shop": 6, "flux/before": 1} // containers of initbox
	for dir, n := range want {
		if got := checkAll(t, dir, kustomize(t, filepath.Join(root, "examples", dir))); got != n {
			t.Errorf("%s has %d containers of initbox, want %d", dir, got, n)
		}
	}
}

// TestArgoCD pins the form of what Argo CD reads: the phases, and the waves between which it orders. Argo CD itself is
// not run.
func TestArgoCD(t *testing.T) {
	t.Parallel()
	const prefix = "argocd.argoproj.io/"
	got := map[string]string{}
	for _, o := range kustomize(t, filepath.Join(root, "examples/argocd/shop")) {
		hook, isHook := o.Metadata.Annotations[prefix+"hook"]
		if isHook && o.Metadata.Annotations[prefix+"hook-delete-policy"] != "BeforeHookCreation" {
			t.Errorf("%s is a hook that is not deleted before the next sync", o.Metadata.Name)
		}
		wave := o.Metadata.Annotations[prefix+"sync-wave"]
		if isHook || wave != "" {
			got[o.Kind+" "+o.Metadata.Name] = strings.TrimSpace(hook + " " + wave)
		}
	}
	want := map[string]string{"Job shop-before": "PreSync", "Job shop-migrate": "Sync 1", "Deployment shop-web": "2", "Job shop-after": "PostSync"}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s has the phase and wave %q, want %q", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("phases and waves are %v, want %v", got, want)
	}
	var application struct {
		Spec struct{ Source struct{ Path string } }
	}
	text, err := os.ReadFile(filepath.Join(root, "examples/argocd/application.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &application)
	}
	if err != nil || application.Spec.Source.Path != "examples/argocd/shop" {
		t.Errorf("the path of the Application is %q, %v", application.Spec.Source.Path, err)
	}
}

// TestFlux pins the form of what Flux reads: that each path has a kustomization, that each step depends on others that
// exist, and that Flux waits longer than the Jobs. Flux itself is not run.
func TestFlux(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "examples/flux/shop.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]bool{}
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		var step struct {
			Kind     string
			Metadata meta
			Spec     struct {
				Path, Timeout string
				Wait          bool
				DependsOn     []struct{ Name string }
			}
		}
		if err := yaml.Unmarshal([]byte(part), &step); err != nil {
			t.Fatal(err)
		}
		if step.Kind != "Kustomization" {
			continue
		}
		for _, other := range step.Spec.DependsOn {
			if !steps[other.Name] {
				t.Errorf("%s depends on %s, which does not come before it", step.Metadata.Name, other.Name)
			}
		}
		steps[step.Metadata.Name] = true
		flux, err := time.ParseDuration(step.Spec.Timeout)
		if err != nil || !step.Spec.Wait {
			t.Errorf("%s: wait is %v, and timeout %q", step.Metadata.Name, step.Spec.Wait, step.Spec.Timeout)
		}
		for _, o := range kustomize(t, filepath.Join(root, step.Spec.Path)) {
			longest := longestWait(o.template())
			if longest >= flux {
				t.Errorf("%s waits for %s, and %s for %v", step.Metadata.Name, flux, o.Metadata.Name, longest)
			}
		}
	}
	if len(steps) != 4 {
		t.Errorf("the steps are %v", steps)
	}
}

// longestWait returns the longest deadline of the containers of initbox.
func longestWait(p podOf) (longest time.Duration) {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		text := p.Metadata.Annotations["initbox/wait-timeout"]
		if i := slices.Index(c.Args, "--timeout"); i >= 0 {
			text = c.Args[i+1]
		}
		if d, err := time.ParseDuration(text); err == nil && strings.HasPrefix(c.Image, "registry.example/initbox") {
			longest = max(longest, d)
		}
	}
	return longest
}
