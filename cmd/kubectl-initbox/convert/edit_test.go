package convert

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"initbox/cmd/kubectl-initbox/manifest"
)

var update = flag.Bool("update", false, "write what came out into testdata")

// planned reads the manifests in text and converts their init containers to what their names say, whatever they run:
// a wait, a wait that runs inside of the image, or files that root writes.
func planned(t testing.TB, text []byte) ([]*manifest.Object, []*Change) {
	t.Helper()
	objects, err := manifest.Read("web.yaml", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var changes []*Change
	for _, o := range objects {
		for _, c := range Candidates(o.Pod) {
			change := &Change{Result: &Result{Container: c, Verdict: Replaced, Why: "it waits for the same"}}
			switch name, _, _ := strings.Cut(c.Name, "-"); name {
			case "wait":
				change.Steps = []Step{{Subcommand: "wait-for-service", Args: []string{"tcp://db:5432"}, Flags: []Flag{{"timeout", "5m"}}}}
			case "inside":
				change.Steps = []Step{{Subcommand: "copy", Args: []string{"/themes/.:/data#keep"}, Inside: true, Writes: true}}
			case "root":
				change.Steps = []Step{
					{Subcommand: "prepare", Args: []string{"/data#mode=0750"}, Writes: true},
					{Subcommand: "wait-for-dns", Args: []string{"db"}},
				}
			case "long":
				change.Steps = []Step{{Subcommand: "wait-for-service", Args: []string{
					"http://a.shop.svc.cluster.local:8080/health#status=200", "http://b.shop.svc.cluster.local:8080/health#status=200", "it's: a \"text\"\nof two lines",
				}}}
			default:
				change.Verdict, change.Why = Kept, "it runs its own program"
			}
			if change.Verdict != Kept {
				if change.Words, err = chain(change.Steps); err != nil {
					t.Fatal(err)
				}
				change.place("registry.example/initbox:1.2")
			}
			changes = append(changes, change)
		}
	}
	return objects, changes
}

// TestEdited compares the edited text of each manifest in testdata/edit with the one beside it. What differs between
// the two is all that the edit may touch.
func TestEdited(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/edit/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, eol := range []string{"\n", "\r\n"} {
				before := bytes.ReplaceAll(archive.Files[0].Data, []byte("\n"), []byte(eol))
				objects, changes := planned(t, before)
				after, err := Edited(objects[0].File, objects, changes)
				if err != nil {
					after = []byte("error: " + err.Error() + eol)
				}
				if *update {
					archive.Files = append(archive.Files[:1:1], txtar.File{Name: "after", Data: bytes.ReplaceAll(after, []byte("\r\n"), []byte("\n"))})
					if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if want := bytes.ReplaceAll(archive.Files[1].Data, []byte("\n"), []byte(eol)); !bytes.Equal(after, want) {
					t.Errorf("with line breaks %q, got\n%s\nwant\n%s", eol, after, want)
				}
			}
		})
	}
}

// TestEditedAgain pins that what was converted is not converted again, and that a second tool's volume gets a name of
// its own.
func TestEditedAgain(t *testing.T) {
	t.Parallel()
	text := []byte(`apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers:
  - {name: inside, image: theme, command: [cp, -r, /themes/., /data]}
  containers: [{name: app, image: app}]
`)
	objects, changes := planned(t, text)
	edited, err := Edited(objects[0].File, objects, changes)
	if err != nil {
		t.Fatal(err)
	}
	objects, changes = planned(t, edited)
	if len(changes) != 0 {
		t.Fatalf("of what was converted, %s is converted again", changes[0].Container.Name)
	}
	if name := freeName(objects[0].Pod); name != "initbox-tools-2" {
		t.Errorf("the free name is %s", name)
	}
}

// FuzzEdited looks for manifests whose edited text is another than what was meant, which Edited would have to refuse,
// or that make it panic.
func FuzzEdited(f *testing.F) {
	err := filepath.WalkDir("testdata/edit", func(path string, _ fs.DirEntry, err error) error {
		if archive, readErr := txtar.ParseFile(path); readErr == nil {
			f.Add(archive.Files[0].Data)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := manifest.Read("web.yaml", bytes.NewReader(text)); err != nil {
			return
		}
		objects, changes := planned(t, text)
		if len(objects) == 0 {
			return
		}
		edited, err := Edited(objects[0].File, objects, changes)
		if err != nil {
			if !errors.Is(err, errEdit) && !strings.Contains(err.Error(), "edit") {
				t.Error(err)
			}
			return
		}
		again, err := manifest.Read("web.yaml", bytes.NewReader(edited))
		if err != nil || len(again) != len(objects) {
			t.Errorf("%d objects became %d: %v", len(objects), len(again), err)
		}
	})
}
