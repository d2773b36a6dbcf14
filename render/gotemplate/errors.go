package gotemplate

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"initbox/internal/suggest"
)

// plain rewrites a message of text/template, sprig or Go's runtime for authors of templates,
// and returns a hint if there is one.
func plain(message string) (text, fix string) {
	message = strings.TrimSpace(message)
	if m := patterns().calling.FindStringSubmatch(message); m != nil {
		message = strings.TrimPrefix(m[2], m[1]+": ")
		message = m[1] + ": " + message
	}
	message = strings.ReplaceAll(message, "runtime error: ", "")
	message = strings.ReplaceAll(message, "integer divide by zero", "division by zero")
	for _, m := range patterns().messages {
		if found := m.is.FindStringSubmatchIndex(message); found != nil {
			return string(m.is.ExpandString(nil, m.text, message, found)), m.fix
		}
	}
	return message, ""
}

// message is a message of text/template that is rewritten.
type message struct {
	is        *regexp.Regexp
	text, fix string
}

// patterns are compiled at the first error: most runs have none.
var patterns = sync.OnceValue(func() (p struct {
	execution *regexp.Regexp // place, context and message in an error of text/template, which has them as text only
	calling   *regexp.Regexp
	messages  []message
}) {
	p.execution = regexp.MustCompile(`(?s)^template: (.*?):(\d+):(\d+): executing ".*?" at <.*?>: (.*)$`)
	p.calling = regexp.MustCompile(`(?s)^error calling (\w+): (.*)$`)
	p.messages = []message{
		{
			regexp.MustCompile(`^wrong type for value; expected string; got bool$`), "is of type bool, where string is needed",
			"in YAML, y, n, yes, no, on and off without quotes are booleans: quote the value, or convert it with toString",
		},
		{regexp.MustCompile(`^wrong type for value; expected (.+); got (.+)$`), "is of type $2, where $1 is needed", "toString, int64 and the like convert"},
		{regexp.MustCompile(`^invalid value; expected (.+)$`), "is null, where $1 is needed", `give a default: {{.Values.name | default "value"}}`},
		{regexp.MustCompile(`^nil pointer evaluating interface \{\}\.(.+)$`), "there is no value to take $1 from", "is the value before it missing, or misspelt?"},
		{regexp.MustCompile(`^template "(.*)" not defined$`), `there is no template "$1"`, ""},
		{regexp.MustCompile(`(?s)^range can't iterate over .*$`), "range needs a list, a map or a number", ""},
	}
	return p
})

// similar suggests an existing template for a missing one.
func (w *worker) similar(name string) string {
	var names []string
	for _, t := range w.set.Templates() {
		if t.Tree != nil && !strings.HasPrefix(t.Name(), "\x00") {
			names = append(names, t.Name())
		}
	}
	slices.Sort(names)
	if close := suggest.Closest(name, names); close != "" {
		return `did you mean "` + close + `"?`
	}
	return ""
}
