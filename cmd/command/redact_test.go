package command

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"initbox/clone/pktline"
	"initbox/internal/secret"
	"initbox/test/leak"
	"initbox/test/servers"
	"initbox/waitfor"
)

// TestNoSecretIsPrinted pins that a password or a token in a target is never printed: in every form of a target, at
// every log level and in every log format.
func TestNoSecretIsPrinted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	addr := server.Listener.Addr().String()
	for n, secret := range []string{"hUnter2tIger9", "hUnter2/tIger9", "hUnter2#tIger9"} {
		if testing.Short() && n > 0 {
			break
		}
		for _, name := range []string{"INITBOX_TEST_VALUE", "PGPASSWORD", "MYSQL_PWD", "REDISCLI_AUTH"} {
			t.Setenv(name, secret)
		}
		// The program waits for all valid targets at once. Each invalid one ends it, so they are tried one by one.
		var targets []string
		for i, form := range append(secretForms(t, addr, secret), wholeForms(t, addr, secret)...) {
			if n > 0 && i%3 != n {
				continue // package waitfor tries each with each
			}
			variant := logVariants[i%len(logVariants)]
			if _, err := waitfor.Parse(form, waitfor.Options{Getenv: os.Getenv}); err == nil {
				targets = append(targets, form)
			} else {
				runWithSecret(t, runHere, exitUsage, append(variant, "wait-for-service", form))
			}
			if form != secret {
				runWithSecret(t, runHere, exitUsage, append(variant, "wait-for-dns", "--timeout", "1ms", "--type", "A", form, "10.0.0.1"))
			}
		}
		if testing.Short() {
			continue
		}
		var waits sync.WaitGroup
		for _, variant := range logVariants {
			waits.Go(func() {
				runWithSecret(t, runProcess, exitTimeout, slices.Concat(variant, []string{"wait-for-service", "--timeout", "150ms"}, targets))
			})
		}
		waits.Wait()
	}
}

// logVariants are the ways to log, as the environment of a run.
var logVariants = [][]string{
	{"debug", "text"}, {"info", "text"}, {"warn", "text"}, {"error", "text"},
	{"debug", "json"}, {"info", "json"}, {"warn", "json"}, {"error", "json"},
}

// runHere runs the program in this process, which saves starting one.
func runHere(line []string, stdout, stderr io.Writer) int {
	return Run("devel", line, strings.NewReader(""), stdout, stderr)
}

// runProcess runs the program in a process of its own, several of which may run at a time.
func runProcess(line []string, stdout, stderr io.Writer) int {
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	_ = cmd.Run() // the status says it
	return cmd.ProcessState.ExitCode()
}

// runWithSecret runs the program with a log level, a log format and arguments, and looks for the secret in its output.
func runWithSecret(t *testing.T, run func(line []string, stdout, stderr io.Writer) int, want int, args []string) {
	t.Helper()
	termination := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(termination, nil, 0o600); err != nil {
		t.Error(err)
		return
	}
	line := append([]string{"initbox", args[2], "--log-level", args[0], "--log-format", args[1], "--termination-log", termination}, args[3:]...)
	var stdout, stderr bytes.Buffer
	if got := run(line, &stdout, &stderr); got != want {
		t.Errorf("%q: status %d, want %d\n%s", args, got, want, stderr.String())
	}
	message, err := os.ReadFile(termination)
	if err != nil || len(message) == 0 || stderr.Len() == 0 {
		t.Errorf("%q: no message on stderr or in the termination log (%v)", args, err)
	}
	for what, text := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String(), "termination log": string(message)} {
		for _, mark := range []string{"unter2", "iger9"} {
			if i := strings.Index(strings.ToLower(text), mark); i >= 0 {
				t.Errorf("%q: %s shows the secret: …%s…", args[:min(4, len(args))], what, text[max(0, i-200):min(len(text), i+50)])
			}
		}
	}
}

// wholeForms are targets that refer to all of a URL, in a variable or a file.
func wholeForms(t *testing.T, addr, secret string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("jdbc:postgresql://"+addr+"/db?user=app&password="+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("INITBOX_TEST_URL", "amqp://app:"+secret+"@"+addr+"/vhost")
	t.Setenv("INITBOX_TEST_DSN", "app:"+secret+"@tcp("+addr+")/db")
	return []string{
		"${env:INITBOX_TEST_URL}", "${env:INITBOX_TEST_URL}#tls&insecure", "${env:INITBOX_TEST_URL}#" + secret,
		"${env:INITBOX_TEST_DSN}", "${file:" + file + "}", "${file:" + file + "}#query=select 1",
	}
}

// TestNoSecretInUsage pins that a secret in the wrong place of the command line is not printed.
func TestNoSecretInUsage(t *testing.T) {
	t.Setenv("PGPASSWORD", "hUnter2tIger9")
	t.Setenv("INITBOX_TEST_VALUE", "hUnter2tIger9")
	for _, args := range [][]string{
		{"--help"}, {"wait-for-service", "--help"}, {"wait-for-service", "postgres://app:hUnter2tIger9@mydb/app", "--help"},
		{"wait-for-service", "--password", "hUnter2tIger9", "postgres://mydb"},
		{"wait-for-service", "--password=hUnter2tIger9", "postgres://mydb"},
		{"wait-for-service", "--timeout", "1ns", "--log-level", "debug", "${env:INITBOX_TEST_VALUE}"},
	} {
		var stdout, stderr bytes.Buffer
		Run("devel", append([]string{"initbox"}, args...), strings.NewReader(""), &stdout, &stderr)
		if said := stdout.String() + stderr.String(); strings.Contains(said, "nter2") {
			t.Errorf("%q: %s", args, said)
		}
	}
}

// secretForms returns the list that package waitfor is tested with, with some of the schemes.
func secretForms(t *testing.T, addr, secret string) []string {
	t.Helper()
	data, err := os.ReadFile("../../waitfor/testdata/secret-forms.txt")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	var forms []string
	for form := range strings.Lines(string(data)) {
		form = strings.TrimSuffix(form, "\n")
		if form == "" || strings.HasPrefix(form, "# ") {
			continue
		}
		form = strings.NewReplacer("ADDR", addr, "FILE", file, "SECRET", secret).Replace(form)
		if !strings.Contains(form, "SCHEME") {
			forms = append(forms, form)
			continue
		}
		for _, scheme := range []string{"tcp", "http", "dns", "postgres", "mysql", "redis", "kafka"} {
			forms = append(forms, strings.ReplaceAll(form, "SCHEME", scheme))
		}
	}
	return forms
}

// TestNoFormIsPrinted pins that register, request, git-clone and render show no form of a password that a server
// repeats, or a template computes. Package waitfor tests the same of all kinds of target.
func TestNoFormIsPrinted(t *testing.T) {
	t.Parallel()
	for n, password := range leak.Secrets {
		dir := t.TempDir()
		file := filepath.Join(dir, "password")
		template := filepath.Join(dir, "template")
		body := filepath.Join(dir, "body")
		inJSON, err := json.Marshal(map[string]any{"users": []map[string]string{{"password": password}}})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{file: password, template: "{{ fail .Env.SAID }}", body: string(inJSON)} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var said atomic.Value // a string
		server := httptest.NewServer(repeating(&said))
		defer server.Close()
		url := "http://app:${file:" + file + "}@" + server.Listener.Addr().String()
		lines := map[string][]string{
			"register":          {"register", "--url", url + "/register", "--field", "id=x"},
			"request, header":   {"request", strings.Replace(url, "app:${file:"+file+"}@", "", 1) + "/register", "--header", "X-Key: Key ${file:" + file + "}"},
			"request, body":     {"request", strings.Replace(url, "app:${file:"+file+"}@", "", 1) + "/register", "--request-body-file", body},
			"git-clone, ERR":    {"git-clone", url + "/ERR", filepath.Join(dir, "tree")},
			"git-clone, band 3": {"git-clone", url + "/band", filepath.Join(dir, "tree")},
			"render":            {"render", "--secret-env", "PASSWORD", template + ":" + filepath.Join(dir, "result")},
		}
		for sink, line := range lines {
			hidden := 0
			for i, form := range leak.Forms(password) {
				if i%9 != n || testing.Short() && i%5 != 0 { // package secret tests all of them
					continue
				}
				said.Store("denied " + form.Text)
				cmd := exec.Command("initbox", slices.Concat(line[:1], []string{"--log-level", "debug"}, line[1:])...)
				cmd.Env = append(os.Environ(), "PASSWORD="+password, "SAID=denied "+form.Text)
				output := whatIsSaid(t, cmd, "denied")
				if part := form.In(output); part != "" {
					t.Errorf("%s, %s: %q in\n%s", sink, form.Name, part, output)
				}
				if strings.Contains(output, secret.Mark) {
					hidden++
				}
			}
			t.Logf("%s: a password of %d bytes is hidden in %d messages", sink, len(password), hidden)
		}
	}
}

// whatIsSaid runs a command that fails, stops it after its first message with some text if it tries again, and returns
// its output.
func whatIsSaid(t *testing.T, cmd *exec.Cmd, text string) string {
	t.Helper()
	var output servers.Output
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	for !strings.Contains(output.String(), text) {
		select {
		case <-ended:
			if !strings.Contains(output.String(), text) {
				t.Fatalf("%q ends without %q:\n%s", cmd.Args, text, output.String())
			}
		case <-time.After(time.Millisecond):
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	return output.String()
}

// repeating is a registry that refuses, and two Git servers, which say what said has at the moment.
func repeating(said *atomic.Value) http.Handler {
	mux := http.NewServeMux()
	packet := func(text string) string { return string(pktline.Append(nil, text)) }
	mux.HandleFunc("/register", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, said.Load().(string))
	})
	advertise := func(first string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			io.WriteString(w, packet("# service=git-upload-pack\n")+"0000"+packet(first)+"0000")
		}
	}
	mux.HandleFunc("/ERR/info/refs", func(w http.ResponseWriter, r *http.Request) { advertise("ERR "+said.Load().(string))(w, r) })
	mux.HandleFunc("/band/info/refs", advertise(strings.Repeat("1", 40)+" HEAD\x00side-band-64k ofs-delta shallow symref=HEAD:refs/heads/main\n"))
	mux.HandleFunc("/band/git-upload-pack", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		io.WriteString(w, packet("shallow "+strings.Repeat("1", 40))+"0000"+packet("NAK\n")+packet("\x03"+said.Load().(string))+"0000")
	})
	return mux
}
