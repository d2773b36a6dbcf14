package exchange

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"initbox/internal/secret"
)

// TestReport pins the log of one call: what changes, once, and a summary every 30 s.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		plain := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key != slog.MessageKey {
				return slog.Attr{}
			}
			return a
		}})
		address, err := secret.ParseURL("http://registry:1", os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		r := &Server{URL: address, Log: slog.New(plain)}
		report := r.newReport(t.Context(), "register web-0")
		time.Sleep(summaryEvery)
		synctest.Wait()
		report.attempt(1, nil, syscall.ECONNREFUSED, 999*time.Millisecond)
		report.attempt(2, nil, syscall.ECONNREFUSED, time.Second)
		report.attempt(3, nil, io.EOF, time.Second)
		time.Sleep(summaryEvery)
		synctest.Wait()
		report.done()
		report.close()
		want := []string{
			"register web-0: no answer for 30s",
			"register web-0: connection refused",
			"register web-0: connection closed by the server; again in 1s",
			"register web-0: connection closed by the server, for 1m0s, 3 attempts; is it the right port",
			"register web-0: answered after 1m0s, 4 attempts",
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != len(want) {
			t.Fatalf("the log is\n%s", &log)
		}
		for i, line := range lines {
			if !strings.HasPrefix(line, `msg="http://registry:1: `+want[i]) || i == 1 && strings.Contains(line, "again") {
				t.Errorf("line %d is %s, want %s", i+1, line, want[i])
			}
		}
	})
}
