package lint

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
	"initbox/internal/suggest"
)

// annotationPrefix begins the annotation that silences a rule for an object: initbox.dev/ignore-RULE: REASON.
const annotationPrefix = "initbox.dev/ignore-"

// comment matches the comment that silences a rule for its line or the next one: # initbox:ignore RULE REASON.
var comment = lazy.Regexp(`(?:^|\s)#\s*initbox:ignore(?:[ \t]+(\S+))?(?:[ \t]+(.*\S))?`)

// silenceRule is the rule about silences. Nothing silences it.
var silenceRule = Rule{ID: "ignore", Severity: Warning, Finds: "a silence without a reason, of no rule, or that silences nothing"}

// silence is a comment or an annotation that silences a rule.
type silence struct {
	rule, reason string
	file         *manifest.File
	line, column int
	object       *manifest.Object // of an annotation; nil for a comment
	covers       int              // the line that a comment is about, beside its own; 0 for none
	used         bool
}

// silence returns the findings that are not silenced, and those about silences.
func (in *input) silence() (findings []Finding) {
	silences := in.silences()
	about := map[subject][]*silence{}
	for _, s := range silences {
		for _, subject := range s.subjects() {
			about[subject] = append(about[subject], s)
		}
	}
	for _, f := range in.findings {
		silenced := false
		for _, subject := range f.subjects() {
			for _, s := range about[subject] {
				silenced, s.used = true, true
			}
		}
		if !silenced {
			findings = append(findings, f.Finding)
		}
	}
	var ids []string
	for _, r := range rules {
		ids = append(ids, r.ID)
	}
	for _, s := range silences {
		f := Finding{Rule: silenceRule.ID, Severity: silenceRule.Severity, File: s.file.Name, Line: s.line, Column: s.column}
		if s.object != nil {
			f.Object = s.object.String()
		}
		known := ruleByID(s.rule) != nil && s.rule != silenceRule.ID
		switch {
		case s.rule == "":
			f.Message, f.Fix = "no rule is named", "write # initbox:ignore RULE REASON"
		case !known:
			f.Message, f.Fix = fmt.Sprintf("no such rule: %s", s.rule), suggest.Question(s.rule, ids, "")+"docs/lint.md has the list"
		case s.reason == "":
			f.Message, f.Fix = fmt.Sprintf("%s is not silenced: the reason is missing", s.rule), "write the reason after the name of the rule"
		case !s.used:
			f.Message, f.Fix = fmt.Sprintf("there is nothing to silence: %s finds nothing here", s.rule), "remove it"
		default:
			continue
		}
		findings = append(findings, f)
	}
	return findings
}

// subject is what a silence is about: a rule in an object, or in a line of a file.
type subject struct {
	rule string
	in   any // *manifest.Object or *manifest.File
	line int // of a file
}

// subjects returns what the silence is about: its object, or its own line and the one that it covers. Without a reason,
// it is about nothing.
func (s *silence) subjects() []subject {
	switch {
	case s.reason == "":
		return nil
	case s.object != nil:
		return []subject{{s.rule, s.object, 0}}
	}
	return []subject{{s.rule, s.file, s.line}, {s.rule, s.file, s.covers}}
}

// subjects returns where the finding can be silenced: in its object, on its line, and on the first line of its
// container.
func (f finding) subjects() []subject {
	all := []subject{{f.Rule, f.object, 0}, {f.Rule, f.object.File, f.Line}}
	if f.container != nil {
		all = append(all, subject{f.Rule, f.object.File, f.container.Node.Line})
	}
	return all
}

func ruleByID(id string) *Rule {
	for _, r := range Rules() {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// silences returns all silences of the input.
func (in *input) silences() (all []*silence) {
	seen := map[*manifest.File]bool{}
	for _, o := range in.objects {
		if !seen[o.File] {
			seen[o.File] = true
			all = append(all, comments(o.File)...)
		}
		metas := []*yaml.Node{manifest.Get(o.Node, "metadata")}
		if o.Pod != nil && o.Pod.Meta != metas[0] {
			metas = append(metas, o.Pod.Meta)
		}
		for _, meta := range metas {
			annotations := manifest.Get(meta, "annotations")
			if annotations == nil || annotations.Kind != yaml.MappingNode {
				continue
			}
			for i := 0; i+1 < len(annotations.Content); i += 2 {
				key, value := annotations.Content[i], annotations.Content[i+1]
				if rule, found := strings.CutPrefix(key.Value, annotationPrefix); found {
					all = append(all, &silence{rule: rule, reason: strings.TrimSpace(value.Value), file: o.File, line: key.Line, column: key.Column, object: o})
				}
			}
		}
	}
	return all
}

// comments returns the silences in the comments of a file. One that is alone on its line is about the line below the
// comments.
func comments(file *manifest.File) (all []*silence) {
	if !strings.Contains(string(file.Text), "initbox:ignore") {
		return nil
	}
	lines := strings.Split(string(file.Text), "\n")
	for i, line := range lines {
		m := comment().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := &silence{rule: m[1], reason: m[2], file: file, line: i + 1, column: strings.Index(line, "#") + 1}
		if alone := strings.HasPrefix(strings.TrimSpace(line), "#"); alone {
			next := i + 1
			for next < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[next]), "#") {
				next++
			}
			s.covers = next + 1
		}
		all = append(all, s)
	}
	return all
}
