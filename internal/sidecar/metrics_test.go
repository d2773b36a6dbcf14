package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"initbox/internal/poll"
	"initbox/test/servers"
)

// TestMetrics pins what is counted, the two formats, and the names that git-sync has.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := Options{Command: "test", Version: `1"\`, GitSync: true, Log: slog.New(slog.DiscardHandler), Metrics: func() []Family {
			return []Family{{"initbox_received_bytes_total", "counter", "Bytes.", Value(1 << 40)}, {"initbox_none", "gauge", "Nothing.", nil}}
		}}
		runs := []error{errors.New("exit status 1"), nil, nil}
		program := &Hook{Name: "exechook", Pause: time.Nanosecond, Run: func(context.Context, string) (err error) {
			err, runs = runs[0], runs[1:]
			return err
		}}
		o.Hooks = []*Hook{{Name: "webhook"}, program}
		l := &loop{Options: o, every: time.Minute, tally: newTally()}
		inbox := make(chan string)
		go l.serve(ctx, program, inbox)
		for range 2 { // an error and a success, and another success
			inbox <- "c0ffee"
			time.Sleep(time.Microsecond)
			synctest.Wait()
		}
		results := []error{nil, nil, syscall.ECONNREFUSED, &poll.Error{Cause: context.DeadlineExceeded, Last: syscall.ECONNREFUSED}, errors.New("odd"), nil, errors.New("stopped")}
		for i, err := range results {
			l.look = func(context.Context) (string, bool, error) {
				time.Sleep(time.Duration(i) * 20 * time.Second)
				if i == len(results)-1 {
					cancel()
				}
				return map[bool]string{true: "c0ffee"}[err == nil], i == 0 || i == 5, err
			}
			_ = l.once(ctx)
		}
		families := slices.DeleteFunc(l.metrics(), func(f Family) bool { return strings.HasPrefix(f.Name, "process_") })
		kind, text := encode(families, "text/plain;version=0.0.4;q=0.3,*/*;q=0.1")
		if want := `# HELP initbox_build_info The subcommand and the version of initbox.
# TYPE initbox_build_info gauge
initbox_build_info{command="test",version="1\"\\"} 1
# HELP initbox_attempts_total Attempts to bring everything up to date, by result: changed, unchanged or failed.
# TYPE initbox_attempts_total counter
initbox_attempts_total{result="changed"} 2
initbox_attempts_total{result="failed"} 3
initbox_attempts_total{result="unchanged"} 1
# HELP initbox_failures_total Failed attempts and hooks, by class of the failure.
# TYPE initbox_failures_total counter
initbox_failures_total{class="refused"} 2
initbox_failures_total{class="unexpected answer"} 2
# HELP initbox_hook_runs_total Calls of the webhook, signals and runs of programs, by name and result: success or error.
# TYPE initbox_hook_runs_total counter
initbox_hook_runs_total{name="exechook",result="error"} 1
initbox_hook_runs_total{name="exechook",result="success"} 2
initbox_hook_runs_total{name="webhook",result="error"} 0
initbox_hook_runs_total{name="webhook",result="success"} 0
# HELP initbox_attempt_duration_seconds How long the attempts took.
# TYPE initbox_attempt_duration_seconds histogram
initbox_attempt_duration_seconds_bucket{le="0.01"} 1
initbox_attempt_duration_seconds_bucket{le="0.05"} 1
initbox_attempt_duration_seconds_bucket{le="0.1"} 1
initbox_attempt_duration_seconds_bucket{le="0.5"} 1
initbox_attempt_duration_seconds_bucket{le="1.0"} 1
initbox_attempt_duration_seconds_bucket{le="5.0"} 1
initbox_attempt_duration_seconds_bucket{le="10.0"} 1
initbox_attempt_duration_seconds_bucket{le="30.0"} 2
initbox_attempt_duration_seconds_bucket{le="60.0"} 4
initbox_attempt_duration_seconds_bucket{le="300.0"} 6
initbox_attempt_duration_seconds_bucket{le="+Inf"} 6
initbox_attempt_duration_seconds_sum 300
initbox_attempt_duration_seconds_count 6
# HELP initbox_last_success_timestamp_seconds When an attempt was last successful, as Unix time.
# TYPE initbox_last_success_timestamp_seconds gauge
initbox_last_success_timestamp_seconds 9.466851e+08
# HELP initbox_revision_info What everything is up to date with, such as a commit.
# TYPE initbox_revision_info gauge
initbox_revision_info{revision="c0ffee"} 1
# HELP initbox_received_bytes_total Bytes.
# TYPE initbox_received_bytes_total counter
initbox_received_bytes_total 1.099511627776e+12
# HELP git_sync_count_total Syncs by status: success, noop or error.
# TYPE git_sync_count_total counter
git_sync_count_total{status="error"} 3
git_sync_count_total{status="noop"} 1
git_sync_count_total{status="success"} 2
# HELP git_sync_duration_seconds How long syncs took, by status.
# TYPE git_sync_duration_seconds summary
git_sync_duration_seconds_sum{status="error"} 180
git_sync_duration_seconds_count{status="error"} 3
git_sync_duration_seconds_sum{status="noop"} 20
git_sync_duration_seconds_count{status="noop"} 1
git_sync_duration_seconds_sum{status="success"} 100
git_sync_duration_seconds_count{status="success"} 2
# HELP git_fetch_count_total Fetches.
# TYPE git_fetch_count_total counter
git_fetch_count_total 2
# HELP git_sync_hook_run_count_total Calls of hooks, by name and status.
# TYPE git_sync_hook_run_count_total counter
git_sync_hook_run_count_total{name="exechook",status="error"} 1
git_sync_hook_run_count_total{name="exechook",status="success"} 2
git_sync_hook_run_count_total{name="webhook",status="error"} 0
git_sync_hook_run_count_total{name="webhook",status="success"} 0
`; kind != textMetrics || text != want {
			t.Errorf("%s\n%s", kind, text)
		}
		if l.Secret = true; slices.ContainsFunc(l.metrics(), func(f Family) bool { return f.Name == "initbox_revision_info" }) {
			t.Error("the sum of secrets is in the metrics")
		}
		kind, open := encode(families, "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3")
		want := regexp.MustCompile(`(?m)^(# (?:TYPE|HELP) \S+)_total `).ReplaceAllString(text, "$1 ") + "# EOF\n"
		if kind != openMetrics || open != want {
			t.Errorf("%s\n%s\nwant %s", kind, open, want)
		}
	})
}

// TestPromtool has Prometheus' own tool check the metrics, as the port has them, of a sidecar with everything.
func TestPromtool(t *testing.T) {
	servers.Need(t, "promtool")
	addr := servers.FreeAddr(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := 0
	o := Options{HTTP: addr, Command: "git-clone", GitSync: true}
	err := Run(ctx, o, time.Millisecond, func(context.Context) (string, bool, error) {
		if looks++; looks == 2 {
			return "", false, errors.New("the server is away")
		} else if looks < 3 {
			return "c0ffee", true, nil
		}
		cancel()
		answer, _ := request(t, "GET", addr+"/metrics", http.Header{"Accept": {"text/plain"}})
		check := exec.Command("promtool", "check", "metrics")
		check.Stdin = strings.NewReader(strings.TrimPrefix(answer, "200 ") + "\n")
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s\n%s", err, out, answer)
		}
		for _, name := range []string{"process_open_fds", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_start_time_seconds", "git_sync_count_total", "initbox_revision_info"} {
			if !strings.Contains(answer, "\n"+name) {
				t.Errorf("no %s:\n%s", name, answer)
			}
		}
		return "c0ffee", false, nil
	})
	if err != nil || looks < 3 {
		t.Errorf("%d looks, %v", looks, err)
	}
}
