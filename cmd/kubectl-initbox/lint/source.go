package lint

import (
	"path"
	"strings"

	"initbox/cmd/kubectl-initbox/manifest"
)

// BySource returns the findings with the names of the templates that Helm has rendered, which it writes into comments,
// instead of the names of files. Lines count from those comments: they are lines of the rendered template. A chart's
// directory, if it is not "", replaces the chart's name.
func BySource(findings []Finding, objects []*manifest.Object, chart string) []Finding {
	lines := map[string][]string{}
	for _, o := range objects {
		if _, seen := lines[o.File.Name]; seen {
			continue
		}
		lines[o.File.Name] = nil
		if text := string(o.File.Text); strings.Contains(text, "# Source: ") {
			lines[o.File.Name] = strings.Split(text, "\n")
		}
	}
	for i := range findings {
		f := &findings[i]
		text := lines[f.File]
		for at := min(f.Line, len(text)) - 1; at > 0; at-- {
			source, found := strings.CutPrefix(strings.TrimSpace(text[at]), "# Source: ")
			if !found || !strings.HasPrefix(text[at-1], "---") {
				continue
			}
			if _, below, in := strings.Cut(source, "/"); chart != "" && in {
				source = path.Join(chart, below)
			}
			f.File, f.Line = source, f.Line-at-1
			break
		}
	}
	return findings
}
