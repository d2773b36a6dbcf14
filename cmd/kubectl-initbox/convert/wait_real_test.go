package convert

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	initbox "initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/test/servers"
)

// trials are conditions of loops with the place of the server, for programs that this machine may have. Those with an
// operator compare what the program prints.
var trials = []struct{ call, operator, text string }{
	{"nc -z HOST PORT", "", ""},
	{"nc -vz -w 2 HOST PORT", "", ""},
	{"curl -s -m 2 SCHEME://ADDR/x", "", ""},
	{"curl -s -o /dev/null -m 2 ADDR/x", "", ""},
	{"curl -sf -m 2 SCHEME://ADDR/x", "", ""},
	{"curl -sfk -m 2 SCHEME://ADDR/x", "", ""},
	{"curl -sfL -m 2 SCHEME://ADDR/x", "", ""},
	{"curl -skL -m 2 SCHEME://ADDR/x", "", ""},
	{"curl -sfI -m 2 SCHEME://ADDR/x", "", ""},
	{"curl -sf -m 2 --cacert CA SCHEME://ADDR/x", "", ""},
	{"curl -sk -m 2 -o /dev/null -w '%{http_code}' SCHEME://ADDR/x", "=", "200"},
	{"curl -skL -m 2 -o /dev/null -w '%{http_code}' SCHEME://ADDR/x", "-eq", "200"},
	{"curl -sk -m 2 -o /dev/null -w '%{http_code}' SCHEME://ADDR/x", "grep -E", "200|404"},
	{"curl -sk -m 2 -o /dev/null -w '%{http_code}' SCHEME://ADDR/x", "!=", "000"},
	{"curl -sk -m 2 -o /dev/null -w '%{http_code}' SCHEME://ADDR/x", "grep", "^2"},
	{"curl -sk -m 2 SCHEME://ADDR/x", "grep", `"UP"`},
	{"curl -skf -m 2 SCHEME://ADDR/x", "grep", "UP"},
	{"curl -sk -m 2 SCHEME://ADDR/x", "=", `{"status":"UP"}`},
	{"curl -sk -m 2 SCHEME://ADDR/x", "-n", ""},
	{"curl -sk -m 2 SCHEME://ADDR/x | jq -r .status", "=", "UP"},
	{"curl -sk -m 2 SCHEME://ADDR/x | jq .status", "=", `"UP"`},
	{"curl -sk -m 2 SCHEME://ADDR/x | jq -r .status", "grep", "^UP$"},
	{"wget -q -T 2 -t 1 -O - SCHEME://ADDR/x", "", ""},
	{"wget -q -T 2 -t 1 --spider --no-check-certificate SCHEME://ADDR/x", "", ""},
	{"wget -q -T 2 -t 1 --no-check-certificate -O - SCHEME://ADDR/x", "grep", "UP"},
	{"wget -T 2 -t 1 --spider -S --no-check-certificate SCHEME://ADDR/x 2>&1", "grep", "200 OK"},
	{"busybox wget -q -O - SCHEME://ADDR/x", "", ""},
	{"busybox wget -q --spider SCHEME://ADDR/x", "", ""},
	{"busybox wget -q --no-check-certificate -O - SCHEME://ADDR/x", "grep", "UP"},
	{"busybox wget --spider -S SCHEME://ADDR/x 2>&1", "grep", "200 OK"},
}

// disagreements are the servers on which the original and what replaces it judge differently, with the sentence in
// Differs, or the reason.
var disagreements = map[string]string{
	"nc closing":       closedAtOnce,
	"nc resetting":     closedAtOnce,
	"curl cut":         headerCounts,
	"wget cut":         headerCounts,
	"wget no-head":     getNotHead,
	"busybox wget 206": "a server answers 206 only to a request for a part, which none of these is",
	"busybox wget cut": headerCounts,
	"wget garbage":     "GNU's wget takes any bytes for an answer of HTTP/0.9; ports of other protocols are refused",
}

const up = `{"status":"UP"}`

// realServers returns a server for each way to answer, by its name: its scheme and its address.
func realServers(t *testing.T) map[string][2]string {
	t.Helper()
	all := map[string][2]string{}
	for name, handler := range handlers() {
		s := httptest.NewServer(handler)
		t.Cleanup(s.Close)
		all[name] = [2]string{"http", strings.TrimPrefix(s.URL, "http://")}
	}
	for name, serve := range map[string]func(net.Conn){
		"silent":    func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"closing":   func(c net.Conn) { c.Close() },
		"resetting": func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); c.Close() },
		"garbage":   func(c net.Conn) { _, _ = io.WriteString(c, "220 mail ESMTP UP\r\n"); c.Close() },
		"cut": func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"+up)
			c.Close()
		},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go serve(c)
			}
		}()
		all[name] = [2]string{"http", l.Addr().String()}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	all["refusing"] = [2]string{"http", l.Addr().String()}
	return all
}

func handlers() map[string]http.Handler {
	answer := func(status int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if status/100 == 3 && r.URL.Path == "/x" {
				w.Header().Set("Location", "/up")
				w.WriteHeader(status)
				return
			}
			if status/100 == 3 {
				w.WriteHeader(200)
			} else {
				w.WriteHeader(status)
			}
			_, _ = io.WriteString(w, body)
		})
	}
	all := map[string]http.Handler{}
	for _, status := range []int{200, 201, 204, 206, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 429, 500, 501, 502, 503} {
		body := up
		if status == 204 {
			body = ""
		}
		all[strconv.Itoa(status)] = answer(status, body)
	}
	all["down"] = answer(200, `{"status":"DOWN"}`)
	all["empty"] = answer(200, "")
	all["text"] = answer(200, "UP\n")
	all["other"] = answer(200, `{"state": {"status": "UP"}}`)
	all["null"] = answer(200, `{"status":null}`)
	all["loop"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) })
	all["redirect-away"] = http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound)
	all["no-location"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) })
	all["no-head"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(405)
			return
		}
		_, _ = io.WriteString(w, up)
	})
	return all
}

// TestAgree runs the originals and what replaces them on the same servers: both must say the same.
func TestAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some hundred programs")
	}
	all := realServers(t)
	secure := httptest.NewUnstartedServer(handlers()["200"])
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	all["self-signed"] = [2]string{"https", strings.TrimPrefix(secure.URL, "https://")}
	c := &manifest.Container{Pod: &manifest.Pod{}}
	c.Image = "example/app:1"
	c.VolumeMounts = []corev1.VolumeMount{{Name: "tls", MountPath: t.TempDir()}}
	ca := filepath.Join(c.VolumeMounts[0].MountPath, "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, trial := range trials {
		t.Run(trial.call+trial.operator, func(t *testing.T) {
			t.Parallel()
			program, _, _ := strings.Cut(trial.call, " ")
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("%s: not on this machine", program)
			}
			if program == "busybox" {
				program = "busybox wget"
			}
			for name, server := range all {
				if program == "busybox wget" && server[0] == "https" {
					continue // which some builds do not have
				}
				host, port, _ := net.SplitHostPort(server[1])
				text := strings.NewReplacer("HOST", host, "PORT", port, "SCHEME", server[0], "ADDR", server[1], "CA", ca).Replace(trial.call)
				step, err := stepOf(text, trial.operator, trial.text, c)
				if err != nil {
					if !strings.Contains(err.Error(), redirectedTLS) && (server[0] != "https" || !strings.Contains(err.Error(), "which one it is")) {
						t.Errorf("%s: %v", text, err)
					}
					continue
				}
				before, after := false, true
				for i := 0; i < 3 && before != after; i++ { // a busy machine may exceed the limit of an attempt
					before, after = original(t, text, trial.operator, trial.text, nil), converted(t, step, nil)
				}
				if before != after && disagreements[program+" "+name] == "" {
					t.Errorf("%s: %s %s %s is ready: %v; %s: %v", name, text, trial.operator, trial.text, before, line(step), after)
				}
			}
		})
	}
}

func stepOf(text, operator, pattern string, c *manifest.Container) (Step, error) {
	parts := strings.Split(strings.TrimPrefix(text, "busybox "), " | ")
	first, joined := strings.CutSuffix(parts[0], " 2>&1")
	call := callOf(first)
	if joined {
		call.Stderr = &shell.Output{}
	}
	if len(parts) > 1 {
		call.Pipe = callOf(parts[1])
	}
	if strings.HasPrefix(text, "busybox") {
		busybox := *c
		busybox.Image = "busybox:1.36"
		c = &busybox
	}
	if operator == "" {
		return probes[call.Name](call, c)
	}
	return comparisons[call.Name](&shell.Match{Call: call, Op: operator, Pattern: shell.Word{{Text: pattern}}}, c)
}

// original runs a condition as a shell does.
func original(t *testing.T, text, operator, pattern string, environment map[string]string) bool {
	t.Helper()
	switch {
	case strings.HasPrefix(operator, "grep"):
		text += " | " + operator + " -q '" + pattern + "'"
	case operator == "-n":
		text = `[ -n "$(` + text + `)" ]`
	case operator != "":
		text = `[ "$(` + text + `)" ` + operator + ` '` + pattern + `' ]`
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, "timeout", "4", "bash", "-c", text) // which BusyBox cannot limit in every build
	command.Dir = t.TempDir()
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + command.Dir}
	for name, value := range environment {
		command.Env = append(command.Env, name+"="+value)
	}
	return command.Run() == nil
}

// converted makes one attempt of each target of a step.
func converted(t *testing.T, s Step, environment map[string]string) bool {
	t.Helper()
	words := append([]string{s.Subcommand}, s.Args...)
	for _, f := range s.Flags {
		words = append(words, fmt.Sprintf("--%s=%s", f.Name, f.Value))
	}
	steps, err := initbox.Inspect(words, environment)
	if err != nil {
		t.Errorf("%q: %v", words, err)
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	for _, target := range steps[0].Targets {
		if target.Check.Check(ctx) != nil {
			return false
		}
	}
	return len(steps[0].Targets) > 0
}

// databaseTrials are conditions of loops by the server that they need. PW is the password of app, WRONG another one.
var databaseTrials = map[string][][3]string{
	"postgres": {
		{"pg_isready -h HOST -p PORT -t 2"},
		{"pg_isready -h HOST -p PORT -U other -d missing"},
		{"PGPASSWORD=$PW psql -h HOST -p PORT -U app -d app -c 'select 1'"},
		{"PGPASSWORD=$PW psql -h HOST -p PORT -U app -c '\\q'"},
		{"PGPASSWORD=$WRONG psql -h HOST -p PORT -U app -d app -c 'select 1'"},
		{"PGPASSWORD=$PW psql -h HOST -p PORT -U app -d missing -c 'select 1'"},
		{"PGPASSWORD=$PW psql -h HOST -p PORT -U app -lqt"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select count(*) from pg_database"`, "-gt", "2"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select count(*) from pg_database"`, "-gt", "1000"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select 1 from pg_database where datname='app'"`, "=", "1"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select 1 from pg_database where datname='no'"`, "=", "1"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select 1 from pg_database"`, "=", "1"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select 1, 2"`, "=", "1"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select 1 from missing"`, "=", "1"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select 'it''s'"`, "=", "its"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -c "select 1 from pg_database where datname='app'"`, "grep", "1"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -c "select 1 from pg_database where datname='no'"`, "grep", "1"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select exists (select 1 from pg_database where datname='app')"`, "=", "t"},
		{`PGPASSWORD=$PW psql -h HOST -p PORT -U app -tAc "select exists (select 1 from pg_database where datname='no')"`, "=", "t"},
	},
	"redis": {
		{"redis-cli -h HOST -p PORT ping", "=", "PONG"},
		{"redis-cli -h HOST -p PORT -a $PW ping", "grep", "PONG"},
		{"redis-cli -h HOST -p PORT -a $WRONG ping", "=", "PONG"},
		{"REDISCLI_AUTH=$PW redis-cli -h HOST -p PORT -n 3 ping", "=", "PONG"},
		{"redis-cli -h HOST -p PORT -a $PW ping"},
		{"redis-cli -h HOST -p PORT -a $PW info replication", "grep", "role:master"},
		{"redis-cli -h HOST -p PORT -a $PW role", "grep", "^master"},
	},
	"mariadb": {
		{"mysqladmin ping -h HOST -P PORT --silent"},
		{"mysqladmin ping -h HOST -P PORT -u app -p$WRONG"},
		{"mysqladmin status -h HOST -P PORT -u app -p$PW"},
		{"mysqladmin status -h HOST -P PORT -u app -p$WRONG"},
		{"mysql -h HOST -P PORT -u app -p$PW -e 'select 1'"},
		{"mysql -h HOST -P PORT -u app -p$WRONG -e 'select 1'"},
		{"mysql -h HOST -P PORT -u app -p$PW -D app -e 'SELECT VERSION()'"},
		{"mysql -h HOST -P PORT -u app -p$PW -e 'select 1' missing"},
		{"mysql -h HOST -P PORT -u app -p$PW -N -e 'select count(*) from information_schema.tables'", "-gt", "3"},
		{"mysql -h HOST -P PORT -u app -p$PW -N -e 'select count(*) from information_schema.tables'", "=", "1"},
	},
}

// TestDatabasesAgree is like TestAgree, with databases, and where nothing listens.
func TestDatabasesAgree(t *testing.T) {
	for kind, start := range map[string]func(t *testing.T) (address, password string){
		"postgres": func(t *testing.T) (string, string) {
			p := servers.StartPostgres(t, servers.PostgresOptions{})
			return p.Addr, p.Password
		},
		"redis": func(t *testing.T) (string, string) {
			servers.Slow(t)
			return servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", "correct-password"}}).Addr, "correct-password"
		},
		"redis without a password": func(t *testing.T) (string, string) {
			servers.Slow(t)
			return servers.StartRedis(t, servers.RedisOptions{}).Addr, "correct-password"
		},
		"mariadb": func(t *testing.T) (string, string) {
			m := servers.StartMariaDB(t, servers.MariaDBOptions{})
			return m.Addr, m.Password
		},
	} {
		t.Run(kind, func(t *testing.T) {
			address, password := start(t)
			c := waitContainer()
			c.Env = append(c.Env, corev1.EnvVar{Name: "WRONG", ValueFrom: c.Env[len(c.Env)-1].ValueFrom})
			environment := map[string]string{"PW": password, "WRONG": "wrong-password"}
			for name, value := range environment {
				t.Setenv(name, value) // an attempt reads them
			}
			for _, at := range []string{address, servers.FreeAddr(t)} {
				host, port, _ := net.SplitHostPort(at)
				for _, trial := range databaseTrials[strings.Fields(kind)[0]] {
					text := strings.NewReplacer("HOST", host, "PORT", port).Replace(trial[0])
					step, err := stepOf(text, trial[1], trial[2], c)
					if err != nil {
						t.Errorf("%s: %v", text, err)
						continue
					}
					before, after := original(t, text, trial[1], trial[2], environment), converted(t, step, environment)
					if kind == "redis without a password" && before && !after && slices.Contains(step.Differs, loginCounts) {
						continue
					}
					if before != after {
						t.Errorf("%s %s %s is ready: %v; %s: %v", text, trial[1], trial[2], before, line(step), after)
					}
				}
			}
		})
	}
}
