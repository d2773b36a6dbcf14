package sidecar

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Family is a metric: its name, type and help as Prometheus has them, and its samples.
type Family struct {
	Name, Type, Help string
	Samples          []Sample
}

// Sample is one value of a [Family]. Labels are names and values, alternately.
type Sample struct {
	Suffix string // after the family's name, as in _sum
	Labels []string
	Value  float64
}

// Counts returns the samples of a counter that has a value for each value of a label, in order.
func Counts(label string, counts map[string]int) (samples []Sample) {
	for value, n := range counts {
		samples = append(samples, Sample{Labels: []string{label, value}, Value: float64(n)})
	}
	slices.SortFunc(samples, func(a, b Sample) int { return strings.Compare(a.Labels[1], b.Labels[1]) })
	return samples
}

// Value returns the samples of a metric that has one value.
func Value(v float64) []Sample { return []Sample{{Value: v}} }

// The content types of metrics.
const (
	textMetrics = "text/plain; version=0.0.4; charset=utf-8"
	openMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// encode returns metrics in the format that an Accept header asks for: OpenMetrics, or the text format of Prometheus.
//
// https://prometheus.io/docs/instrumenting/exposition_formats/
// https://prometheus.io/docs/specs/om/open_metrics_spec/
func encode(families []Family, accept string) (contentType, text string) {
	var b strings.Builder
	open := strings.Contains(accept, "application/openmetrics-text")
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for _, f := range families {
		if len(f.Samples) == 0 {
			continue
		}
		name := f.Name
		if open && f.Type == "counter" { // whose samples have the suffix, and not the family
			name = strings.TrimSuffix(name, "_total")
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, f.Help, name, f.Type)
		for _, s := range f.Samples {
			labels := ""
			for pair := range slices.Chunk(s.Labels, 2) {
				labels += "," + pair[0] + `="` + escape.Replace(failure.Printable(pair[1])) + `"`
			}
			if labels != "" {
				labels = "{" + labels[1:] + "}"
			}
			fmt.Fprintf(&b, "%s%s%s %s\n", f.Name, s.Suffix, labels, strconv.FormatFloat(s.Value, 'g', -1, 64))
		}
	}
	if open {
		return openMetrics, b.String() + "# EOF\n"
	}
	return textMetrics, b.String()
}

// bounds are the upper bounds of the buckets of a check's duration, as both formats write them.
var bounds = []string{"0.01", "0.05", "0.1", "0.5", "1.0", "5.0", "10.0", "30.0", "60.0", "300.0", "+Inf"}

// The results of a check.
const (
	changed   = "changed"
	unchanged = "unchanged"
	failed    = "failed"
)

// tally is what the metrics have of all checks so far.
type tally struct {
	looks    map[string]int     // checks, by result
	early    int                // failed attempts of checks that make several
	seconds  map[string]float64 // likewise
	within   []int              // checks that took no longer than each of the bounds
	failures map[string]int     // by class
}

func newTally() tally {
	return tally{
		looks: map[string]int{changed: 0, unchanged: 0, failed: 0}, seconds: map[string]float64{},
		within: make([]int, len(bounds)), failures: map[string]int{},
	}
}

// attempts returns how many attempts had each result.
func (t *tally) attempts() map[string]int {
	attempts := maps.Clone(t.looks)
	attempts[failed] += t.early
	return attempts
}

// runs returns the samples of the hooks' runs; label is the one that has the results.
func (l *loop) runs(label string) (samples []Sample) {
	for _, h := range slices.SortedFunc(slices.Values(l.Hooks), func(a, b *Hook) int { return strings.Compare(a.Name, b.Name) }) {
		samples = append(samples,
			Sample{"", []string{"name", h.Name, label, "error"}, float64(h.failed.Load())},
			Sample{"", []string{"name", h.Name, label, "success"}, float64(h.succeeded.Load())})
	}
	return samples
}

func (t *tally) look(result string, took time.Duration) {
	t.looks[result]++
	t.seconds[result] += took.Seconds()
	for i, text := range bounds {
		if bound, _ := strconv.ParseFloat(text, 64); took.Seconds() <= bound {
			t.within[i]++
		}
	}
}

// class returns the class of an error: that of the last attempt, if there were several.
func class(err error) string {
	if ended, ok := errors.AsType[*poll.Error](err); ok && ended.Last != nil {
		err = ended.Last
	}
	return string(failure.Of(err).Class)
}

// metrics returns all metrics.
func (l *loop) metrics() []Family {
	var own []Family
	if l.Metrics != nil {
		own = l.Metrics()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tally
	var buckets []Sample
	total := 0.0
	for i, bound := range bounds {
		buckets = append(buckets, Sample{"_bucket", []string{"le", bound}, float64(t.within[i])})
	}
	for _, seconds := range t.seconds {
		total += seconds
	}
	buckets = append(buckets, Sample{"_sum", nil, total}, Sample{"_count", nil, float64(t.within[len(bounds)-1])})
	all := []Family{
		{"initbox_build_info", "gauge", "The subcommand and the version of initbox.", []Sample{{Labels: []string{"command", l.Command, "version", l.Version}, Value: 1}}},
		{"initbox_attempts_total", "counter", "Attempts to bring everything up to date, by result: changed, unchanged or failed.", Counts("result", t.attempts())},
		{"initbox_failures_total", "counter", "Failed attempts and hooks, by class of the failure.", Counts("class", t.failures)},
		{"initbox_hook_runs_total", "counter", "Calls of the webhook, signals and runs of programs, by name and result: success or error.", l.runs("result")},
		{"initbox_attempt_duration_seconds", "histogram", "How long the attempts took.", buckets},
	}
	if !l.succeeded.IsZero() {
		all = append(all, Family{"initbox_last_success_timestamp_seconds", "gauge", "When an attempt was last successful, as Unix time.", Value(unix(l.succeeded))})
		if l.revision != "" && !l.Secret {
			all = append(all, Family{"initbox_revision_info", "gauge", "What everything is up to date with, such as a commit.", []Sample{{Labels: []string{"revision", l.revision}, Value: 1}}})
		}
	}
	all = append(all, own...)
	if l.GitSync {
		all = append(all, l.gitSync()...)
	}
	return append(all, ofProcess()...)
}

// gitSync returns the metrics that git-sync has under their names there. Those of tokens and passwords for which
// nothing was asked are missing there, too.
//
// https://github.com/kubernetes/git-sync/blob/v4.4.0/main.go
func (l *loop) gitSync() []Family {
	names := map[string]string{changed: "success", unchanged: "noop", failed: "error"}
	var counts, durations []Sample
	for _, result := range []string{failed, unchanged, changed} {
		status := []string{"status", names[result]}
		counts = append(counts, Sample{"", status, float64(l.tally.attempts()[result])})
		durations = append(durations, Sample{"_sum", status, l.tally.seconds[result]}, Sample{"_count", status, float64(l.tally.looks[result])})
	}
	return []Family{
		{"git_sync_count_total", "counter", "Syncs by status: success, noop or error.", counts},
		{"git_sync_duration_seconds", "summary", "How long syncs took, by status.", durations},
		{"git_fetch_count_total", "counter", "Fetches.", Value(float64(l.tally.looks[changed]))},
		{"git_sync_hook_run_count_total", "counter", "Calls of hooks, by name and status.", l.runs("status")},
	}
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// ofProcess returns the metrics that Prometheus' clients have of their process, which proc(5) knows.
func ofProcess() (all []Family) {
	const ticks = 100 // a second, as the kernel shows times to programs of all architectures
	stat, _ := os.ReadFile("/proc/self/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(after); len(fields) > 21 {
		number := func(field int) float64 { // counted as in proc(5)
			n, _ := strconv.ParseFloat(fields[field-3], 64)
			return n
		}
		all = []Family{
			{"process_cpu_seconds_total", "counter", "Processor time that the process used.", Value((number(14) + number(15)) / ticks)},
			{"process_resident_memory_bytes", "gauge", "Memory of the process that is resident.", Value(number(24) * float64(os.Getpagesize()))},
		}
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		all = append(all, Family{"process_open_fds", "gauge", "Open file descriptors.", Value(float64(len(open) - 1))}) // without that of the directory
	}
	return append(all, Family{"process_start_time_seconds", "gauge", "When the process started, as Unix time.", Value(unix(started))})
}

var started = time.Now()
