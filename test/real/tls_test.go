package real_test

import (
	"strings"
	"testing"

	"initbox/test/servers"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, otherCA := servers.NewCA(t), servers.NewCA(t)
	client := ca.Client(t, "initbox")
	good := servers.StartNGINX(t, servers.NGINXOptions{CA: ca}).HTTPS
	expired := servers.StartNGINX(t, servers.NGINXOptions{CA: ca, Cert: ca.ExpiredServer(t, "127.0.0.1")}).HTTPS
	named := servers.StartNGINX(t, servers.NGINXOptions{CA: ca, Cert: ca.Server(t, "db.example.test")}).HTTPS
	plain := servers.StartNGINX(t, servers.NGINXOptions{}).HTTP

	const page = "/health.json"
	for name, c := range map[string]struct {
		addr, page string
		args       string
		log        string // of the servers that never become ready
	}{
		"CA given":              {good, page, "--ca-file=" + ca.File, ""},
		"CA unknown":            {good, page, "", `(?i)unknown authority|not trusted`},
		"CA wrong":              {good, page, "--ca-file=" + otherCA.File, `(?i)unknown authority|not trusted`},
		"insecure":              {good, page, "--insecure", ""},
		"expired":               {expired, page, "--ca-file=" + ca.File, `(?i)expired`},
		"expired, insecure":     {expired, page, "--insecure", ""},
		"other name":            {named, page, "--ca-file=" + ca.File, `127\.0\.0\.1`},
		"other name, asked for": {named, page, "--ca-file=" + ca.File + " --server-name=db.example.test", ""},
		"a third name":          {named, page, "--ca-file=" + ca.File + " --server-name=mq.example.test", `db\.example\.test`},
		"not TLS":               {plain, page, "--ca-file=" + ca.File, `(?i)tls`},

		"no client certificate": {good, "/client-cert", "--ca-file=" + ca.File, `403`},
		"client certificate": {good, "/client-cert",
			"--ca-file=" + ca.File + " --cert-file=" + client.CertFile + " --key-file=" + client.KeyFile, ""},
		"client certificate, insecure": {good, "/client-cert",
			"--insecure --cert-file=" + client.CertFile + " --key-file=" + client.KeyFile, ""},
	} {
		run := func(name, target string) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				args := append([]string{"wait-for-service", target, "--timeout=60s"}, strings.Fields(c.args)...)
				if w := start(t, args...); c.log == "" {
					w.want(ready)
				} else {
					w.stuck(c.log)
				}
			})
		}
		run("https, "+name, "https://"+c.addr+c.page)
		if c.page == page { // tls:// only checks the handshake
			run("tls, "+name, "tls://"+c.addr)
		}
	}
}

// A target's fragment applies only to that target: one CA each.
func TestTLSPerTarget(t *testing.T) {
	t.Parallel()
	ca1, ca2 := servers.NewCA(t), servers.NewCA(t)
	one := servers.StartNGINX(t, servers.NGINXOptions{CA: ca1}).HTTPS
	two := servers.StartNGINX(t, servers.NGINXOptions{CA: ca2}).HTTPS
	start(t, "wait-for-service", "--timeout=60s",
		"https://"+one+"/health.json#ca-file="+ca1.File, "tls://"+two+"#ca-file="+ca2.File).want(ready)
	start(t, "wait-for-service", "--timeout=60s",
		"https://"+one+"/health.json#ca-file="+ca1.File, "tls://"+two+"#ca-file="+ca1.File).stuck("https://.*: ready", "tls://"+two)
}
