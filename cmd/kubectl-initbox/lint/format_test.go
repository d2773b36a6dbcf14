package lint

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

var odd = []Finding{{
	Rule: "no-volume", Severity: Error, File: "a b/x,y:z%.yaml", Line: 3, Column: 5, Object: "Pod/a", Container: "c",
	Message: "100 % of\nit ::warning::\x1b[31m", Fix: "this\nand that",
}}

func output(t *testing.T, format string, findings []Finding) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, format, findings); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	got := output(t, "text", odd)
	if !strings.HasPrefix(got, "a b/x,y:z%.yaml:3:5: error: Pod/a, container c: 100 % of") || strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 3 {
		t.Errorf("%q", got)
	}
}

// TestGitHub pins the escapes of workflow commands: a line break would end one, and begin another.
func TestGitHub(t *testing.T) {
	got := output(t, "github", odd)
	if strings.Count(got, "\n") != 1 ||
		!strings.HasPrefix(got, "::error file=a b/x%2Cy%3Az%25.yaml,line=3,col=5,title=initbox no-volume::Pod/a, container c: 100 %25 of%0Ait ::warning::") {
		t.Errorf("%q", got)
	}
}

func TestJSON(t *testing.T) {
	if got := output(t, "json", nil); got != "[]\n" {
		t.Errorf("nothing found is %q", got)
	}
	var findings []Finding
	if err := json.Unmarshal([]byte(output(t, "json", odd)), &findings); err != nil || len(findings) != 1 || findings[0] != odd[0] {
		t.Errorf("%v, %v", findings, err)
	}
}

// TestSARIF pins what SARIF 2.1.0 requires of a log: version and runs (section 3.13), a tool with a driver that has a
// name (3.18, 3.19), results with a message (3.27) and a rule that the index leads to, regions from 1 (3.30).
func TestSARIF(t *testing.T) {
	for _, findings := range [][]Finding{nil, odd} {
		var log struct {
			Version string
			Runs    []struct {
				Tool struct {
					Driver struct {
						Name  string
						Rules []struct{ ID string }
					}
				}
				Results []struct {
					RuleID    string
					RuleIndex int
					Level     string
					Message   struct{ Text string }
					Locations []struct {
						PhysicalLocation struct {
							ArtifactLocation struct{ URI string }
							Region           struct{ StartLine, StartColumn int }
						}
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(output(t, "sarif", findings)), &log); err != nil {
			t.Fatal(err)
		}
		if log.Version != "2.1.0" || len(log.Runs) != 1 || log.Runs[0].Tool.Driver.Name == "" || log.Runs[0].Results == nil || len(log.Runs[0].Results) != len(findings) {
			t.Fatalf("%+v", log)
		}
		for i, r := range log.Runs[0].Results {
			at := r.Locations[0].PhysicalLocation
			if r.Level != "error" || r.Message.Text == "" || log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID != findings[i].Rule ||
				at.ArtifactLocation.URI != "a%20b/x,y:z%25.yaml" || at.Region.StartLine != 3 || at.Region.StartColumn != 5 {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestBySource pins that findings name the templates of a chart, and lines of what each has rendered.
func TestBySource(t *testing.T) {
	const text = "---\n# Source: web/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n# Source: web/charts/db/templates/b.yaml\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: initbox, args: [wait-for-dns, a]}]}\n"
	objects, err := manifest.Read("-", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for chart, want := range map[string]string{"": "web/charts/db/templates/b.yaml", "charts/shop": "charts/shop/charts/db/templates/b.yaml"} {
		f := BySource(Check(objects, Options{}), objects, chart)[0]
		if f.File != want || f.Line != 4 {
			t.Errorf("%s:%d, want %s:4", f.File, f.Line, want)
		}
	}
}
