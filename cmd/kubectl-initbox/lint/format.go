package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"initbox/internal/failure"
)

// Formats are the names of the formats of [Write].
var Formats = []string{"text", "json", "github", "sarif"}

// Write writes findings in a format: text for people, json, commands of a GitHub workflow, or SARIF 2.1.0.
func Write(w io.Writer, format string, findings []Finding) error {
	switch format {
	case "json":
		if findings == nil {
			findings = []Finding{}
		}
		return encode(w, findings)
	case "github":
		for _, f := range findings {
			if _, err := fmt.Fprintln(w, f.workflowCommand()); err != nil {
				return err
			}
		}
		return nil
	case "sarif":
		return encode(w, sarif(findings))
	}
	for _, f := range findings {
		if _, err := io.WriteString(w, f.text()); err != nil {
			return err
		}
	}
	return nil
}

func encode(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// where names the object and the container.
func (f Finding) where() string {
	switch {
	case f.Object == "":
		return ""
	case f.Container == "":
		return f.Object + ": "
	}
	return f.Object + ", container " + f.Container + ": "
}

// text returns two lines: what is wrong, and the fix.
func (f Finding) text() string {
	text := failure.Printable(fmt.Sprintf("%s:%d:%d: %s: %s%s [%s]", f.File, f.Line, f.Column, f.Severity, f.where(), f.Message, f.Rule)) + "\n"
	if f.Fix != "" {
		text += "  fix: " + strings.ReplaceAll(failure.Lines(f.Fix), "\n", "\n    ") + "\n"
	}
	return text
}

// https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands: in the message, %, CR and LF are
// percent-encoded; in properties, : and , too (actions/toolkit, command.ts).
var (
	inMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func (f Finding) workflowCommand() string {
	message := f.where() + f.Message
	if f.Fix != "" {
		message += "\nfix: " + f.Fix
	}
	return fmt.Sprintf("::%s file=%s,line=%d,col=%d,title=%s::%s", f.Severity, inProperty.Replace(f.File), f.Line, f.Column,
		inProperty.Replace("initbox "+f.Rule), inMessage.Replace(message))
}

// What SARIF needs of the standard: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
		// Columns are characters (section 3.14.17), as in the YAML parser.
		ColumnKind string `json:"columnKind"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string      `json:"id"`
		ShortDescription     sarifText   `json:"shortDescription"`
		Help                 sarifText   `json:"help"`
		DefaultConfiguration sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level Severity `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     Severity        `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
)

func sarif(findings []Finding) sarifLog {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "kubectl-initbox"}}, Results: []sarifResult{}, ColumnKind: "unicodeCodePoints"}
	index := map[string]int{}
	for i, r := range Rules() {
		index[r.ID] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: r.ID, ShortDescription: sarifText{r.Finds}, Help: sarifText{"docs/lint.md#" + r.ID}, DefaultConfiguration: sarifConfig{r.Severity},
		})
	}
	for _, f := range findings {
		text := f.where() + f.Message
		if f.Fix != "" {
			text += "\nfix: " + f.Fix
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: f.Rule, RuleIndex: index[f.Rule], Level: f.Severity, Message: sarifText{text},
			Locations: []sarifLocation{{sarifPhysical{sarifArtifact{uri(f.File)}, sarifRegion{f.Line, f.Column}}}},
		})
	}
	return sarifLog{"https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", "2.1.0", []sarifRun{run}}
}

// uri returns the relative reference for a file name (RFC 3986, section 4.2).
func uri(file string) string {
	if file == "-" {
		file = "stdin"
	}
	file = path.Clean(strings.ReplaceAll(file, "\\", "/"))
	return (&url.URL{Path: file}).String()
}
