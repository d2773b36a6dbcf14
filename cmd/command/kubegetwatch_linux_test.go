package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"initbox/test/fakeapi"
	"initbox/test/soak"
)

// dashboards is a fake API server with labelled ConfigMaps.
type dashboards struct {
	t           *testing.T
	api         *fakeapi.Server
	config, out string
}

func newDashboards(t *testing.T) *dashboards {
	t.Helper()
	d := &dashboards{t: t, api: fakeapi.New()}
	server := httptest.NewServer(d.api)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	d.config, d.out = filepath.Join(dir, "config"), filepath.Join(dir, "out")
	if err := os.WriteFile(d.config, []byte(fakeapi.Kubeconfig(server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// apply gives n ConfigMaps a file each, in the folder of the generation if own is set.
func (d *dashboards) apply(n int, generation, size int, own bool) {
	d.t.Helper()
	for i := range n {
		meta := map[string]any{"name": fmt.Sprintf("dash-%04d", i), "labels": map[string]string{"dash": "1"}}
		if own {
			meta["annotations"] = map[string]string{"folder": fmt.Sprint("g", generation)}
		}
		data := map[string]string{fmt.Sprintf("%d.json", i): strings.Repeat(strconv.Itoa(generation), size)}
		document, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
		if err == nil {
			err = d.api.Apply(string(document))
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *dashboards) command(flags ...string) *exec.Cmd {
	args := append([]string{"kube-get", "k8s:configmaps?selector=dash=1", d.out, "--folder-annotation", "folder", "--kubeconfig", d.config, "--termination-log", ""}, flags...)
	cmd := exec.Command("initbox", args...)
	cmd.Stderr = new(bytes.Buffer)
	return cmd
}

// TestKubeGetWatchKilled kills it while it writes a folder with other files in other directories over an older one.
// Each file is whole afterwards, and the next run leaves what one that was never killed would.
func TestKubeGetWatchKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	const objects, size = 100, 5000
	d := newDashboards(t)
	whole := time.Duration(0)
	run := func(generation int) {
		t.Helper()
		start := time.Now()
		if cmd := d.command(); cmd.Run() != nil {
			t.Fatalf("kube-get: %s", cmd.Stderr)
		}
		whole = max(whole, time.Since(start))
		found := 0
		filepath.Walk(d.out, func(name string, i os.FileInfo, err error) error {
			if err != nil || i.IsDir() || i.Name() == ".initbox-files" {
				return err
			}
			found++
			text, _ := os.ReadFile(name)
			if want := fmt.Sprint("g", generation); filepath.Base(filepath.Dir(name)) != want || string(text) != strings.Repeat(want[1:], size) {
				t.Errorf("%s: %.20q", name, text)
			}
			return nil
		})
		if found != objects {
			t.Errorf("%d files, want %d", found, objects)
		}
	}
	d.apply(objects, 1, size, true)
	run(1)
	interrupted := 0
	for moment := range soak.Moments(t, 12) {
		for _, generation := range []int{2, 1} {
			d.apply(objects, generation, size, true)
			if killAfter(t, d.command(), time.Duration(moment*float64(whole))) {
				interrupted++
			}
			run(generation)
		}
	}
	if interrupted == 0 {
		t.Error("no run was killed before its end")
	}
}

// sidecar starts the sidecar, and returns a wait for its log.
func (d *dashboards) sidecar(flags ...string) (pid int, await func(string)) {
	d.t.Helper()
	cmd := d.command(append(flags, "--watch", "1h")...)
	log := new(transcript)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid, func(text string) {
		d.t.Helper()
		re, limit := regexp.MustCompile(text), time.After(time.Minute)
		for {
			said, more := log.read()
			if re.MatchString(said) {
				return
			}
			select {
			case <-more:
			case <-limit:
				d.t.Fatalf("the log has no %s:\n%s", text, said)
			}
		}
	}
}

// TestKubeGetWatchFullDisk pins that a full disk ends nothing: the old files stay, and once there is room, the new ones
// follow. What was removed makes room at once.
func TestKubeGetWatchFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	d := newDashboards(t)
	if err := os.Mkdir(d.out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", d.out, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("mount: ", err)
	}
	t.Cleanup(func() { unix.Unmount(d.out, unix.MNT_DETACH) })
	d.apply(2, 1, 1000, false)
	_, await := d.sidecar()
	await("2 files written")
	d.apply(1, 2, 300<<10, false)
	await("no space left on device.*(?s).*make the volume larger")
	if text, err := os.ReadFile(d.out + "/0.json"); err != nil || string(text) != strings.Repeat("1", 1000) {
		t.Errorf("the old file: %.20q, %v", text, err)
	}
	d.apply(1, 3, 1000, false)
	await("1 file written")
	if text, _ := os.ReadFile(d.out + "/0.json"); string(text) != strings.Repeat("3", 1000) {
		t.Errorf("the new file: %.20q", text)
	}
}

// TestKubeGetWatchMemory pins that contents are not kept in memory: 10 MB of dashboards, all of which change.
func TestKubeGetWatchMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves many megabytes")
	}
	d := newDashboards(t)
	const objects, size = 200, 50_000
	d.apply(objects, 1, size, false)
	pid, await := d.sidecar()
	await("200 files written")
	d.apply(objects, 2, size, false)
	last := filepath.Join(d.out, fmt.Sprintf("%d.json", objects-1))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if text, _ := os.ReadFile(last); strings.HasPrefix(string(text), "2") {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the last change has not come")
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		t.Skip("the kernel does not tell")
	}
	kilobytes, _ := strconv.Atoi(string(match[1]))
	t.Logf("%d kB besides the program's file", kilobytes)
	if limit := 10 << 10; kilobytes > limit {
		t.Errorf("%d kB besides the program's file, want at most %d", kilobytes, limit)
	}
}
