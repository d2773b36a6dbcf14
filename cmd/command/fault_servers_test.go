package command

import (
	"bytes"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"initbox/internal/words"
	"initbox/waitfor"
)

// TestServersThatAreNotReady waits for targets of every scheme of a server, at servers with a fault, up to the
// deadline. The program names the fault of each, and ends with the status of a deadline. Package waitfor tests more
// faults of each kind.
func TestServersThatAreNotReady(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for deadlines")
	}
	t.Parallel()
	for _, tt := range []struct {
		name  string
		serve func(c net.Conn)
		says  string // of each target; an expression
	}{
		{"refuses", nil, `connection refused`},
		{"hangs after accept", func(c net.Conn) { c.Read(make([]byte, 1<<10)); <-t.Context().Done() }, `no answer`},
		{"closes after accept", func(net.Conn) {}, `connection closed by the server|closes`},
		{"announces 2 GB", func(c net.Conn) { c.Write([]byte("\x7f\xff\xff\xff\x7f\xff\xff\xff")) }, `announces|not |TLS|connection closed`},
		{"speaks another protocol", func(c net.Conn) { c.Write([]byte("220 mail.example ESMTP\r\n")); c.Read(make([]byte, 1<<10)) }, `announces|is not|speaks|TLS|connection closed`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testServersThatAreNotReady(t, tt.serve, tt.says)
		})
	}
}

func testServersThatAreNotReady(t *testing.T, serve func(net.Conn), says string) {
	addr, release, err := holdPort(false)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if serve != nil {
		l, err := rebind(func() (net.Listener, error) { return net.Listen("tcp", addr) })
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go each(serve)(nil, l)
	}
	var targets []string
	for _, k := range waitfor.Kinds() {
		for _, scheme := range k.Schemes {
			target := scheme + "://app:hUnter2tIger9@" + addr
			if _, err := waitfor.Parse(target, waitfor.Options{}); err != nil {
				target = scheme + "://" + addr
			}
			if _, err := waitfor.Parse(target, waitfor.Options{}); k.Hosts && err == nil {
				targets = append(targets, target)
			}
		}
	}
	var wg sync.WaitGroup
	for some := range slices.Chunk(targets, words.MaxNamed) { // a message names all of them
		wg.Go(func() { requireSaid(t, some, says) })
	}
	wg.Wait()
}

// requireSaid requires that a wait for the targets ends at its deadline, and says that of each.
func requireSaid(t *testing.T, targets []string, says string) {
	var stderr bytes.Buffer
	cmd := exec.Command("initbox", append([]string{"wait-for-service", "--timeout", "2s", "--attempt-timeout", "1s", "--log-level", "debug", "--termination-log", ""}, targets...)...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitTimeout {
		t.Errorf("%v, want status %d", err, exitTimeout)
	}
	_, message, _ := strings.Cut(stderr.String(), "initbox wait-for-service: not ready within ")
	for _, target := range targets {
		scheme, _, _ := strings.Cut(target, "://")
		said := regexp.MustCompile(`(?m)` + regexp.QuoteMeta(scheme) + `://127[^ ]*: (.*)$`).FindStringSubmatch(message)
		if said == nil || !regexp.MustCompile(says).MatchString(said[1]) {
			t.Errorf("%s: %q, want %s\n%s", scheme, said, says, message)
		}
	}
	if !strings.Contains(message, "\nhint: ") {
		t.Errorf("there is no hint:\n%s", message)
	}
	if strings.Contains(stderr.String(), "Unter2") || strings.Contains(stderr.String(), "mail.example") {
		t.Errorf("a password, or text from the server, is printed:\n%s", stderr.String())
	}
}
