package real_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/test/servers"
)

func TestHTTPBecomesReady(t *testing.T) {
	t.Parallel()
	n := servers.StartNGINX(t, servers.NGINXOptions{})
	socket := "http+unix://" + url.PathEscape(n.Socket)
	for name, target := range map[string]string{
		"http":        "http://" + n.HTTP + "/ready",
		"h2c":         "http://" + n.H2C + "/ready#h2c",
		"unix socket": socket + "/ready",
		"redirected":  "http://" + n.HTTP + "/moved",
		"body":        "http://" + n.HTTP + "/ready#status=200,503&body=/^ready/",
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, "wait-for-service", target, "--timeout=60s")
			if name != "body" { // where the status is not the problem
				w.untilLogged(`503`)
			}
			w.stillWaiting(300 * time.Millisecond)
			n.SetReady(t)
			w.wantWithin(soon, ready)
			n.SetUnready(t)
		})
	}
}

func TestHTTPExpectations(t *testing.T) {
	t.Parallel()
	n := servers.StartNGINX(t, servers.NGINXOptions{})
	dir := t.TempDir()
	password := secretFile(t, filepath.Join(dir, "password"), servers.NGINXPassword)
	wrong := secretFile(t, filepath.Join(dir, "wrong"), "not-"+servers.NGINXPassword)
	token := secretFile(t, filepath.Join(dir, "token"), servers.NGINXToken)
	header := secretFile(t, filepath.Join(dir, "header"), "X-Probe: initbox")
	at := func(page string) string { return "http://" + n.HTTP + page }

	for name, c := range map[string]struct {
		args []string
		log  string // of the servers that never become ready
	}{
		"plain":               {[]string{at("/health.json")}, ""},
		"status list":         {[]string{at("/private#status=200,401-403")}, ""},
		"status as a flag":    {[]string{at("/private"), "--status=401-403"}, ""},
		"status not listed":   {[]string{at("/private")}, `403`},
		"json value":          {[]string{at("/health.json#json=.status==UP")}, ""},
		"json other value":    {[]string{at("/health.json#json=.status==DOWN")}, `\.status`},
		"json missing":        {[]string{at("/health.json#json=.state")}, `\.state`},
		"body substring":      {[]string{at("/health.json#body=UP")}, ""},
		"body other":          {[]string{at("/health.json#body=DOWN")}, `body.*expected`},
		"response header":     {[]string{at("/health.json#header=Server:/^nginx/")}, ""},
		"method":              {[]string{at("/post#method=POST")}, ""},
		"wrong method":        {[]string{at("/post")}, `405`},
		"request header":      {[]string{at("/header"), "--request-header=X-Probe: initbox"}, ""},
		"request header file": {[]string{at("/header"), "--request-header-file=" + header}, ""},
		"no request header":   {[]string{at("/header")}, `400`},
		"basic": {[]string{at("/basic#user=" + servers.NGINXUser + "&password-file=" + password)},
			""},
		"basic in the URL": {[]string{"http://" + servers.NGINXUser + ":${file:" + password + "}@" + n.HTTP + "/basic"},
			""},
		"basic wrong": {[]string{at("/basic#user=" + servers.NGINXUser + "&password-file=" + wrong)},
			`401`},
		"bearer":             {[]string{at("/bearer#token-file=" + token)}, ""},
		"bearer missing":     {[]string{at("/bearer")}, `401`},
		"redirect loop":      {[]string{at("/loop")}, `redirect`},
		"redirect not taken": {[]string{at("/loop#no-redirect")}, ""},
		"redirect to 503":    {[]string{at("/moved")}, `503`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"wait-for-service", "--timeout=60s", "--log-level=debug"}, c.args...)
			w := start(t, args...)
			if c.log == "" {
				w.want(ready)
			} else {
				w.stuck(c.log)
			}
			for _, secret := range []string{servers.NGINXPassword, servers.NGINXToken} {
				if strings.Contains(w.stderr.String(), secret) {
					t.Errorf("%s\nthe log has the secret %q", w, secret)
				}
			}
		})
	}
}

// A wait recovers when a Secret is mounted late or rotated: the file is read at each attempt.
func TestHTTPSecretRotates(t *testing.T) {
	t.Parallel()
	n := servers.StartNGINX(t, servers.NGINXOptions{})
	token := secretFile(t, filepath.Join(t.TempDir(), "token"), "0ld-t0k3n")
	w := start(t, "wait-for-service", "http://"+n.HTTP+"/bearer", "--token-file="+token, "--timeout=60s")
	w.untilLogged(`401`)
	secretFile(t, token, servers.NGINXToken)
	w.wantWithin(soon, ready)
}

func TestUnixSocketAccepts(t *testing.T) {
	t.Parallel()
	n := servers.StartNGINX(t, servers.NGINXOptions{})
	start(t, "wait-for-service", "unix://"+n.Socket, "--timeout=60s").want(ready)
}
