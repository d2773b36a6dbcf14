package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"initbox/internal/words"
)

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Write writes the report for people. The error is that of w.
func (r *Report) Write(w io.Writer) error {
	return r.WriteChanges(w, nil)
}

// WriteChanges writes what is not as it was in an earlier report, which may be nil. Times and logs are no changes.
func (r *Report) WriteChanges(w io.Writer, earlier *Report) error {
	before, _ := earlier.blocks(true)
	now, _ := r.blocks(true)
	full, keys := r.blocks(false)
	var parts []string
	for _, key := range keys {
		if before[key] != now[key] {
			parts = append(parts, full[key])
		}
	}
	for _, key := range sorted(before) {
		if now[key] == "" {
			parts = append(parts, key+": no longer stuck\n")
		}
	}
	if !r.Found() {
		parts = append(parts, "nothing is stuck: "+words.Plural(r.Checked, "Pod")+"\n")
	}
	if notes := r.notes(); notes != "" && notes != earlier.notes() {
		parts = append(parts, notes)
	}
	_, err := io.WriteString(w, strings.Join(parts, "\n"))
	return err
}

// notes says what was not read.
func (r *Report) notes() (s string) {
	if r == nil {
		return ""
	}
	for _, n := range r.NotRead {
		s += "not read: " + n + "\n"
	}
	return s
}

// blocks returns the text about each Pod that no other one waits for, with the Pods below it, and about what has no
// Pods. A still one has neither times nor logs.
func (r *Report) blocks(still bool) (blocks map[string]string, keys []string) {
	blocks = map[string]string{}
	if r == nil {
		return blocks, nil
	}
	t := &text{report: r, still: still, pods: map[string]*Pod{}, written: map[string]bool{}}
	for _, p := range r.Pods {
		t.pods[p.key()] = p
	}
	add := func(key string) {
		blocks[key], keys = t.String(), append(keys, key)
		t.Reset()
	}
	for _, p := range r.Pods {
		if !t.written[p.key()] {
			t.pod(p, "", nil)
			add("Pod " + p.key())
		}
	}
	for _, m := range r.Missing {
		t.line("", m.About+": "+m.Text+arrow(m.Fix))
		add(m.About)
	}
	return blocks, keys
}

// text is the report as it is written.
type text struct {
	strings.Builder
	report  *Report
	still   bool
	pods    map[string]*Pod
	written map[string]bool
}

func (t *text) line(indent, s string) { t.WriteString(indent + s + "\n") }

func arrow(fix string) string {
	if fix == "" {
		return ""
	}
	return " → " + fix
}

// pod writes a Pod, and below it those that it waits for. Above are those in whose blocks it stands.
func (t *text) pod(p *Pod, indent string, above []string) {
	t.written[p.key()] = true
	t.line(indent, p.headline(t.report.Time, t.still))
	indent += "  "
	if p.Message != "" {
		t.line(indent, "message: "+p.Message)
	}
	for _, line := range p.Log {
		if !t.still {
			t.line(indent, "log: "+line)
		}
	}
	width := 0
	for _, f := range p.Findings {
		width = max(width, min(len([]rune(f.About)), 40))
	}
	for _, f := range p.Findings {
		t.finding(p, f, width, indent, append(above[:len(above):len(above)], p.key()))
	}
	if next := p.next(t.report.Time); next != "" && !t.still {
		t.line(indent[2:], next)
	}
}

func (t *text) finding(p *Pod, f Finding, width int, indent string, above []string) {
	said := f.Text
	if f.Possible {
		said = "possibly: " + said
	}
	t.line(indent, fmt.Sprintf("%-*s  %s%s", width, f.About, said, arrow(f.Fix)))
	for _, name := range f.Pods {
		behind := t.pods[name]
		switch {
		case behind == nil:
		case slices.Contains(above, name):
			t.line(indent+"  ", "Pod "+name+", which is above: "+circle(above[slices.Index(above, name):]))
		case t.written[name]:
			t.line(indent+"  ", "Pod "+name+": "+behind.State+", explained above")
		default:
			t.pod(behind, indent+"  ", above)
		}
	}
}

// circle says which Pods wait for one another.
func circle(pods []string) string {
	if len(pods) == 1 {
		return "it waits for itself"
	}
	return strings.Join(append(slices.Clone(pods), pods[0]), " → ") + " wait for one another"
}

// headline says what a Pod is stuck in, and who holds it.
func (p *Pod) headline(now time.Time, still bool) string {
	head := "Pod " + p.key()
	if len(p.Also) > 0 {
		head += fmt.Sprintf(" and %d more of %s", len(p.Also), p.Owner)
	}
	head += ": " + p.State
	if !still {
		head += " for " + words.Seconds(max(0, now.Sub(p.Since).Round(time.Second)))
	}
	if p.Container == "" {
		return head
	}
	head += fmt.Sprintf(", held by %q", p.Container)
	var what []string
	if p.Program != "" && p.Program != p.Container {
		what = append(what, p.Program)
	}
	if p.Step > 0 {
		what = append(what, fmt.Sprintf("step %d of %d", p.Step, p.Steps))
	}
	head += reasonOf(strings.Join(what, ", "))
	if p.Started == 0 {
		return head + ", not started" + reasonOf(p.Reason)
	}
	head += ", started " + times(p.Started)
	if p.LastStatus != nil {
		head += fmt.Sprintf(", last status %d", *p.LastStatus)
		if p.LastReason != "" {
			head += " (" + p.LastReason + ")"
		}
		if p.LastRan > 0 {
			head += " after " + words.Seconds(time.Duration(p.LastRan*float64(time.Second)))
		}
	}
	return head
}

func reasonOf(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// next says when the container starts next.
func (p *Pod) next(now time.Time) string {
	if p.NextStart == nil {
		return ""
	}
	in := p.NextStart.Sub(now).Round(time.Second)
	said := "next start at any moment"
	if in > 0 {
		said = "next start in about " + words.Seconds(in) + reasonOf(cmp.Or(p.Reason, "CrashLoopBackOff"))
	}
	if p.Owner != "" && in > 10*time.Second {
		said += fmt.Sprintf("; kubectl delete pod %s -n %s starts it at once", p.Name, p.Namespace)
	}
	return said
}
