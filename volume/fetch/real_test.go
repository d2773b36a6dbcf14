package fetch

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"initbox/internal/setting"
	"initbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// cutting relays connections to addr, and cuts as many of them off after so many bytes of answers.
func cutting(t *testing.T, addr string, cuts *atomic.Int64, after int64) (at string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var relays sync.WaitGroup
	relays.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			limit := int64(1 << 40)
			if cuts.Add(-1) >= 0 {
				limit = after
			}
			relays.Go(func() {
				defer client.Close()
				server, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { io.Copy(server, client); server.Close() }()
				io.CopyN(client, server, limit)
			})
		}
	})
	t.Cleanup(func() { l.Close(); relays.Wait() })
	return l.Addr().String()
}

// TestNGINX pins that an archive of a real server is unpacked while its connections break, over TLS too; that nothing
// is written when it is there; and that a new version replaces it.
func TestNGINX(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real server")
	}
	t.Parallel()
	ca := servers.NewCA(t)
	n := servers.StartNGINX(t, servers.NGINXOptions{CA: ca})
	publish := func(text string) {
		entries := []tar.Header{{Name: "tool/bin"}, {Name: "tool/large"}}
		archive := servers.Tar(t, map[string]string{"tool/bin": text, "tool/large": string(content)}, entries...)
		if err := os.WriteFile(filepath.Join(n.Files, "tool.tar.gz"), servers.Gzip(t, archive), 0o644); err != nil {
			t.Fatal(err)
		}
		// Later than the last version, and long enough ago for a strong date.
		when := time.Now().Add(-time.Hour + time.Duration(len(text))*time.Minute)
		os.Chtimes(filepath.Join(n.Files, "tool.tar.gz"), when, when)
	}
	for scheme, addr := range map[string]string{"http": n.HTTP, "https": n.HTTPS} {
		publish("1")
		dst := filepath.Join(t.TempDir(), "opt")
		var cuts atomic.Int64
		relay := cutting(t, addr, &cuts, 1<<20)
		run := func(n int64) string {
			t.Helper()
			cuts.Store(n)
			src, err := Parse(scheme+"://"+relay+"/files/tool.tar.gz#unpack&strip-components=1", setting.Settings{"ca-file": {ca.File}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = Run(ctx, Options{Sources: []*Source{src}, Dst: dst, AttemptTimeout: 30 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			return log.String()
		}
		if log := run(2); !strings.Contains(log, "2 files added") || strings.Count(log, "after 1.0 MB") == 0 {
			t.Errorf("%s: %s", scheme, log)
		}
		if large, err := os.ReadFile(filepath.Join(dst, "large")); err != nil || !bytes.Equal(large, content) {
			t.Errorf("%s: %d bytes, %v", scheme, len(large), err)
		}
		before, _ := os.Stat(filepath.Join(dst, "bin"))
		if log := run(0); !strings.Contains(log, "nothing to change") {
			t.Errorf("%s: %s", scheme, log)
		}
		publish("22")
		if log := run(1); !strings.Contains(log, "1 replaced, 1 unchanged") && !strings.Contains(log, "1 file replaced, 1 unchanged") {
			t.Errorf("%s: %s", scheme, log)
		}
		after, _ := os.Stat(filepath.Join(dst, "bin"))
		if os.SameFile(before, after) {
			t.Errorf("%s: the new version was written into the old file", scheme)
		}
	}
}
