package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"

	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/test/servers"
)

// TestPatches has kubectl and kustomize apply the patches: what they make of each object must be what the edit of the
// manifest means.
func TestPatches(t *testing.T) {
	t.Parallel()
	kubectl := servers.Kubernetes(t, "kubectl")
	for _, name := range []string{"block", "deep", "flow", "inherit", "json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile("testdata/edit/" + name + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			objects, changes := planned(t, archive.Files[0].Data)
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := func(args ...string) []byte {
				cmd := exec.Command(kubectl, args...)
				cmd.Dir, cmd.Stderr = dir, os.Stderr
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
				}
				return out
			}
			var patches bytes.Buffer
			if err := (&Conversion{Objects: objects, Changes: changes}).Write(&patches, Kustomize); err != nil {
				t.Fatal(err)
			}
			write("kustomization.yaml", "resources: [web.yaml]\n"+patches.String())
			write("web.yaml", string(archive.Files[0].Data))
			kustomized := asJSON(t, run("kustomize", "."))
			for _, o := range objects {
				its := of(o, changes)
				if len(its) == 0 {
					continue
				}
				want, err := changed(o, its)
				if err != nil {
					t.Fatal(err)
				}
				want = roundTrip(t, want)
				if got := kustomized[o.String()]; !reflect.DeepEqual(got, want) {
					t.Errorf("kustomize made\n%v\nof %s, want\n%v\nby\n%s", got, o, want, patches.String())
				}
				var patch bytes.Buffer
				if err := (&Conversion{Objects: []*manifest.Object{o}, Changes: changes}).Write(&patch, Patch); err != nil {
					t.Fatal(err)
				}
				var object any
				if err := o.Node.Decode(&object); err != nil {
					t.Fatal(err)
				}
				text, _ := json.Marshal(object)
				write("object.json", string(text))
				write("patch.yaml", patch.String())
				got := asJSON(t, run("patch", "--local", "-f", "object.json", "--patch-file", "patch.yaml", "-o", "yaml"))[o.String()]
				if !reflect.DeepEqual(got, want) {
					t.Errorf("kubectl patch made\n%v\nof %s, want\n%v\nby\n%s", got, o, want, patch.String())
				}
			}
		})
	}
}

// asJSON returns the objects in text by their names.
func asJSON(t *testing.T, text []byte) map[string]any {
	t.Helper()
	objects, err := manifest.Read("out.yaml", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for _, o := range objects {
		var object any
		if err := o.Node.Decode(&object); err != nil {
			t.Fatal(err)
		}
		all[o.String()] = roundTrip(t, object)
	}
	return all
}

// roundTrip returns the value as JSON reads it, without what is empty, which kubectl leaves out, and with volumes in an
// order of their own, which has no meaning, and which a patch cannot keep.
func roundTrip(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		value = nil
		err = yaml.Unmarshal(text, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return withoutEmpty(value)
}

func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			switch one = withoutEmpty(one); {
			case one == nil, reflect.DeepEqual(one, map[string]any{}) && key != "emptyDir":
				delete(v, key)
			default:
				v[key] = one
			}
			if items, ok := one.([]any); ok && (key == "volumes" || key == "volumeMounts") {
				slices.SortFunc(items, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return value
}
