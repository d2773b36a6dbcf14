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

// whole returns the message with the object, and with the fix on a line of its own.
func (f Finding) whole() string {
	if f.Fix == "" {
		return f.where() + f.Message
	}
	return f.where() + f.Message + "\nfix: " + f.Fix
}

// text returns two lines: what is wrong, and the fix.
func (f Finding) text() string {
	text := failure.Printable(f.String()) + "\n"
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
	return fmt.Sprintf("::%s file=%s,line=%d,col=%d,title=%s::%s", f.Severity, inProperty.Replace(f.File), f.Line, f.Column,
		inProperty.Replace("initbox "+f.Rule), inMessage.Replace(f.whole()))
}

// object is an object of JSON.
type object = map[string]any

// sarif returns the log of a run. https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
func sarif(findings []Finding) object {
	rules, results, index := []object{}, []object{}, map[string]int{}
	for i, r := range Rules() {
		index[r.ID] = i
		rules = append(rules, object{
			"id": r.ID, "shortDescription": object{"text": r.Finds}, "help": object{"text": "docs/lint.md#" + r.ID},
			"defaultConfiguration": object{"level": r.Severity},
		})
	}
	for _, f := range findings {
		results = append(results, object{
			"ruleId": f.Rule, "ruleIndex": index[f.Rule], "level": f.Severity, "message": object{"text": f.whole()},
			"locations": []object{{"physicalLocation": object{
				"artifactLocation": object{"uri": uri(f.File)}, "region": object{"startLine": f.Line, "startColumn": f.Column},
			}}},
		})
	}
	return object{
		"$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", "version": "2.1.0",
		"runs": []object{{
			"tool": object{"driver": object{"name": "kubectl-initbox", "rules": rules}}, "results": results,
			"columnKind": "unicodeCodePoints", // section 3.14.17: as in the YAML parser
		}},
	}
}

// uri returns the relative reference for a file name (RFC 3986, section 4.2).
func uri(file string) string {
	if file == "-" {
		file = "stdin"
	}
	file = path.Clean(strings.ReplaceAll(file, "\\", "/"))
	return (&url.URL{Path: file}).String()
}
